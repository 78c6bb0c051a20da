"""If these fail, text is lost between the file and the model, or turns into a control id."""

import hypothesis.strategies as st
import numpy as np
import pytest
from huggingface_hub import constants
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from seqmodels.data.corpora import Corpus
from seqmodels.data.tokenizers import BytePairTokenizer, ByteTokenizer, HuggingFaceTokenizer, pieces
from seqmodels.errors import InputError
from tests.fuzzing import fuzz

TEXTS = [
    "  a  b",
    "a\tb\n",
    "x Ö y",
    "",
    "\u200d\ufe0f",
    "e\u0301",
    "mug \U0001f600",
    "<|endoftext|>",
    "line\r\nline\u2028\x00 end ",
]


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


@pytest.fixture
def byte_level(tmp_path):
    letters = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    return hub_file(
        tmp_path / "hub",
        letters,
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
    )


@pytest.fixture(params=["bytes", "byte pairs", "hub"])
def tokenizer(request, tmp_path):
    if request.param == "bytes":
        return ByteTokenizer()
    if request.param == "byte pairs":
        return ready(BytePairTokenizer(270), tmp_path)
    return ready(HuggingFaceTokenizer(str(request.getfixturevalue("byte_level"))), tmp_path)


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives(tokenizer, text):
    ids = tokenizer.encode(text.encode())
    assert tokenizer.decode(ids) == text.encode()
    assert tokenizer.decode([*ids, tokenizer.end_id]) == text.encode()
    assert tokenizer.end_id == tokenizer.vocab_size - 1
    assert tokenizer.end_id not in ids, "text became the end of text"


@fuzz(texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=40), max_size=6), quick=20, campaign=350)
def test_any_text_survives(texts, tokenizer):
    documents = [text.encode() for text in texts]
    ids, lengths = tokenizer.encode_documents(documents)
    parts = np.split(ids, np.cumsum(lengths)[:-1]) if documents else []
    assert [tokenizer.decode(part) for part in parts] == documents
    assert tokenizer.end_id not in ids


def test_documents_at_once_are_the_documents(tokenizer):
    documents = [text.encode() for text in TEXTS]
    ids, lengths = tokenizer.encode_documents(documents)
    alone = [tokenizer.encode(document) for document in documents]
    assert lengths.tolist() == [len(one) for one in alone]
    assert np.array_equal(ids, np.concatenate(alone))
    assert [len(part) for part in tokenizer.encode_documents([])] == [0, 0]


def test_pieces_inside_a_character_decode_to_their_bytes(tokenizer):
    """A sampled model ends anywhere; a replacement character in its place would be another text."""
    ids = tokenizer.encode("Ö".encode())
    assert [tokenizer.decode([index]) for index in ids] == [b"\xc3", b"\x96"]


@pytest.mark.parametrize("index", [-1, "vocab_size"])
def test_ids_outside_the_vocabulary_are_refused(tokenizer, index):
    index = tokenizer.vocab_size if index == "vocab_size" else index
    with pytest.raises(InputError, match=f"id {index} is outside the vocabulary of {tokenizer.vocab_size}"):
        tokenizer.decode([0, index])


def test_bytes_need_not_be_unicode():
    every = bytes(range(256))
    assert ByteTokenizer().decode(ByteTokenizer().encode(every)) == every
    assert ByteTokenizer().encode(every).tolist() == list(range(256))


def test_byte_pairs_are_learned_alike_each_time_and_kept(tmp_path):
    lines = []
    first = ready(BytePairTokenizer(270), tmp_path, say=lines.append)
    again = ready(BytePairTokenizer(270), tmp_path, say=lines.append)
    elsewhere = ready(BytePairTokenizer(270), tmp_path / "elsewhere")
    assert first.fingerprint == again.fingerprint == elsewhere.fingerprint
    assert "learned 270 ids" in lines[0] and "found" in lines[1]
    assert len(first.encode(b"hug pug")) < 7, "nothing was learned"
    assert ready(BytePairTokenizer(271), tmp_path).fingerprint != first.fingerprint
    other = ready(BytePairTokenizer(270), tmp_path, Documents(b"abab abab"), lines.append)
    assert other.fingerprint != first.fingerprint


def test_a_text_with_few_pairs_gives_fewer_ids_and_says_so(tmp_path):
    lines = []
    tokenizer = ready(BytePairTokenizer(1000), tmp_path, Documents(b"aaaa"), lines.append)
    assert tokenizer.vocab_size < 262
    assert "the text has no pairs for 1000" in lines[0]


def test_byte_pairs_are_learned_from_the_start_of_the_text(tmp_path):
    short = ready(BytePairTokenizer(270, training_bytes=10), tmp_path, Documents(b"hug pug pu", b"zz" * 50))
    assert len(short.encode(b"zzzz")) == 4
    assert len(short.encode(b"pug")) < 3


def test_a_tokenizer_goes_with_its_run(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "run")
    kind = type(tokenizer)
    other = kind("not on any hub") if kind is HuggingFaceTokenizer else kind()
    other.restore(tmp_path / "run")
    ready(other, tmp_path / "empty cache")
    assert other.fingerprint == tokenizer.fingerprint
    assert np.array_equal(other.encode(b"hug pug"), tokenizer.encode(b"hug pug"))


def test_byte_pairs_from_a_file(tmp_path, byte_level):
    learned = ready(BytePairTokenizer(270), tmp_path)
    learned.save(tmp_path / "kept")
    loaded = ready(BytePairTokenizer(file=str(tmp_path / "kept" / "tokenizer.json")), tmp_path)
    assert loaded.fingerprint == learned.fingerprint
    words = hub_file(tmp_path / "words", {"a": 0, "b": 1})
    with pytest.raises(InputError, match="is not byte-level"):
        ready(BytePairTokenizer(file=str(words / "tokenizer.json")), tmp_path)


def test_nothing_is_added_and_special_text_stays_text(byte_level, tmp_path):
    """The file's own template would put <s> first, and its special tokens would swallow their spelling."""
    tokenizer = ready(HuggingFaceTokenizer(str(byte_level)), tmp_path)
    library = Tokenizer.from_file(str(byte_level / "tokenizer.json"))
    assert library.encode("<|endoftext|>").ids == [256, 257], "the file does not show what this test is about"
    ids = tokenizer.encode(b"<|endoftext|>")
    assert len(ids) == len("<|endoftext|>") and ids.max() < 256
    assert tokenizer.vocab_size == library.get_vocab_size() + 1


def test_characters_missing_from_a_vocabulary_are_refused(tmp_path):
    """The library drops them without a word, or turns them into one unknown token."""
    vocabulary = {letter: index for index, letter in enumerate("hugpn ")}
    dropping = hub_file(tmp_path / "dropping", vocabulary)
    unknown = hub_file(tmp_path / "unknown", vocabulary | {"?": 6}, model={"unk_token": "?"})
    split = hub_file(tmp_path / "split", vocabulary, pre_tokenizer=pre_tokenizers.WhitespaceSplit())
    for folder in (dropping, unknown, split):
        tokenizer = ready(HuggingFaceTokenizer(str(folder)), tmp_path)
        assert len(tokenizer.encode(b"hug pun")) >= 6
        for text in ("mug hug", "hug\U0001f600 "):
            character = text.strip("hug ")
            message = rf"no token for '{character}' \(U\+{ord(character):04X}\) in"
            with pytest.raises(InputError, match=message):
                tokenizer.encode_documents([b"hug", text.encode()])


def test_bytes_missing_from_a_byte_level_vocabulary_are_refused(tmp_path):
    """Learned from "\u00c4 pug" alone, without the 256 bytes to start from: of "\u00d6" it knows half."""
    letters = {letter: index for index, letter in enumerate(["\u00c3", "\u0126", "p", "u", "g", "\u0120"])}
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    folder = hub_file(tmp_path / "half", letters, pre_tokenizer=byte_level, decoder=decoders.ByteLevel())
    tokenizer = ready(HuggingFaceTokenizer(str(folder)), tmp_path)
    assert tokenizer.decode(tokenizer.encode("\u00c4 pug".encode())) == "\u00c4 pug".encode()
    with pytest.raises(InputError, match=r"U\+00D6"):
        tokenizer.encode("\u00d6 pug".encode())


@pytest.mark.parametrize("kind", [HuggingFaceTokenizer, lambda path: BytePairTokenizer(file=path)])
def test_a_missing_or_damaged_file_is_refused(tmp_path, kind):
    with pytest.raises(InputError, match=r"no tokenizer file .*none\.json"):
        ready(kind(str(tmp_path / "none.json")), tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(InputError, match=r"bad\.json is not a file of the `tokenizers` library"):
        ready(kind(str(tmp_path / "bad.json")), tmp_path)


def test_a_name_that_no_hub_gives_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="'nobody/nothing' is no folder here, and the hub does not give"):
        ready(HuggingFaceTokenizer("nobody/nothing"), tmp_path)


def test_text_that_is_not_unicode_needs_bytes(tmp_path):
    with pytest.raises(InputError, match=r"byte 0xff at byte 3.*ByteTokenizer"):
        ready(BytePairTokenizer(260), tmp_path).encode(b"hug\xff")


def test_settings_too_small_are_refused():
    with pytest.raises(InputError, match="vocab_size = 256 should be at least 257"):
        BytePairTokenizer(256)
    with pytest.raises(InputError, match="training_bytes = 0 should be at least 1"):
        BytePairTokenizer(training_bytes=0)


def test_a_huge_vocabulary_takes_what_the_text_has(tmp_path):
    """The library makes room for all ids at once, and for 10**12 it would end the process."""
    lines = []
    tokenizer = ready(BytePairTokenizer(10**12, training_bytes=1000), tmp_path, say=lines.append)
    assert 257 < tokenizer.vocab_size < 300
    assert "the text has no pairs" in lines[0]


def test_ids_beyond_16_bits(tmp_path):
    """Each letter of 70,000 has an id of its own; the last of them must not come back as another."""
    letters = [chr(code) for code in range(0x20000, 0x20000 + 70_000)]
    folder = hub_file(tmp_path / "wide", {letter: index for index, letter in enumerate(letters)})
    tokenizer = ready(HuggingFaceTokenizer(str(folder)), tmp_path)
    ids = tokenizer.encode((letters[-1] + letters[65_536]).encode())
    assert ids.tolist() == [69_999, 65_536]


@pytest.mark.parametrize("letters", ["acgt", " \n\t"])
def test_text_without_a_space_is_learned_from_in_finite_time(tmp_path, letters):
    """The library takes the square of the length of what it cannot part: this would be minutes."""
    text = "".join(np.random.default_rng(0).choice(list(letters), 200_000)).encode()
    tokenizer = ready(BytePairTokenizer(270), tmp_path, Documents(text))
    assert tokenizer.vocab_size == 270
    assert tokenizer.decode(tokenizer.encode(text[:1000])) == text[:1000]


def test_a_failed_sample_leaves_nothing_behind(tmp_path):
    class Failing(Documents):
        def documents(self, split):
            yield b"text"
            raise InputError("the second document is damaged.")

    with pytest.raises(InputError, match="second document is damaged"):
        ready(BytePairTokenizer(270), tmp_path, Failing())
    assert not list(tmp_path.rglob("*.json")) and not list(tmp_path.rglob("making-*"))


@pytest.mark.parametrize("tokenizer", ["byte pairs", "hub"], indirect=True)
def test_long_documents_in_pieces_have_the_same_ids(tokenizer, monkeypatch):
    """Cut before a space, where no token reaches across: also beside white space of every kind."""
    random = np.random.default_rng(0)
    spaces = [" ", " ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u2028"]
    words = ["hug", "pug's", "42", ".", "\u00d6", "\u4e2d", "\U0001f600"]
    text = "".join(random.choice(spaces + words, 3000)).encode()
    whole = tokenizer.encode(text)
    for size in (1, 2, 3, 5, 8, 100):
        monkeypatch.setattr(pieces, "_PIECE", size)
        assert np.array_equal(tokenizer.encode(text), whole)


def test_a_document_that_cannot_be_parted_is_refused(byte_level, tmp_path, monkeypatch):
    """The bound is 16 MiB, of which the library needs some GB; here it is 50 bytes."""
    monkeypatch.setattr(pieces, "_PIECE", 8)
    monkeypatch.setattr(pieces, "_LONGEST", 50)
    tokenizer = ready(HuggingFaceTokenizer(str(byte_level)), tmp_path)
    tokenizer.encode(b"a pug " * 100)
    with pytest.raises(InputError, match=r"b'a pug a pug .*' goes on from byte 11 for 52 bytes without"):
        tokenizer.encode(b"a pug a pug " + b"x" * 51)
    words = hub_file(tmp_path / "words", {letter: index for index, letter in enumerate("a pug")})
    with pytest.raises(InputError, match=r"from byte 0 for 60 bytes without"):
        ready(HuggingFaceTokenizer(str(words)), tmp_path).encode(b"a pug " * 10)
