"""Points on the sphere: they are the value vectors' own, seen along two of them; named heads show
their components.
"""

import numpy as np
import pytest
import xarray as xr
from support.experiments import with_typical_heads

from geostat.display.sphere import sphere

TOKENS, DIMENSION = 9, 5
KV_HEADS = ("layer", "kv_head")


@pytest.fixture
def values():
    """Value vectors of 4 value heads over 2 layers."""
    return np.random.default_rng(5).normal(size=(2, 2, TOKENS, DIMENSION)) + 0.5


@pytest.fixture
def groups(values):
    unit = values / np.linalg.norm(values, axis=-1, keepdims=True)
    to_sink, to_last = (np.einsum("lktd,lkd->lkt", unit, unit[:, :, at]) for at in (0, -1))
    to_sink[..., 0] = np.nan
    dims = ("document", *KV_HEADS, "position")
    capture = xr.Dataset(
        {"sink_cosine": (dims, to_sink[None]), "cosine_to_last_value": (dims, to_last[None])},
        coords={"layer": [3, 4], "kv_head": [0, 1], "sink_visible": ("layer", [True, True])},
    )
    rho0 = xr.Dataset({"rho0": (KV_HEADS, np.array([[0.3, 0.1], [np.nan, 0.7]]))})
    return {"capture": capture, "similarity": rho0}


def test_points_are_the_unit_vectors_along_the_last_value_and_the_sink_s_own_part(groups, values):
    data = sphere(groups)
    assert data["name"].values.tolist() == [
        "L3, value head 1",
        "L3, value head 0",
        "L4, value head 1",
    ]
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
    components[0, 1] = np.nan  # of a layer of another part
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


def test_where_a_layer_does_not_see_the_sink_there_is_no_picture(groups):
    hidden = groups["capture"].assign_coords(sink_visible=("layer", [True, False]))
    assert sphere({**groups, "capture": hidden}) is None
    assert sphere({**groups, "capture": groups["capture"].drop_vars("sink_cosine")}) is None


def test_contributions_stand_in_the_order_of_weights():
    tree = with_typical_heads()
    data, capture = (tree[name].to_dataset() for name in ("contributions", "capture"))
    assert np.isnan(data.sel(regime="mixer")["contribution"]).all()
    for regime, layer, head in (("retriever", 1, 2), ("reset", 0, 3)):
        for document in range(capture.sizes["document"]):
            weight = capture["attention_weight"].values[document, layer, head].astype(np.float64)
            at = capture.isel(document=document, layer=layer, kv_head=head // 2)
            size = weight * at["value_norm"].values
            order = sorted(range(weight.size), key=lambda token: -weight[token])
            row = data.sel(regime=regime).isel(document=document)
            for rank, drawn, cosine in zip(
                row["rank"].values, row["contribution"].values, row["cosine"].values, strict=True
            ):
                token = order[rank - 1]
                assert drawn == pytest.approx(size[token])
                assert cosine == at["cosine_to_last_value"].values[token]
            assert row["last_rank"] == order.index(weight.size - 1) + 1
            assert row["sink_contribution"] == pytest.approx(size[0])
            assert row["sink_place"] == 1 + sum(size > size[0])
