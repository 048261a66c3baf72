import numpy as np
import pytest
from scipy.optimize import minimize

from geostat.fits.similarity import forms
from geostat.fits.similarity.forms import (
    FORM,
    FORMS,
    PARAMETERS,
    by_lag,
    fit_row,
    fitted_gram,
    jacobian,
)
from geostat.fits.similarity.solver import solve

LAG = np.arange(1, 200.0)
PAIRS = 200 - LAG
TRUE = {
    "exponential": "offset",
    "offset": "offset",
    "constant": "offset",
    "power": "power",
    "stretched": "stretched",
    "offset_power": "offset_power",
}
"""The form that rows are drawn from, for each that is fitted: an exponential has to miss, which
is where finite differences fail.
"""


def rows(form, number=12, seed=0):
    random = np.random.default_rng(seed)
    slowest = 0.3 if "power" in form else 0.02  # a slower power law rises from c = −1, a bound
    beta, offset = (
        np.exp(random.uniform(np.log(slowest), np.log(1.5), (number, 1))),
        random.uniform(-0.1, 0.6, (number, 1)),
    )
    stretch = random.uniform(0.4, 1.6, (number, 1))
    return by_lag(TRUE[form], LAG, beta, offset, stretch) + random.normal(
        0, 0.03, (number, LAG.size)
    )


def point(form):
    return {"beta": 0.07, "offset": 0.2, "stretch": 0.6}


def errors(form, found):
    """Standard errors of the rows' parameters, by name: what tells how near two optima are."""
    out = {name: np.empty(found.squares.size) for name in FORM[form].parameters}
    for row, squares in enumerate(found.squares):
        at = {name: found.values[name][row] for name in PARAMETERS}
        slopes = np.stack([*jacobian(form, LAG, **at).values()], axis=1)
        inverse = np.linalg.inv(slopes.T @ (PAIRS[:, None] * slopes))
        for index, name in enumerate(out):
            out[name][row] = np.sqrt(inverse[index, index] * squares / (LAG.size - len(out)))
    return out


@pytest.mark.parametrize("form", FORMS)
def test_batched_solver_finds_the_optimum_lmfit_finds_from_elsewhere(form):
    cosine = rows(form)
    found = solve(form, LAG, cosine, PAIRS)
    assert found.converged.all()
    assert not np.any([found.at_bound[name] for name in PARAMETERS])
    error = errors(form, found)
    for row in range(cosine.shape[0]):
        parameters = forms.parameters(form, found, row)
        for name, change in (("beta", 1.2), ("stretch", 0.9)):
            if name in parameters:
                parameters[name].value *= change
        if "offset" in parameters:
            parameters["offset"].value += 0.05
        result = FORM[form].model.fit(
            cosine[row], parameters, lag=LAG, weights=np.sqrt(PAIRS), **forms.keywords(form)
        )
        assert found.squares[row] <= result.chisqr * (1 + 1e-12)
        for name in FORM[form].parameters:
            away = abs(result.params[name].value - found.values[name][row])
            assert away < 2e-5 * error[name][row], (row, name)


@pytest.mark.parametrize("form", FORMS)
def test_no_other_point_has_a_smaller_loss_of_pairs(form):
    cosine = rows(form, 3, seed=1)
    found = solve(form, LAG, cosine, PAIRS)
    names, error = FORM[form].parameters, errors(form, found)
    for row in range(3):

        def loss(p, y=cosine[row]):
            return (
                PAIRS
                * (y - by_lag(form, LAG, **({"beta": 1.0} | dict(zip(names, p, strict=True))))) ** 2
            ).sum()

        start = [point(form)[name] for name in names]
        best = minimize(
            loss,
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
        )
        for name, other in zip(names, best.x, strict=True):
            assert abs(found.values[name][row] - other) < 1e-5 * error[name][row], (row, name)
        assert found.squares[row] == pytest.approx(best.fun, rel=1e-9)


def test_the_solver_does_not_depend_on_how_rows_are_batched(monkeypatch):
    cosine = rows("offset", 9)
    cosine[4, 20:60] = np.nan
    for form in FORMS:
        whole = solve(form, LAG, cosine, PAIRS)
        monkeypatch.setattr("geostat.fits.similarity.solver.CHUNK", 2 * LAG.size)
        parts = solve(form, LAG, cosine, PAIRS)
        monkeypatch.undo()
        error = errors(form, whole)
        for name in FORM[form].parameters:
            away = np.abs(parts.values[name] - whole.values[name])
            assert (away <= 1e-9 * error[name]).all()


def test_unknown_lags_are_left_out_and_not_read_as_zero():
    cosine = rows("power", 4, seed=2)
    holes = cosine.copy()
    holes[:, 50:120] = np.nan
    known = np.isfinite(holes[0])
    for form in FORMS:
        found, own = (
            solve(form, LAG, holes, PAIRS),
            solve(form, LAG[known], cosine[:, known], PAIRS[known]),
        )
        error = errors(form, own)
        for name in FORM[form].parameters:
            away = np.abs(found.values[name] - own.values[name])
            assert (away <= 1e-9 * error[name]).all()


@pytest.mark.parametrize("form", FORMS)
def test_jacobian_is_the_derivative_of_the_form(form):
    at = point(form)
    found = jacobian(form, LAG, **at)
    assert tuple(found) == FORM[form].parameters
    for name, column in found.items():
        step = 1e-6 * at[name]
        up, down = (by_lag(form, LAG, **(at | {name: at[name] + s * step})) for s in (1, -1))
        np.testing.assert_allclose(column, (up - down) / (2 * step), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_what_its_formula_says(form):
    beta, c, s = 0.07, 0.2, 0.6
    expected = {
        "exponential": np.exp(-beta * LAG),
        "offset": c + (1 - c) * np.exp(-beta * LAG),
        "constant": np.full(LAG.shape, c),
        "power": (1 + LAG) ** -beta,
        "stretched": np.exp(-((beta * LAG) ** s)),
        "offset_power": c + (1 - c) * (1 + LAG) ** -beta,
    }[form]
    np.testing.assert_allclose(by_lag(form, LAG, beta, c, s), expected, rtol=1e-12)
    values = {"beta": beta, "offset": c, "stretch": s}
    np.testing.assert_allclose(
        FORM[form].model.eval(lag=LAG, **{n: values[n] for n in FORM[form].parameters}),
        expected,
        rtol=1e-12,
    )
    gram = fitted_gram(form, 30, beta, c if "offset" in FORM[form].parameters else 0.0, s, 0.1)
    np.testing.assert_allclose(gram.by_lag, [1.0, *expected[:29]], rtol=1e-12)
    assert gram.rho0 == 0.1


@pytest.mark.parametrize(
    ("form", "level", "at"),
    [("exponential", -0.3, "beta"), ("power", -0.3, "beta"), ("stretched", 0.08, "stretch")],
)
def test_a_row_no_form_can_follow_ends_at_a_bound(form, level, at):
    found = solve(form, LAG, np.full((1, LAG.size), level), PAIRS)
    assert found.at_bound[at].all()
    assert found.converged.all()
    result = fit_row(form, LAG, np.full(LAG.size, level), PAIRS, found, 0)
    assert not result.params[at].vary
    assert result.params[at].stderr in (None, 0)


def test_the_stretched_form_holds_b_and_not_beta_at_the_bound():
    # e^{−b k^s} with s = 0.1: β = b^{1/s} is huge, b is not.
    found = solve("stretched", LAG, by_lag("stretched", LAG, 3.0**8, stretch=0.125)[None], PAIRS)
    assert not found.at_bound["beta"][0]
    assert found.values["beta"][0] == pytest.approx(3.0**8, rel=1e-6)
    assert found.values["stretch"][0] == pytest.approx(0.125, rel=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_too_few_lags_give_nan_and_not_a_number(form):
    needed = FORM[form].number
    cosine = np.full((2, 5), np.nan)
    cosine[0, :needed] = [0.5, 0.3][:needed]
    cosine[1, : needed - 1] = 0.5
    found = solve(form, LAG[:5], cosine, PAIRS[:5])
    assert np.isfinite(found.squares[0])
    for value in (*found.values.values(), found.squares):
        assert np.isnan(value[1])
    assert not found.converged[1]
