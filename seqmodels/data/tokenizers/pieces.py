"""Long documents in pieces that a library tokenizer can take."""

import re
from collections.abc import Iterator

from seqmodels.errors import InputError

_PIECE, _LONGEST = 1 << 18, 1 << 24

# A character that is no white space, before a space. The patterns that split text for byte-level
# vocabularies (GPT-2's and those after it) have a space at the start of a token, or in a token of white
# space: none reaches across. Of UTF-8's first bytes, C2 and E1 to E3 also begin white space.
_BORDER = re.compile(rb"(?:[!-~]|[\xc3-\xdf][\x80-\xbf]|[\xe0\xe4-\xef][\x80-\xbf]{2})(?= )")


def pieces(document: bytes, byte_level: bool) -> Iterator[tuple[int, bytes]]:
    """(first byte, text) of each piece of a document, about 256 KiB each if the vocabulary is byte-level.

    In others the start of a text can have a token of its own, so that a cut would change the text.

    Raises:
        InputError: a piece would be longer than 16 MiB, of which the library makes some 2 GB.
    """
    start = 0
    while start < len(document):
        border = _BORDER.search(document, start + _PIECE) if byte_level else None
        end = border.end() if border else len(document)
        if end - start > _LONGEST:
            raise InputError(
                f"the document that begins with {document[:40]!r} goes on from byte {start:,} for "
                f"{end - start:,} bytes without a place to part it, and this tokenizer takes at most "
                f"{_LONGEST >> 20} MiB: make shorter documents, or take ByteTokenizer."
            )
        yield start, document[start:end]
        start = end
