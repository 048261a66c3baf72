"""Lemmas 1 and 2: weights of four normalisers, their limits, and their Jacobians."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from studies.normaliser_limits import jacobian_limits, softmax_norm_limit, weight_limits
from theory.errors import InputError
from theory.normaliser import expressions as x
from theory.normaliser.normalisers import NORMALISERS, jacobian, sensitivity, weights
from theory.symbolic import symbols as s

LOGITS = st.lists(st.floats(-4, 4), min_size=2, max_size=9)


@given(LOGITS, st.sampled_from(NORMALISERS), st.floats(0.2, 3))
def test_weights_are_distributions_and_keep_the_order_of_logits(
    logits: list[float], kind: str, cold: float
) -> None:
    alpha = weights(logits, cold, kind)
    assert alpha.sum() == pytest.approx(1, abs=1e-9)
    assert (alpha >= 0).all()
    assert (np.diff(alpha[np.argsort(logits)]) >= -1e-12).all()


@pytest.mark.parametrize("kind", NORMALISERS)
def test_jacobians_are_the_slopes_of_weights(kind: str) -> None:
    logits, step = np.array([0.3, -0.2, 0.1, 0.45]), 1e-6
    found = jacobian(weights(logits, 0.9, kind), 0.9, kind)
    for column, move in zip(found.T, step * np.eye(4), strict=True):
        change = weights(logits + move, 0.9, kind) - weights(logits - move, 0.9, kind)
        np.testing.assert_allclose(column, change / (2 * step), atol=1e-8)


@pytest.mark.parametrize("kind", NORMALISERS)
def test_jacobians_equal_their_symbols(kind: str) -> None:
    alpha = weights([0.3, -0.2, 0.1, 0.45], 0.9, kind)
    support = np.flatnonzero(alpha)
    i, j = support[:2].tolist()
    numbers = {x.temperature: 0.9, x.length: 4, x.SUPPORT: len(support)}
    numbers[x.ROOTS] = float(np.sqrt(alpha).sum())
    for token, index in ((i, s.i), (j, s.j)):
        numbers |= {s.alpha[index]: alpha[token], x.root[index]: alpha[token] ** 0.5}
    own, other = (float(entry.expression.subs(numbers)) for entry in x.JACOBIANS[kind][:2])
    found = jacobian(alpha, 0.9, kind)
    assert (found[i, i], found[i, j]) == pytest.approx((own, other), rel=1e-12)


@given(LOGITS, st.sampled_from(NORMALISERS), st.floats(0.05, 3))
def test_no_slope_and_no_norm_exceeds_its_limit(
    logits: list[float], kind: str, cold: float
) -> None:
    alpha = weights(logits, cold, kind)
    slopes, limits = jacobian(alpha, cold, kind), jacobian_limits(len(logits), cold, kind)
    assert np.abs(slopes).max() <= limits.entry * (1 + 1e-12)
    norm = np.linalg.norm(slopes, 2)
    assert norm <= limits.norm * (1 + 1e-12)
    if kind == "softmax":
        assert norm <= softmax_norm_limit(alpha, cold) + 1e-12 / cold


@pytest.mark.parametrize("kind", ["softmax", "scalable", "sparsemax"])
def test_limits_are_attained_by_tied_logits(kind: str) -> None:
    limits = jacobian_limits(2, 0.5, kind)
    pair = jacobian(weights([0.0, 0.0], 0.5, kind), 0.5, kind)
    assert np.linalg.norm(pair, 2) == pytest.approx(limits.norm)
    assert np.abs(pair).max() == pytest.approx(limits.entry)
    if kind == "sparsemax":  # the entry grows with the number of tied tokens
        many = jacobian(weights(np.zeros(10), 0.5, kind), 0.5, kind)
        assert many.max() == pytest.approx(jacobian_limits(10, 0.5, kind).entry)


def test_by_symbols_entries_are_at_most_a_quarter_and_a_pair_has_twice_that_as_norm() -> None:
    p = sp.Symbol("p", positive=True)
    entry = x.JACOBIANS["softmax"][0].expression.subs({s.alpha[s.i]: p, x.temperature: 1})
    (stationary,) = sp.solve(sp.diff(entry, p), p)
    assert (stationary, entry.subs(p, stationary)) == (sp.Rational(1, 2), sp.Rational(1, 4))
    assert sp.diff(entry, p, 2) < 0
    pair = p * (1 - p) * sp.Matrix([[1, -1], [-1, 1]])
    assert sp.simplify(max(pair.eigenvals(), key=lambda one: one.subs(p, 0.5)) - 2 * entry) == 0


def test_by_symbols_the_pair_of_each_normaliser_has_the_jacobian_of_its_weights() -> None:
    # Differentiated from the definitions: softmax, scalable softmax, sparsemax, 1.5-entmax.
    a, b = sp.symbols("a b", real=True)
    tau = sp.sqrt(sp.Rational(1, 2) - (a - b) ** 2 / 16)  # m − τ of two tokens at z/2
    formed = {
        "softmax": sp.exp(a) / (sp.exp(a) + sp.exp(b)),
        "scalable": 2**a / (2**a + 2**b),
        "sparsemax": (1 + a - b) / 2,
        "entmax15": ((a - b) / 4 + tau) ** 2,
    }
    point = {a: sp.Rational(1, 3), b: sp.Rational(1, 5)}
    for kind, weight in formed.items():
        first = float(weight.subs(point))
        alpha = weights([1 / 3, 1 / 5], 1.0, kind)
        assert alpha[0] == pytest.approx(first, rel=1e-12)
        slopes = [float(sp.diff(weight, by).subs(point)) for by in (a, b)]
        np.testing.assert_allclose(jacobian(alpha, 1.0, kind)[0], slopes, rtol=1e-9)


@given(st.integers(2, 50), st.floats(0, 8))
def test_extreme_logits_attain_the_sharp_limits_of_weights(length: int, spread: float) -> None:
    logits = np.r_[spread, np.zeros(length - 1)]
    limits = weight_limits(length, spread)
    assert weights(logits)[0] == pytest.approx(limits.upper)
    assert weights(-logits)[0] == pytest.approx(limits.lower)
    assert np.exp(-spread) / length <= limits.lower * (1 + 1e-12)
    assert limits.upper <= np.exp(spread) / length * (1 + 1e-12)
    delta = {x.logit_max: spread / 2, x.temperature: 1, x.length: length}
    assert float(x.SHARP_WEIGHT_UPPER.expression.subs(delta)) == pytest.approx(float(limits.upper))


def test_sensitivity_has_two_limits() -> None:
    pair, away = [0.0, 0.0], [0.5**0.5, -(0.5**0.5)]
    for cold in (1.0, 0.1, 0.01):
        assert sensitivity(pair, away, 1e-7, cold) == pytest.approx(1 / (2 * cold), rel=1e-6)
    # a step far beyond T turns the choice over: (1, 0) for (0, 1), √2 apart
    turned = sensitivity([0.0, 0.6], away, 1.0, 1e-3)
    assert turned == pytest.approx(2**0.5, rel=1e-9)


@pytest.mark.parametrize(("kind", "cold"), [("hardmax", 1.0), ("softmax", 0.0)])
def test_what_there_is_not_is_refused(kind: str, cold: float) -> None:
    with pytest.raises(InputError, match="expected one of softmax, scalable, sparsemax, entmax15"):
        weights([0.0, 1.0], cold, kind)
