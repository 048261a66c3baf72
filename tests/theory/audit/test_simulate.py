"""Simulated heads: their covariance, their separability by hand, and the editions they judge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from theory.arrays import FloatArray
from theory.audit import simulate as simulation
from theory.audit.simulate import draw_directions, separability_of_draws, simulate
from theory.errors import InputError
from theory.evaluate.envelopes import envelope
from theory.head.gram import Gram, LagGram, feasible_edge
from theory.head.results import QUANTITIES
from theory.head.similarity_decay import exponential, offset_exponential


@pytest.mark.parametrize(
    ("gram", "sink"),
    [
        (offset_exponential(0.4, 0.3, -0.3, 6), 0),
        (offset_exponential(0.4, 0.3, 0.0, 6), None),
        (exponential(1.5, 0.2, 6), 0),
        (offset_exponential(0.4, 0.3, 0.1, 6).matrix(6), 0),
        (LagGram(np.array([1.0, 0.2, -0.1, 0.0, 0.1, 0.0]), 0.1), 3),
    ],
)
def test_drawn_directions_have_the_gram_as_their_mean(gram: Gram, sink: int | None) -> None:
    expected = gram.matrix(6, sink=sink) if isinstance(gram, LagGram) else gram
    units = np.concatenate(list(draw_directions(gram, 6, 8, 20_000, 5, sink=sink)), axis=1)
    products = np.einsum("imd,jmd->ijm", units, units)
    error = products.std(axis=2) / np.sqrt(products.shape[2])
    # Five standard errors over 21 distinct entries, four Grams.
    assert (np.abs(products.mean(axis=2) - expected) < 5 * error).all()


def test_separability_by_hand() -> None:
    # arXiv 2602.01893, Figure 1 in one dimension: s = 3, D = 1, 4, 9, 4; N = 2, r_max² = 4,
    # r_min² = 4.
    y = np.array([2.0, 1.0, 0.0, 5.0]).reshape(4, 1, 1)
    p, r, f_outer, f_inner, r_strict, f_strict = separability_of_draws(
        y, np.arange(4), np.array([2])
    )[:, 0, 0]
    assert (p, r) == (2 / 3, 1.0)
    assert (f_outer, f_inner) == (pytest.approx(0.8), 1.0)
    assert r_strict == 0.5
    assert f_strict == pytest.approx(4 / 7)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A head on which `sharp` is judged."""

    alpha: FloatArray
    norms: FloatArray
    gram: Gram
    dimension: int
    sink: int | None = 0


def judged_heads() -> dict[str, Case]:
    rng = np.random.default_rng(11)
    content = rng.dirichlet(np.full(23, 0.5))
    lengthy = np.concatenate([[0.4], 0.6 * content])
    norms = np.concatenate([[0.2], rng.normal(1, 0.1, 23)])
    edge = feasible_edge(0.3, 23)
    tied = np.concatenate([[0.3], np.repeat([0.1, 0.05, 0.0], [3, 6, 14])])
    values = rng.normal(size=(24, 10)) + 0.4
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    twins = values.copy()
    twins[[5, 9]] = twins[2]
    equal = np.full(24, 1 / 24)
    return {
        "exponential": Case(
            alpha=lengthy, norms=norms, gram=exponential(0.3, 0.8 * edge, 24), dimension=16
        ),
        "negative rho0": Case(
            alpha=lengthy, norms=np.ones(24), gram=exponential(0.3, -edge, 24), dimension=12
        ),
        "sink outside I": Case(
            alpha=np.concatenate([[1e-4], content]),
            norms=np.ones(24),
            gram=offset_exponential(0.3, 0.4, -0.3, 24),
            dimension=8,
        ),
        "no sink": Case(
            alpha=content,
            norms=np.ones(23),
            gram=offset_exponential(0.1, 0.2, 0.0, 23),
            dimension=32,
            sink=None,
        ),
        "tied and zero weights": Case(
            alpha=tied, norms=np.ones(24), gram=exponential(0.3, 0.5 * edge, 24), dimension=16
        ),
        "measured": Case(alpha=lengthy, norms=norms, gram=values @ values.T, dimension=10),
        "duplicates": Case(alpha=equal, norms=np.ones(24), gram=twins @ twins.T, dimension=10),
    }


@pytest.mark.parametrize("convention", ["paper", "followup"])
@pytest.mark.parametrize("name", sorted(judged_heads()))
def test_sharp_bounds_contain_the_truth_of_model_g(name: str, convention: str) -> None:
    case = judged_heads()[name]
    sizes = [1, 2, 3, 5, 8, 13, 20, len(case.alpha) - 1]
    options = {"sink": case.sink, "convention": convention}
    bounds = envelope(
        case.alpha, case.norms, case.gram, case.dimension, sizes, edition="sharp", **options
    )
    truth = simulate(
        case.alpha, case.norms, case.gram, case.dimension, sizes, draws=4000, seed=1, **options
    )
    for quantity in QUANTITIES:
        mean, error = getattr(truth, quantity), getattr(truth, f"{quantity}_se")
        # Four standard errors; a mean without spread must lie inside up to rounding.
        assert (getattr(bounds, f"{quantity}_lower") <= mean + 4 * error + 1e-9).all(), quantity
        assert (getattr(bounds, f"{quantity}_upper") >= mean - 4 * error - 1e-9).all(), quantity


def test_pairs_of_two_tokens_follow_the_law_exactly() -> None:
    # N = 2 of T = 3: 1 − R has mean ½ Σ_i p_i, the sharp lower and upper bounds coincide, and the
    # simulation must hit them.
    gram, alpha = exponential(0.7, 0.3, 3), np.array([0.5, 0.3, 0.2])
    bounds = envelope(alpha, 1.0, gram, 6, [2], edition="sharp")
    truth = simulate(alpha, 1.0, gram, 6, [2], draws=40_000, seed=3)
    assert bounds.recall_lower[0] == pytest.approx(bounds.recall_upper[0])
    assert abs(truth.recall[0] - bounds.recall_lower[0]) < 4 * truth.recall_se[0]


def test_repaired_lower_bounds_hold_for_independent_unit_directions() -> None:
    rng = np.random.default_rng(4)
    alpha = np.sort(rng.dirichlet(np.full(12, 0.3)))[::-1]
    sizes = [1, 2, 3, 4, 6]
    for dimension in (16, 128):
        bounds = envelope(alpha, 1.0, np.eye(12), dimension, sizes, edition="repaired")
        truth = simulate(alpha, 1.0, np.eye(12), dimension, sizes, draws=4000, directions="unit")
        for quantity in QUANTITIES:
            assert (
                getattr(bounds, f"{quantity}_lower")
                <= getattr(truth, quantity) + 4 * getattr(truth, f"{quantity}_se") + 1e-12
            ).all()


def test_equal_seeds_give_equal_results_whatever_the_sizes_asked() -> None:
    gram = exponential(0.5, 0.1, 6)
    alpha = [0.4, 0.1, 0.1, 0.1, 0.1, 0.2]
    one = simulate(alpha, 1.0, gram, 8, [2, 6, 7], draws=50, seed=9)
    two = simulate(alpha, 1.0, gram, 8, [2], draws=50, seed=9)
    assert one.precision[0] == two.precision[0]
    assert one.precision[1] == 1.0
    assert np.isnan(one.precision[2])


def test_a_long_head_of_exponential_decay_is_drawn_without_a_dense_factor(monkeypatch) -> None:
    factors: list[int] = []  # by which a draw takes ten times as long
    monkeypatch.setattr(simulation, "_factor", lambda gram, tokens, sink: factors.append(tokens))
    for gram in (offset_exponential(0.1, 0.2, 0.05, 257), exponential(0.1, 0.05, 257)):
        chunks = [*draw_directions(gram, 257, 64, 70, 0)]
        assert sum(chunk.shape[1] for chunk in chunks) == 70
    assert factors == []


@pytest.mark.parametrize(
    "changes",
    [
        {"draws": 1},
        {"directions": "round"},
        {"convention": "other"},
        {"gram": exponential(0.1, 0.99, 3)},
    ],
)
def test_bad_input_is_refused(changes: dict) -> None:
    gram = changes.pop("gram", exponential(1.0, 0.1, 3))
    with pytest.raises(InputError, match="expected"):
        simulate([0.5, 0.3, 0.2], 1.0, gram, 8, [1], **changes)


def test_equal_tokens_are_drawn_as_one_vector() -> None:
    # Rounding once parted them by 1e-16: equal distances are ties, and strict and closed inner
    # balls differ by them.
    directions = np.random.default_rng(1).normal(size=(9, 6))
    units = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    like = np.array([0, 1, 2, 3, 4, 5, 6, 1, 4])
    gram = (units @ units.T)[np.ix_(like, like)]
    np.fill_diagonal(gram, 1.0)
    gram[like[:, None] == like] = 1.0
    drawn = next(draw_directions(gram, 9, 5, 200, 3))
    np.testing.assert_array_equal(drawn, drawn[like])
    assert (drawn[0] != drawn[1]).all()
