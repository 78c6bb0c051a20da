"""If these fail, a compressed file loses text in silence, or fills the memory."""

import gzip
import json
import tracemalloc

import pytest
import zstandard

from seqmodels.data.corpora.compression import open_content
from seqmodels.errors import InputError

COMPRESSIONS = [gzip.compress, zstandard.compress]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst", "a.GZ"])
@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_compression_is_told_by_content(documents_of, name, compress):
    assert documents_of(name, compress(b"a\nb\n"), "line") == [b"a", b"b"]


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst", "a.jsonl.ZSTD"])
@pytest.mark.parametrize(("content", "begins"), [(b"", "it is empty"), (b"a\nb\n", "61 0a 62 0a")])
def test_a_compressed_name_alone_is_refused(documents_of, name, content, begins):
    """An empty file would be a corpus without text, and nothing would say that the download had failed."""
    with pytest.raises(InputError, match=rf"begins like neither gzip nor zstd \({begins}\)"):
        documents_of(name, content)


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_compressed_files_of_several_members_and_many_chunks(documents_of, compress):
    long = b"".join(b"%d\n" % i for i in range(200_000))
    assert documents_of("a.txt", compress(long) + compress(b"more")) == [long + b"more"]


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_small_first_members_hide_no_mark(documents_of, compress):
    """What a file is shows in its first bytes, which may come one at a time."""
    members = b"".join(compress(part) for part in (b"\xef", b"", b"\xbb\xbf", b"hi"))
    assert documents_of("a.txt", members) == [b"hi"]


def test_frames_that_are_to_be_skipped(documents_of):
    """Parallel compressors begin with one."""
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"\x01\x02\x03\x04"
    assert documents_of("a.txt", skipped + zstandard.compress(b"text") + skipped) == [b"text"]


@pytest.mark.parametrize(("compress", "name"), [(gzip.compress, "gzip"), (zstandard.compress, "zstd")])
def test_compressed_files_cut_short_are_refused(documents_of, compress, name):
    """zstandard's own reader would take the first half for the whole."""
    whole = compress(json.dumps(list(range(10_000))).encode())
    for content in (whole[: len(whole) // 2], whole[:-1], whole[:30] + b"\xff\xff\xff" + whole[33:]):
        with pytest.raises(InputError, match=rf"a\.txt is {name}, and damaged"):
            documents_of("a.txt", content)


def test_a_window_too_large_is_not_called_damage(documents_of):
    """As `zstd --long=31` writes it: the file is whole, and can be made again."""
    frame = "28 b5 2f fd 00 {window} 11 00 00 68 69"  # one stored block, of two bytes
    assert documents_of("a.txt", bytes.fromhex(frame.format(window="88"))) == [b"hi"]
    with pytest.raises(InputError, match=r"a\.txt is zstd with a window above 128 MiB, .* without --long"):
        documents_of("a.txt", bytes.fromhex(frame.format(window="a8")))


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_bomb_is_read_a_little_at_a_time(tmp_path, compress):
    """128 MiB of zeros from a few KB: unpacked at once they would be in memory all together, and copied."""
    (tmp_path / "bomb").write_bytes(compress(bytes(32 << 20)) * 4)
    tracemalloc.start()
    with open_content(tmp_path / "bomb") as file:
        size = sum(len(piece) for piece in iter(lambda: file.read(1 << 20), b""))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == 128 << 20
    assert peak < 80 << 20
