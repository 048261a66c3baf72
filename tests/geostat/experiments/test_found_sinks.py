"""Sinks by function beside position 0: planted ones come back as shares of heads, with what they
are, and Precision of the heads that have them.
"""

import numpy as np
import pytest
import xarray as xr

from geostat.experiments.found_sinks import CASES, LISTED, TOKENS, position_0, summarise_sinks

DOCUMENTS, LAYERS, HEADS, POSITIONS = 3, 2, 2, 6
SHAPE = (DOCUMENTS, LAYERS, HEADS)
BOS, DOT = 2, 9


def planted(position, *, seen=(True, False)):
    """A run whose second layer does not see position 0; sinks stand where `position` says, -1 for
    none, and Precision is 0.9 in heads with one elsewhere, 0.5 in the others.
    """
    position = np.broadcast_to(np.asarray(position), SHAPE)
    ids = np.full((DOCUMENTS, POSITIONS), 5)
    ids[:, 0], ids[:, 4] = BOS, DOT
    norm = np.full((DOCUMENTS, LAYERS, 1, POSITIONS), 2.0)
    norm[..., 0] = 0.5
    norm[:, 1, :, 0] = np.nan
    cosine = np.full(norm.shape, 0.25)
    cosine[..., 0] = np.nan
    weight = np.full((*SHAPE, POSITIONS), 0.1)
    weight[..., 0] = 0.5
    curves = np.where(position > 0, 0.9, 0.5)[..., None] * [1.0, 0.8]
    of_n = ("document", "layer", "head", "n")
    capture = xr.Dataset(
        {
            "token_id": (("document", "position"), ids),
            "value_norm": (("document", "layer", "kv_head", "position"), norm),
            "sink_cosine": (("document", "layer", "kv_head", "position"), cosine),
            "attention_weight": (("document", "layer", "head", "position"), weight),
            "precision": (of_n, curves),
            "recall": (of_n, 1 - curves),
            "sink_visible": ("layer", list(seen)),
            "kv_head_of_head": ("head", [0, 0]),
        },
        coords={"n": [2, 9]},
    )
    of_head = ("document", "layer", "head")
    some = position >= 0
    sinks = xr.Dataset(
        {
            "sink_position": (of_head, position),
            "sink_count": (of_head, some.astype(int)),
            "sink_strongest_weight": (of_head, np.where(some, 0.4, np.nan)),
            "sink_norm_ratio": (of_head, np.where(some, 0.2, np.nan)),
            "sink_cosine": (of_head, np.where(some, -0.1, np.nan)),
        }
    )
    return capture, sinks


ATTRS = {
    "model": {"bos_token_id": BOS},
    "token_texts": {"id": [BOS, DOT], "text": ["<bos>", "."]},
}


def found(position, attrs=ATTRS, **how):
    return summarise_sinks(*planted(position, **how), attrs)


def test_cases_are_shares_of_heads_by_where_the_strongest_sink_stands():
    data = found([[0, -1], [4, 4]])
    assert data["case"].values.tolist() == list(CASES)
    assert data["share"].values.tolist() == [0.5, 0.25, 0.5, 0.25]
    assert data["heads"].values.tolist() == [2, 1, 2, 1]
    np.testing.assert_allclose(data["sinks"], [0.5, 1, 1, 0])
    np.testing.assert_allclose(data["weight"], [0.5, 0.4, 0.4, np.nan])
    np.testing.assert_allclose(data["norm_ratio"], [0.25, 0.2, 0.2, np.nan])
    np.testing.assert_allclose(data["cosine"], [0.25, -0.1, -0.1, np.nan])
    assert data.attrs["n"] == 9
    np.testing.assert_allclose(data["precision"], 0.8 * np.array([0.5, 0.5, 0.9, 0.5]))
    np.testing.assert_allclose(data["recall"], 1 - data["precision"])


def test_errors_are_over_documents_and_shares_stay_shares():
    position = np.full(SHAPE, -1)
    position[0] = 4
    data = found(position).sel(case="acts elsewhere")
    assert float(data["share"]) == pytest.approx(1 / 3)
    assert float(data["share_se"]) == pytest.approx(1 / 3)
    assert (float(data["share_lower"]), float(data["share_upper"])) == (0.0, 1.0)
    assert int(data["heads"]) == 0  # in one document of three
    assert np.isnan(data["weight_se"])  # one document has any


def test_tokens_are_listed_with_what_they_stand_for():
    position = np.full(SHAPE, 4)
    position[0, 0, 0], position[2] = 0, -1
    data = found(position)
    assert data["token_id"].values.tolist() == [DOT, BOS]
    assert data["token_text"].values.tolist() == [".", "<bos>"]
    assert data["token_cases"].values.tolist() == [7, 1]
    assert data["token_heads"].values.tolist() == [4, 1]
    assert data["token_documents"].values.tolist() == [2, 1]
    assert data["token_first"].values.tolist() == data["token_last"].values.tolist() == [4, 0]
    untold = found(position, {})
    assert untold["token_text"].values.tolist() == ["", ""]
    assert found(-1).sizes["sink_token"] == 0 < LISTED


@pytest.mark.parametrize(
    ("model", "documents"), [({"bos_token_id": BOS}, 3), ({"bos_token_id": None}, 0), ({}, -1)]
)
def test_position_0_is_the_beginning_of_text_or_not_or_untold(model, documents):
    assert int(found(0, {"model": model})["first_is_bos"]) == documents


def test_without_tokens_none_are_listed_and_all_else_is_told():
    capture, sinks = planted(4)
    data = summarise_sinks(capture.drop_vars("token_id"), sinks, ATTRS)
    expected = summarise_sinks(capture, sinks, ATTRS)
    assert int(data["first_is_bos"]) == -1
    left_out = [name for name in expected if name not in data]
    assert left_out == [record.name for record in TOKENS]
    for name in data.data_vars:
        if name != "first_is_bos":
            xr.testing.assert_equal(data[name], expected[name])


def test_position_0_is_not_known_where_it_is_not_seen():
    capture, _ = planted(0)
    for name, values in position_0(capture).items():
        assert np.isfinite(values[:, 0]).all(), name
        assert np.isnan(values[:, 1]).all(), name
