"""How text becomes token ids."""

from seqmodels.data.tokenizers.byte import ByteTokenizer
from seqmodels.data.tokenizers.byte_pair import BytePairTokenizer
from seqmodels.data.tokenizers.hugging_face import HuggingFaceTokenizer
from seqmodels.data.tokenizers.tokenizer import Tokenizer

__all__ = ["BytePairTokenizer", "ByteTokenizer", "HuggingFaceTokenizer", "Tokenizer"]
