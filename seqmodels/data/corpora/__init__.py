"""Where text comes from."""

from seqmodels.data.corpora.corpus import Corpus, Split
from seqmodels.data.corpora.python_source import PythonSource

__all__ = ["Corpus", "PythonSource", "Split"]
