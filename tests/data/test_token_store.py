"""If these fail, a cache could feed other tokens than the text holds, without a word."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest

from seqmodels.data.token_store import TokenStore, check_store, write_store
from seqmodels.data.tokenizers import ByteTokenizer, Tokenizer
from seqmodels.errors import InputError
from tests.fuzzing import fuzz


class Shifted(Tokenizer):
    """Bytes as ids from `shift` on, which may lie outside the vocabulary it claims."""

    fingerprint = "shifted"

    def __init__(self, vocab_size, shift):
        self.vocab_size, self._shift = vocab_size, shift

    def encode_documents(self, documents):
        ids, lengths = ByteTokenizer().encode_documents(documents)
        return ids.astype(np.int64) + self._shift, lengths


def test_what_was_written_is_read(store_of):
    documents = [b"first", "zweites Stück".encode(), b"", b"x" * 5_000_000, b"last"]
    store = store_of(documents)
    kept = [text for text in documents if text]
    assert [store.document(i).tobytes() for i in range(len(store))] == [
        np.frombuffer(text, np.uint8).astype(np.uint16).tobytes() for text in kept
    ]
    assert store.document_bytes.tolist() == [len(text) for text in kept]
    assert store.offsets.dtype == store.document_bytes.dtype == np.int64
    assert store.skipped == {"without text": 1}
    assert store.tokens.dtype == np.uint16 and isinstance(store.tokens, np.memmap)


def test_the_width_follows_the_vocabulary(store_of):
    assert store_of([b"ab"], Shifted(1 << 16, 60_000)).tokens.tolist() == [60_097, 60_098]
    wide = store_of([b"ab"], Shifted((1 << 16) + 1, 65_438))
    assert wide.tokens.dtype == np.uint32
    assert wide.tokens.tolist() == [65_535, 65_536]


@pytest.mark.parametrize(("shift", "wrong"), [(65_500, 65_600), (-100, -3)])
def test_an_id_outside_the_vocabulary_is_refused_not_wrapped(store_of, shift, wrong):
    """A cast to 16 bits would make 65 536 the token 0."""
    documents = [b"\xff" * 3, b"ad"] if shift < 0 else [b"\x01", b"\x02d"]
    with pytest.raises(InputError, match=f"document 1 holds token id {wrong}, .* of 65536 ids"):
        store_of(documents, Shifted(1 << 16, shift))


def test_documents_of_another_store_are_left_out(store_of):
    train = store_of([b"both", b"train"])
    validation = store_of([b"both", b"validation", b"both"], without=train)
    assert validation.tokens.tolist() == list(b"validation")
    assert validation.skipped == {"also in training": 2}


def test_a_file_cut_short_or_of_another_width_is_refused(store_of, tmp_path):
    store_of([b"some text"])
    folder = tmp_path / "store0"
    whole = (folder / "tokens.bin").read_bytes()
    for wrong in (whole[:-1], whole[:-2], whole + b"\0\0", b""):
        (folder / "tokens.bin").write_bytes(wrong)
        with pytest.raises(InputError, match=rf"has {len(wrong)} bytes, and 9 tokens of uint16 take 18"):
            TokenStore(folder)
    (folder / "tokens.bin").write_bytes(whole)
    about = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps(about | {"dtype": "uint32"}))
    with pytest.raises(InputError, match="9 tokens of uint32 take 36"):
        TokenStore(folder)
    for wrong in ({"dtype": "int16"}, {"dtype": 3}, {"checksums": {}}, {"format": 1}):
        (folder / "store.json").write_text(json.dumps(about | wrong))
        with pytest.raises(InputError, match=r"store0 (is damaged|has format 1, and not)"):
            TokenStore(folder)


FILES = ["store.json", "offsets.npy", "document_bytes.npy", "content_keys.npy", "tokens.bin"]


@pytest.mark.parametrize("file", FILES)
def test_a_damaged_store_names_itself(store_of, tmp_path, file):
    store_of([b"some text"])
    path = tmp_path / "store0" / file
    if file != "tokens.bin":
        for wrong in (b"", path.read_bytes()[:-1], b"{}", b"[]"):
            path.write_bytes(wrong)
            with pytest.raises(InputError, match=r"store0 is damaged .* delete it"):
                TokenStore(tmp_path / "store0")
    path.unlink()
    for read in (TokenStore, check_store):
        with pytest.raises(InputError, match=r"store0 is damaged .* delete it"):
            read(tmp_path / "store0")


@pytest.mark.parametrize("file", FILES[1:])
def test_every_flipped_bit_is_found(store_of, tmp_path, file):
    store_of([b"some text", b"more"])
    check_store(tmp_path / "store0")
    path = tmp_path / "store0" / file
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), 37):
        wrong = bytearray(content)
        wrong[bit // 8] ^= 1 << bit % 8
        path.write_bytes(wrong)
        with pytest.raises(InputError, match=rf"store0 is damaged \({file} is not what was written\)"):
            check_store(tmp_path / "store0")


@fuzz(documents=st.lists(st.binary(max_size=40), max_size=20), campaign=300)
def test_any_documents_are_read_as_they_were_written(documents, store_of):
    store = store_of(documents)
    kept = [document for document in documents if document]
    assert [bytes(store.document(i).tolist()) for i in range(len(store))] == kept
    assert store.text_bytes == sum(map(len, documents))
    assert store.skipped.get("without text", 0) == len(documents) - len(kept)


def test_many_small_documents_are_taken_some_at_a_time(store_of, monkeypatch):
    """A library tokenizer takes some hundred bytes a document, however short."""
    taken = []

    class Counting(ByteTokenizer):
        def encode_documents(self, documents):
            taken.append(len(documents))
            return super().encode_documents(documents)

    store = store_of([b"x"] * 40_000, Counting())
    assert len(store) == sum(taken) == 40_000
    assert max(taken) <= 1 << 14


def test_offsets_past_four_gigabytes(tmp_path):
    """A sparse file of 5 GiB: 32-bit offsets, in bytes or in tokens, would read another place."""
    write_store(tmp_path / "big", [b"abcd"], ByteTokenizer())
    size, place = 5 * 2**30 // 2, int(4.5 * 2**30) // 2
    with open(tmp_path / "big" / "tokens.bin", "r+b") as file:
        file.truncate(2 * size)
        file.seek(2 * place)
        file.write(np.array([101, 102, 103, 104], np.uint16).tobytes())
    np.save(tmp_path / "big" / "offsets.npy", np.array([0, place, place + 4, size]))
    np.save(tmp_path / "big" / "document_bytes.npy", np.array([1, 4, 1]))
    store = TokenStore(tmp_path / "big")
    assert store.document(1).tolist() == [101, 102, 103, 104]
