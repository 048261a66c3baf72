"""The approximation `predicted` judged by simulation: a sample of cells is drawn from Model G at
the very parameters predicted from.

Heads are spread evenly over all layers and take the sources in turn; each is simulated at a few
sizes, which rotate from head to head. Imports theory's `predicted` and `simulate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import xarray as xr

from geostat.datasets.progress import Progress
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.variable import Variable, variables
from geostat.statistics.arrays import FloatArray
from theory.audit.simulate import simulate
from theory.editions.sharp.many_heads import in_threads, workers
from theory.head.gram import LagGram

CHECKED_HEADS = 16
SIZES_EACH = 3
"""Sizes N at which each of these heads is simulated: 48 cells in all."""

DRAWS = 1000
"""Draws a head: P at small N has a standard error near 0.01."""

FAR = 0.02
"""Difference from the simulation from which a prediction counts as missed."""

COLUMNS = 11

_each = partial(Variable, dims=("check",))


def _records(statistic: str) -> tuple[Variable, ...]:
    """Records of one statistic's variables: of every cell, then over cells."""
    symbol, name = rf"\mathbb{{E}}{LETTERS[statistic]}", f"{statistic}_check"
    of_cells = {
        "predicted": "predicted",
        "simulated": "simulated",
        "simulated_se": "standard error of the simulation",
    }
    over_cells = {
        "median": "median distance of predicted from simulated",
        "ninety": "90th percentile of that distance",
        "worst": "largest of them",
        "noise": "median standard error of the simulation",
        "far": f"cells more than {FAR} apart",
        "surely_far": f"cells apart by more than {FAR} and two standard errors",
        "caught": "of these, cells that the prediction flags",
    }
    return (
        *(
            _each(f"{name}_{part}", f"{statistic} under Model G, {words}", "1", symbol)
            for part, words in of_cells.items()
        ),
        *(
            Variable(f"{name}_{part}", f"{statistic}: {words}")
            for part, words in over_cells.items()
        ),
    )


VARIABLES = (
    _each("check_source", "place along source of the ingredients of a simulated cell"),
    _each("check_layer", "place along layer of a simulated cell"),
    _each("check_head", "place along head of a simulated cell"),
    _each("check_n", "selected tokens N of a simulated cell"),
    _each("check_flagged", "the prediction of a simulated cell flags itself"),
    *(record for statistic in STATISTICS for record in _records(statistic)),
)
"""What the simulation leaves in /predictive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one prediction is made from: a source, and a head's visible tokens."""

    source: int
    layer: int
    head: int
    document: int | None
    """None for the fitted profile."""
    alpha: FloatArray
    norms: FloatArray
    gram: LagGram | FloatArray
    matrix: FloatArray
    """The Gram as a matrix."""
    sink: int | None
    dimension: int
    convention: Literal["paper", "followup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predicted P and R, (statistic, n), and 1 where the prediction does not flag itself, (n,)."""

    values: FloatArray
    reliable: FloatArray


def chosen_heads(layers: int, heads: int, sources: int) -> list[tuple[int, int, int]]:
    """Return (layer, head, source) of the heads to be simulated, evenly spread over the model,
    sources in turn.
    """
    spread = np.unique(
        ((np.arange(CHECKED_HEADS) + 0.5) * (layers * heads) / CHECKED_HEADS).astype(int)
    )
    return [(head // heads, head % heads, at % sources) for at, head in enumerate(spread.tolist())]


def chosen_sizes(at: int, known: Sequence[int]) -> list[int]:
    """Return which of the sizes the `at`-th head is simulated at: `SIZES_EACH` of them, evenly
    apart, rotating from head to head.
    """
    count = min(SIZES_EACH, len(known))
    return sorted({known[(at + step * len(known) // count) % len(known)] for step in range(count)})


def check(
    predictions: Sequence[tuple[Profile, Prediction]],
    grid: np.ndarray,
    *,
    seed: int,
    draws: int,
    progress: Progress | None = None,
) -> dict[str, xr.Variable]:
    """Simulate the chosen cells and lay predictions beside them: variables over `check`, one entry
    a cell, and their summary over cells.

    `predictions` are one a head, with what each was made from; `grid` holds sizes N. Profile k
    is simulated by `draws` heads with `seed` + k.
    """
    rows: list[tuple[float, ...]] = []
    together = workers()
    one_profile = partial(_simulated, grid=grid, seed=seed, draws=draws)
    for start in range(0, len(predictions), together):
        batch = list(enumerate(predictions))[start : start + together]
        rows += [row for result in in_threads(one_profile, batch) for row in result]
        if progress is not None:
            progress((start + len(batch)) / len(predictions))
    return _variables(np.array(rows, dtype=np.float64).reshape(-1, COLUMNS))


def _simulated(
    item: tuple[int, tuple[Profile, Prediction]], *, grid: np.ndarray, seed: int, draws: int
) -> list[tuple[float, ...]]:
    """Simulate one profile at its sizes: source, layer, head, N, flagged, predicted P and R,
    simulated P with its error, and R with its.
    """
    at, (one, predicted) = item
    known = [
        k
        for k, n in enumerate(grid.tolist())
        if n < len(one.alpha) and np.isfinite(predicted.values[:, k]).all()
    ]
    if not known:
        return []
    sizes = chosen_sizes(at, known)
    result = simulate(
        one.alpha,
        one.norms,
        one.gram,
        one.dimension,
        grid[sizes],
        draws=draws,
        seed=seed + at,
        sink=one.sink,
        convention=one.convention,
    )
    simulated = [getattr(result, f"{name}{part}") for name in STATISTICS for part in ("", "_se")]
    return [
        (
            one.source,
            one.layer,
            one.head,
            grid[n],
            predicted.reliable[n] < 1,
            *predicted.values[:, n],
            *(each[k] for each in simulated),
        )
        for k, n in enumerate(sizes)
    ]


def _variables(rows: FloatArray) -> dict[str, xr.Variable]:
    numbers: dict[str, np.ndarray] = {
        f"check_{name}": rows[:, k].astype(np.int64)
        for k, name in enumerate(("source", "layer", "head", "n"))
    }
    flagged = numbers["check_flagged"] = rows[:, 4] > 0
    over_cells: dict[str, Callable[[FloatArray], np.floating]] = {
        "median": np.median,
        "ninety": partial(np.quantile, q=0.9),
        "worst": np.max,
    }
    for at, name in enumerate(STATISTICS):
        guess, truth, error = rows[:, 5 + at], rows[:, 7 + 2 * at], rows[:, 8 + 2 * at]
        away = np.abs(guess - truth)
        surely = away - 2 * error > FAR
        parts = {
            part: function(away) if len(away) else np.nan for part, function in over_cells.items()
        } | {
            "predicted": guess,
            "simulated": truth,
            "simulated_se": error,
            "noise": np.median(error) if len(away) else np.nan,
            "far": (away > FAR).sum(),
            "surely_far": surely.sum(),
            "caught": (surely & flagged).sum(),
        }
        numbers |= {f"{name}_check_{part}": np.asarray(values) for part, values in parts.items()}
    return variables(VARIABLES, numbers)
