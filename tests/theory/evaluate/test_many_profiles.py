"""Bounds of many profiles of weights that share a Gram: the same as one by one, whatever is done at
once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from theory.editions.sharp.sharp_kernels import pairwise_sum, rank_and_sum
from theory.evaluate import many_profiles
from theory.evaluate.envelopes import envelope, envelopes, envelopes_by_edition
from theory.head.ranked import Extremes, extremes_of, rank_tokens, summarise
from theory.head.results import QUANTITIES
from theory.head.similarity_decay import exponential

BOUNDS = [f"{quantity}_{side}" for quantity in QUANTITIES for side in ("lower", "upper")]


def drawn_gram(dtype: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of five heads, (5, 40), norms and cosines of their values."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 16)) + 0.3
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    weights = rng.dirichlet(np.full(40, 0.4), size=5).round(3)
    return weights, rng.random(40) + 0.5, (values @ values.T).astype(dtype)


@pytest.mark.parametrize("sink", [0, 7, None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_sums_equal_the_plain_ones(dtype: type, sink: int | None) -> None:
    weights, norms, gram = drawn_gram(dtype)
    alpha, sizes = weights[0], np.array([1, 2, 5, 17, 39])
    head = rank_tokens(alpha, norms, gram, sink)
    expected, at = summarise(head, sizes), -1 if head.sink is None else head.sink
    by_rank, sigma, rho = np.empty((40, 40)), np.empty((5, 40)), np.empty((3, 5))
    rank_and_sum(gram, head.order, head.a, at, sizes, by_rank, sigma, rho)
    np.testing.assert_array_equal(by_rank, head.cosines)
    seen = extremes_of(head.a, np.array(at), sizes, rho)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(sigma, expected.sigma, **close)
    for name in Extremes.__slots__:
        found, plain = getattr(seen, name), getattr(expected, name)
        np.testing.assert_allclose(found, plain, **close, err_msg=name)
    sums = [pairwise_sum(row[:size]) for row, size in zip(sigma, sizes, strict=True)]
    np.testing.assert_allclose(sums, expected.sigma_ss, **close)


SIZES = np.array([17, 1, 2, 39, 5, 5, 40, 41])


@pytest.mark.parametrize("sink", [0, 7, None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_heads_of_one_gram_equal_one_by_one(dtype: type, sink: int | None) -> None:
    alpha, norms, gram = drawn_gram(dtype)
    each: list[Any] = [
        {"edition": "printed"},
        {"edition": "sharp"},
        {"edition": "printed", "delta0": "in", "sink_in_b": False, "kappa": 0.3},
        {"edition": "sharp", "convention": "followup"},
    ]
    each = [{**one, "sink": sink, "feasible": True} for one in each]
    together = envelopes_by_edition(alpha, norms, gram, 16, SIZES, each)
    for found, choices in zip(together, each, strict=True):
        for h in range(len(alpha)):
            alone = envelope(alpha[h], norms, gram, 16, SIZES, **choices)
            for name in [*BOUNDS, "margin", "margin_sink", "scale"]:
                # sharp bounds are those of a table
                rtol, atol = (1e-7, 1e-8) if name in BOUNDS else (1e-12, 1e-12)
                seen, expected = getattr(found, name)[h], getattr(alone, name)
                np.testing.assert_allclose(seen, expected, rtol=rtol, atol=atol, err_msg=name)
            for field in dataclasses.fields(alone.valid):
                seen, expected = (getattr(x.valid, field.name) for x in (found, alone))
                np.testing.assert_array_equal(seen[h], expected, err_msg=field.name)


@pytest.mark.parametrize(("name", "value"), [("AT_ONCE", 1), ("SCRATCH", 1)])
@pytest.mark.parametrize("heads", [1, 5])
def test_heads_at_once_and_threads_move_no_bound(
    monkeypatch: pytest.MonkeyPatch, heads: int, name: str, value: int
) -> None:
    alpha, norms, gram = drawn_gram(np.float64)
    own = (alpha[:heads], norms, gram, 16, SIZES, [{"edition": "printed"}, {"edition": "sharp"}])
    before = envelopes_by_edition(*own)
    monkeypatch.setattr(many_profiles, "ALONE", 0)
    monkeypatch.setattr(many_profiles, name, value)
    monkeypatch.setattr(many_profiles, "workers", lambda: 3)
    for old, new in zip(before, envelopes_by_edition(*own), strict=True):
        for bound in [*BOUNDS, "margin", "margin_sink", "scale"]:
            np.testing.assert_array_equal(getattr(new, bound), getattr(old, bound))


@pytest.mark.parametrize("edition", ["printed", "sharp", "repaired", "conditional"])
def test_no_head_has_no_bounds(edition: str) -> None:
    found = envelopes(np.empty((0, 4)), 1.0, exponential(1.0, 0.1, 4), 16, [1, 4], edition=edition)
    assert found.recall_lower.shape == (0, 2)


@pytest.mark.parametrize("count", [*range(1, 40), 127, 128, 129, 136, 255, 256, 257, 1025, 4099])
def test_sums_are_those_of_numpy_bit_for_bit(count: int) -> None:
    numbers = np.random.default_rng(count).normal(size=count)
    assert pairwise_sum(numbers) == numbers.sum()
