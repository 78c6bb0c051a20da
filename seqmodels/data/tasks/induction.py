"""Induction: what came after this token when it last stood here?

    row = [a body of random tokens, in which each of P cues is followed by M tokens, its payload]
          [the cues in random order, each followed by the first M - 1 tokens of its payload]

The cue's payload comes a second time: its first token is the target at the cue, and each further one at the
token before it. Cues stand at uniform places that leave room for the payload. They are special tokens, or,
in the general form, ordinary tokens drawn anew for each row, which then stand in its body once: with M = 1 a
random bigram that is unique in the row comes again. All tokens of a payload have the same distance, from the
payload in the body to the query.
(Olsson et al., "In-context learning and induction heads", 2022; Fu, Dao et al., "Hungry hungry hippos", ICLR
2023.)
"""

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below, distinct
from seqmodels.data.tasks.layout import put, task_rows
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling
from seqmodels.errors import InputError


@gin.register
class Induction(Task):
    """Rows of induction. Token ids: special tokens first, then ordinary ones, of which payloads are made too.

    With several cues each row asks several questions, from which small models learn sooner.
    """

    def __init__(
        self, length: int = 64, cues: int = 8, payload: int = 1, special: bool = True, tokens: int = 64
    ):
        """
        Args:
            length: tokens of a row.
            cues: P. 1 is the single-token task.
            payload: M.
            special: whether cues are special tokens.
            tokens: the size of the alphabet of ordinary tokens.
        """
        self.tokens, self.special_tokens = tokens, cues if special else 0
        self.value_ids = range(self.special_tokens, self.special_tokens + tokens)
        self.key_ids = range(self.special_tokens) if special else self.value_ids
        self.vocab_size = self.value_ids.stop
        self.settings = {
            "length": length,
            "cues": cues,
            "payload": payload,
            "special": special,
            "tokens": tokens,
        }
        check_least("Induction", 2, tokens=tokens)
        check_least("Induction", cues=cues, payload=payload)
        if not special and cues >= tokens:
            raise InputError(
                f"Induction.cues = {cues} should be fewer than tokens = {tokens}: the cues of a row are "
                "distinct tokens, and others stand between them."
            )
        self.row_tokens()

    def row_tokens(self, **changes: Any) -> int:
        length, cues, payload = ((self.settings | changes)[name] for name in ("length", "cues", "payload"))
        if length < cues * (2 * payload + 1):
            raise InputError(
                f"Induction.length = {length} should be at least {cues * (2 * payload + 1)}: each of {cues} "
                f"cues takes 1 + {payload} tokens in the body, and {payload} where it is asked for."
            )
        return length

    def sweeps(self, longest: int) -> list[Sweep]:
        """By row length: distances are uniform up to it."""
        shortest = self.settings["cues"] * (2 * self.settings["payload"] + 1)
        lengths = doubling(1 << (shortest - 1).bit_length(), longest)
        points = [Point(tokens, {"length": tokens}, self.settings["cues"], True) for tokens in lengths]
        return [Sweep("length", "row length (tokens)", self._fitting(points, longest))]

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        length, cues, payload = settings["length"], settings["cues"], settings["payload"]
        body = length - cues * payload
        free = body - cues * payload  # places in the body, a cue with its payload counted as one
        words = draw.words(4 * cues + body)
        place, cue, cue_order, order, token = np.split(words, cues * np.arange(1, 5), axis=1)
        number = below(token, self.tokens - (0 if settings["special"] else cues))
        keys = distinct(cue, cue_order, len(self.key_ids))
        if not settings["special"]:  # the tokens that are no cues, counted through
            for key in np.sort(keys, axis=1).T:
                number += number >= key[:, None]
        keys += self.key_ids.start
        start = np.sort(distinct(place, place, free), axis=1) + payload * np.arange(cues)

        tokens, row = np.zeros((draw.count, row_length), np.int32), np.arange(draw.count)[:, None]
        tokens[:, :body] = self.value_ids.start + number
        tokens[row, start] = keys
        asked = np.argsort(order, axis=1, kind="stable")
        behind = 1 + np.arange(payload)
        source = (start[row, asked][:, :, None] + behind).reshape(draw.count, -1)
        written = (start[:, :, None] + behind).reshape(draw.count, -1)
        again = (start[row, asked][:, :, None] + np.arange(payload)).reshape(draw.count, -1)
        scored, _ = put(tokens, np.full(draw.count, body), tokens[row, again])
        return task_rows(
            draw,
            tokens,
            length,
            scored,
            tokens[row, source],
            source,
            pairs=cues,
            values_in_row=tokens[row, written],
            asked=np.repeat(np.arange(cues), payload),
            answer_token=np.tile(np.arange(payload), cues),
        )
