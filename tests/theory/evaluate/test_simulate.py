"""Simulated heads: covariance, separability by hand, and comparison with the editions."""

import numpy as np
import pytest
from support.model_g import assert_holds, gram_of

from theory.errors import InputError
from theory.evaluate import simulate as simulation
from theory.evaluate.envelopes import envelope
from theory.evaluate.simulate import draw_directions, separability_of_draws, simulate
from theory.head.gram import Gram, LagGram, exponential, offset_exponential


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
@pytest.mark.parametrize("triangular", [False, True])
def test_drawn_directions_have_the_gram_as_their_mean(
    gram: Gram, sink: int | None, triangular: bool
) -> None:
    expected = gram.matrix(6, sink=sink) if isinstance(gram, LagGram) else gram
    chunks = draw_directions(gram, 6, 8, 20_000, 5, sink=sink, triangular=triangular)
    units = np.concatenate(list(chunks), axis=1)
    products = np.einsum("imd,jmd->ijm", units, units)
    error = products.std(axis=2) / np.sqrt(products.shape[2])
    # Five standard errors over 21 distinct entries, four Grams.
    assert (np.abs(products.mean(axis=2) - expected) < 5 * error).all()


def test_separability_by_hand() -> None:
    # arXiv 2602.01893, Figure 1 in one dimension: s = 3, D = 1, 4, 9, 4; N = 2, r_max² = 4,
    # r_min² = 4. P, R, F(r_max), F(r_min), then R and F of strict balls.
    y = np.array([2.0, 1.0, 0.0, 5.0]).reshape(4, 1, 1)
    found = separability_of_draws(y, np.arange(4), np.array([2]))[:, 0, 0]
    assert found.tolist() == pytest.approx([2 / 3, 1, 0.8, 1, 1 / 2, 4 / 7])


def test_pairs_of_two_tokens_follow_the_law_exactly() -> None:
    # N = 2 of T = 3: 1 − R has mean ½ Σ_i p_i, the sharp lower and upper bounds coincide, and the
    # simulation must hit them.
    case = ([0.5, 0.3, 0.2], 1.0, exponential(0.7, 0.3, 3), 6, [2])
    bounds = envelope(*case, edition="sharp")
    truth = simulate(*case, draws=40_000, seed=3)
    assert bounds.recall_lower[0] == pytest.approx(bounds.recall_upper[0])
    assert abs(truth.recall[0] - bounds.recall_lower[0]) < 4 * truth.recall_se[0]


def test_repaired_lower_bounds_hold_for_independent_unit_directions() -> None:
    alpha = np.random.default_rng(4).dirichlet(np.full(12, 0.3))
    case = (alpha, 1.0, np.eye(12), 16, [1, 2, 3, 4, 6])
    truth = simulate(*case, draws=4000, directions="unit")
    assert_holds(envelope(*case, edition="repaired"), truth, sides=("lower",), slack=1e-12)


def test_equal_seeds_give_equal_results_for_any_sizes() -> None:
    head = ([0.4, 0.1, 0.1, 0.1, 0.1, 0.2], 1.0, exponential(0.5, 0.1, 6), 8)
    one, two = (simulate(*head, sizes, draws=50, seed=9) for sizes in ([2, 6, 7], [2]))
    np.testing.assert_array_equal(one.precision, [two.precision[0], 1.0, np.nan])


def test_a_long_head_of_exponential_decay_is_drawn_without_a_dense_factor(monkeypatch) -> None:
    factors: list[int] = []  # by which a draw takes ten times as long
    monkeypatch.setattr(simulation, "_factor", lambda gram, tokens, *how: factors.append(tokens))
    for gram in (offset_exponential(0.1, 0.2, 0.05, 257), exponential(0.1, 0.05, 257)):
        chunks = [*draw_directions(gram, 257, 64, 70, 0)]
        assert sum(chunk.shape[1] for chunk in chunks) == 70
    assert factors == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": 1}, "draws=1, .* expected at least 2"),
        ({"directions": "round"}, "directions='round', .* expected"),
        ({"convention": "other"}, "convention='other': expected"),
        ({"gram": exponential(0.1, 0.99, 3)}, "the Gram is infeasible"),
    ],
)
def test_bad_input_is_refused(changes: dict, message: str) -> None:
    head = {"alpha": [0.5, 0.3, 0.2], "norms": 1.0, "gram": exponential(1.0, 0.1, 3)}
    with pytest.raises(InputError, match=message):
        simulate(**{**head, "dimension": 8, "n": [1], **changes})


def test_equal_tokens_are_drawn_as_one_vector() -> None:
    # Rounding once parted them by 1e-16: equal distances are ties, and strict and closed inner
    # balls differ by them.
    like = np.array([0, 1, 2, 3, 4, 5, 6, 1, 4])
    gram = gram_of(np.random.default_rng(1).normal(size=(9, 6))[like])
    for triangular in (False, True):
        drawn = next(draw_directions(gram, 9, 5, 200, 3, triangular=triangular))
        np.testing.assert_array_equal(drawn, drawn[like])
        assert (drawn[0] != drawn[1]).all()
