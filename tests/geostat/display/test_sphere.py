"""Points on the sphere agree with value vectors; named heads show their components."""

import numpy as np
import pytest
import xarray as xr
from support.experiments import with_typical_heads

from geostat.display.pictures import sphere

TOKENS, DIMENSION = 9, 5
KV_HEADS = ("layer", "kv_head")


@pytest.fixture
def values() -> np.ndarray:
    """Return value vectors of 4 KV heads in 2 layers."""
    return np.random.default_rng(5).normal(size=(2, 2, TOKENS, DIMENSION)) + 0.5


@pytest.fixture
def groups(values: np.ndarray) -> dict[str, xr.Dataset]:
    unit = values / np.linalg.norm(values, axis=-1, keepdims=True)
    to_sink, to_last = (np.einsum("lktd,lkd->lkt", unit, unit[:, :, index]) for index in (0, -1))
    to_sink[..., 0] = np.nan
    dims = ("document", *KV_HEADS, "position")
    capture = xr.Dataset(
        {"sink_cosine": (dims, to_sink[None]), "cosine_to_last_value": (dims, to_last[None])},
        coords={"layer": [3, 4], "kv_head": [0, 1], "sink_visible": ("layer", [True, True])},
    )
    rho0 = xr.Dataset({"rho0": (KV_HEADS, np.array([[0.3, 0.1], [np.nan, 0.7]]))})
    return {"capture": capture, "similarity": rho0}


def test_points_are_unit_vectors_in_the_basis_of_last_value_and_sink(groups, values):
    data = sphere(groups)
    assert data["name"].values.tolist() == ["L3, KV head 1", "L3, KV head 0", "L4, KV head 1"]
    for panel, place in enumerate([(0, 1), (0, 0), (1, 1)]):
        unit = values[place] / np.linalg.norm(values[place], axis=1, keepdims=True)
        first = unit[-1]
        second = unit[0] - (unit[0] @ first) * first
        second /= np.linalg.norm(second)
        plane = np.stack([unit @ first, unit @ second], axis=1)
        points = data["point"].values[panel]
        np.testing.assert_allclose(points[:, :2], plane, atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1)
        assert (points[:, 2] >= 0).all()
        held = float(data["held"][panel])
        assert held == pytest.approx((plane[1:-1] ** 2).sum(axis=1).mean())


def test_named_heads_show_their_components(groups):
    components = np.random.default_rng(6).normal(size=(1, 2, TOKENS, 3))
    components[0, 1] = np.nan  # a layer of another part
    capture = groups["capture"].assign(
        principal_components=(("document", "named_head", "position", "component"), components),
        attention_weight=(("document", "layer", "head", "position"), np.ones((1, 2, 1, TOKENS))),
        value_norm=(("document", *KV_HEADS, "position"), np.full((1, 2, 2, TOKENS), 2.0)),
    )
    capture = capture.assign_coords(
        named_head=["L4H0", "L9H0"], head=[0], kv_head_of_head=("head", [1])
    )
    data = sphere({**groups, "capture": capture})
    assert (data.attrs["of"], data["name"].values.tolist()) == ("components", ["L4H0"])
    long = np.linalg.norm(components[0, 0], axis=1, keepdims=True)
    np.testing.assert_allclose(data["point"].values[0], components[0, 0] / long)
    assert float(data["held"][0]) == pytest.approx((long**2).sum() / (4 * TOKENS))


def test_there_are_no_points_if_a_layer_does_not_see_the_sink(groups):
    hidden = groups["capture"].assign_coords(sink_visible=("layer", [True, False]))
    assert sphere({**groups, "capture": hidden}) is None
    assert sphere({**groups, "capture": groups["capture"].drop_vars("sink_cosine")}) is None


@pytest.mark.parametrize(("regime", "layer", "head"), [("retriever", 1, 2), ("reset", 0, 3)])
def test_contributions_are_ordered_by_weight(regime: str, layer: int, head: int):
    tree = with_typical_heads()
    data, capture = (tree[name].to_dataset() for name in ("contributions", "capture"))
    assert np.isnan(data.sel(regime="mixer")["contribution"]).all()
    for document in range(capture.sizes["document"]):
        selected = capture.isel(document=document, layer=layer, kv_head=head // 2)
        weight = selected["attention_weight"].values[head].astype(np.float64)
        size = weight * selected["value_norm"].values
        order = np.argsort(-weight, kind="stable")
        row = data.sel(regime=regime).isel(document=document)
        drawn = order[row["rank"].values - 1]
        np.testing.assert_allclose(row["contribution"], size[drawn], rtol=1e-6)
        np.testing.assert_array_equal(row["cosine"], selected["cosine_to_last_value"][drawn])
        assert row["last_rank"] == np.flatnonzero(order == weight.size - 1)[0] + 1
        assert row["sink_contribution"] == pytest.approx(size[0])
        assert row["sink_place"] == 1 + sum(size > size[0])
