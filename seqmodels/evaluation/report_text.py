"""What the probes in natural text print: each figure beside its interval, its control and its count."""

from seqmodels.evaluation.needle import Needle
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
    figures = (result.by_length(values) for values in (result.rank == 1, result.rank, result.exact))
    of = f"first of 16 (chance {result.chance:.3f})"
    count = f"n {result.prompts} x {len(result.depths)}"
    return [
        (
            f"needle in {length}",
            *first.shown(3),
            f"{of}; rank {rank.value:.1f}, exact {exact.value:.2f}; {count}",
        )
        for length, first, rank, exact in zip(result.lengths, *figures, strict=True)
    ]
