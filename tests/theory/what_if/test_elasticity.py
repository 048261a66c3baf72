"""Elasticities equal closed forms and slopes of a study; undefined ones give a reason."""

import numpy as np
import pytest
import sympy as sp

from theory.errors import InputError
from theory.what_if import elasticity
from theory.what_if.elasticity import study_elasticities
from theory.what_if.given_gram import measured_gram
from theory.what_if.parameters import BOUNDS, LOWER
from theory.what_if.study import Question, study

POINT = {"L": 64, "N": 4, "rho0": 0.05, "eta": 0.1, "p_sink": 0.05, "beta": 1.0}


def value_of(found, parameter, bound, what="elasticity"):
    return found.arrays[what][names(found).index(parameter), names(found, "bound").index(bound)]


def step_of(found, parameter):
    return found.arrays["step"][names(found).index(parameter)]


def names(found, dim="parameter"):
    return found.arrays[dim].tolist()


def along(name, values, question, bound):
    """The bound on a line through the point."""
    return study({name: values}, {k: v for k, v in POINT.items() if k != name}, question).full(
        bound
    )


@pytest.mark.parametrize("n", [2, 5])
def test_the_printed_bound_moves_as_its_derivative(n):
    # arXiv 2602.01893, eq. (12) at T1 = T2 = L without growth: all content weights equal a, so
    # that S = (N - 1)a with the sink selected
    point = {"L": 40, "N": n, "T1": "1L", "T2": "1L", "d": 512, "eta": 0.1, "rho0": 0.0}
    point |= {"p_sink": 0.6, "lam": 0.5, "beta": 1.3, "kappa": 4.0}
    beta, kappa, d, p, lam, norm = sp.symbols("beta kappa d p lam C", positive=True)
    a, a_sink = norm * (1 - p) / 40, lam * p * norm
    total, rho = (n - 1) * a, sp.exp(-beta)
    scale = a_sink + a + total
    margin, margin_sink = a**2 - 2 * a * total * rho, a_sink**2 - (total * rho) ** 2
    tails = [sp.exp(-kappa * d * (x / scale) ** 2) for x in (margin, margin_sink)]
    bound = 1 / (1 + (40 - n) * tails[0] + sp.Rational(40 - n, n) * tails[1])
    values = {beta: 1.3, kappa: 4.0, d: 512, p: 0.6, lam: 0.5, norm: 1}
    found = study_elasticities(point, Question(bounds=("precision_lower",)))
    at = found.arrays["at"][0]
    assert at == pytest.approx(float(bound.subs(values)), rel=1e-12)
    moving = {"beta": beta, "kappa": kappa, "p_sink": p, "lam": lam, "C": norm}
    for name, symbol in moving.items():
        slope = float((symbol * sp.diff(bound, symbol)).subs(values))
        for what, expected in (("slope", slope), ("elasticity", slope / at)):
            seen = value_of(found, name, "precision_lower", what)
            assert seen == pytest.approx(expected, rel=1e-6), name
        assert step_of(found, name) == elasticity.DERIVATIVE
    around = [float(bound.subs(values | {d: k})) for k in (511, 513)]
    expected = np.log(around[1] / around[0]) / np.log(513 / 511)
    assert value_of(found, "d", "precision_lower") == pytest.approx(expected, rel=1e-9)
    assert value_of(found, "eta", "precision_lower") == 0  # no phase has it


@pytest.mark.parametrize("edition", ["repaired", "sharp", "conditional", "predicted"])
def test_a_derivative_is_the_slope_of_the_study(edition):
    question = Question(edition=edition, bounds=("recall_lower", "precision_upper"))
    found = study_elasticities(POINT, question)
    near = 0.1 if edition == "conditional" else 5e-3  # its averages are quadratures
    width = 0.01
    for name, value in {"beta": 1.0, "p_sink": 0.05, "lam": 0.25, "omega": 0.1}.items():
        for bound in question.bounds:
            low, high = along(name, value * np.exp([-width, width]), question, bound)
            seen, expected = value_of(found, name, bound, "slope"), (high - low) / (2 * width)
            assert seen == pytest.approx(expected, rel=near, abs=2e-6), (name, bound)


def test_a_derivative_by_rank_is_the_slope_of_the_study():
    point = POINT | {"c1": 0.4, "cinf": 0.1, "gamma": 0.8, "eta": 0.3}
    del point["beta"]
    question = Question(edition="sharp", decay="rank", bounds=("precision_lower", "recall_upper"))
    found = study_elasticities(point, question)
    assert not {"beta", "c", "stretch"} & set(names(found))
    for name in ("c1", "cinf", "gamma", "rho0"):
        fixed = {key: value for key, value in point.items() if key != name}
        low, high = study({name: point[name] * np.exp([-0.01, 0.01])}, fixed, question).full(
            "precision_lower"
        )
        seen = value_of(found, name, "precision_lower", "slope")
        assert abs(seen) > 1e-4
        assert seen == pytest.approx((high - low) / 0.02, rel=5e-3)


def test_whole_numbers_move_by_one_and_at_an_end_to_one_side():
    question = Question(edition="sharp", bounds=("precision_upper",))
    found = study_elasticities(POINT, question)
    for name, less, more in (("N", 3, 5), ("L", 63, 65)):
        low, high = along(name, [less, more], question, "precision_upper")
        expected = np.log(high / low) / np.log(more / less)
        assert value_of(found, name, "precision_upper") == pytest.approx(expected, abs=1e-6)
        assert step_of(found, name) == elasticity.BOTH
    for name, value, step in (
        ("N", 1, elasticity.MORE),
        ("N", 65, elasticity.LESS),
        ("T2", 64, elasticity.LESS),
    ):
        assert step_of(study_elasticities(POINT | {name: value}, question), name) == step


def test_only_parameters_of_the_point_are_reported():
    plain = study_elasticities(POINT, Question(edition="sharp"))
    assert " ".join(names(plain)) == "N L d beta rho0 lam p_sink eta omega T1 T2 C"
    point = POINT | {"c": 0.1, "growth": 0.05, "p_base": 0.005}
    offset = study_elasticities(point, Question(decay="offset"))
    assert {"c", "kappa", "growth", "p_base"} <= set(names(offset))
    gram = measured_gram(np.exp(-np.arange(30.0)), rho0=0.1)
    own = study_elasticities({"N": 4}, Question(edition="sharp", decay="measured", measured=gram))
    assert not {"beta", "rho0", "c", "L"} & set(names(own))


@pytest.mark.slow
def test_the_bounds_of_every_edition_but_the_printed_do_not_move_with_the_unit_of_values():
    for edition in ("repaired", "sharp", "conditional", "predicted"):
        found = study_elasticities(POINT, Question(edition=edition, bounds=BOUNDS))
        row = found.arrays["slope"][names(found).index("C")]
        np.testing.assert_array_equal(row, 0, err_msg=edition)
    printed = study_elasticities(POINT)
    by_unit, by_kappa = (value_of(printed, name, "precision_lower") for name in ("C", "kappa"))
    assert by_unit == pytest.approx(2 * by_kappa, rel=1e-5)


def test_what_has_no_elasticity_says_why():
    printed = study_elasticities(POINT, Question(bounds=LOWER))
    assert value_of(printed, "beta", "recall_lower", "reason") == elasticity.NOT_POSITIVE
    assert np.isnan(value_of(printed, "beta", "recall_lower"))
    assert np.isfinite(value_of(printed, "beta", "recall_lower", "slope"))
    assert value_of(printed, "beta", "f_inner_lower", "reason") == elasticity.MEANINGLESS
    assert np.isnan(value_of(printed, "beta", "f_inner_lower", "slope"))
    assert np.isnan(printed.arrays["at"][names(printed, "bound").index("f_inner_lower")])

    sharp = Question(edition="sharp", bounds=("precision_upper",))
    project = Question(project=True)
    beyond = study({}, {"L": 64, "beta": 1.0, "rho0": 1.0}, project).full("projection_distance")
    edge = 1 - float(beyond)
    for name, changes, reason in (
        ("rho0", {"rho0": 0.0}, elasticity.ZERO),
        ("rho0", {"rho0": edge * (1 - 1e-6)}, elasticity.NO_VECTORS),
        ("eta", {"eta": 1.0, "omega": np.pi, "growth": 0.01}, elasticity.NO_PROFILE),
    ):
        found = study_elasticities(POINT | changes, sharp)
        assert value_of(found, name, "precision_upper", "reason") == reason
    with pytest.raises(InputError, match="the Gram of this point is infeasible"):
        study_elasticities(POINT | {"rho0": 0.9}, sharp)
    with pytest.raises(InputError, match="N: expected one value"):
        study_elasticities({"N": [2, 3]})


def test_a_kink_has_no_derivative():
    # the repaired bound stays N/T until the first of its unions of tails falls below 1
    question = Question(edition="repaired", bounds=("precision_lower",))
    flat = {name: value for name, value in POINT.items() if name != "kappa"}
    low, high = 0.05, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        bound = study({"kappa": [middle]}, flat, question).full("precision_lower")[0]
        low, high = (low, middle) if bound > 4 / 65 * (1 + 1e-12) else (middle, high)
    at = study_elasticities(POINT | {"kappa": high}, question)
    assert value_of(at, "kappa", "precision_lower", "reason") == elasticity.NO_DERIVATIVE
    for what in ("elasticity", "slope"):
        assert np.isnan(value_of(at, "kappa", "precision_lower", what))
    beyond = study_elasticities(POINT | {"kappa": 1.1 * high}, question)
    assert value_of(beyond, "kappa", "precision_lower") > 0.01
