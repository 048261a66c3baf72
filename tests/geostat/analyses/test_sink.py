from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from support.experiments import captured

from geostat.analyses.sink import MEASURES, Table, coefficients, correlate_with_sink

DOCUMENTS, LAYERS, HEADS, SHARED = 8, 5, 12, 3
N = np.array([1, 2, 3, 6])
STATISTICS = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}


def table(
    seed=0, *, documents=DOCUMENTS, noise=1.0, similarity=0.6, weight=0.0, layer=0.0, shift=0.0
):
    """Return heads with expected Recall similarity·x + weight·w + layer effect + residual, and the
    expectations of x and Recall.
    """
    rng = np.random.default_rng(seed)
    heads, groups = LAYERS * HEADS, LAYERS * HEADS // SHARED
    layers, group = np.repeat(np.arange(LAYERS), HEADS), np.arange(heads) // SHARED
    effect = rng.normal(size=LAYERS)[layers]
    w = rng.normal(size=heads)
    own, mean_w = rng.normal(size=groups), w.reshape(groups, SHARED).mean(axis=1)
    x = (own + shift * mean_w * SHARED**0.5)[group]
    residual = np.sqrt(1 - similarity**2) * rng.normal(size=heads)
    y = similarity * x + weight * w + layer * effect + residual
    small = 0.3 * rng.normal(size=(documents, groups))[:, group]
    recall = y[None, :, None] + noise * rng.normal(size=(documents, heads, N.size))
    recall[..., 0] = 1.0
    noisy_w = w + 0.1 * rng.normal(size=(documents, heads))
    found = Table(similarity=x + small, weight=noisy_w, recall=recall, layer=layers, kv_head=group)
    return found, x, y


def capture(found, *, visible=True):
    """Return a /capture dataset with the values of a table."""
    documents, heads = found.similarity.shape
    shape, positions = (documents, LAYERS, heads // LAYERS), 16
    weight = np.zeros((*shape, positions))
    weight[..., 0] = found.weight.reshape(shape)
    by_kv_head = found.similarity.reshape(shape)[:, :, ::SHARED, None]
    cosine = np.repeat(by_kv_head, positions, axis=-1)
    cosine[..., 1:] += np.linspace(-0.1, 0.1, positions - 1)  # its mean is 0
    cosine[..., 0 if visible else slice(None)] = np.nan
    recall = found.recall.reshape(*shape, -1)
    values = {"recall": recall, "precision": 1 - recall}
    return captured(
        values | {"attention_weight": weight, "sink_cosine": cosine},
        n=N[: recall.shape[-1]],
        tokens=np.full(LAYERS, positions),
        sink_visible=np.full(LAYERS, visible),
        kv_head_of_head=np.arange(shape[2]) // SHARED,
        layer=np.arange(LAYERS),
        head=np.arange(shape[2]),
    )


def some_heads(found, heads):
    """Return the first heads of a table, each with its own KV head."""
    by_document = {
        name: getattr(found, name)[:, :heads] for name in ("similarity", "weight", "recall")
    }
    return Table(**by_document, layer=found.layer[:heads], kv_head=np.arange(heads))


def fisher(replicates):
    """Return the jackknife error of Fisher's z of replicates, and half its interval."""
    z, count = np.arctanh(replicates), len(replicates)
    se = np.sqrt((count - 1) / count * ((z - z.mean()) ** 2).sum())
    return se, stats.t.ppf(0.975, count - 1) * se


def residual(values, *regressors):
    return sm.OLS(values, np.column_stack([np.ones(values.size), *regressors])).fit().resid


def test_pearson_and_spearman_are_those_of_scipy():
    found, _, _ = table()
    found.recall[..., 2] = np.round(found.recall[..., 2])  # ties, as in Recall at small N
    at = coefficients(found, resamples=5)
    x = found.similarity.mean(axis=0)
    for place, measure in product((1, 2, 3), STATISTICS):
        expected = STATISTICS[measure](x, found.recall[..., place].mean(axis=0))[0]
        assert at[measure]["correlation"].value[place] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("documents", [3, 6, 7, 8])
def test_equal_means_are_ties_for_any_number_of_documents(documents):
    found, _, _ = table(documents=documents)
    counts = np.random.default_rng(documents).integers(0, 4, found.recall.shape)
    recall = (counts / 3).astype(np.float32).astype(np.float64)
    at = coefficients(replace(found, recall=recall), resamples=5)["spearman"]["correlation"]

    def exact(kept):
        x, y = found.similarity[kept].mean(axis=0), counts[kept, :, 1].sum(axis=0)
        return stats.spearmanr(x, y)[0]

    every = np.arange(documents)
    _, half = fisher([exact(np.delete(every, k)) for k in every])
    assert at.value[1] == pytest.approx(exact(every), abs=1e-12)
    assert at.upper[1] == pytest.approx(np.tanh(np.arctanh(exact(every)) + half), abs=1e-12)


def test_partial_correlations_are_those_of_statsmodels_residuals():
    found, _, _ = table(weight=0.8, layer=1.0, shift=1.0)
    at = coefficients(found, resamples=5)
    x = found.similarity.mean(axis=0)
    w = found.weight.mean(axis=0)
    y = found.recall[..., 3].mean(axis=0)
    factor = (found.layer[:, None] == np.arange(1, LAYERS)).astype(float)
    plain = stats.pearsonr(residual(x, w), residual(y, w))[0]
    layered = stats.pearsonr(residual(x, w, factor), residual(y, w, factor))[0]
    assert at["given_weight"]["correlation"].value[3] == pytest.approx(plain, abs=1e-12)
    assert at["given_weight_and_layer"]["correlation"].value[3] == pytest.approx(layered, abs=1e-12)
    assert abs(plain - layered) > 0.01


def test_the_slope_without_noise_is_that_of_statsmodels():
    found, _, _ = table(weight=0.8, layer=1.0, shift=1.0)
    thrice = {
        name: np.repeat(getattr(found, name)[:1], 3, axis=0)
        for name in ("similarity", "weight", "recall")
    }
    same = replace(found, **thrice)
    at = coefficients(same, resamples=5)["given_weight_and_layer"]
    factor = (same.layer[:, None] == np.arange(1, LAYERS)).astype(float)
    design = np.column_stack([same.similarity[0], same.weight[0], np.ones(same.heads), factor])
    expected = sm.OLS(same.recall[0, :, 2], design).fit().params[0]
    assert at["slope"].value[2] == pytest.approx(expected, rel=1e-9)
    assert at["unattenuated"].value[2] == pytest.approx(at["correlation"].value[2], rel=1e-9)
    assert at["correlation"].se[2] == pytest.approx(0, abs=1e-9)


def test_the_jackknife_leaves_out_documents_and_works_on_fisher_s_z():
    found, _, _ = table()
    at = coefficients(found, resamples=5)["pearson"]["correlation"]
    x, y = found.similarity, found.recall[..., 2]
    se, half = fisher(
        [
            stats.pearsonr(np.delete(x, k, 0).mean(0), np.delete(y, k, 0).mean(0))[0]
            for k in range(DOCUMENTS)
        ]
    )
    whole = np.arctanh(stats.pearsonr(x.mean(0), y.mean(0))[0])
    assert at.lower[2] == pytest.approx(np.tanh(whole - half), abs=1e-12)
    assert at.upper[2] == pytest.approx(np.tanh(whole + half), abs=1e-12)
    assert at.se[2] == pytest.approx(se * (1 - np.tanh(whole) ** 2), abs=1e-12)


@pytest.mark.parametrize("measure", STATISTICS)
def test_the_bootstrap_band_resamples_documents(measure):
    found, _, _ = table()
    at = coefficients(found, resamples=60, seed=3)[measure]
    shares = np.full(DOCUMENTS, 1 / DOCUMENTS)
    by_hand = []
    for counts in np.random.default_rng(3).multinomial(DOCUMENTS, shares, size=60):
        chosen = np.repeat(np.arange(DOCUMENTS), counts)
        x, y = found.similarity[chosen].mean(axis=0), found.recall[chosen, :, 1].mean(axis=0)
        by_hand.append(STATISTICS[measure](x, y)[0])
    band = [at["correlation_boot_lower"][1], at["correlation_boot_upper"][1]]
    assert band == pytest.approx(np.quantile(by_hand, [0.025, 0.975]).tolist(), abs=1e-9)


@pytest.mark.slow
def test_the_unattenuated_interval_covers_a_correlation_attenuated_by_noise():
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


def test_the_weight_is_controlled_for():
    off, names = [], ("pearson", "given_weight", "given_weight_and_layer")
    for seed in range(40):
        found, _, _ = table(seed, similarity=0.0, weight=2.0, shift=1.0, noise=0.5)
        at = coefficients(found, resamples=2)
        off.append([at[name]["unattenuated"].value[2] for name in names])
    plain, known, layered = np.mean(off, axis=0)
    error = 4 * np.std(off, axis=0) / 40**0.5
    assert plain > 0.3
    assert abs(known) < error[1]
    assert abs(layered) < error[2]


def test_a_layer_effect_is_controlled_for():
    found, _, _ = table(similarity=0.0, noise=0.1)
    jump = 5.0 * np.arange(LAYERS)[found.layer]
    moved = replace(found, similarity=found.similarity + jump, recall=found.recall + jump[:, None])
    at, still = (coefficients(heads, resamples=2) for heads in (moved, found))
    assert at["given_weight"]["correlation"].value[2] > 0.9
    layered, expected = (part["given_weight_and_layer"]["correlation"] for part in (at, still))
    assert layered.value[2] == pytest.approx(expected.value[2], abs=1e-9)


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
    pooled = found.recall[..., 1].mean(axis=0).reshape(-1, SHARED).mean(axis=1)
    expected = stats.pearsonr(found.similarity.mean(axis=0)[::SHARED], pooled)[0]
    by_kv_head = data["correlation"].sel(measure="kv_heads", n=2)
    assert float(by_kv_head) == pytest.approx(expected, abs=1e-9)
    curve = data["correlation"].sel(measure="pearson").values
    assert int(data["peak_n"].sel(measure="pearson")) == N[1:][np.argmax(curve[1:])]
    assert data.attrs["notes"] == []


def test_constant_recall_has_no_correlation():
    found, _, _ = table()
    data = correlate_with_sink(capture(found), resamples=20)
    assert np.isnan(data.sel(n=1)[["correlation", "unattenuated"]].to_dataarray()).all()


def test_one_document_has_no_interval_and_a_note():
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
    for part in coefficients(some_heads(found, 3), resamples=5).values():
        assert np.isnan(part["correlation"].value).all()
    four = coefficients(some_heads(found, 4), resamples=5)
    assert np.isfinite(four["pearson"]["correlation"].value[2])
    assert np.isnan(four["given_weight"]["correlation"].value).all()


def test_a_head_without_a_similarity_is_left_out():
    found, _, _ = table()
    data = capture(found)
    data["sink_cosine"][2, 0, 0] = np.nan
    assert correlate_with_sink(data, resamples=5).attrs["heads"] == LAYERS * HEADS - SHARED


def test_too_large_noise_gives_no_unattenuated_coefficient():
    rng = np.random.default_rng(0)
    found, _, _ = table()
    noisy = replace(found, recall=rng.normal(size=found.recall.shape))
    at = coefficients(noisy, resamples=5)["pearson"]
    assert np.isfinite(at["correlation"].lower).all()
    assert (np.isnan(at["unattenuated"].value) == np.isnan(at["unattenuated"].lower)).all()
    assert np.isnan(at["unattenuated"].value).any()


def test_precision_is_correlated_in_the_same_way_as_recall():
    at = correlate_with_sink(capture(table()[0]), resamples=5)
    pearson = at.sel(measure="pearson")
    for name in ("correlation", "unattenuated"):
        for side, other in (("", ""), ("_lower", "_upper"), ("_upper", "_lower")):
            expected = -pearson[f"{name}{other}"]
            np.testing.assert_allclose(at[f"precision_{name}{side}"], expected, atol=1e-12)
    blind = correlate_with_sink(capture(table()[0], visible=False), resamples=5)
    assert np.isnan(blind["precision_unattenuated"]).all()
