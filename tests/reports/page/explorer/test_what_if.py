"""What the what-if panel holds: the bounds of the run, or nothing."""

from dataclasses import replace

import numpy as np
import pytest
from support.reports_tree import run_tree
from support.spine import Finished

from geostat.display.tree import with_display
from reports.page.explorer.packing import Pack, unpacked
from reports.page.explorer.what_if import what_if
from reports.run import Run


@pytest.fixture(scope="module")
def run(finished: Finished) -> Run:
    return Run.of(with_display(finished.tree))


def test_the_bounds_are_packed_as_the_run_has_them(run: Run):
    pack = Pack()
    told = what_if(run, pack)
    text = pack.base64()
    for score in ("precision", "recall"):
        for side in ("lower", "upper"):
            kept = unpacked(pack.directory, text, f"what if {score} {side}")
            stored = run.sensitivity[f"{score}_{side}"].values.clip(0, 1)
            np.testing.assert_allclose(kept, stored, atol=2e-5)
    for name in ("value", "moved"):
        kept = unpacked(pack.directory, text, f"what if {name}")
        np.testing.assert_allclose(kept, run.sensitivity[name].values, rtol=1e-5)
    assert told["n"] == run.sensitivity["n_envelope"].values.tolist()
    assert [key for key, _, _ in told["parameters"]] == ["beta", "c", "rho0", "lam", "d"]


def test_a_run_without_them_has_no_panel(run: Run):
    assert what_if(Run.of(run_tree()), Pack()) is None
    nothing = run.sensitivity.assign(of_head=run.sensitivity["of_head"] * 0 - 1)
    assert what_if(replace(run, sensitivity=nothing), Pack()) is None


def test_sizes_that_a_layer_does_not_see_are_left_out(run: Run):
    tokens = int(run.sensitivity["n_envelope"][3])
    capture = run.capture.assign_coords(tokens=run.capture["tokens"] * 0 + tokens)
    told = what_if(replace(run, capture=capture), Pack())
    assert told["n"] == run.sensitivity["n_envelope"].values[:3].tolist()
