"""The tokenizers that every test of the contract runs on."""

import pytest
from tokenizers import decoders, pre_tokenizers

from seqmodels.data.tokenizers import BytePairTokenizer, ByteTokenizer, HuggingFaceTokenizer
from tests.data.tokenizers.small_vocabularies import hub_file, ready


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
