"""Positions of the analysed queries of a window: the last, the last few, every so-many-th, or a
stratified random sample of its second half.

A window's last query is as in arXiv 2602.01893, §2. A sample is drawn by the window's own digest,
so that a document's queries depend on nothing else, and always holds the last. Imports numpy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from empirical.errors import InputError

LEAST_SEEN: Final = 16
"""Tokens that a query beside the last must see, itself included."""
DEFAULT: Final = 16
"""Queries analysed where nothing is asked for, the last ones: on the built-in run the error of a
head's Precision at N = 8 is then a third, and that of the sink's weight two fifths, of what the
last query alone gives (docs/reference/measured.md).
"""


@dataclass(frozen=True, slots=True)
class Queries:
    """Which queries of a window are analysed: the last `count`, `count` that are `step` positions
    apart, or `count` spread over its second half.

    >>> Queries.read("last:3", 64).positions(64, ["00"]).tolist()
    [[61, 62, 63]]
    >>> Queries.read("every:16", 64).positions(64, ["00"]).tolist()
    [[15, 31, 47, 63]]
    """

    way: str = "last"
    count: int = 1
    step: int = 1

    @classmethod
    def read(cls, text: str, length: int) -> Queries:
        """Read `--queries` for windows of `length` tokens: last, last:Q, spread:Q, every:K (the
        last, and every K-th position before it that sees `LEAST_SEEN` tokens), or default, the last
        `DEFAULT` or as many as there is room for.

        Raises:
            InputError: for anything else, or if some query beside the last would see fewer than
                `LEAST_SEEN` tokens.
        """
        if text.strip() == "default":
            return cls("last", max(1, min(DEFAULT, length - LEAST_SEEN + 1)))
        match = re.fullmatch(r"(last|spread|every)(?::(\d{1,9}))?", text.strip())
        if match is None or (match[2] is None and match[1] != "last") or int(match[2] or 1) == 0:
            raise InputError(
                f"--queries {text}: expected last, last:Q, spread:Q or every:K with a whole number"
                " from 1. Use for instance last:8."
            )
        number = int(match[2] or 1)
        if match[1] == "every":
            return cls("every", 1 + max(0, length - LEAST_SEEN) // number, number)
        result = cls(match[1], number)
        result._refuse_beyond(length)
        return result

    def __str__(self) -> str:
        number = self.step if self.way == "every" else self.count
        return "last" if self.count == 1 else f"{self.way}:{number}"

    def _refuse_beyond(self, length: int) -> None:
        """Refuse more queries than a window of `length` tokens has room for."""
        room = length - LEAST_SEEN + 1
        if self.way == "spread":
            room = length - length // 2 if length // 2 + 1 >= LEAST_SEEN else 1
        if self.count > max(room, 1):
            remedy = f"--queries {self.way}:{room}, " if room > 1 else ""
            raise InputError(
                f"--queries {self}: a window of {length} tokens has room for {max(room, 1)} that"
                f" see at least {LEAST_SEEN} tokens. Use {remedy}--queries last or a longer"
                " --length."
            )

    def positions(self, length: int, sha256: Sequence[str]) -> NDArray[np.int64]:
        """Return the positions of each document's queries, (document, query), ascending; the last
        is the window's last. `sha256` are the windows' digests.
        """
        if self.way != "spread" or self.count == 1:
            row = length - 1 - self.step * np.arange(self.count)[::-1]
            return np.repeat(row[None], len(sha256), axis=0)
        return np.stack([self._spread(length, int(digest[:16], 16)) for digest in sha256])

    def _spread(self, length: int, seed: int) -> NDArray[np.int64]:
        """Draw one position from each of equally long strata between the middle and the last."""
        edges = np.linspace(length // 2, length - 1, self.count).round().astype(np.int64)
        drawn = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
        return np.concatenate([drawn, [length - 1]])


LAST: Final = Queries()
"""The last query of a window alone."""
