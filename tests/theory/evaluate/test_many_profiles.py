"""Bounds of many weight profiles that share a Gram equal single evaluations for any batching."""

from typing import Any

import numpy as np
import pytest
from support.model_g import assert_same, gram_of

from theory.editions.sharp.sharp_kernels import pairwise_sum, rank_and_sum
from theory.evaluate import many_profiles
from theory.evaluate.envelopes import envelope, envelopes, envelopes_by_edition
from theory.head.gram import exponential
from theory.head.ranked import Extremes, extremes_of, rank_tokens, summarise
from theory.head.results import BOUNDS, Validity

SIZES = np.array([17, 1, 2, 39, 5, 5, 40, 41])
KINDS = pytest.mark.parametrize(
    ("dtype", "sink"), [(np.float32, 0), (np.float64, 7), (np.float64, None)]
)


def drawn_heads(dtype: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of five heads, (5, 40), norms and cosines of their values."""
    rng = np.random.default_rng(0)
    gram = gram_of(rng.normal(size=(40, 16)) + 0.3).astype(dtype)
    return rng.dirichlet(np.full(40, 0.4), size=5).round(3), rng.random(40) + 0.5, gram


@KINDS
def test_compiled_sums_equal_the_plain_ones(dtype: type, sink: int | None) -> None:
    weights, norms, gram = drawn_heads(dtype)
    sizes = np.array([1, 2, 5, 17, 39])
    head = rank_tokens(weights[0], norms, gram, sink)
    expected, at = summarise(head, sizes), -1 if head.sink is None else head.sink
    by_rank, sigma, rho = np.empty((40, 40)), np.empty((5, 40)), np.empty((3, 5))
    rank_and_sum(gram, head.order, head.a, at, sizes, by_rank, sigma, rho)
    np.testing.assert_array_equal(by_rank, head.cosines)
    seen = extremes_of(head.a, np.array(at), sizes, rho)
    assert_same(seen, expected, Extremes.__slots__, rtol=1e-12, atol=1e-12)
    sums = [pairwise_sum(row[:size]) for row, size in zip(sigma, sizes, strict=True)]
    for found, plain in ((sigma, expected.sigma), (sums, expected.sigma_ss)):
        np.testing.assert_allclose(found, plain, rtol=1e-12, atol=1e-12)


@KINDS
def test_heads_of_one_gram_equal_one_by_one(dtype: type, sink: int | None) -> None:
    alpha, norms, gram = drawn_heads(dtype)
    each: list[Any] = [
        {"edition": "printed"},
        {"edition": "sharp"},
        {"edition": "printed", "delta0": "in", "sink_in_b": False, "kappa": 0.3},
        {"edition": "sharp", "convention": "followup"},
        {"edition": "repaired"},
    ]
    each = [{**choices, "sink": sink, "feasible": True} for choices in each]
    together = envelopes_by_edition(alpha, norms, gram, 16, SIZES, each)
    for found, choices in zip(together, each, strict=True):
        for head in range(len(alpha)):
            alone = envelope(alpha[head], norms, gram, 16, SIZES, **choices)
            # sharp bounds are those of a table
            assert_same(found, alone, BOUNDS, head=head, rtol=1e-7, atol=1e-8)
            margins = ("margin", "margin_sink", "scale")
            assert_same(found, alone, margins, head=head, rtol=1e-12, atol=1e-12)
            assert_same(found.valid, alone.valid, Validity.__slots__, head=head)


@pytest.mark.parametrize("name", ["AT_ONCE", "SCRATCH"])
@pytest.mark.parametrize("heads", [1, 5])
def test_heads_at_once_and_threads_move_no_bound(
    monkeypatch: pytest.MonkeyPatch, heads: int, name: str
) -> None:
    alpha, norms, gram = drawn_heads(np.float64)
    own = (alpha[:heads], norms, gram, 16, SIZES, [{"edition": "printed"}, {"edition": "sharp"}])
    before = envelopes_by_edition(*own)
    for constant, value in (("ALONE", 0), (name, 1), ("workers", lambda: 3)):
        monkeypatch.setattr(many_profiles, constant, value)
    for old, new in zip(before, envelopes_by_edition(*own), strict=True):
        assert_same(new, old)


@pytest.mark.parametrize("edition", ["printed", "sharp", "repaired", "conditional"])
def test_no_head_has_no_bounds(edition: str) -> None:
    found = envelopes(np.empty((0, 4)), 1.0, exponential(1.0, 0.1, 4), 16, [1, 4], edition=edition)
    assert found.recall_lower.shape == (0, 2)


def test_sums_are_those_of_numpy_bit_for_bit() -> None:
    for count in (*range(1, 40), 127, 128, 129, 136, 255, 256, 257, 1025, 4099):
        numbers = np.random.default_rng(count).normal(size=count)
        assert pairwise_sum(numbers) == numbers.sum(), count
