"""What the probes in natural text print: each figure beside its interval, its control and its count."""

from seqmodels.evaluation.needle import Needle
from seqmodels.evaluation.needle_prompts import CANDIDATES
from seqmodels.evaluation.ngram_hits import NgramHits

Row = tuple[str, str, str, str]


def ngram_hits(result: NgramHits) -> list[Row]:
    """(figure, value, 95 % interval, control and counts) of each bin of distances."""
    return [
        (
            f"n-gram gain at {first}-{last}",
            *gain.shown(3),
            f"bits a hit, n {sampled}; all {hits:,}: {nll.value:.2f}, matched {matched.value:.2f}",
        )
        for first, last, hits, nll, matched, sampled, gain in result.bins()
    ]


def needle(result: Needle) -> list[Row]:
    """(figure, value, 95 % interval, control and counts) of each length, all depths together."""
    figures = result.by_length(result.rank == 1), result.mean_rank(), result.by_length(result.exact)
    return [
        (
            f"needle first in {length}",
            *first.shown(3),
            f"chance {result.chance:.3f}; rank {rank.value:.1f} of {CANDIDATES}; exact {exact.value:.2f}; "
            f"n {result.prompts}",
        )
        for length, first, rank, exact in zip(result.lengths, *figures, strict=True)
    ]
