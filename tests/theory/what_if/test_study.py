"""Studies equal the one-head evaluation, mask infeasible points, and find crossings."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from support.heads import phases
from support.model_g import assert_same

from theory.errors import InputError
from theory.evaluate.envelopes import envelope
from theory.head.attention_profile import WeightProfile, many_weights
from theory.head.gram import decaying, offset_exponential, smallest_eigenvalue
from theory.what_if.crossing import find_crossing
from theory.what_if.parameters import BOUNDS, LOWER
from theory.what_if.study import Question, heads_of, study

AXES = {"N": [1, 2, 8, 40, 65], "beta": [0.1, 0.5], "rho0": [-0.1, 0.05, 0.9]}
AXES |= {"d": [16, 64], "kappa": [0.1, 0.5], "p_sink": [0.01, 0.4]}
FIXED = {"L": 64, "T1": 20, "T2": 50, "lam": 0.3, "C": 2.0}


def one_head(at, question):
    """The same point by `theory.envelope`, from a profile written down again."""
    profile = phases(20, 30, 14, p_sink=at["p_sink"], eta=0.02, omega=0.1)
    norms = np.full(65, 2.0)
    norms[0] = 0.6
    gram = offset_exponential(at["beta"], 0.0, at["rho0"], 65)
    choices = question.choices(at.get("kappa"))
    return envelope(profile.weights(), norms, gram, at["d"], [at["N"]], **choices)


@pytest.mark.parametrize(
    "question",
    [
        Question(),
        Question(sink_in_b=False),
        Question(bounds=BOUNDS),
        Question(delta0="in"),
        Question(edition="repaired", bounds=BOUNDS),
        Question(edition="sharp", bounds=BOUNDS),
        Question(edition="predicted", bounds=BOUNDS),
    ],
    ids=lambda question: f"{question.edition} {question.delta0} {len(question.bounds)}",
)
def test_every_point_equals_the_evaluation_of_one_head(question):
    of_tails = question.edition in ("printed", "repaired")
    axes = {name: values for name, values in AXES.items() if name != "kappa" or of_tails}
    found = study(axes, FIXED, question)
    places = list(np.ndindex(*found.shape))
    for index in np.random.default_rng(0).choice(len(places), 60, replace=False):
        place = places[index]
        at = {name: values[k] for (name, values), k in zip(axes.items(), place, strict=True)}
        feasible = at["rho0"] != 0.9
        assert found.full("feasible")[place] == feasible
        here = SimpleNamespace(**{name: found.full(name)[place] for name in found.values})
        if not feasible:
            assert np.isnan([getattr(here, name) for name in question.bounds]).all()
            continue
        alone = one_head(at, question)
        assert_same(here, alone, question.bounds, rtol=1e-9, atol=2e-8)
        assert_same(here, alone, ("margin", "margin_sink"), rtol=1e-12, atol=1e-18)
        if question.edition == "predicted":
            assert here.reliable == alone.reliable


PLAIN = {"p_base": np.nan, "eta": 0.02, "growth": np.nan}
"""A profile whose weights sum to 1 and grow at the rate eta."""


def test_rank_coherence_follows_the_weights_of_each_profile():
    axes = {"p_sink": [0.1, 0.6], "growth": [0.0, 0.4], "cinf": [0.1, 0.5], "N": [2, 9]}
    fixed = {"L": 40, "d": 32, "c1": 0.4, "gamma": 0.8, "rho0": 0.3}
    question = Question(edition="sharp", decay="rank", bounds=BOUNDS)
    found = study(axes, fixed, question)
    assert not {"beta", "c", "stretch"} & set(found.fixed)
    assert found.full("feasible")[..., 0, :].all()
    assert not found.full("feasible")[..., 1, :].any()  # c∞ above c₁
    values = {**PLAIN, "omega": 0.1, "T1": 20, "T2": 36, "L": 40, "lam": 0.25, "C": 1}
    for place in product(range(2), range(2), [0], range(2)):
        p_sink, growth, _, n = (values[k] for values, k in zip(axes.values(), place, strict=True))
        alpha, norms = heads_of([values | {"p_sink": p_sink, "growth": growth}])
        gram = np.full((41, 41), 0.3)
        ranked = sorted(range(1, 41), key=lambda k: -alpha[0][k])
        for r, token in enumerate(ranked, start=1):
            for other in ranked[:r]:
                gram[token, other] = gram[other, token] = 0.1 + 0.3 * r**-0.8
        np.fill_diagonal(gram, 1.0)
        alone = envelope(alpha[0], norms[0], gram, 32, [n], edition="sharp")
        here = SimpleNamespace(**{name: found.full(name)[place] for name in BOUNDS})
        assert_same(here, alone, BOUNDS, rtol=1e-9, atol=2e-8)


def test_a_gram_by_rank_beyond_memory_is_refused():
    with pytest.raises(InputError, match="the cosines by rank of 3,000,001 tokens need"):
        study({}, {"L": 3_000_000}, Question(decay="rank"))


@pytest.mark.parametrize("decay", ["offset", "stretched", "power"])
def test_other_grams_too_evaluate_as_one_head(decay):
    axes = {"beta": [0.2, 0.8], "c": [0.1, 0.3], "N": [2, 9], "rho0": [0.1]}
    stretch = {"stretch": 0.6} if decay == "stretched" else {}
    found = study(axes, {"L": 40, "d": 32} | stretch, Question(decay=decay))
    values = {**PLAIN, "p_sink": 0.3, "omega": 0.1, "T1": 20, "T2": 36}
    alpha, norms = heads_of([{**values, "L": 40, "lam": 0.25, "C": 1}])
    form = "exponential" if decay == "offset" else decay
    for place in product(range(2), range(2), range(2)):
        beta, c, n = (axes[name][k] for name, k in zip(("beta", "c", "N"), place, strict=True))
        gram = decaying(form, beta, 41, rho0=0.1, offset=c, stretch=0.6)
        alone = envelope(alpha[0], norms[0], gram, 32, [n], edition="printed", kappa=0.125)
        assert found.full("feasible")[(*place, 0)] == (smallest_eigenvalue(gram, 41) > -1e-9)
        here = SimpleNamespace(**{name: found.full(name)[place] for name in LOWER})
        assert_same(here, alone, LOWER, rtol=1e-10)


@pytest.mark.parametrize(
    ("base", "phases_of_one"),
    [
        (PLAIN, {"p_sink": 0.1, "omega": 0.3, "T1": 10, "T2": 60}),
        (
            {"p_base": 0.003, "eta": -0.05, "growth": 0.01},
            {"p_sink": 0.4, "omega": 2, "T1": 0, "T2": 0},
        ),
    ],
)
def test_profiles_in_arrays_equal_the_profile_of_one_head(base, phases_of_one):
    point, other = base | phases_of_one, {**PLAIN, "p_sink": 0.2, "omega": 1.0, "T1": 5, "T2": 70}
    found = many_weights(80, {name: np.array([other[name], point[name]]) for name in point})
    one = {name: None if np.isnan(value) else value for name, value in point.items()}
    ends = {"length": 80, "plateau_end": one.pop("T1"), "growth_start": one.pop("T2")}
    np.testing.assert_allclose(found[1], WeightProfile(**ends, **one).weights(), rtol=1e-14)


def test_a_projected_point_is_evaluated_at_the_feasible_edge_and_flagged():
    axes = {"rho0": [0.05, 0.5], "N": [3, 9]}
    fixed = {"L": 64, "beta": 0.5, "p_sink": 0.001}
    question = Question(edition="sharp", bounds=("recall_upper",))
    masked, moved = (
        study(axes, fixed, replace(question, project=project)) for project in (False, True)
    )
    assert masked.full("feasible").tolist() == [[True, True], [False, False]]
    assert np.isnan(masked.full("recall_upper")[1]).all()
    assert moved.full("feasible").all()
    assert moved.full("projected").tolist() == [[False, False], [True, True]]
    edge = offset_exponential(0.5, 0.0, 0.0, 65).edge(64)
    there = study(axes | {"rho0": [edge]}, fixed, question).full("recall_upper")
    np.testing.assert_allclose(moved.full("recall_upper")[1], there[0], rtol=1e-6)


TOO_MANY = {"N": np.arange(1, 1001), "beta": np.geomspace(0.1, 1, 10**5), "d": np.arange(1, 10_001)}


@pytest.mark.parametrize(
    ("axes", "fixed", "message"),
    [
        ({"banana": [1]}, {}, "banana: no such parameter"),
        ({"N": [1]}, {"N": 2}, "N: both varies and is fixed"),
        ({"N": []}, {}, "N: expected one or more values"),
        ({"beta": [0.1, -1]}, {}, "beta = -1: expected finite numbers above 0"),
        ({"d": [np.inf]}, {}, "d = inf: expected whole numbers"),
        ({"N": [1.5]}, {}, "N = 1.5: expected whole numbers"),
        ({"N": [66]}, {"L": 64}, "N = 66 at L = 64: expected N from 1 to T"),
        ({"T1": [10, 60]}, {"L": 64, "T2": 50}, "T1 = 60, T2 = 50: no such attention profile"),
        ({"T2": [65]}, {"L": 64}, "T1 = 32, T2 = 65: no such attention profile"),
        ({"p_sink": [1.0]}, {}, "p_sink = 1: no such attention profile, expected 0 <= p_sink < 1"),
        ({"p_base": [0.5]}, {"L": 64}, "p_base = 0.5, p_sink = 0.3: no such attention profile"),
        ({"p_base": [0.5]}, {"L": 64}, "expected weights that sum to at most 1"),
        ({"eta": [1.5]}, {"L": 64}, "eta = 1.5: no such attention profile, expected |eta| <= 1"),
        ({"eta": [0.1, -0.1]}, {}, "eta = -0.1: expected finite numbers from 0 (strength"),
        ({}, {"growth": -0.01}, "growth = -0.01: expected finite numbers from 0 (rate"),
        ({"omega": [-1]}, {}, "omega = -1: expected finite numbers from 0 (frequency"),
        ({"growth": [900.0]}, {}, "expected a growth that stays finite"),
        ({"c": [0.1]}, {}, "c is set, but the exponential Gram has no such parameter"),
        ({}, {"stretch": 2.0}, "expected none given. Use --gram stretched, or leave stretch out"),
        ({"stretch": [1.0, 2.0]}, {}, "the exponential Gram has no such parameter"),
        ({"gamma": [1.0, 2.0]}, {}, "expected none given. Use --gram rank, or leave gamma out"),
        (TOO_MANY, {}, "points need"),
    ],
)
def test_a_study_that_cannot_be_says_why(axes, fixed, message):
    with pytest.raises(InputError) as caught:
        study(axes, fixed)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def assert_unused(name, default, message, question):
    """The parameter is refused whether it varies or is fixed, but at its default: that is no
    choice.
    """
    for axes, fixed in (({name: [0.1, 2.0]}, {}), ({}, {name: 2.0})):
        with pytest.raises(InputError, match=f"{name} is set, but the {message}"):
            study(axes, fixed, question)
    study({}, {name: default, "L": 16, "N": 2}, question)


@pytest.mark.parametrize("decay", ["offset", "power"])
def test_a_parameter_that_the_gram_does_not_use_is_refused(decay):
    assert_unused("stretch", 1.0, f"{decay} Gram has no such parameter", Question(decay=decay))


@pytest.mark.parametrize("edition", ["sharp", "conditional", "predicted"])
def test_a_parameter_that_the_edition_does_not_use_is_refused(edition):
    question = Question(edition=edition, bounds=("precision_lower",))
    message = f"{edition} edition has no such constant, expected none given. Use --edition printed"
    assert_unused("kappa", 0.125, message, question)
    with pytest.raises(InputError, match=f"kappa is set, but the {edition} edition"):
        find_crossing("kappa", 0.5, {"L": 16, "N": 2}, question)


PRINTED = Question(bounds=("precision_lower",))
SHARP = replace(PRINTED, edition="sharp")


def test_the_smallest_dimension_is_the_smallest():
    fixed = {"rho0": 0.0, "L": 64, "N": 4, "beta": 1.0}
    found = find_crossing("d", 0.9, fixed, SHARP)
    around = study({"d": [found.value - 1, found.value]}, fixed, SHARP).full("precision_lower")
    assert around[0] < 0.9 <= around[1] == found.bound


def test_the_largest_size_ends_the_first_run_that_reaches_the_target():
    fixed = {"rho0": 0.0, "L": 64, "beta": 10.0, "d": 64, "eta": 0.1, "p_sink": 0.05}
    found = find_crossing("N", 0.5, fixed, SHARP)
    curve = study({"N": np.arange(1, 65)}, fixed, SHARP).full("precision_lower")
    assert (curve[: int(found.value)] >= 0.5).all()
    assert curve[int(found.value)] < 0.5 < curve[-1]
    assert 1 < found.value < 64


def test_the_decay_found_is_a_crossing():
    fixed = {"rho0": 0.0, "L": 48, "N": 3, "d": 64, "eta": 0.1, "p_sink": 0.05}
    found = find_crossing("beta", 0.5, fixed, SHARP)
    assert found.bound == pytest.approx(0.5, abs=1e-9)
    below = study({"beta": np.geomspace(1e-3, found.value * 0.999, 50)}, fixed, SHARP)
    assert (below.full("precision_lower") < 0.5).all()


def test_the_decay_with_rank_found_is_a_crossing():
    fixed = {"rho0": 0.0, "L": 48, "N": 3, "c1": 0.7, "cinf": 0.2, "p_sink": 0.05, "eta": 0.1}
    question = Question(edition="sharp", decay="rank", bounds=("recall_upper",))
    found = find_crossing("gamma", 0.75, fixed, question)
    assert found.bound == pytest.approx(0.75, abs=1e-9)
    below = study({"gamma": np.geomspace(1e-3, found.value * 0.999, 50)}, fixed, question)
    assert (below.full("recall_upper") < 0.75).all()


def test_no_solution_reports_the_best_value():
    found = find_crossing("d", 0.5, {"N": 3, "beta": 2.0, "rho0": 0.0}, PRINTED)
    assert found.value is None
    assert str(found).startswith("no solution: precision_lower reaches 0.5 for no d from 1 to")
    never = find_crossing("beta", 0.5, {"rho0": 0.9, "L": 64}, PRINTED, between=(0.5, 2))
    assert str(never).endswith("(erratum 9): project it, or use another Gram")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("T1", 0.5),
            r"'T1' cannot be searched for, .* N, d, .*, C\. .* or let T1 vary with --set",
        ),
        (("foo", 0.5), r"'foo' cannot be searched for, .* N, d, .*, C\. Use one of those\.$"),
        (("omega", 0.5), "omega: expected a range to search"),
        (("N", 1.5), "target is 1.5, expected a probability"),
        (("N", 0.5, None, Question()), "4 bounds are given, expected the one"),
    ],
)
def test_a_search_that_cannot_be_says_why(arguments, message):
    with pytest.raises(InputError, match=message):
        find_crossing(*arguments)
