"""How many tokens single heads need, on heads drawn from curves whose N* is known."""

from __future__ import annotations

import numpy as np
import pytest

from geostat.experiments.ablation.heads import needs_of_groups
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import Estimate

TOKENS, TAU, HEADS, DOCUMENTS = 256, 0.001, 100, 4
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128]
ALL = np.ones(HEADS, dtype=bool)


def falling(n: FloatArray) -> FloatArray:
    return np.asarray(n**-0.8 - TOKENS**-0.8)


def drawn(seed: int, scatter: float = 0.5) -> tuple[list[FloatArray], list[dict[int, FloatArray]]]:
    """Every head's rise at N = 1, …, T, and its losses in documents, whose rises scatter so."""
    chance = np.random.default_rng(seed)
    scale = np.exp(chance.normal(-6.6, 1.3, HEADS))
    own = np.exp(chance.normal(-(scatter**2) / 2, scatter, (DOCUMENTS, HEADS)))
    every = falling(np.arange(1.0, TOKENS + 1))
    curves = [
        {n: 1 + own[:, head] * scale[head] * falling(np.float64(n)) for n in SIZES}
        for head in range(HEADS)
    ]
    return [one * every for one in scale], curves


def estimated(curves: list[dict[int, FloatArray]], settled: bool = True) -> list[Estimate]:
    found = needs_of_groups(np.ones(DOCUMENTS), curves, TAU, TOKENS, [ALL, ~ALL], settled=settled)
    return [one for one in found.values() if isinstance(one, Estimate)]


@pytest.mark.parametrize(("scatter", "least"), [(0.5, 34), (1.0, 30)])
def test_intervals_hold_what_is_true_nearly_as_often_as_they_say(
    scatter: float, least: int
) -> None:
    held = np.zeros(3)
    for seed in range(40):
        true, curves = drawn(seed, scatter)
        stars = [np.flatnonzero(rise > TAU).max(initial=-1) + 2 for rise in true]
        half, most = np.quantile(stars, (0.5, 0.9), method="inverted_cdf")
        share, needed = estimated(curves)
        for at, (value, low, high) in enumerate(
            (
                (np.mean(np.array(stars) == 1), share.lower[0, 0], share.upper[0, 0]),
                (half, needed.lower[0, 0, 0], needed.upper[0, 0, 0]),
                (most, needed.lower[0, 0, 1], needed.upper[0, 0, 1]),
            )
        ):
            held[at] += low <= value <= high
    assert (held >= least).all(), held  # 38 of 40 at 95%; few documents make N* look small


def test_of_no_heads_and_of_a_search_that_goes_on_nothing_is_told() -> None:
    _, curves = drawn(0)
    share, needed = estimated(curves)
    assert np.isfinite(share.value[0]).tolist() == [True, False]
    assert np.isfinite(needed.value[0]).tolist() == [[True, True], [False, False]]
    for one in estimated(curves, settled=False):
        assert np.isnan(one.value).all()
