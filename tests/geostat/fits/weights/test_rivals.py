import lmfit
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.synthetic import Sizes, Spread, Truth, capture

from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.fit import fit_weights
from geostat.fits.weights.rivals import FREE, RIVALS, SIMPLE, choose, solve

MODELS = {
    "constant": lambda position, log_p_base: np.full(np.shape(position), log_p_base),
    "no_plateau": lambda position, log_p_base, slope: log_p_base + slope * (position - 3.0),
    "power_law": lambda position, log_p_base, slope: log_p_base - slope * np.log(90 - position),
}
"""Formulas of the simple rivals for content tokens at positions 3 to 89."""


@pytest.mark.parametrize("form", SIMPLE)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_closed_form_equals_the_lmfit_optimum(form, sign):
    random = np.random.default_rng(1)
    position = np.arange(3.0, 90.0)
    row = random.normal(0, 0.5, position.size) + sign * 0.03 * position
    row[[4, 50]] = np.nan
    b, slope = solve(form, position, row[None])
    model = lmfit.Model(MODELS[form], independent_vars=["position"], nan_policy="omit")
    start = model.make_params(log_p_base=np.nanmean(row), slope={"value": 0.01, "min": 0.0})
    value = model.fit(row, start, position=position).params.valuesdict()
    if form == "constant" or sign > 0:
        assert value["log_p_base"] == pytest.approx(b[0], abs=1e-6)
        assert value.get("slope", 0.0) == pytest.approx(slope[0], abs=1e-6)
    else:  # slopes are nonnegative; lmfit approaches its bound slowly
        assert slope[0] == 0
        assert b[0] == pytest.approx(np.nanmean(row))
        assert value["slope"] == pytest.approx(0, abs=1e-3)


def test_the_simplest_within_one_standard_error_is_chosen():
    loss = np.full((len(RIVALS), 8, 1), 9.0)
    loss[RIVALS.index("separate"), :, 0] = best = np.linspace(3, 5, 8)
    loss[RIVALS.index("monotone"), :, 0] = best + 0.1 + np.array([1, -1] * 4)
    assert RIVALS[choose(loss).chosen[0]] == "monotone"


def test_a_choice_needs_two_documents_and_forms_fitted_in_all():
    assert choose(np.full((6, 1, 1), 2.0)).chosen[0] == -1
    loss = np.full((6, 8, 1), np.nan)
    assert choose(loss).chosen[0] == -1
    loss[RIVALS.index("separate"), 1:], loss[RIVALS.index("constant")] = 1.0, 2.0
    assert RIVALS[choose(loss).chosen[0]] == "constant"


@pytest.mark.parametrize(
    ("form", "shape"),
    [
        ("constant", lambda i: 0.0 * i),
        ("no_plateau", lambda i: 0.02 * i),
        ("power_law", lambda i: -0.8 * np.log(128.0 - i)),
        ("monotone", lambda i: 0.1 * np.maximum(i - 90, 0)),
        (
            "separate",
            lambda i: (
                np.where((i > 20) & (i < 90), np.log1p(0.7 * np.cos(0.9 * i)), 0)
                + 0.1 * np.maximum(i - 100, 0)
            ),
        ),
    ],
)
def test_the_planted_form_is_preferred(form, shape):
    spread, sizes = Spread(token=0.8, document_level=0.5), Sizes(heads=5, kv_heads=1)
    data = capture(Truth(eta=0.0, eta_tail=0.0), spread, sizes, seed=7)
    data["attention_weight"][..., 1:] *= np.exp(shape(np.arange(1, 128)))
    fit = fit_weights(data)
    assert (fit["preferred"] == RIVALS.index(form)).mean() >= 0.8
    reported = np.array(FORMS)[fit["form_chosen"].values]
    preferred = np.array(RIVALS)[fit["preferred"].values]
    assert_array_equal(fit["preferred_differs"], preferred != reported)
    n = 127
    for name in RIVALS:
        rival, k = fit.sel(rival=name), FREE[name]
        base = n * np.log(rival["rival_rmse"] ** 2)
        assert_allclose(rival["rival_bic"], base + k * np.log(n), rtol=1e-9)
        aicc = base + 2 * k + 2 * k * (k + 1) / (n - k - 1)
        assert_allclose(rival["rival_aicc"], aicc, rtol=1e-9)
    if form == "power_law":
        inside = (fit["power_law_gamma_lower"] < 0.8) & (fit["power_law_gamma_upper"] > 0.8)
        assert inside.mean() > 0.8
    of_forms = fit["rival_loss_held_out"].sel(rival=["monotone", "shared"])
    assert_allclose(of_forms, fit["form_loss_held_out"][:2])
