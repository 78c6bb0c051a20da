"""Where text comes from."""

from seqmodels.data.corpora.corpus import Corpus, Split
from seqmodels.data.corpora.hugging_face import HuggingFace
from seqmodels.data.corpora.python_source import PythonSource
from seqmodels.data.corpora.text_files import TextFiles

__all__ = ["Corpus", "HuggingFace", "PythonSource", "Split", "TextFiles"]
