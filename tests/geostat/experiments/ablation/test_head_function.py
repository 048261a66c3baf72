"""Prediction of loss increases by geometry, on heads simulated from known models."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr, ttest_ind

from geostat.experiments.ablation import heads as prediction
from geostat.experiments.ablation.heads import WEIGHTS, Heads, associations, predictions
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, jackknife_of_two, leave_one_out_mean

LAYERS, EACH, DOCUMENTS = 20, 9, 6
LAYER = np.repeat(np.arange(LAYERS), EACH).astype(float)


def drawn(of_mass: float, of_geometry: float, seed: int, of_layer: float = 0.0) -> Heads:
    """Return heads whose loss depends on mass and geometry; geometry is correlated with mass."""
    chance = np.random.default_rng(seed)
    mass, own, entropy = chance.normal(size=(3, LAYER.size))
    geometry = mass + own + of_layer * LAYER
    loss = of_mass * mass + of_geometry * own + of_layer * LAYER + chance.normal(size=LAYER.size)
    return measured(chance, loss, geometry, mass, entropy)


def measured(chance: np.random.Generator, loss: FloatArray, *features: FloatArray) -> Heads:
    """Return heads of which documents measure log loss, geometry, selected mass and entropy."""
    rise, *noisy = [
        values + 0.3 * chance.normal(size=(DOCUMENTS, LAYER.size)) for values in (loss, *features)
    ]
    return Heads(
        rise=np.exp(rise)[:, None],
        outcome=lambda mean: mean[0],
        features=dict(zip(("f", *WEIGHTS), noisy, strict=True)),
        layer=LAYER,
    )


def part_of(heads: Heads, use: Any, documents: Any = slice(None)) -> Heads:
    """Return some heads and documents."""
    return replace(
        heads,
        rise=heads.rise[documents][..., use],
        features={name: feature[documents][:, use] for name, feature in heads.features.items()},
        layer=heads.layer[use],
    )


def with_known(heads: Heads, **known: FloatArray) -> Heads:
    return replace(heads, features={**heads.features, **known})


def r2_of(heads: Heads) -> Estimate:
    return predictions(heads, {name: heads.features[name] for name in WEIGHTS})[0]


def column(heads: Heads, given: str) -> FloatArray:
    found = associations(heads)
    return found.value[:, list(prediction.CONTROLS).index(given)]


def test_the_correlation_without_controls_is_spearmans():
    heads = drawn(1, 0.5, 0)
    for place, feature in enumerate(heads.features.values()):
        expected = spearmanr(feature.mean(axis=0), heads.rise.mean(axis=(0, 1))).statistic
        assert column(heads, "nothing")[place] == pytest.approx(expected)


def test_a_partial_correlation_is_that_of_residuals():
    heads = drawn(1, 0.5, 1)
    means = [heads.rise.mean(axis=(0, 1)), *(x.mean(axis=0) for x in heads.features.values())]
    y, f, mass, entropy = (np.argsort(np.argsort(values)).astype(float) for values in means)
    # a control does not control for itself
    for place, ranks in enumerate(([y, f, mass, entropy], [y, mass, entropy])):
        precision = np.linalg.inv(np.corrcoef(ranks))
        expected = -precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])
        assert column(heads, "weights")[place] == pytest.approx(expected)


@pytest.mark.parametrize("of_geometry", [0.0, 1.0])
def test_the_gain_of_geometry_is_positive_only_if_geometry_predicts(of_geometry):
    partial, gain = [], []
    for seed in range(8):
        heads = drawn(1, of_geometry, seed)
        alone, given_weights = associations(heads).value[0, [0, 1]]
        assert alone > 0.3  # correlated with the loss through mass
        partial.append(given_weights)
        gain.append(r2_of(heads).value[len(prediction.MODELS)])
    if of_geometry:
        assert min(partial) > 0.3
        assert min(gain) > 0.05
    else:
        assert abs(np.mean(partial)) < 0.05
        assert np.mean(gain) < 0.005


def test_a_trend_over_layers_is_not_attributed_to_geometry():
    heads = drawn(0, 0, 3, of_layer=0.5)
    assert column(heads, "weights")[0] > 0.7
    assert abs(column(heads, "weights and layer")[0]) < 0.25


def by_hand(heads: Heads, names: tuple[str, ...], use: np.ndarray) -> float:
    y = np.argsort(np.argsort(heads.rise.mean(axis=(0, 1))[use])) + 1.0
    x = [np.argsort(np.argsort(heads.features[name].mean(axis=0)[use])) + 1.0 for name in names]
    scaled = [2 * one / (len(y) + 1) - 1 for one in x]
    design = np.stack([np.ones_like(y), *scaled, *(one**2 for one in scaled)], axis=1)
    missed = expected = 0.0
    for layer in np.unique(LAYER[use]):
        out = layer == LAYER[use]
        fit = np.linalg.lstsq(design[~out], y[~out], rcond=None)[0]
        missed += ((y[out] - design[out] @ fit) ** 2).sum()
        expected += ((y[out] - y[~out].mean()) ** 2).sum()
    return float(1 - missed / expected)


def test_held_out_layers_are_predicted_from_the_others():
    heads, every = drawn(1, 0, 4), np.ones(LAYER.size, dtype=bool)
    found = r2_of(heads).value
    assert found[0] == pytest.approx(by_hand(heads, WEIGHTS, every))
    assert found[2] == pytest.approx(by_hand(heads, ("f", *WEIGHTS), every))
    assert found[3] == pytest.approx(found[2] - found[0])


def test_features_determined_by_others_are_excluded():
    heads = drawn(1, 0.5, 7)
    own = np.random.default_rng(7).normal(size=(len(prediction.OF_OTHERS), LAYER.size))
    more = with_known(heads, **dict(zip(prediction.OF_OTHERS, own, strict=True)))
    assert r2_of(more).value.tolist() == r2_of(heads).value.tolist()
    assert len(associations(more).value) == len(associations(heads).value) + len(
        prediction.OF_OTHERS
    )


def test_predicted_ranks_are_clipped_to_the_observed_range():
    """Two predictors differ in one layer only, where their difference is irrelevant."""
    heads, chance = drawn(1, 0, 8), np.random.default_rng(8)
    one = chance.normal(size=LAYER.size)
    other = one + 1e-3 * chance.normal(size=LAYER.size)
    other[LAYER == 4] = chance.normal(size=EACH)
    assert r2_of(with_known(heads, one=one, other=other)).value.min() > -0.6


def test_all_models_use_the_same_heads():
    """Noise with values in some layers only must not predict which layers have values."""
    for seed in range(10):
        heads = drawn(1, 0, seed)
        noise = np.random.default_rng(seed).normal(size=LAYER.size)
        noise[LAYER < LAYERS // 3] = np.nan
        noisy = with_known(heads, noise=noise)
        found, count = predictions(noisy, {name: heads.features[name] for name in WEIGHTS})
        use = np.isfinite(noise)
        assert count == use.sum()
        assert found.value[0] == pytest.approx(by_hand(heads, WEIGHTS, use))
        assert found.value[3] < 0.02


def answered(loss: str, seed: int) -> bool:
    """Return whether the gain of geometry is significant if the loss depends on mass only."""
    chance = np.random.default_rng(seed)
    mass, own, entropy, noise = chance.normal(size=(4, LAYER.size))
    if loss == "bent":  # both are functions of mass, one of them not monotone
        heads = measured(chance, mass**2 + noise, mass**2, mass, entropy)
    else:
        heads = measured(chance, mass + noise, mass + own, mass, entropy)
    return bool(r2_of(heads).lower[3] > 0)


@pytest.mark.parametrize(
    ("loss", "draws", "most"),
    [
        pytest.param("straight", 40, 3, marks=pytest.mark.slow),
        pytest.param("bent", 40, 3, marks=pytest.mark.slow),
        ("bent", 12, 1),
    ],
)
def test_false_positive_rate_of_the_gain_of_geometry(loss, draws, most):
    assert sum(answered(loss, seed) for seed in range(draws)) <= most


def test_too_few_heads_or_layers_give_no_estimate():
    heads = drawn(1, 1, 5)
    assert np.isnan(r2_of(part_of(heads, slice(9))).value).all()  # one layer
    level = with_known(heads, level=np.ones_like(LAYER), unknown=np.full_like(LAYER, np.nan))
    assert np.isnan(associations(level).value[-2:]).all()
    assert r2_of(level).value == pytest.approx(r2_of(heads).value)


def test_heads_with_missing_values_are_not_ranked():
    heads, known = drawn(1, 0.5, 2), np.arange(LAYER.size) % 3 > 0
    holed = with_known(heads, f=np.where(known, heads.features["f"], np.nan))
    found = associations(holed).value
    assert found[0] == pytest.approx(associations(part_of(heads, known)).value[0])
    assert found[1:] == pytest.approx(associations(heads).value[1:])


def test_errors_are_over_documents_and_layers():
    heads = part_of(drawn(1, 0.5, 6), LAYER < 8)
    found = associations(heads)

    def squares(parts: list[Heads]) -> FloatArray:
        values = [associations(part).value for part in parts]
        on_z = np.arctanh(np.stack(values))
        spread = on_z - np.mean(on_z, axis=0)
        return (len(values) - 1) / len(values) * (spread**2).sum(axis=0)

    every = np.arange(DOCUMENTS)
    over_documents = squares([part_of(heads, slice(None), every != left) for left in every])
    over_layers = squares([part_of(heads, left != heads.layer) for left in range(8)])
    expected = np.sqrt(over_documents + over_layers)
    assert found.se == pytest.approx(expected * (1 - found.value**2))
    assert (over_layers > over_documents).mean() > 0.5  # the variance between layers is larger
    assert np.abs(found.upper).max() <= 1


@pytest.mark.slow
def test_the_interval_of_a_null_correlation_covers_0():
    """The error includes heads: documents agree on correlations by chance over heads."""
    found = [associations(drawn(0, 0, seed)) for seed in range(60)]
    outside = [bool(row.lower[0, 1] > 0 or row.upper[0, 1] < 0) for row in found]
    assert 1 <= sum(outside) <= 6  # 3 of 60 expected


def test_combined_errors_have_welch_s_interval():
    """Leave-one-out means of two samples: the combined error is Welch's for their difference."""
    chance = np.random.default_rng(3)
    documents, layers = chance.normal(size=4), 2 * chance.normal(size=30)
    found = jackknife_of_two(
        np.array(0.5), leave_one_out_mean(documents), leave_one_out_mean(layers)
    )
    welch = ttest_ind(documents, layers, equal_var=False).confidence_interval()
    assert found.upper - found.lower == pytest.approx(welch.high - welch.low, rel=1e-12)
    assert (found.upper + found.lower) / 2 == pytest.approx(0.5)
    level = jackknife_of_two(np.array(0.25), np.full(4, 0.25), np.full(30, 0.25))
    assert (level.lower, level.upper) == (0.25, 0.25)


@pytest.mark.parametrize(("documents", "least"), [(2, 0.87), (4, 0.93)])
def test_coverage_of_the_combined_interval(documents, least):
    chance = np.random.default_rng(0)
    for ratio in (0.1, 0.3, 1, 3, 10):  # ratio of the errors over documents and layers
        one = ratio * np.sqrt(documents) * chance.normal(size=(documents, 10_000))
        other = np.sqrt(30) * chance.normal(size=(30, 10_000))
        value = one.mean(axis=0) + other.mean(axis=0)
        found = jackknife_of_two(value, leave_one_out_mean(one), leave_one_out_mean(other))
        held = np.mean((found.lower <= 0) & (found.upper >= 0))
        assert least <= held <= 0.965, (ratio, held)
