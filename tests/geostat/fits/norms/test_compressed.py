import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from statsmodels.stats.proportion import proportion_confint
from support.synthetic import Sizes, Truth, capture

from geostat.fits.norms.compressed import compressed, secondary_sinks, sink_smallest
from geostat.fits.norms.fit import fit_norms


def test_sink_is_smallest_only_below_every_content_token_of_its_document():
    nan = np.nan
    norm = np.array([[1.0, 2, 3], [2, 2, 3], [4, 2, 9], [nan, 2, 3], [1, nan, 3], [1, nan, nan]])
    share = sink_smallest(norm[:, None], 1)
    # A tie does not count; documents without sink or content norms are ignored.
    assert_allclose(share.value, 2 / 4)
    assert_allclose(share.lower, proportion_confint(2, 4, method="wilson")[0])
    assert np.isnan(sink_smallest(norm[:, None], 0).value).all()


def test_compressed_is_at_most_half_the_median_of_its_own_document():
    content = np.array(
        [[4.0, 2.0, 4.0, 2.01, 9.0], [40, 19, 40, 39, np.nan], [0, 0, 0, 0, 1], [np.nan] * 5]
    )
    expected = np.zeros((4, 5), dtype=bool)
    expected[:2, 1] = True  # medians 4 and 39.5
    assert_array_equal(compressed(content), expected)


@pytest.fixture
def data():
    """Norms near 2 without compressed content tokens.

    Token ids 0 to 126 occur once in each document, shifted by document.
    """
    data = capture(Truth(cv=0.05), sizes=Sizes(layers=2), seed=1)
    data["token_id"].values[:] = (np.arange(128) + 7 * np.arange(8)[:, None]) % 127
    return data


def test_compressed_tokens_are_listed_with_their_counts(data):
    ids, norm = data["token_id"].values, data["value_norm"].values
    content = np.arange(128) > 0
    for document, position in np.argwhere((ids == 5) & content):
        norm[document, :, :, position] = 0.1
    for document, position in np.argwhere((ids == 9) & content):
        norm[document, 1, 0, position] = 0.1
    fives, nines = ((ids[:, 1:] == token).sum() for token in (5, 9))
    fit = fit_norms(data)
    expected = {
        "id": [5, 9],
        "count": [4 * fives, nines],
        "occurrences": [4 * fives, 4 * nines],
        "share": [1, 0.25],
        "heads": [4, 1],
    }
    for name, values in expected.items():
        assert_allclose(fit[f"compressed_token_{name}"], values)
    assert_array_equal(fit["compressed_token_share_by_head"][1], [[0, 0], [1, 0]])
    name = "compressed_share"
    lower, share, upper = (fit[f"{name}{part}"][1, 0] for part in ("_lower", "", "_upper"))
    assert_allclose(share, (fives + nines) / (8 * 127))
    assert lower <= share <= upper


def test_without_compressed_tokens_the_share_is_zero_without_an_error(data):
    fit = fit_norms(data)
    assert fit["compressed_token_id"].size == 0
    assert (fit["compressed_share"] == 0).all()
    assert np.isnan(fit["compressed_share_se"]).all()


def test_a_position_compressed_in_every_document_is_a_secondary_sink(data):
    data["value_norm"].values[:, 1, 0, 9] = 0.1
    data["value_norm"].values[:4, 0, 0, 20] = 0.1  # half of the documents is not a majority
    fit = fit_norms(data)
    for name, value in (("position", 9), ("heads", 1), ("tokens", 8)):
        assert list(fit[f"secondary_sink_{name}"].values) == [value]
    assert_array_equal(fit["secondary_sinks"], [[0, 0], [1, 0]])
    assert int(fit["compressed_documents"].sel(layer=1, kv_head=0, position=9)) == 8
    assert int(fit["compressed_documents"].sum()) == 12
    assert (fit_norms(data.isel(document=[0]))["secondary_sinks"] == 0).all()  # of one document
    without_ids = fit_norms(data.drop_vars("token_id"))
    assert list(without_ids["secondary_sink_position"].values) == [9]
    assert "secondary_sink_tokens" not in without_ids
    assert not [name for name in without_ids if str(name).startswith("compressed_token")]


def test_positions_in_a_window_count_from_the_start_of_the_document():
    windowed = capture(Truth(cv=0.05), sizes=Sizes(window=(40,)), seed=2)
    windowed["value_norm"].values[:, 0, 0, 100] = 0.1
    fit = fit_norms(windowed)
    assert list(fit["secondary_sink_position"].values) == [100]
    same_id = windowed["token_id"][:, -40:] == fit["compressed_token_id"][0]
    assert fit["compressed_token_occurrences"][0] == 2 * same_id.sum()


def test_randomly_compressed_tokens_make_no_secondary_sinks():
    content = np.where(np.random.default_rng(3).random((8, 50, 1000)) < 0.2, 0.1, 1.0)
    small = compressed(content)
    assert (small.sum(axis=0) > 4).sum() > 100  # in most documents, by chance
    # One head in twenty may have one.
    assert secondary_sinks(content, small).any(axis=-1).sum() <= 8
