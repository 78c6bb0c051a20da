"""If these fail, a long document or a large vocabulary takes all memory or time, or changes the tokens."""

import numpy as np
import pytest

from seqmodels.data.tokenizers import BytePairTokenizer, HuggingFaceTokenizer, pieces
from seqmodels.errors import InputError
from tests.data.tokenizers.small_vocabularies import Documents, hub_file, ready


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
