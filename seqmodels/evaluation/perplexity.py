"""Perplexity: the negative log-likelihood of text, by protocol, with what was scored and its interval.

- `disjoint(L)`: windows of L inputs side by side. Equals `strided(L, L)`.
- `strided(L, s)`: every token with at least L - s tokens of its document before it, where they exist.
- `stateful(L)`: the state is carried through each whole document in steps of L, never reset; attention keeps
  its full (or windowed) cache.

Every text token is scored once. E as a target is reported apart, and bits per byte counts neither it nor its
byte. Per-token values are float32, sums float64 on the host, never a mean of means.
"""

import dataclasses
import heapq
import math
from functools import partial

import jax
import numpy as np

from seqmodels.errors import InputError, NonFiniteError
from seqmodels.evaluation.scorer import in_flight
from seqmodels.evaluation.statistics import Estimate, ratio
from seqmodels.evaluation.windows import Documents, Rows, Windows, batches, cut, documents, fill, pack

_LN2 = float(np.log(2.0))


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """The figures of one protocol. `nll` is in nats per text token; intervals resample documents.

    carried: what a state holds that is carried through a document, None where each window begins without.
    table: where asked for, a line a scored token, E included, by document and position: document (counted
    among those scored), position (of the input that it is predicted at, from 0), conditioning_id (that input:
    E at position 0, where there is a start token), token_id, nll_nats.
    """

    protocol: str
    window: int
    stride: int | None
    first_token: str
    dtype: str
    documents: int
    tokens_scored: int
    bytes_scored: int
    nll_sum: float
    nll: Estimate
    perplexity: Estimate
    bits_per_byte: Estimate
    end_of_text_targets: int
    end_of_text_nll: float
    carried: str | None = None
    table: dict[str, np.ndarray] | None = dataclasses.field(default=None, repr=False, compare=False)

    def scalars(self) -> dict[str, float]:
        """By tag; those of other protocols than disjoint windows have it in their name."""
        protocol = "" if self.stride == self.window else f"_{self.protocol.partition('(')[0]}"
        return {
            f"eval/loss{protocol}": self.nll.value,
            f"eval/bits_per_byte{protocol}": self.bits_per_byte.value,
            f"eval/perplexity{protocol}": self.perplexity.value,
            f"eval/tokens_scored{protocol}": float(self.tokens_scored),
        }

    def summary(self) -> dict:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del values["table"]
        return {k: v._asdict() if isinstance(v, Estimate) else v for k, v in values.items()}


def disjoint(scorer, store, tokenizer, *, window: int, batch_size: int, **options) -> Perplexity:
    """As `strided` with the stride equal to the window."""
    return strided(scorer, store, tokenizer, window=window, stride=window, batch_size=batch_size, **options)


def strided(
    scorer,
    store,
    tokenizer,
    *,
    window: int,
    stride: int,
    batch_size: int,
    start_token: bool = True,
    max_tokens: int | None = None,
    per_token: bool = False,
) -> Perplexity:
    """Perplexity of a token store over windows of `window` inputs, each `stride` further on.

    start_token: condition a document's first token on E and score it; otherwise it is context only.
    max_tokens: score a fixed sample of the documents with that many text tokens. per_token: keep the table.
    Raises InputError for a stride above the window, ids outside the scorer's vocabulary or nothing to score.
    """
    source = _checked(scorer, store, tokenizer, start_token, max_tokens)
    windows = cut(source.inputs, window, stride)
    rows = pack(windows.length, window)
    scored = ((scorer.nll(*batch[:3]), batch) for batch in batches(source, windows, rows, batch_size, window))
    values = in_flight(scored, len(rows), batch_size)
    protocol = f"disjoint({window})" if stride == window else f"strided({window}, {stride})"
    about = {"protocol": protocol, "window": window, "stride": stride, "dtype": scorer.dtype}
    return _figures(source, values, per_token, **about)


def stateful(
    scorer,
    store,
    tokenizer,
    *,
    window: int,
    batch_size: int,
    start_token: bool = True,
    max_tokens: int | None = None,
    per_token: bool = False,
) -> Perplexity:
    """Perplexity with the state carried through each whole document, `window` inputs at a time.

    The documents are laid end to end in batch_size lanes; the segment ids say where one ends, which empties
    the state. Attention needs batch_size caches as long as the longest document. Raises InputError for what
    `strided` does, and for a window below 1.
    """
    if window < 1:
        raise InputError(f"windows of {window} hold no token: a document is read in steps of at least 1")
    check_stateful(scorer, store, tokenizer, max_tokens)
    source = _checked(scorer, store, tokenizer, start_token, max_tokens)
    inputs = source.inputs
    whole = Windows(np.arange(len(inputs)), np.zeros_like(inputs), inputs, np.zeros_like(inputs))
    lanes = _lanes(inputs, batch_size)
    longest = max(int(inputs[lane].sum()) for lane in lanes)
    rows = fill(source, whole, lanes, batch_size, -(-longest // window) * window)

    def scored():
        state = scorer.init_state(batch_size, int(inputs.max()))
        for first in range(0, rows.tokens.shape[1], window):
            piece = Rows(*(array[:, first : first + window] for array in rows))
            nll, state = scorer.nll_from_state(*piece[:3], state)
            yield nll, piece

    about = {"protocol": f"stateful({window})", "window": window, "stride": None, "dtype": scorer.dtype}
    values = in_flight(scored(), rows.tokens.shape[1], window)
    return _figures(source, values, per_token, **about, carried=_carried(scorer, int(inputs.max())))


def check_stateful(scorer, store, tokenizer, max_tokens: int | None) -> None:
    """Raises InputError where a document is longer than the model has positions."""
    if scorer.max_positions is None:
        return
    longest = int(documents(store, tokenizer, max_tokens=max_tokens).inputs.max(initial=0))
    if longest > scorer.max_positions:
        raise InputError(
            f"the suite stateful carries each document to its end, and the longest one's {longest:,} inputs "
            f"do not fit into the model's {scorer.max_positions:,} positions: leave it out of --suite."
        )


def _carried(scorer, longest: int) -> str:
    """Whether the state grows with a document: in a full cache every token stays, in any other state not."""
    one, two = (
        sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
        for shapes in (jax.eval_shape(partial(scorer.init_state, 1, n)) for n in (longest, 2 * longest))
    )
    kind = "a state of one size" if one == two else "a full cache"
    return f"{kind}, {one:,} numbers for the longest document of {longest:,} inputs"


def _lanes(inputs: np.ndarray, count: int) -> list[list[int]]:
    """Documents dealt out to `count` lanes of about equal length, longest first."""
    lanes: list[list[int]] = [[] for _ in range(count)]
    loads = [(0, lane) for lane in range(count)]
    for d in np.argsort(-inputs, kind="stable"):
        load, lane = heapq.heappop(loads)
        lanes[lane].append(int(d))
        heapq.heappush(loads, (load + int(inputs[d]), lane))
    return lanes


def _checked(scorer, store, tokenizer, start_token: bool, max_tokens: int | None) -> Documents:
    source = documents(store, tokenizer, start_token=start_token, max_tokens=max_tokens)
    if source.scored.sum() == 0:
        raise InputError("the validation split holds no token to score: give a corpus with at least one")
    highest = int(np.max(store.tokens)) if len(store.tokens) else 0
    if highest >= scorer.vocab_size:
        raise InputError(
            f"token id {highest} in the validation split, but the model's vocabulary ends at "
            f"{scorer.vocab_size - 1}: evaluate with the tokenizer that the model was trained with"
        )
    return source


def _figures(source: Documents, scored, per_token: bool, **about) -> Perplexity:
    """The figures of (nll [B, T], Rows), fetched, that together score every target once; about: what of."""
    units = 2 * len(source.length)
    nll, counts = np.zeros(units), np.zeros(units, np.int64)
    tables = []
    for values, rows in scored:
        mask = rows.unit >= 0
        unit = rows.unit[mask]
        nll += np.bincount(unit, weights=values[mask].astype(np.float64), minlength=units)
        counts += np.bincount(unit, minlength=units)
        if per_token:
            tables.append(
                (unit // 2, rows.position[mask], rows.tokens[mask], rows.targets[mask], values[mask])
            )
    text_nll, text = nll[0::2], counts[0::2]
    if not np.array_equal(text, source.scored):
        raise RuntimeError(f"scored {text.sum()} tokens where {source.scored.sum()} were expected")
    if not np.isfinite(text_nll).all():
        raise NonFiniteError(f"the evaluation's negative log-likelihood is not finite ({about['protocol']})")
    ends = int(counts[1::2].sum())
    mean = ratio(text_nll, text)
    per_byte = ratio(text_nll, source.scored_bytes)
    return Perplexity(
        **about,
        first_token="scored after the end-of-text id" if source.start_token else "context only",
        documents=len(text),
        tokens_scored=int(text.sum()),
        bytes_scored=int(source.scored_bytes.sum()),
        nll_sum=float(text_nll.sum()),
        nll=mean,
        perplexity=Estimate(*(float(np.exp(value)) for value in mean)),
        bits_per_byte=per_byte.scaled(1 / _LN2),
        end_of_text_targets=ends,
        end_of_text_nll=float(nll[1::2].sum() / ends) if ends else float("nan"),
        table=_table(tables) if per_token else None,
    )


def _table(parts: list[tuple[np.ndarray, ...]]) -> dict[str, np.ndarray]:
    """The columns of the table, in order of documents and positions."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    names = ("document", "position", "conditioning_id", "token_id", "nll_nats")
    return {name: column[order] for name, column in zip(names, columns, strict=True)}
