"""Positions of the analysed queries in a window: the last, the last few, every K-th, or a
stratified random sample of the second half.

The last query is that of arXiv 2602.01893, §2. The window's digest seeds the sample, so a
document's queries depend on nothing else; the last query is always included. Imports numpy.
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
"""Fewest tokens that a query other than the last must see, including its own position."""
DEFAULT: Final = 16
"""Default number of analysed queries, the last ones. On the built-in run this reduces the standard
error of a head's Precision at N = 8 to one third, and that of the sink's weight to two fifths, of
that with the last query alone (docs/reference/measured.md).
"""


@dataclass(frozen=True, slots=True)
class Queries:
    """The analysed queries of a window: the last `count`, `count` that are `step` positions apart,
    or `count` spread over the second half.

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
        """Parse `--queries` for windows of `length` tokens: last, last:Q, spread:Q, every:K (the
        last, and every K-th position before it that sees `LEAST_SEEN` tokens), or default (the last
        `DEFAULT`, or as many as the window has room for).

        Raises:
            InputError: the text is none of these, or a query other than the last would see fewer
                than `LEAST_SEEN` tokens.
        """
        if text.strip() == "default":
            return cls("last", max(1, min(DEFAULT, length - LEAST_SEEN + 1)))
        match = re.fullmatch(r"(last|spread|every)(?::(\d{1,9}))?", text.strip())
        if match is None or (match[2] is None and match[1] != "last") or int(match[2] or 1) == 0:
            raise InputError(
                f"--queries {text}: expected last, last:Q, spread:Q or every:K with an integer from"
                " 1. Use for example last:8."
            )
        number = int(match[2] or 1)
        if match[1] == "every":
            return cls("every", 1 + max(0, length - LEAST_SEEN) // number, number)
        result = cls(match[1], number)
        room = length - LEAST_SEEN + 1
        if result.way == "spread":
            room = length - length // 2 if length // 2 + 1 >= LEAST_SEEN else 1
        if number > max(room, 1):
            remedy = f"--queries {result.way}:{room}, " if room > 1 else ""
            raise InputError(
                f"--queries {result}: a window of {length} tokens has room for {max(room, 1)}"
                f" queries that see at least {LEAST_SEEN} tokens. Use {remedy}--queries last or a"
                " longer --length."
            )
        return result

    def __str__(self) -> str:
        number = self.step if self.way == "every" else self.count
        return "last" if self.count == 1 else f"{self.way}:{number}"

    def positions(self, length: int, sha256: Sequence[str]) -> NDArray[np.int64]:
        """Return query positions, (document, query), ascending to the last; `sha256` of windows."""
        if self.way != "spread" or self.count == 1:
            positions = length - 1 - self.step * np.arange(self.count)[::-1]
            return np.repeat(positions[None], len(sha256), axis=0)
        return np.stack([self._spread(length, int(digest[:16], 16)) for digest in sha256])

    def _spread(self, length: int, seed: int) -> NDArray[np.int64]:
        """Draw a position from each of equal strata of the second half, and add the last."""
        edges = np.linspace(length // 2, length - 1, self.count).round().astype(np.int64)
        drawn = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
        return np.concatenate([drawn, [length - 1]])


LAST: Final = Queries()
"""The last query of a window only."""
