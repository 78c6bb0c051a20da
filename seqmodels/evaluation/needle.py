"""A needle in held-out text: does the model give the value back when it reads its key again?

Few base models write the value out, so that its rank among 16 candidates is what tells: all of them have been
seen in the prompt, and a guess is right one time in 16. Whether the value is the likeliest token of all is
reported beside it. The prompts are those of `needle_prompts`, the same for every length and depth.
"""

import dataclasses

import numpy as np

from seqmodels.evaluation.needle_prompts import CANDIDATES, KEY_TOKENS, Prompts, draw, fitting
from seqmodels.evaluation.scorer import in_flight, most_likely, nll_of_logits
from seqmodels.evaluation.statistics import Estimate, share, wilson

DEPTHS = (0.05, 0.25, 0.5, 0.75, 0.95)
_LN2 = float(np.log(2.0))


@dataclasses.dataclass(frozen=True)
class Needle:
    """By length of the prompt [lengths] and depth of the needle [depths].

    table: a line a prompt of each cell: length, depth, prompt, distance from the value to its query, answer,
    predicted (the likeliest token), rank of the answer among the candidates, nll_bits.
    """

    lengths: np.ndarray
    depths: np.ndarray
    prompts: int
    table: dict[str, np.ndarray]
    prompts_hash: str
    seed: int
    training_length: int

    chance = 1 / CANDIDATES

    @property
    def rank(self) -> np.ndarray:
        """[lengths, depths, prompts], 1 the best."""
        return self.table["rank"].reshape(len(self.lengths), len(self.depths), self.prompts)

    @property
    def exact(self) -> np.ndarray:
        """Whether the value is the likeliest token, [lengths, depths, prompts]."""
        right = self.table["predicted"] == self.table["answer"]
        return right.reshape(self.rank.shape)

    def cells(self, right: np.ndarray) -> list[list[Estimate]]:
        """The share of prompts that are right, [lengths][depths], of [lengths, depths, prompts]."""
        return [[wilson(int(cell.sum()), self.prompts) for cell in row] for row in right]

    def by_length(self, shares: np.ndarray) -> list[Estimate]:
        """Means over depths of shares [lengths, depths, prompts]; intervals resample prompts."""
        depths = np.full(self.prompts, len(self.depths))
        return [share(row.sum(axis=0), depths) for row in shares]

    def mean_rank(self) -> list[Estimate]:
        """By length, as shares of the way from the first rank to the last: no interval from 1 to 1."""
        way = CANDIDATES - 1
        return [
            Estimate(*(1 + way * number for number in estimate))
            for estimate in self.by_length((self.rank - 1) / way)
        ]

    def scalars(self) -> dict[str, float]:
        first = self.by_length(self.rank == 1)
        return {
            f"eval/needle_first_{length}": estimate.value
            for length, estimate in zip(self.lengths, first, strict=True)
        }

    def summary(self) -> dict:
        figures = {"first": self.rank == 1, "exact": self.exact}
        pooled = {name: self.by_length(right) for name, right in figures.items()}
        pooled["rank"] = self.mean_rank()
        cells = {name: self.cells(right) for name, right in figures.items()}
        return {
            "prompts": self.prompts,
            "prompts_hash": self.prompts_hash,
            "seed": self.seed,
            "key_tokens": KEY_TOKENS,
            "candidates": CANDIDATES,
            "chance_of_first": self.chance,
            "chance_of_rank": (CANDIDATES + 1) / 2,
            "training_length": self.training_length,
            "by_length": [
                {
                    "length": int(length),
                    **{name: estimates[row]._asdict() for name, estimates in pooled.items()},
                    "by_depth": [
                        {
                            "depth": depth,
                            **{name: cell[row][column]._asdict() for name, cell in cells.items()},
                        }
                        for column, depth in enumerate(self.depths.tolist())
                    ],
                }
                for row, length in enumerate(self.lengths)
            ],
        }


def measure(
    scorer,
    store,
    tokenizer,
    *,
    training_length: int,
    longest: int,
    batch_size: int,
    prompts: int = 32,
    seed: int = 0,
) -> Needle | None:
    """The probe at prompts of 1/2, 1, 2 and 4 times the training length, of those up to `longest`.

    None where none of them has room, or where the text has too few different tokens.
    """
    lengths = fitting([training_length * n // 2 for n in (1, 2, 4, 8)], longest, len(store.tokens))
    made = draw(store.tokens, tokenizer.end_id, lengths, prompts, seed) if lengths else None
    if made is None:
        return None
    parts = [_cells(scorer, made, length, batch_size) for length in lengths]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Needle(np.array(lengths), np.array(DEPTHS), prompts, table, made.hash(), seed, training_length)


def _cells(scorer, made: Prompts, length: int, batch_size: int) -> dict[str, np.ndarray]:
    """The table of one length."""
    count, every = len(made), np.arange(len(made))
    laid = [made.rows(length, depth) for depth in DEPTHS]
    tokens = np.concatenate([rows for rows, _ in laid])
    prompt = np.tile(every, len(DEPTHS))
    answer, candidates = made.value[prompt], made.candidates[prompt]

    def scored():
        for first in range(0, len(tokens), batch_size):
            part = np.arange(first, min(first + batch_size, len(tokens)))
            # The last batch is filled up with repetitions: one shape, one compilation.
            rows = tokens[np.resize(part, batch_size)]
            last = np.full((batch_size, 1), length - 1, np.int32)
            yield scorer.logits(rows, np.ones_like(rows), last), part

    predicted, rank, nll = (np.empty(len(tokens), kind) for kind in (np.int64, np.int64, np.float32))
    for logits, part in in_flight(scored(), len(tokens), batch_size):
        logits = logits[: len(part), 0]
        predicted[part] = most_likely(logits)
        rank[part] = _rank(
            np.take_along_axis(logits, candidates[part], axis=1), candidates[part] == answer[part, None]
        )
        nll[part] = nll_of_logits(logits, answer[part]) / np.float32(_LN2)
    return {
        "length": np.full(len(tokens), length),
        "depth": np.repeat(DEPTHS, count),
        "prompt": prompt,
        "distance": np.repeat([distance for _, distance in laid], count),
        "answer": answer,
        "predicted": predicted,
        "rank": rank,
        "nll_bits": nll,
    }


def _rank(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The rank of the one that is its `own`, of scores [n, candidates]; 1 the best.

    Among equals the order of the candidates decides, which is random: a model that knows nothing is right as
    often as a guess.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    return 1 + np.take_along_axis(own, order, axis=1).argmax(axis=1)
