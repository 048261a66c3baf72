import numpy as np
import pytest
import xarray as xr
from support.experiments import captured

from geostat.analyses.found_sinks import CASES, LISTED, TOKENS, position_0, summarise_sinks

DOCUMENTS, LAYERS, HEADS, POSITIONS = 3, 2, 2, 6
SHAPE = (DOCUMENTS, LAYERS, HEADS)
BOS, DOT = 2, 9


def planted(position):
    """Return a run with sinks at `position`, -1 for none; the second layer does not see position 0,
    and Precision is 0.9 in heads with a sink elsewhere, 0.5 in the others.
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
    capture = captured(
        {
            "token_id": ids,
            "value_norm": norm,
            "sink_cosine": cosine,
            "attention_weight": weight,
            "precision": curves,
            "recall": 1 - curves,
        },
        n=[2, 9],
        sink_visible=[True, False],
        kv_head_of_head=[0, 0],
    )
    found = position >= 0
    sinks = {
        "sink_position": position,
        "sink_count": found.astype(int),
        "sink_strongest_weight": np.where(found, 0.4, np.nan),
        "sink_norm_ratio": np.where(found, 0.2, np.nan),
        "sink_cosine": np.where(found, -0.1, np.nan),
    }
    dims = ("document", "layer", "head")
    return capture, xr.Dataset({name: (dims, values) for name, values in sinks.items()})


ATTRS = {
    "model": {"bos_token_id": BOS},
    "token_texts": {"id": [BOS, DOT], "text": ["<bos>", "."]},
}


def found(position, attrs=ATTRS):
    return summarise_sinks(*planted(position), attrs)


def test_cases_are_shares_of_heads_by_position_of_the_strongest_sink():
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
    assert np.isnan(data["weight_se"])  # only one document has any


def test_tokens_are_listed_with_their_text():
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
def test_documents_with_the_beginning_of_text_token_are_counted(model, documents):
    assert int(found(0, {"model": model})["first_is_bos"]) == documents


def test_without_token_ids_no_tokens_are_listed():
    capture, sinks = planted(4)
    data = summarise_sinks(capture.drop_vars("token_id"), sinks, ATTRS)
    expected = summarise_sinks(capture, sinks, ATTRS)
    assert int(data["first_is_bos"]) == -1
    left_out = [name for name in expected if name not in data]
    assert left_out == [record.name for record in TOKENS]
    for name in data.data_vars:
        if name != "first_is_bos":
            xr.testing.assert_equal(data[name], expected[name])


def test_position_0_is_missing_if_it_is_not_visible():
    capture, _ = planted(0)
    for name, values in position_0(capture).items():
        assert np.isfinite(values[:, 0]).all(), name
        assert np.isnan(values[:, 1]).all(), name
