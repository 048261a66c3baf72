import numpy as np
import pytest
from numpy.testing import assert_allclose

from geostat.fits.similarity import forms
from geostat.fits.similarity.forms import FORM, FORMS, by_lag, solve

LAG = np.arange(1, 200.0)
PAIRS = 200 - LAG
TRUE = {form: form for form in FORMS} | {"exponential": "offset", "constant": "offset"}
"""Form that generates the rows, by fitted form: the exponential must misfit, where finite
differences fail.
"""
POINT = {"beta": 0.07, "offset": 0.2, "stretch": 0.6}


def rows(form, number, seed=0):
    random = np.random.default_rng(seed)
    slowest = 0.3 if "power" in form else 0.02  # a slower power law fits c = −1, a bound
    beta = np.exp(random.uniform(np.log(slowest), np.log(1.5), (number, 1)))
    offset = random.uniform(-0.1, 0.6, (number, 1))
    stretch = random.uniform(0.4, 1.6, (number, 1))
    noise = random.normal(0, 0.03, (number, LAG.size))
    return by_lag(TRUE[form], LAG, beta, offset, stretch) + noise


def values(form, solution):
    """Return the parameters of a solution, (row, parameter)."""
    return np.stack([solution.values[name] for name in FORM[form].parameters], axis=-1)


def errors(form, solution):
    """Return standard errors of the rows' parameters: the scale for comparing optima."""
    out = []
    for row, squares in enumerate(solution.squares):
        parameters = {name: column[row] for name, column in solution.values.items()}
        slopes = np.stack([*forms.jacobian(form, LAG, **parameters).values()], axis=1)
        inverse = np.linalg.inv(slopes.T @ (PAIRS[:, None] * slopes))
        out.append(np.sqrt(np.diagonal(inverse) * squares / (LAG.size - slopes.shape[1])))
    return np.array(out)


@pytest.mark.parametrize("form", FORMS)
def test_solver_finds_the_lmfit_optimum_and_its_covariance(form):
    """Rivals that are not preferred keep the solver's estimates and the covariance there."""
    cosine = rows(form, 4)
    solution = solve(form, LAG, cosine, PAIRS)
    assert solution.converged.all()
    assert not np.any(list(solution.at_bound.values()))
    solved, error = values(form, solution), errors(form, solution)
    for row in range(len(cosine)):
        start = forms.lmfit_parameters(form, solution, row)
        for name, factor, step in (("beta", 1.2, 0), ("stretch", 0.9, 0), ("offset", 1, 0.05)):
            if name in start:
                start[name].value = factor * start[name].value + step
        keywords = {"lag": LAG, "weights": np.sqrt(PAIRS), **forms.lmfit_keywords(form)}
        far = forms.MODEL[form].fit(cosine[row], start, **keywords)
        near = forms.fit_row(form, LAG, cosine[row], PAIRS, solution, row)
        assert solution.squares[row] <= far.chisqr * (1 + 1e-12)
        for result, share in ((far, 2e-5), (near, 1e-6)):
            found = np.array([result.params[name].value for name in FORM[form].parameters])
            assert (np.abs(found - solved[row]) < share * error[row]).all(), (row, share)
        assert near.var_names == forms.free_parameters(form, solution, row)
        covariance = forms.covariance(form, LAG, cosine[row], PAIRS, solution, row)
        assert_allclose(covariance, near.covar, rtol=1e-6)


def assert_same(form, result, expected):
    difference = np.abs(values(form, result) - values(form, expected))
    assert (difference <= 1e-9 * errors(form, expected)).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_solver_does_not_depend_on_how_rows_are_batched(monkeypatch, form):
    cosine = rows("offset", 9)
    cosine[4, 20:60] = np.nan
    whole = solve(form, LAG, cosine, PAIRS)
    monkeypatch.setattr("geostat.fits.similarity.forms.CHUNK", 2 * LAG.size)
    assert_same(form, solve(form, LAG, cosine, PAIRS), whole)


@pytest.mark.parametrize("form", FORMS)
def test_unknown_lags_are_ignored(form):
    cosine = rows("power", 4, seed=2)
    cosine[:, 50:120] = np.nan
    known = np.isfinite(cosine[0])
    expected = solve(form, LAG[known], cosine[:, known], PAIRS[known])
    assert_same(form, solve(form, LAG, cosine, PAIRS), expected)


@pytest.mark.parametrize("form", FORMS)
def test_jacobian_is_the_derivative_of_the_form(form):
    result = forms.jacobian(form, LAG, **POINT)
    assert tuple(result) == FORM[form].parameters
    for name, column in result.items():
        step = 1e-6 * POINT[name]
        up, down = (by_lag(form, LAG, **(POINT | {name: POINT[name] + s * step})) for s in (1, -1))
        assert_allclose(column, (up - down) / (2 * step), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_equals_its_formula(form):
    beta, c, s = POINT.values()
    expected = {
        "exponential": np.exp(-beta * LAG),
        "offset": c + (1 - c) * np.exp(-beta * LAG),
        "constant": np.full(LAG.shape, c),
        "power": (1 + LAG) ** -beta,
        "stretched": np.exp(-((beta * LAG) ** s)),
        "offset_power": c + (1 - c) * (1 + LAG) ** -beta,
    }[form]
    assert_allclose(by_lag(form, LAG, beta, c, s), expected, rtol=1e-12)
    own = {name: POINT[name] for name in FORM[form].parameters}
    assert_allclose(forms.MODEL[form].eval(lag=LAG, **own), expected, rtol=1e-12)
    gram = forms.fitted_gram(form, 30, beta, own.get("offset", 0.0), own.get("stretch", 1.0), 0.1)
    assert_allclose(gram.by_lag, [1.0, *expected[:29]], rtol=1e-12)
    assert gram.rho0 == 0.1


@pytest.mark.parametrize(
    ("form", "level", "parameter"),
    [("exponential", -0.3, "beta"), ("power", -0.3, "beta"), ("stretched", 0.08, "stretch")],
)
def test_a_row_that_no_form_can_fit_ends_at_a_bound(form, level, parameter):
    cosine = np.full((1, LAG.size), level)
    solution = solve(form, LAG, cosine, PAIRS)
    assert solution.at_bound[parameter].all()
    assert solution.converged.all()
    result = forms.fit_row(form, LAG, cosine[0], PAIRS, solution, 0)
    assert not result.params[parameter].vary
    assert result.params[parameter].stderr in (None, 0)


def test_the_stretched_form_bounds_b_and_not_beta():
    # In e^{−b k^s} with s = 0.125, β = b^{1/s} is huge but b is not.
    result = solve("stretched", LAG, by_lag("stretched", LAG, 3.0**8, stretch=0.125)[None], PAIRS)
    assert not result.at_bound["beta"][0]
    assert result.values["beta"][0] == pytest.approx(3.0**8, rel=1e-6)
    assert result.values["stretch"][0] == pytest.approx(0.125, rel=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_too_few_lags_give_nan(form):
    needed = FORM[form].number
    cosine = np.full((2, 5), np.nan)
    cosine[0, :needed] = [0.5, 0.3][:needed]
    cosine[1, : needed - 1] = 0.5
    result = solve(form, LAG[:5], cosine, PAIRS[:5])
    assert np.isfinite(result.squares[0])
    assert np.isnan([value[1] for value in (*result.values.values(), result.squares)]).all()
    assert not result.converged[1]
