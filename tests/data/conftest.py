"""Token stores of documents that a test writes down."""

import itertools

import pytest

from seqmodels.data.token_store import write_store
from seqmodels.data.tokenizers import ByteTokenizer


@pytest.fixture
def store_of(tmp_path):
    """Makes the token store of a list of documents, in bytes unless another tokenizer is given."""
    numbers = itertools.count()

    def make(documents, tokenizer=None, **options):
        folder = tmp_path / f"store{next(numbers)}"
        return write_store(folder, documents, tokenizer or ByteTokenizer(), **options)

    return make
