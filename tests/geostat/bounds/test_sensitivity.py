import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from support.spine import Finished

from geostat.bounds.sensitivity import CHANGED, STEPS, sensitivity
from theory.evaluate.envelopes import envelope as bounds_of
from theory.head.gram import offset_exponential
from theory.head.projection import project

LAYER = 1


@pytest.fixture(scope="module")
def result(finished: Finished) -> xr.Dataset:
    return finished.tree["sensitivity"].to_dataset()


@pytest.fixture(scope="module")
def head(result: xr.Dataset) -> int:
    return int(result["of_head"][LAYER])


@pytest.mark.parametrize("parameter", list(CHANGED))
@pytest.mark.parametrize("step", [0, 1, -2])
def test_a_step_evaluates_the_theory(finished, result, head, parameter, step):
    """At the changed parameter and the first document's weights."""
    capture = finished.tree["capture"].to_dataset()
    kv_head = {"layer": LAYER, "kv_head": int(capture["kv_head_of_head"][head])}
    norm = finished.tree["norms"].to_dataset().isel(kv_head)
    fit = finished.tree["similarity"].to_dataset().sel(gram="offset").isel(kv_head)
    selected = result.isel(layer=LAYER).sel(parameter=parameter, step=step)
    fitted = {"beta": fit["beta"], "c": fit["offset"], "rho0": fit["rho0"], "lam": norm["lam"]}
    values = fitted | {"d": capture.attrs["dimension"], parameter: selected["value"]}
    beta, c, rho0, lam, d = (float(value) for value in values.values())
    tokens = capture.sizes["position"]
    lengths = np.r_[lam, np.ones(tokens - 1)] * float(norm["C"])
    gram = project(offset_exponential(beta, c, rho0, tokens), tokens).gram
    alpha = capture["attention_weight"].values[0, LAYER, head].astype(float)
    n = result["n_envelope"].values
    expected = bounds_of(alpha, lengths, gram, int(d), n, edition="sharp")
    for name in ("precision_lower", "precision_upper", "recall_lower", "recall_upper"):
        assert_allclose(selected[name], getattr(expected, name), atol=2e-7, err_msg=name)


def test_steps_double_scales_and_add_to_cosines(result):
    value = result["value"].isel(layer=LAYER)
    for name in ("beta", "lam"):
        scale = value.sel(parameter=name) / value.sel(parameter=name, step=0)
        assert_allclose(scale, 2.0 ** np.array(STEPS))
    for name, lowest in (("rho0", -0.95), ("c", 0.0)):
        values = value.sel(parameter=name)
        expected = np.clip(float(values.sel(step=0)) + 0.1 * np.array(STEPS), lowest, 0.95)
        assert_allclose(values.sel(step=[-2, -1, 1, 2]), np.delete(expected, 2), atol=1e-6)
    assert (value.sel(parameter="d") % 1 == 0).all()


def test_the_representative_head_has_median_recall(finished, result, head):
    recall = finished.tree["capture"]["recall"].isel(layer=LAYER)
    at_median = recall.sel(n=result.attrs["median_at"]).mean("document").values
    distance = np.abs(at_median - np.median(at_median))
    assert distance[head] == distance.min()
    first = recall.isel(document=0, head=head).sel(n=result["n_envelope"].values)
    assert_allclose(result["recall"].isel(layer=LAYER), first, rtol=1e-6)


def test_a_layer_without_fits_has_no_bounds(finished: Finished):
    groups = finished.groups()
    groups["/similarity"]["beta"].loc[{"gram": "offset", "layer": LAYER}] = np.nan
    result = sensitivity(xr.DataTree.from_dict(groups))
    assert int(result["of_head"][LAYER]) == -1
    assert not np.isfinite(result["recall_lower"].isel(layer=LAYER)).any()
    assert np.isfinite(result["recall_lower"].isel(layer=0)).all()


def test_sink_parameters_are_nan_where_the_sink_is_not_visible(finished: Finished):
    groups = finished.groups()
    groups["/capture"]["sink_visible"][LAYER] = False
    value = sensitivity(xr.DataTree.from_dict(groups))["value"].isel(layer=LAYER)
    assert not np.isfinite(value.sel(parameter=["rho0", "lam"])).any()
    assert np.isfinite(value.sel(parameter="beta")).all()
