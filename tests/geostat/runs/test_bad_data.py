"""Data that no assumption fits: all stages pass, and missing numbers print as n/a."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.spine import run_tree

import geostat as gs
from geostat.datasets.variable import reasons

Spoil = Callable[[xr.Dataset], None]
slow = pytest.mark.slow


def confronted(run: xr.DataTree) -> tuple[xr.DataTree, xr.DataTree]:
    fits = gs.fit(run)
    return fits, gs.confront(run, fits, points=3)


def assert_missing_values_are_printed(page: Path) -> None:
    """Figures and scripts are left out."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<(svg|script|style).*?</\1>", "", text, flags=re.DOTALL)
    assert "n/a" in text
    assert re.search(r"\b(nan|inf)\b", text, flags=re.IGNORECASE) is None


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    path = tmp_path_factory.mktemp("good") / "run.zarr"
    return run_tree(path, documents=2, length=24, null=False)


def spoilt(run: xr.DataTree, spoil: Spoil) -> xr.DataTree:
    """Return the run with some captured values replaced."""
    tree = run.copy(deep=True)
    capture = tree["capture"].to_dataset()
    spoil(capture)
    return tree.assign({"capture": xr.DataTree(capture)})


def lost_head(data: xr.Dataset) -> None:
    data["attention_weight"][{"layer": 0, "head": 0}] = np.nan


def lost_kv_head(data: xr.Dataset) -> None:
    for variable in data.data_vars.values():
        for dim in {"head", "kv_head"} & set(variable.dims):
            if variable.dtype.kind == "f":
                variable[{"layer": 0, dim: 0}] = np.nan


def even_weights(data: xr.Dataset) -> None:
    data["attention_weight"][:] = 1 / data.sizes["position"]


def constant_norms(data: xr.Dataset) -> None:
    data["value_norm"][:] = 1.0


def zero_values(data: xr.Dataset) -> None:
    data["value_norm"][:] = 0.0


def constant_cosines(data: xr.Dataset) -> None:
    data["cosine_mean"][:] = 0.3
    data["cosine_negative_fraction"][:] = 0.0


@pytest.mark.parametrize(
    "spoil",
    [
        lost_head,
        *(
            pytest.param(spoil, marks=slow)
            for spoil in (lost_kv_head, even_weights, constant_norms, zero_values, constant_cosines)
        ),
    ],
)
def test_runs_with_missing_values_pass_all_stages(good: xr.DataTree, spoil: Spoil):
    fits, env = confronted(spoilt(good, spoil))
    bounds = env["envelope"]["precision_lower"].sel(edition="sharp", gram="offset", layer=0).values
    if spoil is lost_head:
        assert np.isnan(bounds[0]).all()
        assert np.isfinite(bounds[1]).all()
        assert np.isnan(fits["weights"]["p_base"][..., 0, 0]).all()
        assert (fits["weights"]["p_base_reason"][..., 0, 0] != 0).all()
        assert np.isfinite(fits["norms"]["C"][0, 0])
    if spoil is lost_kv_head:
        assert np.isnan(bounds[:2]).all()
        assert reasons(fits["similarity"]["flags"].sel(gram="exponential")[0, 0])
        assert reasons(fits["norms"]["flags"][0, 0])


@slow
@pytest.mark.parametrize("spoil", [lost_head, lost_kv_head, zero_values])
def test_the_page_prints_missing_values(good: xr.DataTree, tmp_path: Path, spoil: Spoil):
    run = spoilt(good, spoil)
    assert_missing_values_are_printed(gs.report(run, *confronted(run), out=tmp_path))


@slow
@pytest.mark.parametrize(
    "options",
    [
        {"documents": 1},
        {"length": 5},
        {"length": 5, "documents": 1},
        {"length": 3},
        {"family": "mistral"},
    ],
    ids=["one document", "T = 5", "one document of 5", "T = 3", "no sink visible"],
)
@pytest.mark.usefixtures("one_figure")
def test_small_runs_pass_all_stages(tmp_path: Path, options: dict[str, Any]):
    run = run_tree(tmp_path / "run.zarr", null=False, **{"documents": 2, "length": 30} | options)
    sink, single = "family" not in options, "documents" in options
    assert run["capture"]["sink_visible"].values.all() == sink
    fits, env = confronted(run)
    if single:
        assert np.isnan(fits["norms"]["C_se"]).all()
        assert set(np.unique(env["verdicts"]["answer_kv_head"].values)) <= {0, -2}  # no verdicts
    if not sink:
        assert np.isnan(fits["norms"]["lam"]).all()
    if single and "length" in options:
        assert_missing_values_are_printed(gs.report(run, fits, env, out=tmp_path / "report"))
