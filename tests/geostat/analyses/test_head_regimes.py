from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa
from support.experiments import captured

from empirical.measure.layer import measure_layer
from geostat.analyses import head_regime_rules as rules
from geostat.analyses.head_regime_rules import REGIMES, UNKNOWN, Features
from geostat.analyses.head_regimes import HeadCurves, classify_heads, kappa

TOKENS, DIMENSION, DOCUMENTS = 64, 8, 4
N = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
MEASURED = (
    *("precision", "recall", "cosine_to_sink", "cosine_to_last", "representative_norm"),
    *("representative_norm_without_sink", "representative_norm_without_last"),
    *("attention_weight", "value_norm", "sink_cosine"),
)
MADE = ("retriever", "mixer", "reset", "unclassified")


def head(kind, rng):
    """Return weights and values of a head; the sink is along the first axis, the last token near
    the second.
    """
    alpha = rng.uniform(0.9, 1.1, TOKENS) / TOKENS
    values = 0.2 * rng.normal(size=(TOKENS, DIMENSION))
    first, second = np.eye(DIMENSION)[:2]
    values[0], values[-1] = first, 0.3 * first + 0.95 * second
    if kind == "retriever":
        alpha[-1], alpha[0] = 5.0, 0.02
    elif kind == "mixer":
        values[1:-1, 1] += 4.0
        values[-1] *= 100.0
        alpha[0], alpha[-1] = 0.8, 0.01
    elif kind == "reset":
        alpha[0], alpha[-1] = 5.0, 1e-4
    else:
        alpha[0], alpha[-1] = 0.5, 0.49
        values[1:-1, 2] += 1.0
    return alpha / alpha.sum(), values


def capture(kinds=MADE, *, documents=DOCUMENTS, n=N, sink=True):
    """Return the measurement of synthetic heads, with one KV head per head, and their vectors."""
    rng = np.random.default_rng(0)
    parts, vectors = defaultdict(list), []
    for _ in range(documents):
        alpha, values = map(np.stack, zip(*(head(kind, rng) for kind in kinds), strict=True))
        vectors.append(alpha[..., None] * values)
        for name, array in measure_layer(alpha, values, n, sink=sink).items():
            parts[name].append(array[None])
    data = captured(
        {name: np.stack(parts[name]) for name in MEASURED},
        n=n,
        layer=[0],
        head=np.arange(len(kinds)),
        tokens=[TOKENS],
        sink_visible=[sink],
        kv_head_of_head=np.arange(len(kinds)),
    )
    return data, np.stack(vectors)[:, None]


def named(found, criterion="both"):
    return [REGIMES[code] for code in found["label"].sel(criterion=criterion).values[0]]


def test_synthetic_heads_get_their_regime():
    data, _ = capture()
    found = classify_heads(data, resamples=20)
    assert named(found) == list(MADE)
    assert found["heads"].sel(criterion="both").values.tolist() == [1, 1, 1, 1]
    assert found["count"].sel(criterion="both", regime="mixer").values.tolist() == [1]
    assert found["classified"] == 3
    assert found["agreed"] == 3
    assert float(found["kappa"]) == pytest.approx(1)
    assert found["typical_head"].values.tolist() == [-1, 0, 1, 2]
    assert found.attrs["notes"] == []


def test_contributions_are_norms_of_sums_of_vectors():
    data, y = capture()
    found = classify_heads(data, resamples=2)
    expected = {
        "sink": np.linalg.norm(y[..., 0, :], axis=-1),
        "last": np.linalg.norm(y[..., -1, :], axis=-1),
        "rest": np.linalg.norm(y[..., 1:-1, :].sum(axis=-2), axis=-1),
        "rest_total": np.linalg.norm(y[..., 1:-1, :], axis=-1).sum(axis=-1),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found[f"contribution_{name}"], values.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(
            found[f"contribution_{name}_se"], stats.sem(values, axis=0), rtol=1e-4, atol=1e-12
        )
    half = stats.t.ppf(0.975, DOCUMENTS - 1) * stats.sem(expected["rest"], axis=0)
    np.testing.assert_allclose(
        found["contribution_rest_upper"], expected["rest"].mean(axis=0) + half, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("sink", "last", "rest", "regime"),
    [
        (1, 3, 2, "retriever"),
        (1, 2, 3, "mixer"),
        (3, 2, 1, "mixer"),
        (3, 1, 2, "reset"),
        (2, 1, 3, "reset"),
        (1, 2.1, 2, "unclassified"),
        (1, 1.05, 3, "unclassified"),
        (0, 0, 0, "unclassified"),
    ],
)
def test_the_size_rule_ranks_the_last_token_with_a_margin(sink, last, rest, regime):
    found = rules.by_size(*(np.array([size], float) for size in (sink, last, rest)))
    assert REGIMES[found[0]] == regime


def curves(sink, last):
    """Return features of two curves that are linear in log N."""
    along = np.log(N) / np.log(TOKENS / 2)
    return Features.of(
        *(np.array([[start + (stop - start) * along]]) for start, stop in (sink, last)),
        N,
        np.array([TOKENS]),
    )


@pytest.mark.parametrize(
    ("sink", "last", "regime"),
    [
        ((0.1, 0.1), (0.9, 0.56), "retriever"),
        ((0.1, 0.1), (0.9, 0.54), "unclassified"),  # not strong enough at the largest N
        ((0.8, 0.2), (0.1, 0.6), "mixer"),
        ((0.8, 0.4), (0.1, 0.42), "unclassified"),  # the last token leads by less than the margin
        ((0.3, 0.3), (0.2, 0.6), "unclassified"),  # the sink's cosine does not decrease
        ((0.8, 0.6), (0.1, 0.4), "reset"),
        ((0.8, 0.6), (0.1, 0.47), "unclassified"),  # the last token's cosine is not weak enough
        ((0.4, 0.4), (0.3, 0.38), "unclassified"),
    ],
)
def test_alignment_rules_need_their_margin(sink, last, regime):
    assert REGIMES[rules.by_alignment(curves(sink, last))[0, 0]] == regime


def test_alignment_beyond_half_of_the_tokens_does_not_count():
    sink, last = np.full((1, 1, N.size), 0.8), np.full((1, 1, N.size), 0.1)
    last[..., N > TOKENS / 2] = 0.95
    for large, regime in ((rules.THRESHOLDS.large, "reset"), (1.0, "unclassified")):
        at = replace(rules.THRESHOLDS, large=large)
        features = Features.of(sink, last, N, np.array([TOKENS]), at)
        assert REGIMES[rules.by_alignment(features, at)[0, 0]] == regime


def test_a_head_is_classified_by_both_only_if_the_two_criteria_agree():
    sizes = {"sink": 1.0, "last": 3.0, "rest": 2.0, "rest_total": 4.0}
    sizes = {name: np.array([[size]]) for name, size in sizes.items()}
    found = rules.labels(sizes, curves((0.8, 0.6), (0.1, 0.4)))
    assert found[:, 0, 0].tolist() == [REGIMES.index("retriever"), REGIMES.index("reset"), 0]
    other = rules.labels(
        sizes, curves((0.1, 0.1), (0.9, 0.6)), replace(rules.THRESHOLDS, total=True)
    )
    assert other[0, 0, 0] == REGIMES.index("mixer")
    assert list(rules.CRITERIA) == ["size", "alignment", "both"]


def test_stability_counts_replicates_with_the_same_label():
    data, _ = capture()
    # one document turns the reset's alignment round, strongly enough to tip the mean
    data["cosine_to_sink"][0, 0, 2], data["cosine_to_last"][0, 0, 2] = -1.0, 1.0
    found = classify_heads(data, resamples=200, seed=5)
    label = found["label"].values

    def same_labels(documents):
        return classify_heads(data.isel(document=documents), resamples=2)["label"].values == label

    every = np.arange(DOCUMENTS)
    agree = np.mean([same_labels(np.delete(every, left)) for left in every], axis=0)
    np.testing.assert_allclose(found["stability_leave_one_out"], agree)
    shares = np.full(DOCUMENTS, 1 / DOCUMENTS)
    drawn = np.random.default_rng(5).multinomial(DOCUMENTS, shares, size=15)
    same = np.stack([same_labels(np.repeat(every, counts)) for counts in drawn], axis=1)
    labels_drawn = HeadCurves.of(data).label(drawn.astype(float))
    np.testing.assert_allclose(labels_drawn == label[:, None], same)
    assert found["stability_leave_one_out"].min() < 1
    assert (found["stability_resampled"].sel(criterion="both", head=0) == 1).all()


def test_the_sweep_counts_heads_under_other_thresholds():
    found = classify_heads(capture()[0], resamples=2)
    assert (found["sweep_heads"].sum("regime") == len(MADE)).all()
    retriever = found["stability_sweep"].sel(criterion="alignment", head=0)
    assert float(retriever[0]) == 1
    data, _ = capture(("reset",))
    data["cosine_to_last"][:] = 0.38  # weak below 0.5, not below 0.4 or 0.3
    data["cosine_to_sink"][:] = 0.9
    stable = classify_heads(data, resamples=2)["stability_sweep"].sel(criterion="alignment")
    assert float(stable[0, 0]) == pytest.approx(9 / 11)


def test_curves_of_a_regime_are_means_over_its_heads_and_documents():
    data, _ = capture(("reset", "reset", "retriever"))
    found = classify_heads(data, resamples=2)
    each = data["recall"].values[:, 0, :2].mean(axis=1)
    selected = found.sel(criterion="both", regime="reset")
    np.testing.assert_allclose(selected["recall"], each.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(selected["recall_se"], stats.sem(each, axis=0), rtol=1e-5, atol=1e-9)
    assert np.isnan(found["recall"].sel(criterion="both", regime="mixer")).all()


def test_kappa_is_that_of_statsmodels():
    rng = np.random.default_rng(0)
    first, second = rng.integers(1, 4, 60), rng.integers(1, 4, 60)
    second[:25] = first[:25]
    codes = (1, 2, 3)
    counts = np.array([[((first == a) & (second == b)).sum() for b in codes] for a in codes])
    assert float(kappa(first, second)) == pytest.approx(cohens_kappa(counts).kappa)
    with_gaps = np.concatenate([first, [0, UNKNOWN, 2]]), np.concatenate([second, [1, 1, 0]])
    assert float(kappa(*with_gaps)) == pytest.approx(cohens_kappa(counts).kappa)
    assert np.isnan(kappa(np.array([1, 1]), np.array([1, 1])))
    assert np.isnan(kappa(np.array([0, 1]), np.array([1, 0])))


def test_one_document_has_labels_without_intervals_or_stability():
    found = classify_heads(capture(documents=1)[0], resamples=20)
    assert named(found) == list(MADE)
    stability = ("stability_leave_one_out", "stability_resampled")
    for name in ("contribution_sink_se", *stability, "recall_se", "kappa_se"):
        assert np.isnan(found[name]).all()
    assert "One document" in found.attrs["notes"][-1]


def test_heads_that_do_not_see_the_sink_are_not_classified():
    found = classify_heads(capture(sink=False)[0], resamples=5)
    assert (found["label"] == UNKNOWN).all()
    assert (found["heads"] == 0).all()
    assert np.isnan(found["stability_leave_one_out"]).all()
    assert found.attrs["notes"][0].startswith("4 of 4 heads do not see the sink")


def test_without_a_curve_at_n_equal_t_the_rest_is_missing_with_a_note():
    found = classify_heads(capture(n=N[:-1])[0], resamples=5)
    assert np.isnan(found["contribution_rest"]).all()
    assert (found["label"].sel(criterion="size") == UNKNOWN).all()
    assert named(found, "alignment")[:3] == list(MADE[:3])
    assert "N = T" in found.attrs["notes"][0]


def test_without_small_and_large_sizes_there_is_no_alignment():
    found = classify_heads(capture(n=np.array([1, 2, 64]))[0], resamples=5)
    assert (found["label"].sel(criterion="alignment") == UNKNOWN).all()
    assert "no alignment curve" in found.attrs["notes"][0]
