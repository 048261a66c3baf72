import lmfit
import numpy as np
import pytest
from support.synthetic import Sizes, Spread, Truth, capture

from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.fit import fit_weights
from geostat.fits.weights.rivals import FREE, RIVALS, SIMPLE, choose, solve


def constant(position, log_p_base):
    return np.full(np.shape(position), log_p_base)


def no_plateau(position, log_p_base, slope, first):
    return log_p_base + slope * (position - first)


def power_law(position, log_p_base, slope, last):
    return log_p_base - slope * np.log(last + 1.0 - position)


MODELS = {
    f.__name__: lmfit.Model(f, independent_vars=["position"])
    for f in (constant, no_plateau, power_law)
}


def fit_row(form, position, row):
    """Fit one simple rival to one profile with lmfit, unknown tokens left out."""
    parameters = lmfit.Parameters()
    parameters.add("log_p_base", value=float(np.nanmean(row)))
    if form != "constant":
        parameters.add("slope", value=0.01, min=0.0)
        name, end = ("first", position[0]) if form == "no_plateau" else ("last", position[-1])
        parameters.add(name, value=float(end), vary=False)
    known = np.isfinite(row)
    return MODELS[form].fit(
        row[known], parameters, position=position[known], method="leastsq", nan_policy="raise"
    )


@pytest.mark.parametrize("form", SIMPLE)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_closed_form_is_lmfits_optimum(form, sign):
    random = np.random.default_rng(1)
    position = np.arange(3.0, 90.0)
    row = random.normal(0, 0.5, position.size) + sign * 0.03 * position
    row[[4, 50]] = np.nan
    b, slope = solve(form, position, row[None])
    value = fit_row(form, position, row).params.valuesdict()
    if form == "constant" or sign > 0:
        assert value["log_p_base"] == pytest.approx(b[0], abs=1e-6)
        assert value.get("slope", 0.0) == pytest.approx(slope[0], abs=1e-6)
    else:  # a slope is not negative; lmfit creeps towards its bound
        assert slope[0] == 0
        assert b[0] == pytest.approx(np.nanmean(row))
        assert value["slope"] == pytest.approx(0, abs=1e-3)


def losses(**by_rival):
    out = np.full((len(RIVALS), 8, 1), 9.0)
    for name, values in by_rival.items():
        out[RIVALS.index(name), :, 0] = values
    return out


def test_the_simplest_within_one_standard_error_is_chosen():
    wiggle = np.array([1, -1] * 4)
    base = np.linspace(3, 5, 8)
    near = losses(separate=base, monotone=base + 0.1 + wiggle, constant=base + 2)
    assert RIVALS[choose(near).chosen[0]] == "monotone"
    far = losses(separate=base, monotone=base + 0.1 + 0.1 * wiggle, constant=base + 2)
    assert RIVALS[choose(far).chosen[0]] == "separate"
    tied = losses(separate=base, power_law=base + 0.1 + wiggle, no_plateau=base + 0.2 + wiggle)
    assert RIVALS[choose(tied).chosen[0]] == "power_law"


def test_a_choice_needs_two_documents_and_forms_that_all_of_them_fit():
    assert choose(losses(constant=2.0)[:, :1]).chosen[0] == -1
    assert choose(np.full((6, 8, 1), np.nan)).chosen[0] == -1
    failed = losses(separate=np.r_[np.nan, np.ones(7)], constant=2.0)
    assert RIVALS[choose(failed).chosen[0]] == "constant"


def planted(shape, seed):
    """Heads whose mean log weight has the given shape."""
    data = capture(
        Truth(eta=0.0, eta_tail=0.0),
        Spread(token=0.8, document_level=0.5),
        Sizes(heads=16, kv_heads=4, positions=200),
        seed=seed,
    )
    data["attention_weight"][..., 1:] *= np.exp(shape(np.arange(1, 200)))
    return fit_weights(data)


@pytest.mark.parametrize(
    ("form", "shape"),
    [
        ("constant", lambda i: 0.0 * i),
        ("no_plateau", lambda i: 0.02 * i),
        ("power_law", lambda i: -0.8 * np.log(200.0 - i)),
        ("monotone", lambda i: 0.1 * np.maximum(i - 160, 0)),
        (
            "separate",
            lambda i: (
                np.where((i > 40) & (i < 150), np.log1p(0.7 * np.cos(0.9 * i)), 0)
                + 0.1 * np.maximum(i - 160, 0)
            ),
        ),
    ],
)
def test_the_planted_form_is_preferred(form, shape):
    fit = planted(shape, seed=7)
    assert (fit["preferred"] == RIVALS.index(form)).mean() >= 0.8
    reported = np.array(FORMS)[fit["form_chosen"].values]
    preferred = np.array(RIVALS)[fit["preferred"].values]
    np.testing.assert_array_equal(fit["preferred_differs"].values, preferred != reported)
    points = 199
    for name in RIVALS:
        own, k = fit.sel(rival=name), FREE[name]
        base = points * np.log(own["rival_rmse"] ** 2)
        np.testing.assert_allclose(own["rival_bic"], base + k * np.log(points), rtol=1e-9)
        np.testing.assert_allclose(
            own["rival_aicc"], base + 2 * k + 2 * k * (k + 1) / (points - k - 1), rtol=1e-9
        )
    if form == "power_law":
        inside = (fit["power_law_gamma_lower"] < 0.8) & (fit["power_law_gamma_upper"] > 0.8)
        assert inside.mean() > 0.8
    np.testing.assert_allclose(
        fit["rival_loss_left_out"].sel(rival=["monotone", "shared"]), fit["form_loss_left_out"][:2]
    )
