"""What-if studies equal the one-head evaluation at every point, mask what cannot be, and find
where a bound reaches a target.
"""

from itertools import product

import numpy as np
import pytest

from theory.errors import InputError
from theory.evaluate.envelopes import envelope
from theory.head.attention_profile import WeightProfile, many_weights
from theory.head.gram import smallest_eigenvalue
from theory.head.similarity_decay import decaying, offset_exponential
from theory.what_if.crossing import find_crossing
from theory.what_if.parameters import BOUNDS, LOWER
from theory.what_if.study import Question, heads_of, study

AXES = {
    "N": [1, 2, 8, 40, 65],
    "beta": [0.1, 0.5],
    "rho0": [-0.1, 0.05, 0.9],
    "d": [16, 64],
    "kappa": [0.1, 0.5],
    "p_sink": [0.01, 0.4],
}
FIXED = {"L": 64, "T1": 20, "T2": 50, "lam": 0.3, "C": 2.0}


def one_head(at, question):
    """The same point by `theory.envelope`, from a profile written down again."""
    profile = WeightProfile(
        length=64, plateau_end=20, growth_start=50, p_sink=at["p_sink"], eta=0.02, omega=0.1
    )
    norms = np.full(65, 2.0)
    norms[0] = 0.6
    gram = offset_exponential(at["beta"], 0.0, at["rho0"], 65)
    return envelope(
        profile.weights(),
        norms,
        gram,
        at["d"],
        [at["N"]],
        edition=question.edition,
        kappa=at.get("kappa"),
        delta0=question.delta0,
        sink_in_b=question.sink_in_b,
        feasible=True,
    )


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
    ids=[
        "printed lower",
        "B without the sink",
        "printed",
        "with rho_in",
        "repaired",
        "sharp",
        "predicted",
    ],
)
def test_every_point_equals_the_evaluation_of_one_head(question):
    axes = {
        name: values
        for name, values in AXES.items()
        if name != "kappa" or question.edition in ("printed", "repaired")
    }
    found = study(axes, FIXED, question)
    places = list(product(*(range(len(values)) for values in axes.values())))
    for place in [
        places[k] for k in np.random.default_rng(0).choice(len(places), 60, replace=False)
    ]:
        at = {name: axes[name][k] for name, k in zip(axes, place, strict=True)}
        assert found.full("feasible")[place] == (at["rho0"] != 0.9)
        alone = one_head(at, question) if at["rho0"] != 0.9 else None
        for name in question.bounds:
            value = found.full(name)[place]
            if alone is None:
                assert np.isnan(value)
            else:
                np.testing.assert_allclose(
                    value, getattr(alone, name)[0], rtol=1e-9, atol=2e-8, err_msg=f"{name} {at}"
                )
        if alone is not None:
            for name in ("margin", "margin_sink"):
                np.testing.assert_allclose(
                    found.full(name)[place],
                    getattr(alone, name)[0],
                    rtol=1e-12,
                    atol=1e-18,
                    err_msg=name,
                )
            if question.edition == "predicted":
                assert found.full("reliable")[place] == alone.reliable[0]


@pytest.mark.parametrize("decay", ["offset", "stretched", "power"])
def test_other_grams_too_evaluate_as_one_head(decay):
    axes = {"beta": [0.2, 0.8], "c": [0.1, 0.3], "N": [2, 9], "rho0": [0.1]}
    stretch = {"stretch": 0.6} if decay == "stretched" else {}
    found = study(axes, {"L": 40, "d": 32} | stretch, Question(decay=decay))
    alpha, norms = heads_of(
        [
            {
                "L": 40,
                "lam": 0.25,
                "p_sink": 0.3,
                "p_base": np.nan,
                "eta": 0.02,
                "growth": np.nan,
                "omega": 0.1,
                "T1": 20,
                "T2": 36,
                "C": 1,
            }
        ]
    )
    form = "exponential" if decay == "offset" else decay
    for place in product(range(2), range(2), range(2)):
        beta, c, n = (axes[name][k] for name, k in zip(("beta", "c", "N"), place, strict=True))
        gram = decaying(form, beta, 41, rho0=0.1, offset=c, stretch=0.6)
        alone = envelope(alpha[0], norms[0], gram, 32, [n], edition="printed", kappa=0.125)
        assert found.full("feasible")[(*place, 0)] == (smallest_eigenvalue(gram, 41) > -1e-9)
        for name in LOWER:
            np.testing.assert_allclose(
                found.full(name)[(*place, 0)], getattr(alone, name)[0], rtol=1e-10
            )


def test_profiles_in_arrays_equal_the_profile_of_one_head():
    points = {
        "p_sink": [0.1, 0.4],
        "p_base": [np.nan, 0.003],
        "eta": [0.02, -0.05],
        "growth": [np.nan, 0.01],
        "omega": [0.3, 2],
        "T1": [10, 0],
        "T2": [60, 0],
    }
    found = many_weights(80, {name: np.array(values) for name, values in points.items()})
    for k, row in enumerate(found):
        growth, base = points["growth"][k], points["p_base"][k]
        alone = WeightProfile(
            length=80,
            plateau_end=points["T1"][k],
            growth_start=points["T2"][k],
            p_sink=points["p_sink"][k],
            eta=points["eta"][k],
            omega=points["omega"][k],
            growth=None if np.isnan(growth) else growth,
            p_base=None if np.isnan(base) else base,
        )
        np.testing.assert_allclose(row, alone.weights(), rtol=1e-14)


def test_a_projected_point_is_evaluated_at_the_feasible_edge_and_flagged():
    axes = {"rho0": [0.05, 0.5], "N": [3, 9]}
    fixed = {"L": 64, "beta": 0.5, "p_sink": 0.001}
    masked, moved = (
        study(axes, fixed, Question(edition="sharp", bounds=("recall_upper",), project=project))
        for project in (False, True)
    )
    assert masked.full("feasible").tolist() == [[True, True], [False, False]]
    assert np.isnan(masked.full("recall_upper")[1]).all()
    assert moved.full("feasible").all()
    assert moved.full("projected").tolist() == [[False, False], [True, True]]
    edge = offset_exponential(0.5, 0.0, 0.0, 65).edge(64)
    there = study(
        {"rho0": [edge], "N": [3, 9]}, fixed, Question(edition="sharp", bounds=("recall_upper",))
    )
    np.testing.assert_allclose(
        moved.full("recall_upper")[1], there.full("recall_upper")[0], rtol=1e-6
    )


BAD = {
    "unknown name": ({"banana": [1]}, {}, "banana: no such parameter"),
    "given twice": ({"N": [1]}, {"N": 2}, "N: both varies and is fixed"),
    "negative": ({"beta": [0.1, -1]}, {}, "beta = -1: expected finite numbers above 0"),
    "not finite": ({"d": [np.inf]}, {}, "d = inf: expected whole numbers"),
    "not whole": ({"N": [1.5]}, {}, "N = 1.5: expected whole numbers"),
    "N beyond T": ({"N": [66]}, {"L": 64}, "N = 66 at L = 64: expected N from 1 to T"),
    "phases out of order": (
        {"T1": [10, 60]},
        {"L": 64, "T2": 50},
        "T1 = 60, T2 = 50: no such attention profile",
    ),
    "phases beyond L": ({"T2": [65]}, {"L": 64}, "T1 = 32, T2 = 65: no such attention profile"),
    "all on the sink": (
        {"p_sink": [1.0]},
        {},
        "p_sink = 1: no such attention profile, expected 0 <= p_sink < 1",
    ),
    "more than one": (
        {"p_base": [0.5]},
        {"L": 64},
        (
            "p_base = 0.5, p_sink = 0.3: no such attention profile, expected weights that sum to at"
            " most 1"
        ),
    ),
    "negative weight": (
        {"eta": [1.5]},
        {"L": 64},
        "eta = 1.5: no such attention profile, expected |eta| <= 1",
    ),
    "negative strength": (
        {"eta": [0.1, -0.1]},
        {},
        "eta = -0.1: expected finite numbers from 0 (strength",
    ),
    "negative growth": (
        {},
        {"growth": -0.01},
        "growth = -0.01: expected finite numbers from 0 (rate",
    ),
    "negative frequency": (
        {"omega": [-1]},
        {},
        "omega = -1: expected finite numbers from 0 (frequency",
    ),
    "explodes": (
        {"growth": [900.0]},
        {},
        "no such attention profile, expected a growth that stays finite",
    ),
    "offset under the exponential": (
        {"c": [0.1]},
        {},
        "c is set, but the exponential Gram has no offset",
    ),
    "stretch under the exponential": (
        {},
        {"stretch": 2.0},
        (
            "stretch is set, but the exponential Gram is not stretched, expected none given. Use"
            " --gram"
        ),
    ),
    "stretch varies under the exponential": (
        {"stretch": [1.0, 2.0]},
        {},
        "stretch is set, but the exponential Gram is not stretched",
    ),
    "too many": (
        {"N": np.arange(1, 1001), "beta": np.geomspace(0.1, 1, 100_000), "d": np.arange(1, 10_001)},
        {},
        "points need",
    ),
    "nothing": ({"N": []}, {}, "N: expected one or more values"),
}


@pytest.mark.parametrize(("axes", "fixed", "message"), BAD.values(), ids=BAD.keys())
def test_a_study_that_cannot_be_says_why(axes, fixed, message):
    with pytest.raises(InputError) as caught:
        study(axes, fixed)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("decay", ["offset", "power"])
def test_a_parameter_that_the_gram_does_not_use_is_refused(decay):
    for axes, fixed in (({"stretch": [0.5, 2.0]}, {}), ({}, {"stretch": 2.0})):
        with pytest.raises(
            InputError, match=f"stretch is set, but the {decay} Gram is not stretched"
        ):
            study(axes, fixed, Question(decay=decay))
    study({}, {"stretch": 1.0, "L": 16, "N": 2}, Question(decay=decay))  # 1 is no stretch


@pytest.mark.parametrize("edition", ["sharp", "conditional", "predicted"])
def test_a_parameter_that_the_edition_does_not_use_is_refused(edition):
    question = Question(edition=edition, bounds=("precision_lower",))
    for axes, fixed in (({"kappa": [0.1, 5]}, {}), ({}, {"kappa": 0.1})):
        with pytest.raises(
            InputError,
            match=(
                f"kappa is set, but the {edition} edition has no such constant, expected none"
                " given. Use --edition printed"
            ),
        ):
            study(axes, fixed, question)
    with pytest.raises(InputError, match=f"kappa is set, but the {edition} edition"):
        find_crossing("kappa", 0.5, {"L": 16, "N": 2}, question)
    study({}, {"kappa": 0.125, "L": 16, "N": 2}, question)  # the default is no choice


SHARP = Question(edition="sharp", bounds=("precision_lower",))


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
    below = study({"beta": np.geomspace(1e-3, found.value * 0.999, 50)}, fixed, SHARP).full(
        "precision_lower"
    )
    assert (below < 0.5).all()


def test_no_solution_is_said_plainly_with_the_best_that_there_is():
    found = find_crossing(
        "d", 0.5, {"N": 3, "beta": 2.0, "rho0": 0.0}, Question(bounds=("precision_lower",))
    )
    assert found.value is None
    assert str(found).startswith("no solution: precision_lower reaches 0.5 for no d from 1 to")
    never = find_crossing(
        "beta", 0.5, {"rho0": 0.9, "L": 64}, Question(bounds=("precision_lower",)), between=(0.5, 2)
    )
    assert str(never).endswith(
        "no vectors have these cosines (erratum 9): project them, or take another Gram"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("T1", 0.5),
            (
                "'T1' cannot be searched for, expected one of N, d, kappa, beta, .*, C. Use one of"
                " those, or let T1 vary with --set"
            ),
        ),
        (
            ("foo", 0.5),
            (
                "'foo' cannot be searched for, expected one of N, d, kappa, beta, .*, C. Use one of"
                " those.$"
            ),
        ),
        (("omega", 0.5), "omega: expected a range to search"),
        (("N", 1.5), "target is 1.5, expected a probability"),
        (("N", 0.5, None, Question()), "4 bounds are asked for, expected the one"),
    ],
)
def test_a_search_that_cannot_be_says_why(arguments, message):
    with pytest.raises(InputError, match=message):
        find_crossing(*arguments)
