"""Regimes of heads: rules on heads of known make, contributions against sums of vectors,
stability by hand, and what is missing.
"""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa

from empirical.measure.layer import measure_layer
from geostat.experiments.head_labels import HeadCurves, kappa
from geostat.experiments.head_regime_rules import (
    CRITERIA,
    REGIMES,
    THRESHOLDS,
    UNKNOWN,
    Features,
    by_alignment,
    by_size,
    labels,
)
from geostat.experiments.head_regimes import classify_heads

TOKENS, DIMENSION, DOCUMENTS = 64, 8, 4
N = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
MADE = ("retriever", "mixer", "reset", "unclassified")


def head(kind, rng):
    """Weights and values of one head of a regime, sink along the first axis, last token near the
    second.
    """
    alpha = rng.uniform(0.9, 1.1, TOKENS) / TOKENS
    values = 0.2 * rng.normal(size=(TOKENS, DIMENSION))
    values[0], values[-1] = (
        np.eye(DIMENSION)[0],
        0.3 * np.eye(DIMENSION)[0] + 0.95 * np.eye(DIMENSION)[1],
    )
    if kind == "retriever":
        alpha[-1], alpha[0] = 5.0, 0.02
    elif kind == "mixer":
        values[1:-1, 1] += 4.0
        values[-1] *= 100.0
        alpha[0], alpha[-1] = 0.8, 0.01
    elif kind == "reset":
        alpha[0] = 5.0
        alpha[-1] = 1e-4
    else:
        alpha[0], alpha[-1] = 0.5, 0.49
        values[1:-1, 2] += 1.0
    return alpha / alpha.sum(), values


def capture(kinds=MADE, *, documents=DOCUMENTS, seed=0, n=N, sink=True, layers=1):
    """A /capture dataset of heads of known make, measured from their vectors; one value head a
    head.
    """
    rng = np.random.default_rng(seed)
    parts, vectors = {}, []
    for _ in range(documents):
        for _ in range(layers):
            made = [head(kind, rng) for kind in kinds]
            alpha, values = (np.stack(rows).astype(np.float64) for rows in zip(*made, strict=True))
            vectors.append(alpha[..., None] * values)
            for name, array in measure_layer(alpha, values, n, sink=sink).items():
                parts.setdefault(name, []).append(array)
    kept = (
        "precision",
        "recall",
        "representative_norm",
        "representative_norm_without_sink",
        "representative_norm_without_last",
    )
    data = {
        name: (("document", "layer", "head", "n"), parts[name])
        for name in (*kept, "cosine_to_sink", "cosine_to_last")
    }
    data["attention_weight"] = (
        ("document", "layer", "head", "position"),
        parts["attention_weight"],
    )
    data |= {
        name: (("document", "layer", "kv_head", "position"), parts[name])
        for name in ("value_norm", "sink_cosine")
    }
    shaped = {
        name: (dims, np.reshape(rows, (documents, layers, *np.shape(rows)[1:])))
        for name, (dims, rows) in data.items()
    }
    coords = {
        "n": n,
        "layer": np.arange(layers),
        "head": np.arange(len(kinds)),
        "tokens": ("layer", np.full(layers, TOKENS)),
        "sink_visible": ("layer", np.full(layers, sink)),
        "kv_head_of_head": ("head", np.arange(len(kinds))),
    }
    return xr.Dataset(shaped, coords=coords), np.reshape(
        vectors, (documents, layers, len(kinds), TOKENS, DIMENSION)
    )


def mutable(data):
    return data.map(lambda variable: variable.copy(deep=True))


def test_heads_of_known_make_get_their_regime():
    data, _ = capture()
    found = classify_heads(data, resamples=20)
    assert [REGIMES[code] for code in found["label"].sel(criterion="both").values[0]] == list(MADE)
    assert found["heads"].sel(criterion="both").values.tolist() == [1, 1, 1, 1]
    assert found["count"].sel(criterion="both", regime="mixer").values.tolist() == [1]
    assert found["told"] == 3
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
def test_sizes_rank_the_last_token_with_a_margin(sink, last, rest, regime):
    found = by_size(*(np.array([float(x)]) for x in (sink, last, rest)))
    assert REGIMES[found[0]] == regime


def curves(sink, last):
    """Features of two straight curves of log N."""
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
        ((0.1, 0.1), (0.9, 0.54), "unclassified"),  # not strong by a margin at the largest N
        ((0.8, 0.2), (0.1, 0.6), "mixer"),
        ((0.8, 0.4), (0.1, 0.42), "unclassified"),  # the last token leads by less than the margin
        ((0.3, 0.3), (0.2, 0.6), "unclassified"),  # the sink's cosine does not fall
        ((0.8, 0.6), (0.1, 0.4), "reset"),
        ((0.8, 0.6), (0.1, 0.47), "unclassified"),  # not weak with the last token by a margin
        ((0.4, 0.4), (0.3, 0.38), "unclassified"),
    ],
)
def test_alignment_rules_need_their_margin(sink, last, regime):
    assert REGIMES[by_alignment(curves(sink, last))[0, 0]] == regime


def test_alignment_beyond_half_of_the_tokens_does_not_count():
    sink, last = np.full((1, 1, N.size), 0.8), np.full((1, 1, N.size), 0.1)
    last[..., N > TOKENS / 2] = 0.95
    at = THRESHOLDS
    assert (
        REGIMES[by_alignment(Features.of(sink, last, N, np.array([TOKENS]), at))[0, 0]] == "reset"
    )
    every = replace(at, large=1.0)
    assert (
        REGIMES[by_alignment(Features.of(sink, last, N, np.array([TOKENS]), every), every)[0, 0]]
        == "unclassified"
    )


def test_a_head_is_classified_only_where_both_agree():
    sizes = {
        "sink": np.array([[1.0]]),
        "last": np.array([[3.0]]),
        "rest": np.array([[2.0]]),
        "rest_total": np.array([[4.0]]),
    }
    found = labels(sizes, curves((0.8, 0.6), (0.1, 0.4)))
    assert found[:, 0, 0].tolist() == [REGIMES.index("retriever"), REGIMES.index("reset"), 0]
    other = labels(sizes, curves((0.1, 0.1), (0.9, 0.6)), replace(THRESHOLDS, total=True))
    assert other[0, 0, 0] == REGIMES.index("mixer")
    assert list(CRITERIA) == ["size", "alignment", "both"]


def test_stability_counts_replicates_with_the_same_label():
    data = mutable(capture()[0])
    for name in (
        "cosine_to_sink",
        "cosine_to_last",
    ):  # one document turns the reset's alignment round, strongly enough to tip the mean
        data[name][0, 0, 2] = 1.0 if name == "cosine_to_last" else -1.0
    found = classify_heads(data, resamples=200, seed=5)
    whole = HeadCurves.of(data)
    label = found["label"].values
    agree = np.zeros(label.shape)
    for out in range(DOCUMENTS):
        kept = data.isel(document=[k for k in range(DOCUMENTS) if k != out])
        agree += classify_heads(kept, resamples=2)["label"].values == label
    np.testing.assert_allclose(found["stability_left_out"], agree / DOCUMENTS)
    drawn = np.random.default_rng(5).multinomial(
        DOCUMENTS, np.full(DOCUMENTS, 1 / DOCUMENTS), size=200
    )
    same = [
        classify_heads(data.isel(document=np.repeat(np.arange(DOCUMENTS), counts)), resamples=2)[
            "label"
        ].values
        == label
        for counts in drawn[:15]
    ]
    np.testing.assert_allclose(
        whole.label(drawn[:15].astype(float)) == label[:, None], np.stack(same, axis=1)
    )
    assert found["stability_left_out"].min() < 1
    assert (found["stability_resampled"].sel(criterion="both", head=0) == 1).all()


def test_the_sweep_counts_heads_under_other_thresholds():
    found = classify_heads(capture()[0], resamples=2)
    assert (found["sweep_heads"].sum("regime") == len(MADE)).all()
    retriever = found["stability_sweep"].sel(criterion="alignment", head=0)
    assert float(retriever[0]) == 1
    data = mutable(capture(("reset",))[0])
    data["cosine_to_last"][:] = 0.38  # weak below 0.5, not below 0.4 or 0.3
    data["cosine_to_sink"][:] = 0.9
    stable = classify_heads(data, resamples=2)["stability_sweep"].sel(criterion="alignment")
    assert float(stable[0, 0]) == pytest.approx(9 / 11)


def test_curves_of_a_regime_are_means_over_its_heads_and_documents():
    data, _ = capture(("reset", "reset", "retriever"))
    found = classify_heads(data, resamples=2)
    each = data["recall"].values[:, 0, :2].mean(axis=1)
    at = found.sel(criterion="both", regime="reset")
    np.testing.assert_allclose(at["recall"], each.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(at["recall_se"], stats.sem(each, axis=0), rtol=1e-5, atol=1e-9)
    assert np.isnan(found["recall"].sel(criterion="both", regime="mixer")).all()


def test_kappa_is_statsmodels():
    rng = np.random.default_rng(0)
    first, second = rng.integers(1, 4, 60), rng.integers(1, 4, 60)
    second[:25] = first[:25]
    counts = np.array(
        [[((first == a) & (second == b)).sum() for b in (1, 2, 3)] for a in (1, 2, 3)]
    )
    assert float(kappa(first, second)) == pytest.approx(cohens_kappa(counts).kappa)
    with_gaps = np.concatenate([first, [0, UNKNOWN, 2]]), np.concatenate([second, [1, 1, 0]])
    assert float(kappa(*with_gaps)) == pytest.approx(cohens_kappa(counts).kappa)
    assert np.isnan(kappa(np.array([1, 1]), np.array([1, 1])))
    assert np.isnan(kappa(np.array([0, 1]), np.array([1, 0])))


def test_one_document_has_labels_without_intervals_or_stability():
    found = classify_heads(capture(documents=1)[0], resamples=20)
    assert [REGIMES[code] for code in found["label"].sel(criterion="both").values[0]] == list(MADE)
    for name in (
        "contribution_sink_se",
        "stability_left_out",
        "stability_resampled",
        "recall_se",
        "kappa_se",
    ):
        assert np.isnan(found[name]).all()
    assert "One document" in found.attrs["notes"][-1]


def test_heads_that_do_not_see_the_sink_cannot_be_told():
    found = classify_heads(capture(sink=False)[0], resamples=5)
    assert (found["label"] == UNKNOWN).all()
    assert (found["heads"] == 0).all()
    assert np.isnan(found["stability_left_out"]).all()
    assert found.attrs["notes"][0].startswith("4 of 4 heads do not see the sink")


def test_without_a_curve_at_the_end_the_rest_is_unknown_and_said_to_be():
    found = classify_heads(capture(n=N[:-1])[0], resamples=5)
    assert np.isnan(found["contribution_rest"]).all()
    assert (found["label"].sel(criterion="size") == UNKNOWN).all()
    assert [REGIMES[code] for code in found["label"].sel(criterion="alignment").values[0]][
        :3
    ] == list(MADE[:3])
    assert "N = T" in found.attrs["notes"][0]


def test_without_sizes_from_small_to_large_there_is_no_alignment():
    found = classify_heads(capture(n=np.array([1, 2, 64]))[0], resamples=5)
    assert (found["label"].sel(criterion="alignment") == UNKNOWN).all()
    assert "no alignment curve" in found.attrs["notes"][0]
