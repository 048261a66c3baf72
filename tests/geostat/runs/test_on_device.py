"""A whole run measured by torch where the model lives, here on the CPU: captured, fitted,
confronted, reported.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from support.families import tiny, tokens
from support.spine import LENGTH, geostat, refused

import geostat as gs

COUNTED = {"precision", "recall", "f_outer", "f_inner", "precision_sd", "recall_sd"}
COUNTED |= {"precision_by_query", "recall_by_query"}
IDS = [row.numpy() for row in tokens(2, LENGTH)]


@pytest.mark.slow
def test_a_whole_run_is_measured_fitted_confronted_and_reported(tmp_path: Path):
    asked = {"length": LENGTH, "n": "1,2,5-7,20", "queries": "last:2", "measure": "device"}
    run = gs.capture(tiny("llama"), documents=IDS, out=tmp_path / "run", **asked)
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
def test_models_in_half_precision_have_the_numbers_of_the_loops(tmp_path: Path, kind: torch.dtype):
    model = tiny("llama", scale=2.0).to(kind)
    asked = {"length": LENGTH, "queries": "last:2", "null": False}
    one, other = (
        gs.capture(model, documents=IDS[:1], out=tmp_path / how, measure=how, **asked)
        for how in ("cpu", "device")
    )
    for group in ("capture", "queries", "sinks", "measured_envelope"):
        for name, expected in one[group].data_vars.items():
            near = np.isclose(
                other[group][name], expected, rtol=1e-5, atol=1e-5, equal_nan=True
            ).mean()
            # A token whose distance equals a radius to within rounding may count or not.
            assert near == 1 or (name in COUNTED and near > 0.995), (group, name, near)


def test_another_word_is_refused(tmp_path: Path, model_folder: Path):
    said = geostat("capture", model_folder, "--measure", "gpu", "--out", tmp_path)
    assert "--measure gpu:" in refused(said)
    assert "auto, cpu, device" in refused(said)
