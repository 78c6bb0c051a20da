"""Files that a test writes down, read as documents."""

import pytest

from seqmodels.data.corpora.documents import read_documents


@pytest.fixture
def documents_of(tmp_path):
    """Writes bytes to a file of a name, and reads its documents."""

    def read(name, content, unit="file", text_field="text"):
        path = tmp_path / name
        path.write_bytes(content)
        return list(read_documents(path, unit, text_field))

    return read
