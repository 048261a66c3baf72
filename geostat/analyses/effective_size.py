r"""Effective attention set size N*: the fewest tokens that each query may keep with a relative rise
of the next-token loss of at most τ.

Source: arXiv 2609.37879. NLL is the mean loss of a document, and NLL(N) that with the N selected
tokens of every query; ΔNLL_rel(N) = NLL(N)/NLL − 1, averaged over documents. N*_τ is the smallest
evaluated N with ΔNLL_rel ≤ τ at N and at every larger evaluated N. The search evaluates powers of
two below the window, then bisects the bracket of each τ down to adjacent N. A *rule* selects
tokens; a *mode* says how unselected tokens are removed. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean

ROUNDING: Final = 1e-9
"""Tolerance for rounding error when a limit is rounded up to an integer."""


class Cell(NamedTuple):
    """One intervention on attention, under which a loss is measured."""

    scope: str
    """Name of the ablated layers and heads; "all" for all."""
    rule: str
    mode: str
    n: int
    """Number of selected tokens; 0 if the rule determines it."""


PLAIN: Final = Cell("", "", "", 0)
"""No intervention."""


def curve_of(
    losses: Mapping[Cell, FloatArray], scope: str, rule: str, mode: str
) -> dict[int, FloatArray]:
    """Return the losses of a scope, rule and mode, (document,) each, by N."""
    return {cell.n: loss for cell, loss in losses.items() if cell[:3] == (scope, rule, mode)}


def rises(plain: FloatArray, losses: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
    """Return the relative loss increase, (document,), by N."""
    return {n: loss / plain - 1 for n, loss in sorted(losses.items())}


def next_size(
    plain: FloatArray,
    losses: Mapping[int, FloatArray],
    taus: Iterable[float],
    tokens: int,
    *,
    first: Iterable[int] | None = None,
) -> int | None:
    """Return the N to evaluate next; None if every N* is determined.

    Args:
        plain: losses without intervention, (document,).
        losses: losses by evaluated N, (document,) each.
        taus: relative rises τ.
        tokens: tokens of a window; selecting all of them is no intervention.
        first: N to evaluate before bisection; default: powers of two.

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
    """Return the bracket of N*: the largest evaluated N with mean rise above τ (0 if there is none)
    and the next larger evaluated N.
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
    """Return N*_τ with its document jackknife; NaN unless its search is complete.

    N* is the crossing of the mean rise and τ, interpolated in log N within the bracket and rounded
    up. The interval is that of the crossing on the scale of log N, rounded up and cut to [1,
    tokens]. The interval is NaN if every leave-one-document-out crossing is 1.
    Arguments are those of `next_size`.
    """
    _, high = bracket(_means(plain, losses), tau, tokens)
    place, without = (np.log(size) for size in crossing(plain, losses, tau, tokens))
    complete = next_size(plain, losses, [tau], tokens, first=first) is None
    return star_of(place, without, tokens, np.array(float(high) if complete else np.nan))


def star_of(
    place: FloatArray, without: FloatArray, tokens: int, value: FloatArray | None = None
) -> Estimate:
    """Return N* with its interval from log crossings.

    Args:
        place: log of the crossing, (...).
        without: log of the leave-one-document-out crossings, (document, ...).
        tokens: tokens of a window.
        value: N*; default: the crossing, rounded up.
    """
    if value is None:
        value = np.ceil(np.exp(place) - ROUNDING)
    estimate = jackknife(place, without).exp(value)
    limits = {
        side: np.clip(np.ceil(getattr(estimate, side) - ROUNDING), 1, tokens)
        for side in ("lower", "upper")
    }
    has_error = np.isfinite(value) & ((place > 0) | (without > 0).any(axis=0))
    return replace(estimate, **limits).with_error_where(has_error)


def crossing(
    plain: FloatArray, losses: Mapping[int, FloatArray], tau: float, tokens: int
) -> tuple[FloatArray, FloatArray]:
    """Return the N at which the mean rise crosses τ, and its leave-one-document-out values,
    (document,).
    """
    by_size = rises(plain, losses)
    sizes = [*by_size, tokens]
    table = np.stack([*by_size.values(), np.zeros_like(plain)], axis=1)  # (document, size)
    without = np.array([crossing_of(sizes, row, tau) for row in leave_one_out_mean(table)])
    return np.array(crossing_of(sizes, table.mean(axis=0), tau)), without


def crossing_of(sizes: Sequence[int], rise: FloatArray, tau: float) -> float:
    """Return the largest N at which the mean rise crosses τ, interpolated in log N.

    `sizes` are ascending, with the window last.
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
