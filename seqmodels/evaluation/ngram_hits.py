"""Recall of what a context has said before: pairs of tokens that come again and that training hardly had.

A token is a hit if the pair of it and the token before it stood earlier in the same context, and training had
that pair at most max(1, 1.25e-7 of its tokens) times: the context tells what the parameters cannot. (Arora et
al., "Zoology: measuring and improving recall in efficient language models", 2023, whose "AR hits" they are.)
A token after itself is no hit, since such pairs overlap in a run. The distance is that from a hit to the last
occurrence of its pair.

Two controls. Matched: the same tokens behind pairs as rare that did not stand earlier in their context; every
hit has one at least, the first occurrence of its own pair. Counterfactual: the context of the hit with the
token of each earlier occurrence of the pair replaced by one that training had about as often. The gain is by
how many bits the hit is worse there. A model that copies is then led to the stand-in, so that the gain counts
the pull to the right token and away from a wrong one.
"""

import dataclasses

import numpy as np

from seqmodels.evaluation.bigrams import last_occurrence, training_counts
from seqmodels.evaluation.ngram_contexts import Contexts, Places, StandIns, nll_at, some
from seqmodels.evaluation.statistics import Estimate, percentile_interval, resample_sums

RARE_SHARE = 1.25e-7
MIN_HITS = 8
_LN2 = float(np.log(2.0))


@dataclasses.dataclass(frozen=True)
class NgramHits:
    """By bins of distance, `first` to `last` [bins], in bits a hit; intervals resample documents.

    nll, matched: of all `hits` of a bin, and of the same tokens without an earlier occurrence. gain: of
    `sampled` hits. rare: the most that training may have had of a hit's pair.
    """

    first: np.ndarray
    last: np.ndarray
    hits: np.ndarray
    nll: list[Estimate]
    matched: list[Estimate]
    sampled: np.ndarray
    gain: list[Estimate]
    contexts: int
    documents: int
    longest: int
    training_tokens: int
    rare: int
    training_length: int

    @property
    def middle(self) -> np.ndarray:
        """Where a bin stands on a logarithmic axis, [bins]."""
        return np.sqrt(self.first * self.last)

    def scalars(self) -> dict[str, float]:
        """By tag, with the shortest distance of the bin."""
        return {
            f"eval/ngram_gain_{first}": gain.value for first, gain in zip(self.first, self.gain, strict=True)
        }

    def summary(self) -> dict:
        return {
            "contexts": self.contexts,
            "documents": self.documents,
            "longest": self.longest,
            "training_length": self.training_length,
            "training_tokens": self.training_tokens,
            "rare": self.rare,
            "matched": "the same tokens behind pairs as rare that did not stand earlier in their context",
            "counterfactual": "the token of each earlier occurrence replaced by one as frequent in training",
            "unit": "bits a hit",
            "by_distance": [
                {
                    "first": int(first),
                    "last": int(last),
                    "hits": int(hits),
                    "nll": nll._asdict(),
                    "matched": matched._asdict(),
                    "sampled": int(sampled),
                    "gain": gain._asdict(),
                }
                for first, last, hits, nll, matched, sampled, gain in self.bins()
            ],
        }

    def bins(self):
        """(first, last, hits, nll, matched, sampled, gain) of each bin."""
        return zip(
            self.first,
            self.last,
            self.hits,
            self.nll,
            self.matched,
            self.sampled,
            self.gain,
            strict=True,
        )


def measure(
    scorer,
    store,
    tokenizer,
    training_store,
    *,
    training_length: int,
    longest: int,
    batch_size: int,
    contexts: int = 128,
    hits_per_bin: int = 64,
) -> NgramHits | None:
    """The probe on a fixed sample of contexts of up to `longest` tokens of a token store.

    training_store: that of training, in which pairs are counted; None where the text of training streams.
    hits_per_bin: hits of a bin for which the counterfactual is scored; each has a row of its own.

    None where pairs cannot be counted, or no bin of distances has MIN_HITS hits.
    """
    if training_store is None:
        return None
    found = Contexts(store, tokenizer, longest, contexts)
    known = np.unique(found.codes[found.codes >= 0])
    counts = training_counts(training_store, known, tokenizer.vocab_size)
    most = max(1, int(RARE_SHARE * counts.total))
    rare = np.isin(found.codes, known[counts.pairs <= most])
    last = last_occurrence(found.codes)
    hits, controls = np.nonzero(rare & (last >= 0)), np.nonzero(rare & (last < 0))
    octave = np.log2(hits[1] - last[hits]).astype(np.int64)
    sizes = np.bincount(octave, minlength=1)
    bins = np.flatnonzero(sizes >= MIN_HITS)
    if len(bins) == 0:
        return None
    nll = found.nll(scorer, batch_size * min(training_length, longest)) / _LN2
    of_bin = [(hits[0][octave == b], hits[1][octave == b]) for b in bins]
    sampled = [some(places, int(b), hits_per_bin) for b, places in zip(bins, of_bin, strict=True)]
    chosen = tuple(np.concatenate(parts) for parts in zip(*sampled, strict=True))
    inputs = found.without(chosen, StandIns(counts.tokens[: tokenizer.end_id]))
    sizes_of_rows = {"training_length": training_length, "longest": longest, "batch_size": batch_size}
    without = nll_at(scorer, inputs, found.targets[chosen], chosen[1], **sizes_of_rows) / _LN2
    ends = np.cumsum([len(places[0]) for places in sampled])
    gains = np.split(without - nll[chosen], ends[:-1])
    return NgramHits(
        first=1 << bins,
        last=(2 << bins) - 1,
        hits=sizes[bins],
        nll=[found.mean(nll[places], places) for places in of_bin],
        matched=_matched(found, nll, of_bin, controls),
        sampled=np.diff(ends, prepend=0),
        gain=[found.mean(values, places) for values, places in zip(gains, sampled, strict=True)],
        contexts=len(found.tokens),
        documents=found.documents,
        longest=longest,
        training_tokens=counts.total,
        rare=most,
        training_length=training_length,
    )


def _matched(found: Contexts, nll: np.ndarray, of_bin: list[Places], controls: Places) -> list[Estimate]:
    """The mean NLL that the tokens of each bin's hits have as controls, each as often as it is a hit.

    A resample draws documents with their hits and controls together: in none is a hit without a control.
    """
    ids = np.unique(np.concatenate([found.targets[places] for places in of_bin]))
    kept = np.isin(found.targets[controls], ids)
    controls = (controls[0][kept], controls[1][kept])

    def by_token(places: Places, values: np.ndarray | None = None) -> np.ndarray:
        """Sums of values, or counts, [documents, ids]."""
        at = found.document[places[0]] * len(ids) + np.searchsorted(ids, found.targets[places])
        sums = np.bincount(at, values, minlength=found.documents * len(ids))
        return sums.reshape(found.documents, len(ids)).astype(np.float64)

    sums, counts = by_token(controls, nll[controls]), by_token(controls)
    means = sums.sum(axis=0) / counts.sum(axis=0)
    drawn_means = resample_sums(sums) / np.maximum(resample_sums(counts), 1)
    unknown = float("nan")
    estimates = []
    for places in of_bin:
        weights = by_token(places)
        drawn, whole = resample_sums(weights), weights.sum(axis=0)
        value = float(whole @ means / whole.sum())
        if np.count_nonzero(weights.sum(axis=1)) == 1:  # as `statistics.ratio` has it
            estimates.append(Estimate(value, unknown, unknown))
            continue
        with_hits = drawn.sum(axis=1) > 0
        drawn, drawn_mean = drawn[with_hits], drawn_means[with_hits]
        samples = (drawn * drawn_mean).sum(axis=1) / drawn.sum(axis=1)
        estimates.append(Estimate(value, *map(float, percentile_interval(samples))))
    return estimates
