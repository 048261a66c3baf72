"""Elasticities at a point of a study equal closed forms and the study's own slopes; what has
none says why.
"""

import numpy as np
import pytest
import sympy as sp

from theory.errors import InputError
from theory.what_if.elasticity import (
    BOTH,
    DERIVATIVE,
    LESS,
    MORE,
    NO_DERIVATIVE,
    NO_PROFILE,
    NO_VECTORS,
    NOT_POSITIVE,
    SAYS_NOTHING,
    ZERO,
    study_elasticities,
)
from theory.what_if.given_gram import measured_gram
from theory.what_if.parameters import BOUNDS, LOWER
from theory.what_if.study import Question, study

POINT = {"L": 64, "N": 4, "rho0": 0.05, "eta": 0.1, "p_sink": 0.05, "beta": 1.0}


def told(found, parameter, bound, what="elasticity"):
    return getattr(found, what)[found.parameters.index(parameter), found.bounds.index(bound)]


@pytest.mark.parametrize("n", [2, 5])
def test_the_printed_bound_moves_as_its_derivative(n):
    # arXiv 2602.01893, eq. (12) at T1 = T2 = L without growth: all content weights equal a, so
    # that S = (N - 1)a with the sink selected
    point = {
        "L": 40,
        "N": n,
        "T1": "1L",
        "T2": "1L",
        "p_sink": 0.6,
        "lam": 0.5,
        "beta": 1.3,
        "d": 512,
        "kappa": 4.0,
        "rho0": 0.0,
        "eta": 0.1,
    }
    beta, kappa, d, p, lam, norm = sp.symbols("beta kappa d p lam C", positive=True)
    a, a_sink = norm * (1 - p) / 40, lam * p * norm
    total, rho = (n - 1) * a, sp.exp(-beta)
    scale = a_sink + a + total
    margin, margin_sink = a**2 - 2 * a * total * rho, a_sink**2 - (total * rho) ** 2
    tails = [sp.exp(-kappa * d * (x / scale) ** 2) for x in (margin, margin_sink)]
    bound = 1 / (1 + (40 - n) * tails[0] + sp.Rational(40 - n, n) * tails[1])
    values = {beta: 1.3, kappa: 4.0, d: 512, p: 0.6, lam: 0.5, norm: 1}
    found = study_elasticities(point, Question(bounds=("precision_lower",)))
    assert found.at[0] == pytest.approx(float(bound.subs(values)), rel=1e-12)
    for name, symbol in (
        ("beta", beta),
        ("kappa", kappa),
        ("p_sink", p),
        ("lam", lam),
        ("C", norm),
    ):
        slope = float((symbol * sp.diff(bound, symbol)).subs(values))
        assert told(found, name, "precision_lower", "slope") == pytest.approx(slope, rel=1e-6), name
        assert told(found, name, "precision_lower") == pytest.approx(
            slope / found.at[0], rel=1e-6
        ), name
        assert found.steps[found.parameters.index(name)] == DERIVATIVE
    around = [float(bound.subs(values | {d: k})) for k in (511, 513)]
    assert told(found, "d", "precision_lower") == pytest.approx(
        np.log(around[1] / around[0]) / np.log(513 / 511), rel=1e-9
    )
    assert told(found, "eta", "precision_lower") == 0  # no phase has it


@pytest.mark.parametrize("edition", ["repaired", "sharp", "conditional", "predicted"])
def test_a_derivative_is_the_slope_of_the_study(edition):
    question = Question(edition=edition, bounds=("recall_lower", "precision_upper"))
    found = study_elasticities(POINT, question)
    near = 0.1 if edition == "conditional" else 5e-3  # its averages are quadratures
    for name in ("beta", "lam", "p_sink", "omega"):
        width = 0.01
        ends = POINT.get(name, {"lam": 0.25, "omega": 0.1}.get(name)) * np.exp([-width, width])
        row = study(
            {name: ends},
            {k: v for k, v in POINT.items() if k != name},
            question,
        )
        for bound in question.bounds:
            low, high = row.full(bound)
            assert told(found, name, bound, "slope") == pytest.approx(
                (high - low) / (2 * width), rel=near, abs=2e-6
            ), (name, bound)


def test_whole_numbers_move_by_one_and_at_an_end_to_one_side():
    question = Question(edition="sharp", bounds=("precision_upper",))
    found = study_elasticities(POINT, question)
    curve = study({"N": [3, 4, 5]}, {k: v for k, v in POINT.items() if k != "N"}, question).full(
        "precision_upper"
    )
    assert told(found, "N", "precision_upper") == pytest.approx(
        np.log(curve[2] / curve[0]) / np.log(5 / 3), abs=1e-6
    )
    assert found.steps[found.parameters.index("N")] == BOTH
    longer = study({"L": [63, 65]}, {k: v for k, v in POINT.items() if k != "L"}, question).full(
        "precision_upper"
    )
    assert told(found, "L", "precision_upper") == pytest.approx(
        np.log(longer[1] / longer[0]) / np.log(65 / 63), abs=1e-6
    )
    ends = {n: study_elasticities(POINT | {"N": n}, question).steps[0] for n in (1, 65)}
    assert ends == {1: MORE, 65: LESS}
    last = study_elasticities(POINT | {"T2": 64}, question)
    assert last.steps[last.parameters.index("T2")] == LESS


def test_only_parameters_that_the_point_has_are_told():
    plain = study_elasticities(POINT, Question(edition="sharp"))
    assert plain.parameters == (
        "N",
        "L",
        "d",
        "beta",
        "rho0",
        "lam",
        "p_sink",
        "eta",
        "omega",
        "T1",
        "T2",
        "C",
    )
    offset = study_elasticities(
        POINT | {"c": 0.1, "growth": 0.05, "p_base": 0.005}, Question(decay="offset")
    )
    assert {"c", "kappa", "growth", "p_base"} <= set(offset.parameters)
    own = study_elasticities(
        {"N": 4},
        Question(
            edition="sharp",
            decay="measured",
            measured=measured_gram(np.exp(-np.arange(30.0)), rho0=0.1),
        ),
    )
    assert not {"beta", "rho0", "c", "L"} & set(own.parameters)


@pytest.mark.slow
def test_the_bounds_of_every_edition_but_the_printed_do_not_move_with_the_unit_of_values():
    for edition in ("repaired", "sharp", "conditional", "predicted"):
        found = study_elasticities(POINT, Question(edition=edition, bounds=BOUNDS))
        row = found.slope[found.parameters.index("C")]
        np.testing.assert_array_equal(row, 0, err_msg=edition)
    assert told(study_elasticities(POINT), "C", "precision_lower") == pytest.approx(
        2 * told(study_elasticities(POINT), "kappa", "precision_lower"), rel=1e-5
    )


def test_what_has_no_elasticity_says_why():
    printed = study_elasticities(POINT, Question(bounds=LOWER))
    assert told(printed, "beta", "recall_lower", "reasons") == NOT_POSITIVE
    assert np.isnan(told(printed, "beta", "recall_lower"))
    assert np.isfinite(told(printed, "beta", "recall_lower", "slope"))
    assert told(printed, "beta", "f_inner_lower", "reasons") == SAYS_NOTHING
    assert np.isnan(told(printed, "beta", "f_inner_lower", "slope"))
    assert np.isnan(printed.at[printed.bounds.index("f_inner_lower")])

    sharp = Question(edition="sharp", bounds=("precision_upper",))
    assert (
        told(study_elasticities(POINT | {"rho0": 0.0}, sharp), "rho0", "precision_upper", "reasons")
        == ZERO
    )
    edge = float(
        study({"L": [64]}, {"beta": 1.0, "rho0": 1.0}, Question(project=True)).full(
            "projection_distance"
        )[0]
    )
    at_edge = study_elasticities(POINT | {"rho0": (1 - edge) * (1 - 1e-6)}, sharp)
    assert told(at_edge, "rho0", "precision_upper", "reasons") == NO_VECTORS
    full = study_elasticities(POINT | {"eta": 1.0, "omega": np.pi, "growth": 0.01}, sharp)
    assert told(full, "eta", "precision_upper", "reasons") == NO_PROFILE
    with pytest.raises(InputError, match="no vectors have the Gram of this point"):
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
        rises = study({"kappa": [middle]}, flat, question).full("precision_lower")[0] > 4 / 65 * (
            1 + 1e-12
        )
        low, high = (low, middle) if rises else (middle, high)
    at = study_elasticities(POINT | {"kappa": high}, question)
    assert told(at, "kappa", "precision_lower", "reasons") == NO_DERIVATIVE
    assert np.isnan(
        [told(at, "kappa", "precision_lower"), told(at, "kappa", "precision_lower", "slope")]
    ).all()
    beyond = study_elasticities(POINT | {"kappa": 1.1 * high}, question)
    assert told(beyond, "kappa", "precision_lower") > 0.01
