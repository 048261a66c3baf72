"""The sink's similarity and Recall: coefficients against scipy and statsmodels, the noise of few
documents, confounding, and what is missing.
"""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from geostat.experiments.moments import Table
from geostat.experiments.sink import MEASURES, coefficients, correlate_with_sink
from geostat.statistics.ranks import ranks

DOCUMENTS, LAYERS, HEADS, SHARED = 8, 5, 12, 3
N = np.array([1, 2, 3, 6])


def table(
    seed=0, *, documents=DOCUMENTS, noise=1.0, similarity=0.6, weight=0.0, layer=0.0, shift=0.0
):
    """Heads whose expected Recall is similarity·x + weight·w + layer effect + the rest, and
    their expectations (x, Recall).
    """
    rng = np.random.default_rng(seed)
    heads = LAYERS * HEADS
    layers, group = np.repeat(np.arange(LAYERS), HEADS), np.arange(heads) // SHARED
    effect = rng.normal(size=LAYERS)[layers]
    w = rng.normal(size=heads)
    x = (
        rng.normal(size=heads // SHARED)[group]
        + shift
        * np.array([w[group == g].mean() for g in range(heads // SHARED)])[group]
        * SHARED**0.5
    )
    y = (
        similarity * x
        + weight * w
        + layer * effect
        + np.sqrt(1 - similarity**2) * rng.normal(size=heads)
    )
    small = 0.3 * rng.normal(size=(documents, heads // SHARED))[:, group]
    recall = y[None, :, None] + noise * rng.normal(size=(documents, heads, N.size))
    recall[..., 0] = 1.0
    found = Table(
        similarity=x + small,
        weight=w + 0.1 * rng.normal(size=(documents, heads)),
        recall=recall,
        layer=layers,
        value_head=group,
    )
    return found, x, y


def capture(found, *, visible=True):
    """A /capture dataset that holds a table."""
    documents, heads = found.similarity.shape
    per_layer, positions = heads // LAYERS, 16
    weight = np.zeros((documents, LAYERS, per_layer, positions))
    weight[..., 0] = found.weight.reshape(documents, LAYERS, per_layer)
    cosine = np.repeat(
        found.similarity.reshape(documents, LAYERS, per_layer)[:, :, ::SHARED, None],
        positions,
        axis=-1,
    )
    cosine[..., 1:] += np.linspace(-0.1, 0.1, positions - 1)  # its mean is 0
    cosine[..., 0] = np.nan
    recall = found.recall.reshape(documents, LAYERS, per_layer, -1)
    return xr.Dataset(
        {
            "recall": (("document", "layer", "head", "n"), recall),
            "precision": (("document", "layer", "head", "n"), 1 - recall),
            "attention_weight": (("document", "layer", "head", "position"), weight),
            "sink_cosine": (
                ("document", "layer", "kv_head", "position"),
                cosine if visible else np.full_like(cosine, np.nan),
            ),
        },
        coords={
            "n": N[: recall.shape[-1]],
            "tokens": ("layer", np.full(LAYERS, positions)),
            "sink_visible": ("layer", np.full(LAYERS, visible)),
            "kv_head_of_head": ("head", np.arange(per_layer) // SHARED),
            "layer": np.arange(LAYERS),
            "head": np.arange(per_layer),
        },
    )


def residual(values, *regressors):
    return sm.OLS(values, np.column_stack([np.ones(values.size), *regressors])).fit().resid


def test_pearson_and_spearman_are_scipy_s():
    found, _, _ = table()
    found.recall[..., 2] = np.round(found.recall[..., 2])  # ties, as Recall at small N has
    at = coefficients(found, resamples=5)
    x = found.similarity.mean(axis=0)
    for place in (1, 2, 3):
        y = found.recall[..., place].mean(axis=0)
        assert at["pearson"]["correlation"].value[place] == pytest.approx(
            stats.pearsonr(x, y)[0], abs=1e-12
        )
        assert at["spearman"]["correlation"].value[place] == pytest.approx(
            stats.spearmanr(x, y)[0], abs=1e-12
        )


@pytest.mark.parametrize("documents", [3, 6, 7, 8])
def test_means_that_are_equal_stay_tied_whatever_the_number_of_documents(documents):
    found, _, _ = table(documents=documents)
    counts = np.random.default_rng(documents).integers(0, 4, found.recall.shape)
    at = coefficients(
        replace(found, recall=(counts / 3).astype(np.float32).astype(np.float64)), resamples=5
    )["spearman"]

    def exact(kept):
        return stats.spearmanr(found.similarity[kept].mean(axis=0), counts[kept, :, 1].sum(axis=0))[
            0
        ]

    every = np.arange(documents)
    z = np.arctanh([exact(np.delete(every, k)) for k in every])
    half = stats.t.ppf(0.975, documents - 1) * np.sqrt(
        (documents - 1) / documents * ((z - z.mean()) ** 2).sum()
    )
    assert at["correlation"].value[1] == pytest.approx(exact(every), abs=1e-12)
    assert at["correlation"].upper[1] == pytest.approx(
        np.tanh(np.arctanh(exact(every)) + half), abs=1e-12
    )


def test_partial_correlations_are_those_of_statsmodels_residuals():
    found, _, _ = table(weight=0.8, layer=1.0, shift=1.0)
    at = coefficients(found, resamples=5)
    x, w, y = (
        found.similarity.mean(axis=0),
        found.weight.mean(axis=0),
        found.recall[..., 3].mean(axis=0),
    )
    factor = (found.layer[:, None] == np.arange(1, LAYERS)).astype(float)
    plain = stats.pearsonr(residual(x, w), residual(y, w))[0]
    layered = stats.pearsonr(residual(x, w, factor), residual(y, w, factor))[0]
    assert at["given_weight"]["correlation"].value[3] == pytest.approx(plain, abs=1e-12)
    assert at["given_weight_and_layer"]["correlation"].value[3] == pytest.approx(layered, abs=1e-12)
    assert abs(plain - layered) > 0.01


def test_without_noise_the_slope_is_statsmodels_coefficient():
    found, _, _ = table(weight=0.8, layer=1.0, shift=1.0)
    same = Table(
        similarity=np.repeat(found.similarity[:1], 3, axis=0),
        weight=np.repeat(found.weight[:1], 3, axis=0),
        recall=np.repeat(found.recall[:1], 3, axis=0),
        layer=found.layer,
        value_head=found.value_head,
    )
    at = coefficients(same, resamples=5)["given_weight_and_layer"]
    factor = (same.layer[:, None] == np.arange(1, LAYERS)).astype(float)
    design = np.column_stack([same.similarity[0], same.weight[0], np.ones(same.heads), factor])
    expected = sm.OLS(same.recall[0, :, 2], design).fit().params[0]
    assert at["slope"].value[2] == pytest.approx(expected, rel=1e-9)
    assert at["unattenuated"].value[2] == pytest.approx(at["correlation"].value[2], rel=1e-9)
    assert at["correlation"].se[2] == pytest.approx(0, abs=1e-9)


def test_the_jackknife_leaves_out_documents_and_works_on_fisher_s_z():
    found, _, _ = table()
    at = coefficients(found, resamples=5)["pearson"]
    x, y = found.similarity, found.recall[..., 2]
    z = np.array(
        [
            np.arctanh(stats.pearsonr(np.delete(x, k, 0).mean(0), np.delete(y, k, 0).mean(0))[0])
            for k in range(DOCUMENTS)
        ]
    )
    se = np.sqrt((DOCUMENTS - 1) / DOCUMENTS * ((z - z.mean()) ** 2).sum())
    whole = np.arctanh(stats.pearsonr(x.mean(0), y.mean(0))[0])
    half = stats.t.ppf(0.975, DOCUMENTS - 1) * se
    assert at["correlation"].lower[2] == pytest.approx(np.tanh(whole - half), abs=1e-12)
    assert at["correlation"].upper[2] == pytest.approx(np.tanh(whole + half), abs=1e-12)
    assert at["correlation"].se[2] == pytest.approx(se * (1 - np.tanh(whole) ** 2), abs=1e-12)


@pytest.mark.parametrize(
    ("measure", "statistic"), [("pearson", stats.pearsonr), ("spearman", stats.spearmanr)]
)
def test_the_bootstrap_band_is_that_of_documents_drawn_anew(measure, statistic):
    found, _, _ = table()
    at = coefficients(found, resamples=60, seed=3)[measure]
    drawn = np.random.default_rng(3).multinomial(
        DOCUMENTS, np.full(DOCUMENTS, 1 / DOCUMENTS), size=60
    )
    by_hand = []
    for counts in drawn:
        chosen = np.repeat(np.arange(DOCUMENTS), counts)
        by_hand.append(
            statistic(
                found.similarity[chosen].mean(axis=0), found.recall[chosen, :, 1].mean(axis=0)
            )[0]
        )
    expected = np.quantile(by_hand, [0.025, 0.975])
    assert [at["correlation_boot_lower"][1], at["correlation_boot_upper"][1]] == pytest.approx(
        expected.tolist(), abs=1e-9
    )


@pytest.mark.slow
def test_noise_of_documents_hides_a_correlation_and_the_unattenuated_interval_covers_it():
    covered, plain, bootstrap, off = 0, 0, 0, []
    draws = 200
    for seed in range(draws):
        found, x, y = table(seed, noise=1.9)
        truth = stats.pearsonr(x, y)[0]
        at = coefficients(found, resamples=40)["pearson"]
        covered += at["unattenuated"].lower[2] < truth < at["unattenuated"].upper[2]
        plain += at["correlation"].lower[2] < truth < at["correlation"].upper[2]
        bootstrap += at["correlation_boot_lower"][2] < truth < at["correlation_boot_upper"][2]
        off.append((at["unattenuated"].value[2] - truth, at["correlation"].value[2] - truth))
    error = 4 * np.sqrt(0.95 * 0.05 / draws)
    assert 0.95 - error < covered / draws <= 1
    assert plain / draws < 0.75
    assert bootstrap / draws < 0.5
    clean, measured = np.mean(off, axis=0)
    assert abs(clean) < 4 * np.std(off, axis=0)[0] / draws**0.5 + 0.01
    assert measured < -0.05


def test_what_the_weight_explains_is_gone_once_it_is_known():
    off = []
    for seed in range(40):
        found, _, _ = table(seed, similarity=0.0, weight=2.0, shift=1.0, noise=0.5)
        at = coefficients(found, resamples=2)
        off.append(
            [
                at[name]["unattenuated"].value[2]
                for name in ("pearson", "given_weight", "given_weight_and_layer")
            ]
        )
    plain, known, layered = np.mean(off, axis=0)
    error = 4 * np.std(off, axis=0) / 40**0.5
    assert plain > 0.3
    assert abs(known) < error[1]
    assert abs(layered) < error[2]


def test_a_layer_effect_is_gone_once_the_layer_is_known():
    found, _, _ = table(similarity=0.0, noise=0.1)
    jump = 5.0 * np.arange(LAYERS)[found.layer]
    moved = Table(
        similarity=found.similarity + jump,
        weight=found.weight,
        recall=found.recall + jump[:, None],
        layer=found.layer,
        value_head=found.value_head,
    )
    at = coefficients(moved, resamples=2)
    still = coefficients(found, resamples=2)
    assert at["given_weight"]["correlation"].value[2] > 0.9
    assert at["given_weight_and_layer"]["correlation"].value[2] == pytest.approx(
        still["given_weight_and_layer"]["correlation"].value[2], abs=1e-9
    )


def test_a_dataset_gives_the_table_s_numbers_and_counts_distinct_similarities():
    found, _, _ = table()
    data = correlate_with_sink(capture(found), resamples=20)
    assert data.attrs["heads"] == LAYERS * HEADS
    assert data.attrs["distinct"] == LAYERS * HEADS // SHARED
    assert list(data["measure"].values) == list(MEASURES)
    at = coefficients(found, resamples=20)
    for measure in MEASURES:
        np.testing.assert_allclose(
            data["correlation"].sel(measure=measure), at[measure]["correlation"].value, rtol=1e-9
        )
    pooled = [
        g.mean() for g in np.split(found.recall[..., 1].mean(axis=0), LAYERS * HEADS // SHARED)
    ]
    expected = stats.pearsonr(found.similarity.mean(axis=0)[::SHARED], pooled)[0]
    assert float(data["correlation"].sel(measure="value_heads", n=2)) == pytest.approx(
        expected, abs=1e-9
    )
    curve = data["correlation"].sel(measure="pearson").values
    assert int(data["peak_n"].sel(measure="pearson")) == N[1:][np.argmax(curve[1:])]
    assert data.attrs["notes"] == []


def test_recall_that_is_the_same_in_every_head_correlates_with_nothing():
    found, _, _ = table()
    data = correlate_with_sink(capture(found), resamples=20)
    assert np.isnan(data.sel(n=1)["correlation"]).all()
    assert np.isnan(data.sel(n=1)["unattenuated"]).all()


def test_one_document_has_no_interval_and_says_so():
    found, _, _ = table(documents=1)
    data = correlate_with_sink(capture(found), resamples=20)
    assert np.isfinite(data["correlation"].sel(n=3)).all()
    for name in ("correlation_se", "correlation_boot_lower", "unattenuated", "slope"):
        assert np.isnan(data[name]).all()
    assert "One document" in data.attrs["notes"][0]


def test_without_a_visible_sink_nothing_is_correlated():
    found, _, _ = table()
    data = correlate_with_sink(capture(found, visible=False), resamples=20)
    assert np.isnan(data["correlation"]).all()
    assert (data["peak_n"] == 0).all()
    assert "No head sees the sink" in data.attrs["notes"][0]


def test_three_heads_are_too_few():
    found, _, _ = table()
    keep = slice(0, 3)
    few = Table(
        similarity=found.similarity[:, keep],
        weight=found.weight[:, keep],
        recall=found.recall[:, keep],
        layer=found.layer[keep],
        value_head=np.arange(3),
    )
    for part in coefficients(few, resamples=5).values():
        assert np.isnan(part["correlation"].value).all()
    one_more = slice(0, 4)
    four = Table(
        similarity=found.similarity[:, one_more],
        weight=found.weight[:, one_more],
        recall=found.recall[:, one_more],
        layer=found.layer[one_more],
        value_head=np.arange(4),
    )
    assert np.isfinite(coefficients(four, resamples=5)["pearson"]["correlation"].value[2])
    assert np.isnan(coefficients(four, resamples=5)["given_weight"]["correlation"].value).all()


def test_a_head_without_a_similarity_is_left_out():
    found, _, _ = table()
    data = capture(found)
    data["sink_cosine"][2, 0, 0] = np.nan
    assert correlate_with_sink(data, resamples=5).attrs["heads"] == LAYERS * HEADS - SHARED


@given(st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=4))
def test_ranks_are_scipy_s(rows):
    values = np.array(rows, dtype=np.float64)
    np.testing.assert_array_equal(ranks(values), stats.rankdata(values, axis=-1))


def test_noise_too_large_to_be_taken_out_leaves_the_unattenuated_coefficient_out():
    rng = np.random.default_rng(0)
    found, _, _ = table()
    noisy = Table(
        similarity=found.similarity,
        weight=found.weight,
        recall=rng.normal(size=found.recall.shape),
        layer=found.layer,
        value_head=found.value_head,
    )
    at = coefficients(noisy, resamples=5)["pearson"]
    assert np.isfinite(at["correlation"].lower).all()
    assert (np.isnan(at["unattenuated"].value) == np.isnan(at["unattenuated"].lower)).all()
    assert np.isnan(at["unattenuated"].value).any()


def test_precision_correlates_as_recall_does_but_for_its_sign():
    at = correlate_with_sink(capture(table()[0]), resamples=5)
    pearson = at.sel(measure="pearson")
    for name in ("correlation", "unattenuated"):
        for side, other in (("", ""), ("_lower", "_upper"), ("_upper", "_lower")):
            np.testing.assert_allclose(
                at[f"precision_{name}{side}"], -pearson[f"{name}{other}"], atol=1e-12
            )
    blind = correlate_with_sink(capture(table()[0], visible=False), resamples=5)
    assert np.isnan(blind["precision_unattenuated"]).all()
