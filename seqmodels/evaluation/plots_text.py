"""The pictures of the probes in natural text: n-gram hits by distance, and the needle by depth and length."""

from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation import plots
from seqmodels.evaluation.needle import Needle
from seqmodels.evaluation.ngram_hits import NgramHits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NGRAM_DISTANCE = "distance to the last occurrence of the pair (tokens)"
NGRAM_GAIN = "gain over the counterfactual (bits a hit)"


def ngram_hits(result: NgramHits, title: str) -> "Figure":
    """What the earlier occurrence saves, and the loss of hits beside that of the same tokens without one."""
    drawn, (gains, losses) = plots.figure(2)
    drawn.suptitle(title)
    plots.points(gains, result.middle, result.gain, f"mean, 95 % over {result.documents} documents", 0)
    gains.axhline(0, color=plots.GREY, linestyle=":", label="no recall")
    gains.set_ylabel(NGRAM_GAIN)
    # Side by side, so that neither hides the other's interval.
    plots.points(losses, result.middle / 1.04, result.nll, "hits", 0)
    plots.points(losses, result.middle * 1.04, result.matched, "control: same tokens, no earlier pair", 1)
    losses.set_ylabel(plots.NLL)
    for axes, counts in ((gains, result.sampled), (losses, result.hits)):
        plots.log2_axis(axes, NGRAM_DISTANCE)
        _counts(axes, result.middle, counts)
        if result.last[-1] >= result.training_length:
            plots.mark_training_length(axes, result.training_length)
        plots.legend(axes)
    return drawn


def needle(result: Needle, title: str) -> "Figure":
    """Heat maps of depth by length: the value first of the candidates, and likeliest of all tokens."""
    drawn, panels = plots.figure(2)
    drawn.suptitle(title)
    names = (
        f"first of 16 candidates (chance {result.chance:.3f}), and mean rank",
        "likeliest of all tokens",
    )
    ranks = [[f"\nrank {rank:.1f}" for rank in row] for row in result.rank.mean(axis=-1).T]
    for axes, right, name in zip(panels, (result.rank == 1, result.exact), names, strict=True):
        shares = right.mean(axis=-1).T
        more = ranks if axes is panels[0] else np.full(shares.shape, "")
        image = axes.imshow(shares, vmin=0, vmax=1, cmap="viridis", origin="upper", aspect="auto")
        for (row, column), share in np.ndenumerate(shares):
            ink = "black" if share > 0.6 else "white"
            axes.text(
                column,
                row,
                f"{share:.2f}{more[row][column]}",
                ha="center",
                va="center",
                color=ink,
                fontsize="small",
            )
        axes.set_xticks(range(len(result.lengths)), [f"{length:,}" for length in result.lengths])
        axes.set_yticks(range(len(result.depths)), [f"{depth:.0%}" for depth in result.depths])
        axes.set_xlabel("length of the prompt (tokens)")
        axes.set_ylabel("depth of the needle")
        beyond = int((result.lengths <= result.training_length).sum())
        if 0 < beyond < len(result.lengths):
            label = f"training length, {result.training_length} tokens"
            axes.axvline(beyond - 0.5, color=plots.COLOURS[1], linestyle="--", linewidth=2, label=label)
            plots.legend(axes)
        axes.set_title(f"{name}, {result.prompts} prompts a cell", fontsize="medium")
    drawn.colorbar(image, ax=list(panels), label="share of prompts")
    return drawn


def _counts(axes: "Axes", x: np.ndarray, counts: np.ndarray) -> None:
    """The number behind each point, along the upper edge."""
    below, above = axes.get_ylim()
    axes.set_ylim(below, above + 0.12 * (above - below))
    for at, count in zip(x, counts, strict=True):
        axes.annotate(
            f"{count:,}",
            (at, 0.98),
            xycoords=axes.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize="x-small",
            color=plots.GREY,
        )
    axes.plot([], [], " ", label="above: hits of each bin")
