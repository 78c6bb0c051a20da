"""If these fail, text is lost between the file and the model, or turns into a control id."""

import hypothesis.strategies as st
import numpy as np
import pytest
from huggingface_hub import constants
from tokenizers import Tokenizer, decoders, pre_tokenizers

from seqmodels.data.tokenizers import BytePairTokenizer, ByteTokenizer, HuggingFaceTokenizer
from seqmodels.errors import InputError
from tests.data.tokenizers.small_vocabularies import Documents, hub_file, ready
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


def test_a_failed_sample_leaves_nothing_behind(tmp_path):
    class Failing(Documents):
        def documents(self, split):
            yield b"text"
            raise InputError("the second document is damaged.")

    with pytest.raises(InputError, match="second document is damaged"):
        ready(BytePairTokenizer(270), tmp_path, Failing())
    assert not list(tmp_path.rglob("*.json")) and not list(tmp_path.rglob("making-*"))
