"""How text becomes token ids."""

from seqmodels.data.tokenizers.byte import ByteTokenizer
from seqmodels.data.tokenizers.tokenizer import Tokenizer

__all__ = ["ByteTokenizer", "Tokenizer"]
