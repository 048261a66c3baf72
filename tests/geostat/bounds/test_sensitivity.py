"""Sensitivity of the sharp bounds: each is the theory's at the parameters it names."""

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from geostat.bounds.sensitivity import CHANGED, STEPS, sensitivity
from theory.evaluate.envelopes import envelope as bounds_of
from theory.head.projection import project
from theory.head.similarity_decay import offset_exponential

LAYER = 1


@pytest.fixture(scope="module")
def found(finished: Finished) -> xr.Dataset:
    return finished.tree["sensitivity"].to_dataset()


def by_hand(tree: xr.DataTree, head: int, **changed: float) -> dict[str, np.ndarray]:
    """The sharp bounds of one head at the first document's weights, with parameters changed."""
    capture, norms, similarity = (
        tree[name].to_dataset() for name in ("capture", "norms", "similarity")
    )
    at = {"layer": LAYER, "kv_head": int(capture["kv_head_of_head"][head])}
    fit, norm = similarity.sel(gram="offset").isel(at), norms.isel(at)
    own = {
        "beta": float(fit["beta"]),
        "c": float(fit["offset"]),
        "rho0": float(fit["rho0"]),
        "lam": float(norm["lam"]),
        "d": float(capture.attrs["dimension"]),
    } | changed
    tokens = capture.sizes["position"]
    lengths = np.r_[own["lam"], np.ones(tokens - 1)] * float(norm["C"])
    gram = project(offset_exponential(own["beta"], own["c"], own["rho0"], tokens), tokens).gram
    alpha = capture["attention_weight"].values[0, LAYER, head].astype(float)
    n = tree["sensitivity"]["n_envelope"].values
    result = bounds_of(alpha, lengths, gram, int(own["d"]), n, edition="sharp")
    return {
        name: np.asarray(getattr(result, name))
        for name in ("precision_lower", "precision_upper", "recall_lower", "recall_upper")
    }


@pytest.mark.parametrize("parameter", list(CHANGED))
@pytest.mark.parametrize("step", [0, 1, -2])
def test_a_step_evaluates_the_theory_at_the_parameter_it_names(
    finished: Finished, found: xr.Dataset, parameter: str, step: int
):
    at = found.isel(layer=LAYER).sel(parameter=parameter, step=step)
    head = int(found["of_head"][LAYER])
    for name, expected in by_hand(finished.tree, head, **{parameter: float(at["value"])}).items():
        np.testing.assert_allclose(at[name].values, expected, atol=2e-7)


def test_steps_double_what_is_a_scale_and_add_to_what_is_a_cosine(found: xr.Dataset):
    value = found["value"].isel(layer=LAYER)
    for name in ("beta", "lam"):
        np.testing.assert_allclose(
            value.sel(parameter=name) / value.sel(parameter=name, step=0), 2.0 ** np.array(STEPS)
        )
    for name, least in (("rho0", -0.95), ("c", 0.0)):
        own = value.sel(parameter=name)
        wanted = np.clip(float(own.sel(step=0)) + 0.1 * np.array(STEPS), least, 0.95)
        np.testing.assert_allclose(own.sel(step=[-2, -1, 1, 2]), np.delete(wanted, 2), atol=1e-6)
    assert (value.sel(parameter="d") % 1 == 0).all()


def test_the_head_is_that_of_median_recall(finished: Finished, found: xr.Dataset):
    capture = finished.tree["capture"].to_dataset()
    recall = capture["recall"].sel(n=found.attrs["median_at"]).isel(layer=LAYER).mean("document")
    distance = np.abs(recall.values - np.median(recall.values))
    assert distance[int(found["of_head"][LAYER])] == distance.min()
    first = capture["recall"].isel(document=0, layer=LAYER, head=int(found["of_head"][LAYER]))
    np.testing.assert_allclose(
        found["recall"].isel(layer=LAYER), first.sel(n=found["n_envelope"].values), rtol=1e-6
    )


def test_a_layer_without_fits_has_no_bounds(finished: Finished):
    similarity = finished.tree["similarity"].to_dataset().copy(deep=True)
    similarity["beta"].loc[{"gram": "offset", "layer": similarity["layer"].values[LAYER]}] = np.nan
    found = sensitivity(finished.tree.assign({"similarity": xr.DataTree(similarity)}))
    assert int(found["of_head"][LAYER]) == -1
    assert not np.isfinite(found["recall_lower"].isel(layer=LAYER)).any()
    assert np.isfinite(found["recall_lower"].isel(layer=0)).all()


def test_what_is_of_the_sink_is_unknown_where_it_is_not_seen(finished: Finished):
    capture = finished.tree["capture"].to_dataset().copy(deep=True)
    capture["sink_visible"][LAYER] = False
    found = sensitivity(finished.tree.assign({"capture": xr.DataTree(capture)}))
    of_sink = found["value"].isel(layer=LAYER).sel(parameter=["rho0", "lam"])
    assert not np.isfinite(of_sink).any()
    assert np.isfinite(found["value"].isel(layer=LAYER).sel(parameter="beta")).all()
