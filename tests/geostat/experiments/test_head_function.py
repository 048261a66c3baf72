"""Does geometry tell function, on heads drawn from models where that is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr, ttest_ind

from geostat.experiments.ablation.head_function import (
    GIVEN,
    MODELS,
    OF_OTHERS,
    WEIGHTS,
    Heads,
    _joined,
    associations,
    predictions,
)
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate, leave_one_out_mean

LAYERS, EACH, DOCUMENTS = 20, 9, 6
LAYER = np.repeat(np.arange(LAYERS), EACH).astype(float)


def drawn(of_mass: float, of_geometry: float, seed: int, of_layer: float = 0.0) -> Heads:
    """Heads whose loss rests on mass and on geometry so much; geometry goes with mass."""
    chance = np.random.default_rng(seed)
    mass, own, entropy = chance.normal(size=(3, LAYER.size))
    geometry = mass + own + of_layer * LAYER
    loss = of_mass * mass + of_geometry * own + of_layer * LAYER + chance.normal(size=LAYER.size)
    noise = 0.3 * chance.normal(size=(4, DOCUMENTS, LAYER.size))
    return Heads(
        rise=np.exp(loss + noise[0])[:, None],
        outcome=lambda mean: mean[0],
        known={
            "f": geometry + noise[1],
            "kept_mass": mass + noise[2],
            "entropy": entropy + noise[3],
        },
        layer=LAYER,
    )


def told(heads: Heads) -> Estimate:
    return predictions(heads, {name: heads.known[name] for name in WEIGHTS})[0]


def column(heads: Heads, given: str) -> FloatArray:
    found = associations(heads)
    return found.value[:, list(GIVEN).index(given)]


def test_the_correlation_itself_is_spearmans() -> None:
    heads = drawn(1, 0.5, 0)
    for place, each in enumerate(heads.known.values()):
        expected = spearmanr(each.mean(axis=0), heads.rise.mean(axis=(0, 1))).statistic
        assert column(heads, "nothing")[place] == pytest.approx(expected)


def test_a_partial_correlation_is_that_of_residuals() -> None:
    heads = drawn(1, 0.5, 1)
    y, f, mass, entropy = (
        np.argsort(np.argsort(values)).astype(float)
        for values in (
            heads.rise.mean(axis=(0, 1)),
            *(x.mean(axis=0) for x in heads.known.values()),
        )
    )
    precision = np.linalg.inv(np.corrcoef([y, f, mass, entropy]))
    expected = -precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])
    assert column(heads, "weights")[0] == pytest.approx(expected)
    two = np.linalg.inv(np.corrcoef([y, mass, entropy]))  # a control is not given itself
    expected = -two[0, 1] / np.sqrt(two[0, 0] * two[1, 1])
    assert column(heads, "weights")[1] == pytest.approx(expected)


@pytest.mark.parametrize(("of_geometry", "expected"), [(0.0, 0), (1.0, 1)])
def test_what_geometry_adds_is_found_where_it_adds_and_only_there(
    of_geometry: float, expected: int
) -> None:
    partial, gain = [], []
    for seed in range(20):
        heads = drawn(1, of_geometry, seed)
        partial.append(column(heads, "weights")[0])
        gain.append(told(heads).value[len(MODELS)])
        assert column(heads, "nothing")[0] > 0.3  # it goes with mass, so it goes with the loss
    if expected:
        assert min(partial) > 0.3
        assert min(gain) > 0.05
    else:
        assert abs(np.mean(partial)) < 0.05
        assert np.mean(gain) < 0.005


def test_a_trend_over_layers_is_not_told_for_geometry() -> None:
    heads = drawn(0, 0, 3, of_layer=0.5)
    assert column(heads, "weights")[0] > 0.7
    assert abs(column(heads, "weights and layer")[0]) < 0.25


def by_hand(heads: Heads, names: tuple[str, ...], use: np.ndarray) -> float:
    y = np.argsort(np.argsort(heads.rise.mean(axis=(0, 1))[use])) + 1.0
    x = [np.argsort(np.argsort(heads.known[name].mean(axis=0)[use])) + 1.0 for name in names]
    scaled = [2 * one / (len(y) + 1) - 1 for one in x]
    design = np.stack([np.ones_like(y), *scaled, *(one**2 for one in scaled)], axis=1)
    missed = expected = 0.0
    for layer in np.unique(LAYER[use]):
        out = layer == LAYER[use]
        fit = np.linalg.lstsq(design[~out], y[~out], rcond=None)[0]
        missed += ((y[out] - design[out] @ fit) ** 2).sum()
        expected += ((y[out] - y[~out].mean()) ** 2).sum()
    return float(1 - missed / expected)


def test_layers_left_out_are_predicted_from_the_others_alone() -> None:
    heads, every = drawn(1, 0, 4), np.ones(LAYER.size, dtype=bool)
    found = told(heads).value
    assert found[0] == pytest.approx(by_hand(heads, WEIGHTS, every))
    assert found[2] == pytest.approx(by_hand(heads, ("f", *WEIGHTS), every))
    assert found[3] == pytest.approx(found[2] - found[0])


def with_known(heads: Heads, **known: FloatArray) -> Heads:
    return replace(heads, known={**heads.known, **known})


def test_what_others_tell_already_is_in_no_model() -> None:
    heads = drawn(1, 0.5, 7)
    own = np.random.default_rng(7).normal(size=(len(OF_OTHERS), LAYER.size))
    more = with_known(heads, **dict(zip(OF_OTHERS, own, strict=True)))
    assert told(more).value.tolist() == told(heads).value.tolist()
    assert len(associations(more).value) == len(associations(heads).value) + len(OF_OTHERS)


def test_no_rank_is_predicted_that_no_head_has() -> None:
    """Two predictors that differ in one layer alone, where their difference stands for nothing."""
    heads, chance = drawn(1, 0, 8), np.random.default_rng(8)
    one = chance.normal(size=LAYER.size)
    other = one + 1e-3 * chance.normal(size=LAYER.size)
    other[LAYER == 4] = chance.normal(size=EACH)
    assert told(with_known(heads, one=one, other=other)).value.min() > -0.6


def test_models_are_of_the_same_heads() -> None:
    """Noise that is known in some layers alone tells nothing of the layers that it is known in."""
    for seed in range(10):
        heads = drawn(1, 0, seed)
        noise = np.random.default_rng(seed).normal(size=LAYER.size)
        noise[LAYER < LAYERS // 3] = np.nan
        some = Heads(
            rise=heads.rise,
            outcome=heads.outcome,
            known={**heads.known, "noise": noise},
            layer=heads.layer,
        )
        found, count = predictions(some, {name: heads.known[name] for name in WEIGHTS})
        use = np.isfinite(noise)
        assert count == use.sum()
        assert found.value[0] == pytest.approx(by_hand(heads, WEIGHTS, use))
        assert found.value[3] < 0.02


def answered(loss: str, seed: int) -> bool:
    """Whether geometry is said to tell something, where the loss rests on mass alone."""
    chance = np.random.default_rng(seed)
    mass, own, entropy, noise = chance.normal(size=(4, LAYER.size))
    if loss == "bent":  # both are functions of mass, one of them not monotone
        geometry, rest = mass**2, mass**2
    else:
        geometry, rest = mass + own, mass
    rise = np.exp(rest + noise + 0.3 * chance.normal(size=(DOCUMENTS, LAYER.size)))
    seen = 0.3 * chance.normal(size=(3, DOCUMENTS, LAYER.size))
    known = {"f": geometry + seen[0], "kept_mass": mass + seen[1], "entropy": entropy + seen[2]}
    heads = Heads(rise=rise[:, None], outcome=lambda mean: mean[0], known=known, layer=LAYER)
    return bool(told(heads).lower[3] > 0)


@pytest.mark.parametrize("loss", ["straight", "bent"])
def test_geometry_is_seldom_said_to_tell_what_it_does_not(loss: str) -> None:
    assert sum(answered(loss, seed) for seed in range(40)) <= 3


def test_what_cannot_be_told_is_not() -> None:
    heads = drawn(1, 1, 5)
    few = Heads(
        rise=heads.rise[..., :9],
        outcome=heads.outcome,
        known={name: each[:, :9] for name, each in heads.known.items()},
        layer=heads.layer[:9],
    )
    assert np.isnan(told(few).value).all()  # one layer
    level = Heads(
        rise=heads.rise,
        outcome=heads.outcome,
        known={**heads.known, "level": np.ones_like(LAYER), "unknown": np.full_like(LAYER, np.nan)},
        layer=heads.layer,
    )
    assert np.isnan(associations(level).value[-2:]).all()
    assert told(level).value == pytest.approx(told(heads).value)


def test_heads_that_are_not_known_are_ranked_by_no_one() -> None:
    heads, known = drawn(1, 0.5, 2), np.arange(LAYER.size) % 3 > 0
    holed = with_known(heads, f=np.where(known, heads.known["f"], np.nan))
    rest = Heads(
        rise=heads.rise[..., known],
        outcome=heads.outcome,
        known={name: each[:, known] for name, each in heads.known.items()},
        layer=LAYER[known],
    )
    found = associations(holed).value
    assert found[0] == pytest.approx(associations(rest).value[0])
    assert found[1:] == pytest.approx(associations(heads).value[1:])


def test_errors_are_over_documents_and_layers() -> None:
    heads = drawn(1, 0.5, 6)
    found = associations(heads)

    def without(documents: Any, some: Any) -> FloatArray:
        return associations(
            Heads(
                rise=heads.rise[documents][..., some],
                outcome=heads.outcome,
                known={name: each[documents][:, some] for name, each in heads.known.items()},
                layer=heads.layer[some],
            )
        ).value

    def squares(values: list[FloatArray]) -> FloatArray:
        on_z = np.arctanh(np.stack(values))
        spread = on_z - np.mean(on_z, axis=0)
        return (len(values) - 1) / len(values) * (spread**2).sum(axis=0)

    every = np.arange(DOCUMENTS)
    over_documents = squares([without(every != at, slice(None)) for at in every])
    over_layers = squares([without(every, at != LAYER) for at in range(LAYERS)])
    expected = np.sqrt(over_documents + over_layers)
    assert found.se == pytest.approx(expected * (1 - found.value**2))
    assert (over_layers > over_documents).mean() > 0.5  # other heads would scatter more
    assert np.abs(found.upper).max() <= 1


@pytest.mark.slow
def test_a_correlation_of_nothing_has_an_interval_that_holds_0() -> None:
    """Over heads, too: documents agree on heads that go together by chance."""
    found = [associations(drawn(0, 0, seed)) for seed in range(60)]
    outside = [bool(one.lower[0, 1] > 0 or one.upper[0, 1] < 0) for one in found]
    assert 1 <= sum(outside) <= 6  # 3 of 60 at 95%


def test_joined_errors_have_welch_s_interval() -> None:
    """Leave-one-out means of two samples: their joined error is that of the difference of means."""
    chance = np.random.default_rng(3)
    documents, layers = chance.normal(size=4), 2 * chance.normal(size=30)
    found = _joined(np.array(0.5), leave_one_out_mean(documents), leave_one_out_mean(layers))
    welch = ttest_ind(documents, layers, equal_var=False).confidence_interval()
    assert found.upper - found.lower == pytest.approx(welch.high - welch.low, rel=1e-12)
    assert (found.upper + found.lower) / 2 == pytest.approx(0.5)
    level = _joined(np.array(0.25), np.full(4, 0.25), np.full(30, 0.25))  # nothing moves it
    assert (level.lower, level.upper) == (0.25, 0.25)


@pytest.mark.parametrize(("documents", "least"), [(2, 0.87), (4, 0.93)])
def test_how_often_the_joined_interval_holds_the_truth(documents: int, least: float) -> None:
    chance = np.random.default_rng(0)
    for ratio in (0.1, 0.3, 1, 3, 10):  # of the errors over documents and over layers
        one = ratio * np.sqrt(documents) * chance.normal(size=(documents, 10_000))
        other = np.sqrt(30) * chance.normal(size=(30, 10_000))
        value = one.mean(axis=0) + other.mean(axis=0)
        found = _joined(value, leave_one_out_mean(one), leave_one_out_mean(other))
        held = np.mean((found.lower <= 0) & (found.upper >= 0))
        assert least <= held <= 0.965, (ratio, held)
