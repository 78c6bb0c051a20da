"""If these fail, one huge file, line or archive ends a run for want of memory, without a word."""

import gzip
import json
import os
import subprocess
import sys

import pytest
import zstandard

# The highest memory that the process itself has used; rusage would count the parent's too.
SCRIPT = """
import sys
from pathlib import Path
from seqmodels.data.corpora import TextFiles
from seqmodels.data.text import Text
from seqmodels.data.tokenizers import BytePairTokenizer

def highest():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))

file, held_out, other, unit, vocab_size = sys.argv[1:]
tokenizer = BytePairTokenizer(int(vocab_size), training_bytes=100_000) if vocab_size != "0" else None
data = Text(TextFiles(other, held_out, document=unit), tokenizer)
data.prepare(say=lambda line: None)
small = highest()
data = Text(TextFiles(file, held_out, document=unit), tokenizer)
data.prepare(say=lambda line: None)
print(data.train.text_bytes, (highest() - small) * 1024)
"""


def memory_of(tmp_path, name, content, other, unit="file", vocab_size=0):
    """(bytes of text, bytes of memory above what the same kind of file needs with other, little content)."""
    (tmp_path / name).write_bytes(content)
    small = tmp_path / "held.txt", tmp_path / f"other{name}"
    small[0].write_bytes(b"words that are held out\n")
    small[1].write_bytes(other)
    environment = dict(os.environ, SEQMODELS_CACHE=str(tmp_path / "cache"), PYTHONPATH=os.getcwd())
    arguments = [str(tmp_path / name), *map(str, small), unit, str(vocab_size)]
    command = [sys.executable, "-c", SCRIPT, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return tuple(map(int, run.stdout.split()))


def one_line(size):
    return (b"words and numbers 12345 like these, in a line. " * (size // 47 + 1))[:size]


def as_json(text):
    return json.dumps({"text": text.decode()}).encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "unit", "times"),
    [
        ("a.txt", bytes, "file", 1.5),
        ("a.txt", bytes, "line", 2.5),
        ("a.jsonl", as_json, "line", 4),
        ("a.txt.gz", gzip.compress, "file", 1.5),
        ("a.txt.zst", zstandard.compress, "file", 2),
    ],
)
def test_a_huge_document_takes_little_more_than_its_size(tmp_path, name, make, unit, times):
    size = 100 << 20
    text_bytes, memory = memory_of(tmp_path, name, make(one_line(size)), make(b"few words"), unit)
    assert text_bytes == size
    assert memory < times * size


@pytest.mark.slow
def test_many_lines_take_memory_for_their_places_alone(tmp_path):
    content = one_line(64 << 20).replace(b". ", b".\n")
    _, memory = memory_of(tmp_path, "a.txt", content, b"few words", "line")
    assert memory < content.count(b"\n") * 48 + (64 << 20)


@pytest.mark.slow
def test_byte_pairs_of_a_huge_document_are_made_some_at_a_time(tmp_path):
    """All at once they would take some 100 bytes for each byte of text."""
    _, memory = memory_of(tmp_path, "a.txt", one_line(12 << 20), one_line(20_000), vocab_size=300)
    assert memory < 256 << 20
