"""A whole run measured by torch on the model's device, here the CPU."""

from pathlib import Path

import numpy as np
import pytest
import torch
from support.families import tiny, tokens
from support.spine import LENGTH

import geostat as gs

COUNTED = {"precision", "recall", "f_outer", "f_inner", "precision_sd", "recall_sd"}
COUNTED |= {"precision_by_query", "recall_by_query"}
IDS = [row.numpy() for row in tokens(2, LENGTH)]


@pytest.mark.slow
def test_a_whole_run_is_measured_fitted_confronted_and_reported(tmp_path: Path):
    kwargs = {"length": LENGTH, "n": "1,2,5-7,20", "queries": "last:2", "measure": "device"}
    run = gs.capture(tiny("llama"), documents=IDS, out=tmp_path / "run", **kwargs)
    assert run.attrs["measure"] == "device"
    fits = gs.fit(run)
    confronted = gs.confront(run, fits, points=3, swap=False)
    page = gs.report(run, fits, confronted, out=tmp_path / "page")
    assert "LlamaModel" in page.read_text(encoding="utf-8")
    assert np.isfinite(run["null"]["precision"].values).all()
    assert np.isfinite(run["measured_envelope"]["precision_lower"].values).any()


@pytest.mark.parametrize(
    "kind", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)]
)
def test_half_precision_models_agree_with_the_compiled_loops(tmp_path: Path, kind: torch.dtype):
    model = tiny("llama", scale=2.0).to(kind)
    kwargs = {"documents": IDS[:1], "length": LENGTH, "queries": "last:2", "null": False}
    one, other = (
        gs.capture(model, out=tmp_path / how, measure=how, **kwargs) for how in ("cpu", "device")
    )
    for group in ("capture", "queries", "sinks", "measured_envelope"):
        for name, expected in one[group].data_vars.items():
            close = np.isclose(other[group][name], expected, rtol=1e-5, atol=1e-5, equal_nan=True)
            # A token whose distance equals a radius to within rounding may count or not.
            share = close.mean()
            assert share == 1 or (name in COUNTED and share > 0.995), (group, name, share)
