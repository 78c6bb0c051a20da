"""Imports everything that a config can name, so that any saved config loads."""

import seqmodels.data.tasks.recall_at_distance
import seqmodels.data.text
import seqmodels.evaluation.evaluate
import seqmodels.language_model
import seqmodels.training.optimizers
import seqmodels.training.train  # noqa: F401
