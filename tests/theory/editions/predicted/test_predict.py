"""Edition `predicted`: accuracy on a grid of simulated heads, flag, edge cases."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import roots_genlaguerre
from support.golden import SMALL
from support.heads import odd_heads, phases
from support.model_g import gram_of, rows_of
from support.places import GOLDEN
from support.strategies import DrawnHead, heads

from studies.audit import heads as audit_heads
from studies.audit import rows
from theory.arrays import FloatArray
from theory.editions.predicted import clark, counts
from theory.editions.predicted.counts import twins
from theory.editions.predicted.predict import (
    LEAST_DIMENSION,
    LIKE,
    REGROUPED,
    Prediction,
    _finish,
    predict_head,
    squared_sum_nodes,
)
from theory.evaluate.envelopes import envelope
from theory.evaluate.simulate import simulate
from theory.head.attention_profile import WeightProfile, value_norm_profile
from theory.head.gram import LagGram, exponential, feasible_edge, offset_exponential
from theory.head.inputs import checked_input
from theory.head.ranked import rank_tokens
from theory.head.results import QUANTITIES, Convention

# Simulated truth, 70 heads and 420 rows: L 16..256, d 8..128, β .03..1.5, offsets 0, .2, .5, ρ₀ of
# both signs, N 2..128.
TRUTH: list[dict[str, Any]] = json.loads((GOLDEN / "predicted_truth.json").read_text())["heads"]
PROFILE = ("length", "plateau_end", "growth_start", "p_sink", "eta", "omega", "growth")


def predict(*head: Any, sink: int | None = 0, convention: Convention = "paper") -> Prediction:
    """Predict one head, given by weights, norms, Gram, head size and sizes."""
    return predict_head(checked_input(*head, sink=sink), convention)


def head_of(case: dict[str, Any]) -> tuple[FloatArray, FloatArray, LagGram, int]:
    """Return α, norms, Gram and d of a head of the golden file."""
    tokens = case["length"] + 1
    alpha = WeightProfile(**{name: case[name] for name in PROFILE}).weights()
    gram = offset_exponential(case["beta"], case["offset"], case["rho0"], tokens)
    return alpha, value_norm_profile(tokens, sink_ratio=case["sink_ratio"]), gram, case["dimension"]


def errors(found: Prediction, truth: Any) -> FloatArray:
    """Errors (4, sizes) of a prediction; truth: a `Simulation`."""
    return np.stack([getattr(found, name) - getattr(truth, name) for name in QUANTITIES])


@pytest.fixture(scope="module")
def judged() -> dict[str, FloatArray]:
    """Errors (4, rows) of the predictions over the whole grid, the standard errors of the truth,
    and the flag.
    """
    found = [predict(*head_of(case), case["n"]) for case in TRUTH]
    truth = [SimpleNamespace(**case) for case in TRUTH]
    noise = [np.array([case[f"{name}_se"] for name in QUANTITIES]) for case in TRUTH]
    return {
        "error": np.concatenate(list(map(errors, found, truth)), axis=1),
        "noise": np.concatenate(noise, axis=1),
        "reliable": np.concatenate([prediction.reliable for prediction in found]),
    }


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_errors_over_the_grid_are_small(judged: dict[str, FloatArray], quantity: str) -> None:
    error = np.abs(judged["error"][QUANTITIES.index(quantity)])
    assert error.size >= 400
    # Measured: median .0011 at most, 90th percentile .0096 at most; more in docs/studies/audit.md.
    assert np.median(error) < 0.0015
    assert np.quantile(error, 0.9) < 0.011


def test_flag_catches_every_large_error_and_few_small_ones(judged: dict[str, FloatArray]) -> None:
    # A row is in error where it is off by more than .05 and four standard errors of the truth.
    wrong = (np.abs(judged["error"]) - 4 * judged["noise"] > 0.05).any(axis=0)
    reliable = judged["reliable"].astype(bool)
    assert not (wrong & reliable).any()
    assert 0.95 < reliable.mean() < 1


def test_flag_catches_a_head_of_which_the_prediction_is_wrong() -> None:
    head = audit_heads.heads("random", seed=0)[61]
    case = (head.alpha, head.norms, head.gram, head.dimension, [4, 68])
    found, truth = predict(*case), simulate(*case, draws=400, seed=1)
    off = np.abs(found.precision - truth.precision)
    assert off[0] < 0.03
    assert off[1] > 0.1
    np.testing.assert_array_equal(found.reliable, [True, False])


def small_heads(dimension: int, number: int) -> list[tuple[FloatArray, FloatArray, LagGram, int]]:
    """Heads of 6 to 16 tokens with weights of any evenness."""
    rng, found = np.random.default_rng([5, dimension]), []
    for tokens in rng.integers(6, 17, number):
        beta, offset = np.exp(rng.uniform(np.log(0.03), np.log(3))), max(0, rng.uniform(-0.3, 0.6))
        rho0 = rng.uniform(-0.95, 0.95) * feasible_edge(beta, tokens - 1, offset=offset)
        alpha = rng.dirichlet(np.full(tokens, np.exp(rng.uniform(-1.6, 1.6))))
        norms = np.exp(rng.uniform(-0.5, 0.5, tokens))
        found.append((alpha, norms, offset_exponential(beta, offset, rho0, tokens), dimension))
    return found


@pytest.mark.parametrize("dimension", [1, 2, LEAST_DIMENSION, 8])
def test_no_large_error_is_trusted_at_a_small_head_size(dimension: int) -> None:
    wrong = trusted = 0
    for head in small_heads(dimension, 30):
        found = predict(*head, [2, 3, 5])
        truth = simulate(*head, [2, 3, 5], draws=1000, seed=3)
        noise = np.stack([getattr(truth, f"{name}_se") for name in QUANTITIES])
        off = (np.abs(errors(found, truth)) - 4 * noise > 0.05).any(axis=0)
        wrong, trusted = wrong + int(off.sum()), trusted + int((off & found.reliable).sum())
    assert trusted == 0
    assert (wrong > 0) == (dimension == 1)  # there the flag has something to catch


@pytest.mark.parametrize("dimension", [1, LEAST_DIMENSION - 1, LEAST_DIMENSION])
def test_below_the_least_head_size_only_what_is_exact_is_trusted(dimension: int) -> None:
    head = ([0.5, 0.05, 0.1, 0.35], 1.0, exponential(1.0, 0.1, 4), dimension)
    found = predict(*head, [1, 2, 3, 4, 5])
    between = dimension >= LEAST_DIMENSION
    np.testing.assert_array_equal(found.reliable, [True, between, between, True, False])
    assert (found.change[:4] <= 0.012).all()  # the change tells of the order of merging alone


def test_followup_f_over_the_grid() -> None:
    error, reliable = [], []
    for case in TRUTH:
        if "followup" in case:
            found = predict(*head_of(case), case["n"], convention="followup")
            np.testing.assert_array_equal(found.f_outer, found.f_inner)
            kept = np.array(case["n"]) <= case["length"]
            error.append((found.f_outer - np.array(case["followup"]))[kept])
            reliable.append(found.reliable[kept])
    off = np.abs(np.concatenate(error))
    assert np.median(off) < 0.005
    assert np.quantile(off, 0.9) < 0.02
    assert (off[np.concatenate(reliable)] < 0.055).all()


@pytest.mark.parametrize("at", [3, 40])
def test_the_truth_on_file_is_what_simulation_gives(at: int) -> None:
    case = TRUTH[at]
    truth = simulate(*head_of(case), case["n"], draws=1500, seed=99)
    for name in QUANTITIES:
        error = np.hypot(getattr(truth, f"{name}_se"), case[f"{name}_se"])
        assert (np.abs(getattr(truth, name) - case[name]) <= 4.5 * error + 1e-5).all()


@pytest.mark.parametrize("dimension", [1, 2, 8, 64])
def test_nodes_of_the_squared_length_are_those_of_laguerre(dimension: int) -> None:
    nodes, weights = squared_sum_nodes(dimension)
    x, w = roots_genlaguerre(3, dimension / 2 - 1)
    np.testing.assert_allclose(nodes, 2 * x / dimension, rtol=1e-9)
    np.testing.assert_allclose(weights, w / w.sum(), rtol=1e-8)


def test_nodes_serve_large_dimensions() -> None:
    nodes, weights = squared_sum_nodes(4096)
    # χ²_d/d has mean 1 and variance 2/d, third central moment 8/d².
    assert weights.sum() == pytest.approx(1)
    assert weights @ nodes == pytest.approx(1)
    assert weights @ (nodes - 1) ** 2 == pytest.approx(2 / 4096)
    assert weights @ (nodes - 1) ** 3 == pytest.approx(8 / 4096**2)


@pytest.mark.parametrize(
    ("dimension", "tolerance"), [(4, 0.01), (16, 0.003), (128, 0.001), (4096, 0.001)]
)
def test_recall_of_two_among_three_is_nearly_exact(dimension: int, tolerance: float) -> None:
    # T = 3, N = 2: the sharp lower and upper bounds on E R coincide, so they are the truth.
    for rho0 in (-0.3, 0.3):
        arguments = ([0.5, 0.3, 0.28], 1.0, exponential(0.7, rho0, 3), dimension, [2])
        exact = envelope(*arguments, edition="sharp")
        assert exact.recall_lower[0] == pytest.approx(exact.recall_upper[0])
        found = predict(*arguments)
        assert found.recall[0] == pytest.approx(exact.recall_lower[0], abs=tolerance)
        assert found.reliable[0] == (dimension >= LEAST_DIMENSION)


def values(found: Prediction) -> FloatArray:
    return np.stack([getattr(found, name) for name in QUANTITIES])


def test_predictions_serve_the_smallest_numbers() -> None:
    arguments = (1.0, exponential(1.0, 0.1, 4), 16, [2])
    alpha = np.array([0.5, 0.05, 0.1, 0.35])
    np.testing.assert_allclose(
        values(predict(alpha * 1e-200, *arguments)), values(predict(alpha, *arguments)), rtol=1e-9
    )


@given(heads(max_tokens=10), st.sampled_from(["paper", "followup"]), st.integers(-20, 20))
@settings(max_examples=60)
def test_predictions_do_not_change_when_values_are_rescaled(
    head: DrawnHead, convention: Any, power: int
) -> None:
    sizes = np.arange(1, head.tokens + 2)
    options = {"sink": head.sink, "convention": convention}
    found, scaled = (
        values(predict(head.alpha, norms, head.gram, head.dimension, sizes, **options))
        for norms in (head.norms, head.norms * 2.0**power)
    )
    np.testing.assert_allclose(found, scaled, rtol=1e-9, atol=1e-9)
    assert ((found >= 0) & (found <= 1))[:, sizes < head.tokens].all()


@given(heads(max_tokens=14, min_dimension=LEAST_DIMENSION))
@settings(max_examples=60)
def test_reliable_predictions_leave_the_sharp_bounds_by_little(head: DrawnHead) -> None:
    sizes = np.arange(1, head.tokens)
    found = predict(head.alpha, head.norms, head.gram, head.dimension, sizes, sink=head.sink)
    bounds = head.envelope(sizes, "sharp")
    for name in QUANTITIES:
        value = getattr(found, name)[found.reliable]
        assert (value > getattr(bounds, f"{name}_lower")[found.reliable] - 0.05).all()
        assert (value < getattr(bounds, f"{name}_upper")[found.reliable] + 0.05).all()


def test_edges_of_n() -> None:
    arguments = ([0.5, 0.05, 0.1, 0.35], 1.0, exponential(1.0, 0.1, 4), 16, [1, 4, 5, 2])
    found = predict(*arguments)
    assert (values(found)[:, :2] == 1).all()
    assert np.isnan(values(found)[:, 2]).all()
    np.testing.assert_array_equal(found.reliable, [True, True, False, True])
    followup = predict(*arguments, convention="followup")
    assert (values(followup)[:, 0] == 1).all()
    assert np.isnan(values(followup)[:, 1:3]).all()
    assert predict([0.4], 1.0, np.eye(1), 16, [1]).recall[0] == 1
    # In one dimension a normal cube root would put some tokens nearer than 0.
    assert (values(predict(arguments[0], 1.0, arguments[2], 1, [1])) == 1).all()


def test_tied_tokens_follow_the_convention() -> None:
    # Three equal contributions of the same direction, and three of weight 0: every distance is
    # equal.
    for alpha, gram in (
        (np.full(3, 0.2), np.ones((3, 3))),
        (np.zeros(3), exponential(1.0, 0.1, 3)),
    ):
        for n in (1, 2):
            paper = predict(alpha, 1.0, gram, 8, [n], sink=None)
            assert paper.precision[0] == pytest.approx(n / 3)
            assert paper.recall[0] == pytest.approx(1)
            followup = predict(alpha, 1.0, gram, 8, [n], sink=None, convention="followup")
            assert followup.precision[0] == pytest.approx(n / 3)
            np.testing.assert_allclose([followup.recall[0], followup.f_outer[0]], 0, atol=1e-12)


@pytest.mark.parametrize(
    ("convention", "quantity", "most"),
    [
        ("paper", "precision", 3 / 4),
        ("followup", "recall", 2 / 3 + 1e-12),  # nor strictly inside the inner ball
    ],
)
def test_duplicates_across_the_cut_are_never_outside_the_outer_ball(
    convention: Any, quantity: str, most: float
) -> None:
    values = np.random.default_rng(5).normal(size=(6, 8))
    values[5] = values[1]
    alpha, gram = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.2]), gram_of(values)
    head = rank_tokens(alpha, np.ones(6), gram, None)
    np.testing.assert_array_equal(head.order[twins(head.cosines, head.a, 3)], [1, 5])
    case, options = (alpha, 1.0, gram, 24, [3]), {"sink": None, "convention": convention}
    found = getattr(predict(*case, **options), quantity)[0]
    truth = getattr(simulate(*case, draws=20_000, **options), quantity)[0]
    assert found == pytest.approx(truth, abs=0.02)
    assert found <= most


def test_selected_contributions_that_cancel() -> None:
    # y_0 = −y_1: s = 0, every D is ‖y‖², and the small token is nearer than both.
    gram = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    case = ([0.5, 0.5, 0.01], 1.0, gram, 32, [2])
    assert np.abs(errors(predict(*case), simulate(*case, draws=500))).max() <= 1e-6


FOLLOWED = sorted({*odd_heads()} - {"small d", "steep", "duplicates", "collinear", "all equal"})


@pytest.mark.parametrize("name", FOLLOWED)
def test_odd_heads_against_simulation(name: str) -> None:
    *head, sink = odd_heads()[name]
    sizes, draws = [1, 2, 4, 8, 16, 30, len(head[0]) - 1], 60 if head[3] > 1000 else 3000
    found, truth = predict(*head, sizes, sink=sink), simulate(*head, sizes, draws=draws, sink=sink)
    for quantity, off in zip(QUANTITIES, np.abs(errors(found, truth)), strict=True):
        error = getattr(truth, f"{quantity}_se")
        assert (off[found.reliable] < 0.05 + 4 * error[found.reliable]).all(), quantity
        assert np.median(off) < 0.01 + 2 * np.median(error), quantity
    assert found.reliable.mean() > 0.4


def test_many_maxima_of_unlike_spread_compete() -> None:
    # Steep weights: every selected token has a spread of its own, and K is 0 or nearly all. Rivals
    # taken as independent gave .304 here.
    shape = phases(10, 30, 40, p_sink=0.4, eta=0.5, omega=1.0, growth=0.45)
    norms, gram = value_norm_profile(81, sink_ratio=0.4), offset_exponential(0.45, 0.0, 0.1, 81)
    case = (shape.weights(), norms, gram, 45, [4, 8, 18, 24])
    found, truth = predict(*case), simulate(*case, draws=4000)
    assert (np.abs(found.precision - truth.precision) < 0.03 + 4 * truth.precision_se).all()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_followup_f_lies_between_that_of_independent_p_and_r_and_of_p_and_r_tied(
    share: float,
) -> None:
    p, r = share + (1 - share) * 0.2, share + (1 - share) * 0.4
    outer, inner = share + (1 - share) * 2 * 0.2 / 1.2, share + (1 - share) * 0.8 / 1.4
    found = _finish(p, r, outer, inner, followup=True)
    together = share + (1 - share) * 2 * 0.2 * 0.4 / 0.6
    x, y = outer / (2 - outer), inner / (2 - inner)
    apart = 2 * x * y / (x + y)
    assert found[2] == found[3] == pytest.approx(apart + (together - apart) / 3)
    assert _finish(p, r, outer, inner, followup=False) == (p, r, outer, inner)


def test_a_long_head_is_served() -> None:
    shape = phases(300, 600, 124, p_sink=0.4, eta=0.5, omega=0.9, growth=0.06)
    norms, gram = value_norm_profile(1025, sink_ratio=0.2), offset_exponential(0.1, 0.2, 0.1, 1025)
    found = predict(shape.weights(), norms, gram, 64, np.linspace(1, 1024, 16).astype(int))
    assert np.isfinite(values(found)).all()


# Equal and parallel tokens, of which a nearest one is no normal.
@pytest.mark.parametrize("name", SMALL["alike"])
def test_large_errors_where_tokens_are_equal_or_parallel_are_flagged(name: str) -> None:
    case = SMALL["alike"][name]
    weights, gram = np.array(case["twentieths"]) / 20, gram_of(case["directions"])
    found = predict(weights, 1.0, gram, case["d"], [case["n"]])
    assert abs(found.recall[0] - case["recall"]) > 0.06
    assert found.regrouped[0] > REGROUPED
    assert not found.reliable[0]


@pytest.mark.parametrize("seed", [1, 4, 11])
def test_large_errors_of_parallel_tokens_are_flagged_in_longer_heads_too(seed: int) -> None:
    rng = np.random.default_rng(seed)
    like = rng.integers(0, 4, 90)
    gram = gram_of((rng.normal(size=(4, 3)) + 0.5)[like])
    alpha, n = rng.dirichlet(np.full(90, 5.0)), np.array([11, 41, 61])
    found, truth = (run(alpha, 1.0, gram, 13, n) for run in (predict, simulate))
    off = np.maximum(np.abs(found.precision - truth.precision), np.abs(found.recall - truth.recall))
    assert off.max() > 0.055
    assert not found.reliable[off > 0.055].any()


def test_a_tree_whose_order_is_roundings_has_a_value_and_a_flag() -> None:
    directions = rows_of("0 1 -2 1, 0 1 -2 1, -1 -3 -2 2, 0 3 3 2, -1 -3 -2 2, 0 3 3 2, 0 1 -2 1")
    like = np.array([directions.index(direction) for direction in directions])
    units = np.array(directions) / np.linalg.norm(directions, axis=1, keepdims=True)
    gram = (units @ units.T)[np.ix_(like, like)]
    found = predict(np.array([2, 2, 7, 7, 7, 7, 2]) / 20, 1.0, (gram + gram.T) / 2, 14, [4])
    assert abs(found.precision[0] - 0.8126) < 0.08
    assert not found.reliable[0]


@pytest.mark.parametrize("allowed", [(LIKE, True), (LIKE, False), (1.0, True), (1.0, False)])
def test_a_head_has_a_flagged_value_where_any_order_of_merging_has_one(
    allowed: tuple[float, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[float, bool]] = []
    spread, expected = clark.by_spread, counts.expected_counts

    def noted(law: Any, start: int, stop: int, like: float, order: Any) -> Any:
        calls.append((like, order is law.mean))
        return spread(law, start, stop, like, order)

    def failing(law: Any, groups: Any, start: int, stop: int, size: int, inner: bool, *more: Any):
        if not inner and calls[-1] != allowed:
            return np.nan, np.nan
        return expected(law, groups, start, stop, size, inner, *more)

    monkeypatch.setattr(clark, "by_spread", noted)
    monkeypatch.setattr(counts, "expected_counts", failing)
    found = predict(np.random.default_rng(0).dirichlet(np.ones(12)), 1.0, np.eye(12), 8, [4])
    assert 0 < found.precision[0] < 1
    assert not found.reliable[0]


def test_small_heads_of_equal_tokens_are_flagged_whatever_their_order_of_merging_gives() -> None:
    # Their first two orders of merging have no value, and it is rounding's whether the others do.
    for at, size in ((141, 23), (249, 5), (369, 5)):
        head = audit_heads.heads("small", seed=0)[at]
        found = rows.evaluated(replace(head, n=np.array([size])), "predicted", "paper")[0]
        assert np.isnan(value := found.precision_lower[0, 0]) or 0 <= value <= 1
        assert not found.reliable[0, 0]
