import numpy as np
import pytest
from support.noise import arma

from geostat.fits.weights.autocorrelation import Background
from geostat.fits.weights.break_points import FORMS, search_monotone
from geostat.fits.weights.forms import log_profile
from geostat.fits.weights.identifiability import (
    PARAMETERS,
    Reason,
    Significance,
    placement,
    reasons,
    reported,
    strength,
)
from geostat.fits.weights.rivals import RIVALS

POSITION = np.arange(1.0, 401)
LAST = 400.0
START = {"b": -7.0, "eta_osc": 0.5, "eta_tail": 0.04, "omega": 0.9, "t1": 60.0, "t2": 300.0}
MONOTONE, SEPARATE = FORMS.index("monotone"), FORMS.index("separate")


def of_all_forms(**values):
    """Return arrays (form, head) of one head, equal in every form."""
    return {name: np.full((len(FORMS), 1), value) for name, value in values.items()}


def rows(**values):
    return of_all_forms(**START | values)


def noise(phi=0.0, variance=1.0):
    return Background(**of_all_forms(phi=phi, theta=0.0, variance=variance))


WHITE = noise()


def half_widths(background=WHITE, **values):
    return placement(rows(**values), background, POSITION, np.ones((1, 400), dtype=bool))


def test_limits_in_white_noise_are_those_of_least_squares():
    result = half_widths()
    step = 1e-5

    def profile(**values):
        return log_profile(POSITION, *(START | values).values())

    names = ("b", "eta_osc", "eta_tail", "omega")
    columns = [(profile(**{name: START[name] + step}) - profile()) / step for name in names]
    jacobian = np.stack([*columns, np.where(POSITION > 300, -0.04, 0.0)], axis=1)
    error = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    assert result["t2"][SEPARATE, 0] == pytest.approx(1.96 * error[4], rel=1e-3)
    assert result["omega"][SEPARATE, 0] == pytest.approx(1.96 * error[3], rel=1e-3)
    wave = profile(b=0.0, eta_tail=0.0)
    assert result["t1"][SEPARATE, 0] == pytest.approx(11.03 * 240 / (wave**2).sum(), rel=1e-9)
    assert result["t1"][MONOTONE, 0] == result["t2"][MONOTONE, 0]


def test_half_width_of_t2_equals_the_scatter_of_the_search_in_correlated_noise():
    truth = log_profile(POSITION, -7.0, 0.0, 0.08, np.nan, 300, 300)
    result = search_monotone(truth + arma(0.55, 0.0, 600, 400, seed=1) * 0.8, 1)
    half_width = half_widths(noise(0.55, 0.64), eta_tail=0.08)["t2"][0, 0]
    assert np.std(result["t2"]) == pytest.approx(half_width / 1.96, rel=0.15)
    # White noise of the same variance would give much too narrow intervals.
    white = half_widths(noise(0.0, 0.64 / (1 - 0.55**2)), eta_tail=0.08)["t2"][0, 0]
    assert white < 0.65 * half_width


def test_break_points_of_an_absent_phase_have_infinite_half_widths():
    result = half_widths(eta_osc=0.0, eta_tail=0.0)
    assert np.isinf([result[name][SEPARATE, 0] for name in ("t1", "t2", "omega")]).all()


def test_strength_is_in_units_of_the_noise():
    result = strength(rows(), noise(0.5, 0.75), np.full((3, 1), 2.0), LAST)
    assert result["growth"][SEPARATE, 0] == pytest.approx(0.04 * 100 / 2.0)
    density = 0.75 / (1.25 - np.cos(0.9))
    assert result["oscillation"][SEPARATE, 0] == pytest.approx(0.5 / np.sqrt(2 * density / 240))


def codes(oscillation=True, growth=True, large=True, widths=(1.0, 1.0, 1e-4), bound="", **values):
    """Return the reason of each parameter of the separate form."""
    significance = of_all_forms(
        oscillation_detected=oscillation,
        oscillation_large=large,
        growth_detected=growth,
        growth_large=large,
    )
    half_width = of_all_forms(**dict(zip(("t1", "t2", "omega"), widths, strict=True)))
    at_bound = of_all_forms(**{name: name == bound for name in ("eta", "eta_tail", "omega")})
    result = reasons(rows(**values), Significance(**significance), half_width, at_bound, LAST)
    return {name: int(code[SEPARATE, 0]) for name, code in result.items()}


def expected(reason, names):
    return dict.fromkeys(PARAMETERS, Reason.HAS_ONE) | dict.fromkeys(names.split(), reason)


def test_reasons_return_the_first_that_applies():
    assert codes() == expected(Reason.HAS_ONE, "")
    assert codes(b=np.nan) == dict.fromkeys(PARAMETERS, Reason.NOT_FITTED)
    assert codes(oscillation=False) == expected(Reason.PHASE_ABSENT, "eta omega t1")
    assert codes(growth=False) == expected(Reason.PHASE_ABSENT, "eta_tail t2")
    assert codes(large=False) == expected(Reason.BELOW_THE_NOISE, "eta omega t1 t2")
    assert codes(bound="eta") == expected(Reason.AT_A_BOUND, "eta t1")
    # 2% of 400 tokens is 8, and of ω = 0.9 is 0.018.
    rough = codes(widths=(8.1, 8.1, 0.0181))
    assert rough == expected(Reason.PLACED_TOO_ROUGHLY, "t1 t2 omega")
    assert codes(widths=(7.9, 7.9, 0.0179)) == expected(Reason.HAS_ONE, "")


@pytest.mark.parametrize(("documents", "third"), [(8, "separate"), (1, "shared")])
def test_the_reported_form_has_a_significant_oscillation(documents, third):
    """Significant by head: neither; both; both, separate is better; separate alone."""
    shared, separate = [False, True, True, False], [False, True, True, True]
    true = np.ones((3, 4), dtype=bool)
    significance = Significance(
        oscillation_detected=np.array([[False] * 4, shared, separate]),
        oscillation_large=true,
        growth_detected=true,
        growth_large=true,
    )
    loss = np.zeros((len(RIVALS), documents, 4))
    wiggle = np.linspace(-1, 1, documents)[:, None]
    loss[RIVALS.index("shared")] = np.array([0.0, 0.1, 5.0, 0.0]) + wiggle
    forms = [FORMS[k] for k in reported(significance, loss)]
    assert forms == ["monotone", "shared", third, "separate"]
