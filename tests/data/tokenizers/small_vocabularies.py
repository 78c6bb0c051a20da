"""Tokenizers of a few words, learned or written down as a hub would have them."""

from tokenizers import AddedToken, Tokenizer, models, processors

from seqmodels.data.corpora import Corpus


class Documents(Corpus):
    """A corpus of a list."""

    def __init__(self, *documents):
        self._documents = documents

    def documents(self, split):
        return iter(self._documents)

    fingerprint = property(lambda self: repr(self._documents))

    def describe(self):
        return {}


PUNS = Documents(b"hug pug pun hugs puns and other words for it", b"a pug's hug")


def ready(tokenizer, folder, corpus=PUNS, say=lambda line: None):
    tokenizer.prepare(corpus, folder, say)
    return tokenizer


def hub_file(folder, vocabulary, **parts):
    """A tokenizer.json such as the hub has, with special tokens and a template that adds a start token."""
    library = Tokenizer(models.BPE(vocabulary, [], **parts.pop("model", {})))
    library.pre_tokenizer = parts.get("pre_tokenizer")
    library.decoder = parts.get("decoder")
    library.add_special_tokens(["<s>", "<|endoftext|>"])
    library.add_tokens([AddedToken("    ", normalized=False)])
    library.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", library.token_to_id("<s>"))]
    )
    folder.mkdir()
    library.save(str(folder / "tokenizer.json"))
    return folder
