"""Check of the edition `predicted` by simulation: a sample of cells is drawn from Model G.

The parameters are those of the prediction. Heads are spread evenly over all layers and alternate
between the sources; each is simulated at a few sizes, which rotate from head to head. Imports
theory's `predicted` and `simulate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from geostat.datasets.overlap import Progress
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.variable import variables
from geostat.statistics.arrays import FloatArray
from theory.editions.sharp.sharp_law import in_threads, workers
from theory.evaluate.simulate import simulate
from theory.head.gram import LagGram

CHECKED_HEADS = 16
SIZES_EACH = 3
"""Number of sizes N per checked head: 48 cells in all."""

DRAWS = 1000
"""Draws per head: P at small N has a standard error near 0.01."""

FAR = 0.02
"""Difference from the simulation above which a prediction is wrong."""

_of_cell = partial(Quantity, dims=("check",))
_CELLS = {
    "predicted": "predicted",
    "simulated": "simulated",
    "simulated_se": "standard error of the simulation",
}
_OVER_CELLS = {
    "median": "median absolute difference between prediction and simulation",
    "ninety": "90th percentile of the absolute difference",
    "worst": "largest absolute difference",
    "noise": "median standard error of the simulation",
    "far": f"number of cells with a difference above {FAR}",
    "surely_far": f"number of cells with a difference above {FAR} plus two standard errors",
    "caught": "number of those cells that the prediction flags as unreliable",
}


def _records(statistic: str) -> tuple[Quantity, ...]:
    """Return the records of one statistic: of every cell, then over cells."""
    symbol, name = rf"\mathbb{{E}}{LETTERS[statistic]}", f"{statistic}_check"
    return (
        *(
            _of_cell(f"{name}_{part}", f"{statistic} under Model G, {words}", "1", symbol)
            for part, words in _CELLS.items()
        ),
        *(
            Quantity(f"{name}_{part}", f"{statistic}: {words}")
            for part, words in _OVER_CELLS.items()
        ),
    )


VARIABLES = (
    _of_cell("check_source", "index along source of a simulated cell"),
    _of_cell("check_layer", "index along layer of a simulated cell"),
    _of_cell("check_head", "index along head of a simulated cell"),
    _of_cell("check_n", "selected tokens N of a simulated cell"),
    _of_cell("check_flagged", "the prediction of a simulated cell is flagged as unreliable"),
    *(record for statistic in STATISTICS for record in _records(statistic)),
)
"""Variables of the simulation in /predictive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Inputs of one prediction: a source, and a head's visible tokens."""

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
    """Predicted P and R, (statistic, n), and 1 where the prediction is reliable, (n,)."""

    values: FloatArray
    reliable: FloatArray


def chosen_heads(layers: int, heads: int, sources: int) -> list[tuple[int, int, int]]:
    """Return (layer, head, source) of the heads to simulate.

    Heads are evenly spaced over the model and alternate between the sources.
    """
    spread = np.unique(
        ((np.arange(CHECKED_HEADS) + 0.5) * (layers * heads) / CHECKED_HEADS).astype(int)
    )
    return [
        (head // heads, head % heads, index % sources) for index, head in enumerate(spread.tolist())
    ]


def chosen_sizes(index: int, known: Sequence[int]) -> list[int]:
    """Return the indices of the sizes at which a head is simulated.

    There are `SIZES_EACH`, evenly spaced, rotating with the head's `index`.
    """
    count = min(SIZES_EACH, len(known))
    return sorted(
        {known[(index + step * len(known) // count) % len(known)] for step in range(count)}
    )


def check(
    predictions: Sequence[tuple[Profile, Prediction]],
    grid: np.ndarray,
    *,
    seed: int,
    draws: int,
    progress: Progress | None = None,
) -> dict[str, xr.Variable]:
    """Simulate the chosen cells and compare them with predictions.

    Args:
        predictions: one per head, with its inputs.
        seed: profile k is simulated with `seed` + k.

    Returns:
        Variables over `check`, one entry per cell, and their summary over cells.
    """
    rows: list[dict[str, Any]] = []
    batch_size = workers()
    simulate_profile = partial(_simulated, grid=grid, seed=seed, draws=draws)
    for start in range(0, len(predictions), batch_size):
        batch = list(enumerate(predictions))[start : start + batch_size]
        rows += [row for result in in_threads(simulate_profile, batch) for row in result]
        if progress is not None:
            progress((start + len(batch)) / len(predictions))
    return _variables(rows)


def _simulated(
    item: tuple[int, tuple[Profile, Prediction]], *, grid: np.ndarray, seed: int, draws: int
) -> list[dict[str, Any]]:
    """Simulate one profile at its sizes and return a row per size, by names of VARIABLES."""
    index, (profile, predicted) = item
    known_sizes = [
        size_index
        for size_index, n in enumerate(grid.tolist())
        if n < len(profile.alpha) and np.isfinite(predicted.values[:, size_index]).all()
    ]
    if not known_sizes:
        return []
    sizes = chosen_sizes(index, known_sizes)
    result = simulate(
        *(profile.alpha, profile.norms, profile.gram, profile.dimension, grid[sizes]),
        draws=draws,
        seed=seed + index,
        sink=profile.sink,
        convention=profile.convention,
    )
    rows = []
    for row, n in enumerate(sizes):
        cell: dict[str, Any] = {
            "check_source": profile.source,
            "check_layer": profile.layer,
            "check_head": profile.head,
            "check_n": grid[n],
            "check_flagged": predicted.reliable[n] < 1,
        }
        for name, value in zip(STATISTICS, predicted.values[:, n], strict=True):
            cell[f"{name}_check_predicted"] = value
            for part in ("", "_se"):
                cell[f"{name}_check_simulated{part}"] = getattr(result, f"{name}{part}")[row]
        rows.append(cell)
    return rows


def _variables(rows: Sequence[Mapping[str, Any]]) -> dict[str, xr.Variable]:
    """Return the variables of simulated rows, and their summary over cells."""
    dtypes: dict[str, Any] = {"check_flagged": bool} | dict.fromkeys(
        ("check_source", "check_layer", "check_head", "check_n"), np.int64
    )
    numbers: dict[str, np.ndarray] = {
        name: np.array([row[name] for row in rows], dtype=dtypes.get(name, np.float64))
        for name in (record.name for record in VARIABLES if record.dims)
    }
    flagged = numbers["check_flagged"]
    for statistic in STATISTICS:
        predicted, simulated, error = (
            numbers[f"{statistic}_check_{part}"]
            for part in ("predicted", "simulated", "simulated_se")
        )
        difference = np.abs(predicted - simulated)
        clearly_wrong = difference - 2 * error > FAR
        parts = dict.fromkeys(("median", "ninety", "worst", "noise"), np.float64(np.nan))
        if rows:
            parts = {
                "median": np.median(difference),
                "ninety": np.quantile(difference, 0.9),
                "worst": difference.max(),
                "noise": np.median(error),
            }
        counts = {
            "far": difference > FAR,
            "surely_far": clearly_wrong,
            "caught": clearly_wrong & flagged,
        }
        parts |= {part: cells.sum() for part, cells in counts.items()}
        numbers |= {f"{statistic}_check_{part}": np.asarray(value) for part, value in parts.items()}
    return variables(VARIABLES, numbers)
