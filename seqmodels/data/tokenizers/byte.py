"""Text as its bytes."""

from collections.abc import Sequence

import gin
import numpy as np

from seqmodels.data.tokenizers.tokenizer import Tokenizer


@gin.register
class ByteTokenizer(Tokenizer):
    """The 256 bytes and the end-of-text id 256. Nothing is unknown, and nothing is lost."""

    vocab_size = 257
    fingerprint = "bytes"

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        return self._checked(ids).astype(np.uint8).tobytes()

    def encode_documents(self, documents: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.fromiter(map(len, documents), np.int64, len(documents))
        return np.frombuffer(b"".join(documents), np.uint8), lengths
