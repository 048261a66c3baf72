"""Data that no assumption can be fitted to: everything is carried to the page, what has no
number is flagged there and prints as n/a.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.spine import run_tree

import geostat as gs
from geostat.datasets.flags import reasons

Spoil = Callable[[xr.Dataset], None]


def confronted(run: xr.DataTree) -> tuple[xr.DataTree, xr.DataTree]:
    fits = gs.fit(run)
    return fits, gs.confront(run, fits, points=3)


def read(page: Path) -> str:
    """What a page says in words: no drawings, no scripts."""
    return re.sub(
        r"<(svg|script|style).*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
    )


def holds_no_bare_nan(text: str) -> bool:
    return re.search(r"\b(nan|inf)\b", text, flags=re.IGNORECASE) is None


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    return run_tree(
        tmp_path_factory.mktemp("good") / "run.zarr", documents=2, length=24, null=False
    )


def spoilt(run: xr.DataTree, spoil: Spoil) -> xr.DataTree:
    """The run with some of what was captured spoilt, as no capture of ours would leave it."""
    groups = {f"/{name}": run[name].to_dataset().copy(deep=True) for name in run.children}
    spoil(groups["/capture"])
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = run.attrs
    return tree


def lost_head(data: xr.Dataset) -> None:
    data["attention_weight"][{"layer": 0, "head": 0}] = np.nan


def lost_value_head(data: xr.Dataset) -> None:
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
        pytest.param(lost_value_head, marks=pytest.mark.slow),
        pytest.param(even_weights, marks=pytest.mark.slow),
        pytest.param(constant_norms, marks=pytest.mark.slow),
        pytest.param(zero_values, marks=pytest.mark.slow),
        pytest.param(constant_cosines, marks=pytest.mark.slow),
    ],
)
def test_spoilt_data_are_carried_through(good: xr.DataTree, spoil: Spoil):
    run = spoilt(good, spoil)
    fits, env = confronted(run)
    bounds = env["envelope"]["precision_lower"].sel(edition="sharp", gram="offset", layer=0).values
    if spoil is lost_head:
        assert np.isnan(bounds[0]).all()
        assert np.isfinite(bounds[1]).all()
        assert np.isnan(fits["weights"]["p_base"][..., 0, 0]).all()
        assert (fits["weights"]["p_base_reason"][..., 0, 0] != 0).all()
        assert np.isfinite(fits["norms"]["C"][0, 0])
    if spoil is lost_value_head:
        assert np.isnan(bounds[:2]).all()
        assert reasons(fits["similarity"]["flags"].sel(gram="exponential")[0, 0])
        assert reasons(fits["norms"]["flags"][0, 0])


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [lost_head, lost_value_head, zero_values])
def test_the_page_of_spoilt_data_prints_what_is_missing(
    good: xr.DataTree, tmp_path: Path, spoil: Spoil
):
    run = spoilt(good, spoil)
    text = read(gs.report(run, *confronted(run), out=tmp_path))
    assert "n/a" in text
    assert holds_no_bare_nan(text)


@pytest.mark.parametrize(
    ("asked", "sink"),
    [
        pytest.param({"documents": 1}, True, marks=pytest.mark.slow),
        pytest.param({"length": 5}, True, marks=pytest.mark.slow),
        pytest.param({"length": 5, "documents": 1}, True, marks=pytest.mark.slow),
        pytest.param({"length": 3}, True, marks=pytest.mark.slow),
        pytest.param({"family": "mistral"}, False, marks=pytest.mark.slow),
    ],
    ids=["one document", "T = 5", "one document of 5", "T = 3", "no sink visible"],
)
@pytest.mark.usefixtures("one_figure")
def test_little_data_are_carried_through(tmp_path: Path, asked: dict, sink: bool):
    run = run_tree(tmp_path / "run.zarr", null=False, **{"documents": 2, "length": 30} | asked)
    assert run["capture"]["sink_visible"].values.all() == sink
    fits, env = confronted(run)
    if run["capture"].sizes["document"] == 1:
        assert np.isnan(fits["norms"]["C_se"]).all()
        answers = env["verdicts"]["answer_kv_head"].values
        assert set(np.unique(answers)) <= {0, -2}  # one document settles nothing
    if not sink:
        assert np.isnan(fits["norms"]["lam"]).all()
    if asked.get("documents") == 1 and "length" in asked:
        text = read(gs.report(run, fits, env, out=tmp_path / "report"))
        assert "n/a" in text
        assert holds_no_bare_nan(text)
