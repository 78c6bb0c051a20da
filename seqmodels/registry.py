"""Imports everything that a config can name, so that any saved config loads."""

import seqmodels.data.tasks.copy
import seqmodels.data.tasks.curriculum
import seqmodels.data.tasks.fuzzy_recall
import seqmodels.data.tasks.group_words
import seqmodels.data.tasks.induction
import seqmodels.data.tasks.mixture
import seqmodels.data.tasks.mqar
import seqmodels.data.tasks.ngram_lookup
import seqmodels.data.tasks.parity
import seqmodels.data.tasks.phonebook
import seqmodels.data.tasks.recall_at_distance
import seqmodels.data.tasks.selective_copy
import seqmodels.data.text
import seqmodels.evaluation.evaluate
import seqmodels.language_model
import seqmodels.training.optimizers
import seqmodels.training.train  # noqa: F401
