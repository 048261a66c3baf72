"""Prediction by rank: the table names the size at which the mean over heads is predicted worst."""

from types import SimpleNamespace

import numpy as np
import xarray as xr
from support.reports_tree import cells, run_tree

from reports.run import Run
from reports.topics.amended import RUNGS, _prediction
from reports.topics.bounds import _without_bounds


def fitted() -> xr.Dataset:
    head, scores = ("layer", "head", "n_fitted"), np.arange(len(RUNGS)) / 10
    data = xr.Dataset(coords={"n_fitted": [2, 8, 32], "rung": list(RUNGS)}, attrs={"draws": 4})
    # of two heads; the errors at N = 2 cancel
    for name, errors in {"precision": [0.01, 0.03, -0.02], "recall": [0, 0.01, -0.0454]}.items():
        data[name] = (head, np.full((1, 2, 3), 0.5))
        data[f"{name}_fitted"] = data[name] + xr.DataArray(errors, dims="n_fitted")
        data[f"{name}_fitted"][0, :, 0] = [0.9, 0.1]
        for part in ("r2", "r2_documents", "mae", "bias", "band", "covered"):
            data[f"{name}_{part}"] = ("rung", scores)
    data["recall_fitted"][0, 1, 2] = np.nan
    return data


def test_the_largest_bias_is_that_of_the_mean_over_heads_at_one_size():
    table = _prediction(Run.of(run_tree()), fitted())
    largest = "in Precision at N = 8 (0.030 too high) and in Recall at N = 32 (0.045 too low)."
    assert largest in str(table.caption)
    assert str(table.caption).endswith(
        "Of the held-out values 0% to 50.0% lie within, by row and score."
    )
    without = fitted().drop_vars(
        [f"{s}_{part}" for s in ("precision", "recall") for part in ("band", "covered")]
    )
    older = _prediction(Run.of(run_tree()), without)
    assert str(older.caption).endswith(largest)
    assert [row.split(" | ")[0] for row in cells(table)] == list(RUNGS.values())
    assert cells(table)[-1].endswith(" | 0.50" * 8)


def test_cells_without_bounds_are_counted():
    cells = xr.DataArray(
        [[30, 30, 28], [30, 30, 27]],
        {"edition": ["printed", "sharp"], "gram": ["exponential", "offset", "rank"]},
    )
    run = SimpleNamespace(summary=xr.Dataset({"recall_cells": cells}))
    assert _without_bounds(run) == " Of 30 (head, N) cells fewer have bounds under rank: 28."
    run.summary["recall_cells"][:] = 30
    assert _without_bounds(run) == ""
