import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint
from support.synthetic import Sizes, Truth, capture

from geostat.fits.norms.compressed import compressed, secondary_sinks, sink_smallest
from geostat.fits.norms.fit import fit_norms


def test_sink_is_smallest_only_below_every_content_token_of_its_document():
    norm = np.array(
        [[1.0, 2, 3], [2, 2, 3], [4, 2, 9], [np.nan, 2, 3], [1, np.nan, 3], [1, np.nan, np.nan]]
    )[:, None]
    share = sink_smallest(norm, 1)
    assert float(share.value[0]) == pytest.approx(
        2 / 4
    )  # a tie is none; without a sink or content nothing can be said
    assert float(share.lower[0]) == pytest.approx(proportion_confint(2, 4, method="wilson")[0])
    assert np.isnan(sink_smallest(norm, 0).value).all()


def test_compressed_is_at_most_half_the_median_of_its_own_document():
    content = np.array(
        [[4.0, 2.0, 4.0, 2.01, 9.0], [40, 19, 40, 39, np.nan], [0, 0, 0, 0, 1], [np.nan] * 5]
    )
    expected = np.zeros((4, 5), dtype=bool)
    expected[:2, 1] = True  # medians 4 and 39.5
    np.testing.assert_array_equal(compressed(content), expected)


@pytest.fixture
def data():
    """Norms near 2 in which no content token is compressed; token ids 0 to 126 once in each
    document, shifted by document.
    """
    data = capture(Truth(cv=0.05), sizes=Sizes(layers=2), seed=1)
    positions = np.arange(128)
    data["token_id"].values[:] = (positions + 7 * np.arange(8)[:, None]) % 127
    return data


def test_compressed_tokens_are_listed_with_what_they_count(data):
    ids = data["token_id"].values
    assert fit_norms(data)["compressed_token_id"].size == 0
    norm = data["value_norm"].values  # (document, layer, kv_head, position)
    for document, position in zip(*np.nonzero((ids == 5) & (np.arange(128) > 0)), strict=True):
        norm[document, :, :, position] = 0.1
    for document, position in zip(*np.nonzero((ids == 9) & (np.arange(128) > 0)), strict=True):
        norm[document, 1, 0, position] = 0.1
    fit = fit_norms(data)
    content = ids[:, 1:]
    fives, nines = int((content == 5).sum()), int((content == 9).sum())
    assert list(fit["compressed_token_id"].values) == [5, 9]
    assert list(fit["compressed_token_count"].values) == [4 * fives, nines]
    assert list(fit["compressed_token_occurrences"].values) == [4 * fives, 4 * nines]
    assert list(fit["compressed_token_share"].values) == pytest.approx([1, 0.25])
    assert list(fit["compressed_token_heads"].values) == [4, 1]
    np.testing.assert_array_equal(fit["compressed_token_share_by_head"][1], [[0, 0], [1, 0]])
    share = fit["compressed_share"]
    assert float(share[1, 0]) == pytest.approx((fives + nines) / (8 * 127))
    assert (
        float(fit["compressed_share_lower"][1, 0])
        <= float(share[1, 0])
        <= float(fit["compressed_share_upper"][1, 0])
    )


def test_without_compressed_tokens_the_share_is_zero_without_an_error(data):
    fit = fit_norms(data)
    assert (fit["compressed_share"] == 0).all()
    assert np.isnan(fit["compressed_share_se"]).all()


def test_a_position_compressed_in_every_document_is_a_secondary_sink(data):
    data["value_norm"].values[:, 1, 0, 9] = 0.1
    data["value_norm"].values[:4, 0, 0, 20] = 0.1  # half of the documents are not most
    fit = fit_norms(data)
    assert list(fit["secondary_sink_position"].values) == [9]
    assert list(fit["secondary_sink_heads"].values) == [1]
    assert list(fit["secondary_sink_tokens"].values) == [8]
    np.testing.assert_array_equal(fit["secondary_sinks"], [[0, 0], [1, 0]])
    assert int(fit["compressed_documents"].sel(layer=1, kv_head=0, position=9)) == 8
    assert int(fit["compressed_documents"].sum()) == 12


def test_a_window_counts_positions_from_the_documents_start():
    windowed = capture(Truth(cv=0.05), sizes=Sizes(window=(40,)), seed=2)
    windowed["value_norm"].values[:, 0, 0, 100] = 0.1
    fit = fit_norms(windowed)
    assert list(fit["secondary_sink_position"].values) == [100]
    assert list(fit["compressed_token_occurrences"].values[:1]) == [
        2 * (windowed["token_id"][:, -40:] == fit["compressed_token_id"][0]).sum()
    ]


def test_tokens_compressed_anywhere_make_no_secondary_sinks():
    content = np.where(np.random.default_rng(3).random((8, 50, 1000)) < 0.2, 0.1, 1.0)
    small = compressed(content)
    assert (small.sum(axis=0) > 4).sum() > 100  # most documents, by luck
    assert secondary_sinks(content, small).any(axis=-1).sum() <= 8  # one head in twenty is allowed


def test_one_document_shows_no_secondary_sink(data):
    data["value_norm"].values[:, :, :, 9] = 0.1
    assert (fit_norms(data.isel(document=[0]))["secondary_sinks"] == 0).all()


def test_a_capture_without_token_ids_has_no_list_of_tokens(data):
    data["value_norm"].values[:, 1, 0, 9] = 0.1
    fit = fit_norms(data.drop_vars("token_id"))
    assert not [
        name
        for name in fit
        if str(name).startswith("compressed_token") or name == "secondary_sink_tokens"
    ]
    assert list(fit["secondary_sink_position"].values) == [9]
