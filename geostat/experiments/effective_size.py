r"""The effective attention set size N*: how few tokens each query may keep before the model's
next-token loss rises by more than a share τ.

Source: arXiv 2609.37879. With the mean loss NLL of a document and NLL(N) where every query keeps
the N tokens of largest weight, ΔNLL_rel(N) = NLL(N)/NLL − 1, a mean over documents; N*_τ is the
smallest N that was tried with ΔNLL_rel ≤ τ there and at every larger N that was tried. Tried are
the powers of two below the window, then halves of the gap at each τ, down to neighbouring N. Which
tokens are largest, and what becomes of the others, are a rule and a mode. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean

ROUNDING: Final = 1e-9
"""By how much a limit may lie above a whole number that it is."""


class Cell(NamedTuple):
    """One intervention: what a loss was measured under."""

    scope: str
    """Which layers and heads, in words; "all" of all."""
    rule: str
    mode: str
    n: int
    """Tokens kept; 0: the rule's own set."""


PLAIN: Final = Cell("", "", "", 0)
"""No intervention."""


def rises(plain: FloatArray, losses: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
    """Return the relative rise of each document's loss, (document), by N."""
    return {n: loss / plain - 1 for n, loss in sorted(losses.items())}


def next_size(
    plain: FloatArray,
    losses: Mapping[int, FloatArray],
    taus: Iterable[float],
    tokens: int,
    *,
    first: Iterable[int] | None = None,
) -> int | None:
    """Return the N that is to be tried next, None where every N* is settled to the integer.

    Args:
        plain: losses of the model as it is, (document).
        losses: those under the N that were tried, (document), by N.
        taus: the shares τ.
        tokens: of a window; with as many kept the model is as it is.
        first: N that are tried before any gap is halved; powers of two where none are given.

    >>> next_size(np.ones(1), {n: np.array([1 + 1 / n]) for n in (1, 2, 4, 8)}, [0.3], 16)
    3
    """
    powers = (2**exponent for exponent in range((tokens - 1).bit_length()))
    for size in powers if first is None else first:
        if size not in losses:
            return size
    mean = _means(plain, losses)
    for tau in taus:
        low, high = bracket(mean, tau, tokens)
        if high - low > 1:
            return (low + high) // 2
    return None


def bracket(mean: Mapping[int, float], tau: float, tokens: int) -> tuple[int, int]:
    """Return the largest N that was tried with a mean rise above τ, 0 where there is none, and the
    next larger one that was tried: N* as far as it is known.
    """
    above = max((n for n, rise in mean.items() if not rise <= tau), default=0)
    return above, min((n for n in (*mean, tokens) if n > above), default=tokens)


def star(
    plain: FloatArray,
    losses: Mapping[int, FloatArray],
    tau: float,
    tokens: int,
    *,
    first: Iterable[int] | None = None,
) -> Estimate:
    """Return N*_τ with its document jackknife, NaN unless the search for it is over; `first` as of
    `next_size`.

    N* is the place where the mean rise crosses τ, linear in log N between the two N that hold it,
    rounded up; its limits are those of that place on the scale of log N, rounded up too, from 1 to
    the window. None are given where no document moves it from 1.
    """
    _, high = bracket(_means(plain, losses), tau, tokens)
    place, without = (np.log(one) for one in crossing(plain, losses, tau, tokens))
    settled = next_size(plain, losses, [tau], tokens, first=first) is None
    return star_of(place, without, tokens, np.array(float(high) if settled else np.nan))


def star_of(
    place: FloatArray, without: FloatArray, tokens: int, value: FloatArray | None = None
) -> Estimate:
    """Return N* from log of the place where the rise crosses τ, (...), and that without each
    document, (document, ...): rounded up, unless its `value` is given.
    """
    if value is None:
        value = np.ceil(np.exp(place) - ROUNDING)
    found = jackknife(place, without).exp(value)
    limits = {
        side: np.clip(np.ceil(getattr(found, side) - ROUNDING), 1, tokens)
        for side in ("lower", "upper")
    }
    told = np.isfinite(value) & ((place > 0) | (without > 0).any(axis=0))
    return replace(found, **limits).with_error_where(told)


def crossing(
    plain: FloatArray, losses: Mapping[int, FloatArray], tau: float, tokens: int
) -> tuple[FloatArray, FloatArray]:
    """Return the place where the mean rise crosses τ, which N* rounds up, and that without each
    document, (document).
    """
    each = rises(plain, losses)
    sizes = [*each, tokens]
    table = np.stack([*each.values(), np.zeros_like(plain)], axis=1)  # (document, size)
    without = np.array([crossing_of(sizes, row, tau) for row in leave_one_out_mean(table)])
    return np.array(crossing_of(sizes, table.mean(axis=0), tau)), without


def crossing_of(sizes: Sequence[int], rise: FloatArray, tau: float) -> float:
    """Return where the mean rise, by ascending N with the window last, falls to τ for good, linear
    in log N.
    """
    above = np.flatnonzero(~(rise <= tau))
    if not above.size:
        return 1.0
    low, high = above[-1], min(above[-1] + 1, len(sizes) - 1)
    share = (rise[low] - tau) / (rise[low] - rise[high]) if high > low else 1.0
    logs = np.log(sizes)
    return float(np.exp(logs[low] + share * (logs[high] - logs[low])))


def _means(plain: FloatArray, losses: Mapping[int, FloatArray]) -> dict[int, float]:
    return {n: float(rise.mean()) for n, rise in rises(plain, losses).items()}
