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

    def encode(self, text: bytes) -> np.ndarray:
        return np.frombuffer(text, np.uint8)

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        ids = self.check(ids)
        return ids[ids != self.end_id].astype(np.uint8).tobytes()

    def encode_documents(self, documents: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        return self.encode(b"".join(documents)), np.fromiter(map(len, documents), np.int64, len(documents))
