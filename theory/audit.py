"""Every edition against simulation, over a grid of heads: how often each bound is violated, vacuous, and how far from the truth it lies.

The judge is `theory.simulate`: Model G for `sharp` and `conditional` (bounds under it) and for `predicted` (an approximation), exactly unit
directions for `repaired` and `printed`, which speak of them. A row is one head at one N. A violation is a bound beyond 4 standard errors
of the simulated mean, on its wrong side; a standard error is never taken below one part in the number of draws, and a flagged row is drawn
again with 100 times the draws before it counts. Imports numpy; the rest of the theory room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal, get_args

import numpy as np

from theory.arrays import FloatArray, IntArray
from theory.evaluate import envelopes
from theory.gram import LagGram, is_feasible, offset_exponential
from theory.profile import WeightProfile, value_norm_profile
from theory.results import QUANTITIES, Edition, Envelope
from theory.simulate import Directions, simulate

SIGMAS: Final = 4.0
"""Standard errors beyond which a bound counts as violated."""

AGAIN: Final = 100
"""A flagged row is drawn again with so many times the draws."""

SMALL_N: Final = 8
"""Sizes up to here are tabulated apart: the paper looks at small N."""

JUDGES: Final[dict[str, Directions]] = {
    "printed": "unit", "repaired": "unit", "sharp": "gaussian", "conditional": "gaussian", "predicted": "gaussian",
}  # fmt: skip
"""Which simulation each edition speaks of."""

LENGTHS: Final = (16, 64, 256)
DIMENSIONS: Final = (16, 64, 128)
DECAYS: Final = (0.05, 0.4, 2.0)
SINK_COSINES: Final = (-0.04, 0.0, 0.1)
OFFSETS: Final = (0.0, 0.2)
SIZES: Final = (2, 3, 4, 6, 8, 16, 32, 64, 128)
PROFILES: Final = (
    {"p_sink": 0.02, "eta": 0.3, "growth": 0.15, "lam": 1.0},
    {"p_sink": 0.3, "eta": 0.2, "growth": 0.05, "lam": 0.25},
    {"p_sink": 0.6, "eta": 0.05, "growth": 0.3, "lam": 0.1},
)
"""Shapes of the weights: no sink to speak of, a usual one, a dominant one with a steep tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One head of the grid."""

    alpha: FloatArray
    norms: FloatArray
    gram: LagGram
    dimension: int
    n: IntArray


def heads() -> Iterator[Head]:
    """Yield the heads of the grid, those whose Gram exists."""
    for length, d, beta, rho0, offset, profile in product(LENGTHS, DIMENSIONS, DECAYS, SINK_COSINES, OFFSETS, PROFILES):
        gram = offset_exponential(beta, offset, rho0, length + 1)
        if not is_feasible(gram, length + 1):
            continue
        shape = WeightProfile(
            length=length, plateau_end=length // 3, growth_start=length - max(2, length // 8), p_sink=profile["p_sink"], eta=profile["eta"],
            omega=0.7, growth=profile["growth"],
        )  # fmt: skip
        norms = value_norm_profile(length + 1, sink_ratio=profile["lam"])
        yield Head(alpha=shape.weights(), norms=norms, gram=gram, dimension=d, n=np.array([n for n in SIZES if n <= length]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """One edition's bounds on one quantity beside the truth; arrays (row,)."""

    n: IntArray
    tokens: IntArray
    lower: FloatArray
    upper: FloatArray
    truth: FloatArray
    error: FloatArray
    """Standard error of the truth, at least one part in the draws."""
    violated: np.ndarray
    """Which bounds are violated still after drawing again, (2, row): lower, upper."""
    flagged: np.ndarray
    """Which were flagged at first."""
    reliable: np.ndarray
    """`predicted` only: whether its own flag trusts the row; True elsewhere."""

    def floor(self, quantity: str) -> FloatArray:
        """What holds of any head: P ≥ N/T and with it F(r_max) ≥ 2N/(T+N); R and F(r_min) ≥ 0."""
        share = self.n / self.tokens
        return {"precision": share, "f_outer": 2 * share / (1 + share)}.get(quantity, np.zeros(len(self.n)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """The rows of every edition and quantity, and how they were drawn."""

    rows: dict[tuple[str, str], Rows] = field(repr=False)
    draws: int
    seed: int

    @property
    def editions(self) -> list[str]:
        """Editions audited, in order."""
        return list(dict.fromkeys(edition for edition, _ in self.rows))


def audit(
    editions: tuple[str, ...] = get_args(Edition),
    *,
    draws: int = 1000,
    seed: int = 0,
    every: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Lay every edition over simulated truth.

    Args:
        editions: which ones.
        draws: simulated heads for each head of the grid and kind of directions.
        seed: of the draws.
        every: take each so-many-th head of the grid (1: all).
        progress: called with heads done and heads in all.
    """
    grid = list(heads())[::every]
    parts: dict[tuple[str, str], list[Rows]] = {}
    for number, head in enumerate(grid):
        truths = {kind: _truth(head, kind, head.n, draws, seed + number) for kind in {JUDGES[edition] for edition in editions}}
        for edition in editions:
            bounds = _bounds(head, edition)
            for quantity in QUANTITIES:
                parts.setdefault((edition, quantity), []).append(
                    _compare(head, edition, quantity, bounds, truths[JUDGES[edition]], draws, seed)
                )
        if progress:
            progress(number + 1, len(grid))
    return Audit(rows={key: _joined(rows) for key, rows in parts.items()}, draws=draws, seed=seed)


def _bounds(head: Head, edition: str) -> Envelope:
    return envelopes(head.alpha[None], head.norms[None], head.gram, head.dimension, head.n, edition=edition, feasible=True)  # type: ignore[arg-type]


Truth = dict[str, tuple[FloatArray, FloatArray]]


def _truth(head: Head, directions: Directions, n: IntArray, draws: int, seed: int) -> Truth:
    """Mean and standard error of each quantity, (n,)."""
    found = simulate(head.alpha, head.norms, head.gram, head.dimension, n, draws=draws, seed=seed, directions=directions)
    return {name: (getattr(found, name), np.maximum(getattr(found, f"{name}_se"), 1 / draws)) for name in QUANTITIES}


def _compare(head: Head, edition: str, quantity: str, bounds: Envelope, truth: Truth, draws: int, seed: int) -> Rows:
    lower, upper = (np.clip(getattr(bounds, f"{quantity}_{side}")[0], 0, 1) for side in ("lower", "upper"))
    mean, error = (array.copy() for array in truth[quantity])
    flagged = _beyond(lower, upper, mean, error)
    violated = flagged.copy()
    proven = [claim.startswith("bound") for claim in bounds.claims]  # a flagged row of theirs is drawn again, others are only counted
    claimed = flagged & np.array(proven)[:, None]
    if claimed.any():
        rows = np.flatnonzero(claimed.any(axis=0))
        again, its_error = _truth(head, JUDGES[edition], head.n[rows], AGAIN * draws, seed + 10**6)[quantity]
        mean[rows], error[rows] = again, its_error
        violated[:, rows] = _beyond(lower[rows], upper[rows], again, its_error)
    return Rows(
        n=head.n,
        tokens=np.full(len(head.n), len(head.alpha)),
        lower=lower,
        upper=upper,
        truth=mean,
        error=error,
        violated=violated,
        flagged=flagged,
        reliable=bounds.reliable[0],
    )


def _beyond(lower: FloatArray, upper: FloatArray, mean: FloatArray, error: FloatArray) -> np.ndarray:
    """Which bounds lie on the wrong side by more than `SIGMAS` standard errors, (2, row)."""
    return np.stack([lower > mean + SIGMAS * error, upper < mean - SIGMAS * error])


def _joined(parts: list[Rows]) -> Rows:
    return Rows(**{name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in Rows.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table: one edition, one quantity. Widths and gaps are medians over rows that are not violated."""

    edition: str
    quantity: str
    rows: int
    violated_lower: int
    violated_upper: int
    flagged: int
    worst: float
    """Largest violation, 0 without one."""
    vacuous_lower: float
    """Share of lower bounds no better than what holds of any head."""
    vacuous_upper: float
    gap_lower: float
    gap_upper: float
    width_small: float
    """At N ≤ 8."""
    width: float


def table(found: Audit) -> list[Line]:
    """Sum up an audit: violations first."""
    return [_line(edition, quantity, rows) for (edition, quantity), rows in found.rows.items() if edition != "predicted"]


def _line(edition: str, quantity: str, rows: Rows) -> Line:
    kept = ~rows.violated.any(axis=0)
    small = kept & (rows.n <= SMALL_N)
    excess = np.where(rows.violated, np.stack([rows.lower - rows.truth, rows.truth - rows.upper]), 0.0)
    return Line(
        edition=edition,
        quantity=quantity,
        rows=len(rows.n),
        violated_lower=int(rows.violated[0].sum()),
        violated_upper=int(rows.violated[1].sum()),
        flagged=int(rows.flagged.sum()),
        worst=float(excess.max(initial=0.0)),
        vacuous_lower=float((rows.lower <= rows.floor(quantity) + 1e-9).mean()),
        vacuous_upper=float((rows.upper >= 1 - 1e-9).mean()),
        gap_lower=_median((rows.truth - rows.lower)[kept]),
        gap_upper=_median((rows.upper - rows.truth)[kept]),
        width_small=_median((rows.upper - rows.lower)[small]),
        width=_median((rows.upper - rows.lower)[kept]),
    )


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if values.size else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How far `predicted` lies from the truth, and whether its own flag catches where it fails."""

    quantity: str
    rows: int
    median: float
    ninth_decile: float
    worst: float
    distrusted: int
    missed: int
    """Errors above .05 (beyond 4 standard errors) that the flag does not catch."""


LARGE_ERROR: Final = 0.05


def accuracy(found: Audit) -> list[Accuracy]:
    """Sum up the edition `predicted`, rows that its flag trusts apart from the count of those it does not."""
    lines = []
    for (edition, quantity), rows in found.rows.items():
        if edition == "predicted":
            away = np.abs(rows.lower - rows.truth)
            trusted = rows.reliable
            missed = trusted & (away > LARGE_ERROR + SIGMAS * rows.error)
            one = Accuracy(
                quantity=quantity,
                rows=len(away),
                median=_median(away),
                ninth_decile=float(np.quantile(away, 0.9)),
                worst=float(away.max()),
                distrusted=int((~trusted).sum()),
                missed=int(missed.sum()),
            )
            lines.append(one)
    return lines


def relative_width(found: Audit, quantity: str) -> float:
    """Return the median width of `conditional` over that of `sharp`."""
    widths = [_median(rows.upper - rows.lower) for rows in (found.rows["conditional", quantity], found.rows["sharp", quantity])]
    return widths[0] / widths[1]


def sharp_beyond_repaired(found: Audit, quantity: Literal["precision", "recall"]) -> int:
    """Count rows where the lower bound of `repaired` says something and that of `sharp` does not."""
    sharp, repaired = found.rows["sharp", quantity], found.rows["repaired", quantity]
    floor = sharp.floor(quantity) + 1e-9
    return int(((repaired.lower > floor) & (sharp.lower <= floor)).sum())


def markdown(found: Audit) -> str:
    """Write an audit down as Markdown tables."""
    words = {"precision": "E P(r_max)", "recall": "E R(r_min)", "f_outer": "E F(r_max)", "f_inner": "E F(r_min)"}
    head = "| edition | of | rows | violated, lower | upper | by at most | vacuous, lower | upper | gap to truth, lower | upper | width, N ≤ 8 | all N |"
    lines = [head, "|" + "---|" * 12]
    lines += [
        f"| {line.edition} | {words[line.quantity]} | {line.rows:,} | {line.violated_lower} | {line.violated_upper} | {line.worst:.3f} "
        f"| {line.vacuous_lower:.0%} | {line.vacuous_upper:.0%} | {line.gap_lower:.3f} | {line.gap_upper:.3f} | {line.width_small:.3f} "
        f"| {line.width:.3f} |"
        for line in table(found)
    ]
    rows = accuracy(found)
    if rows:
        lines += [
            "",
            "| predicted | rows | error, median | 90% | largest | distrusted by its flag | errors above .05 missed |",
            "|" + "---|" * 7,
        ]
        lines += [
            f"| {words[r.quantity]} | {r.rows:,} | {r.median:.4f} | {r.ninth_decile:.4f} | {r.worst:.3f} | {r.distrusted} | {r.missed} |"
            for r in rows
        ]
    return "\n".join(lines)
