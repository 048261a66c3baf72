import numpy as np
import pytest
from support.noise import arma

from geostat.fits.weights.autocorrelation import Background
from geostat.fits.weights.break_points import FORMS, search_monotone
from geostat.fits.weights.forms import log_profile
from geostat.fits.weights.identifiability.estimates import (
    ABSENT,
    AT_BOUND,
    BELOW,
    HAS_ONE,
    NOT_FITTED,
    ROUGH,
    reasons,
)
from geostat.fits.weights.identifiability.placement import placement
from geostat.fits.weights.identifiability.standing import Standing, strength

POSITION = np.arange(1.0, 401)
LAST = 400.0


def rows(**values):
    """Parameters of one head, the same in every form."""
    start = {
        "b": -7.0,
        "eta_osc": 0.5,
        "eta_tail": 0.04,
        "omega": 0.9,
        "t1": 60.0,
        "t2": 300.0,
    } | values
    return {name: np.full((len(FORMS), 1), value) for name, value in start.items()}


def noise(phi=0.0, variance=1.0):
    shape = (len(FORMS), 1)
    return Background(
        phi=np.full(shape, phi), theta=np.zeros(shape), variance=np.full(shape, variance)
    )


def half_widths(**values):
    return placement(rows(**values), noise(), POSITION, np.ones((1, 400), dtype=bool))


def test_half_widths_in_white_noise_are_those_of_least_squares():
    found = half_widths()
    step = 1e-5
    names = ("b", "eta_osc", "eta_tail", "omega")
    start = {"b": -7.0, "eta_osc": 0.5, "eta_tail": 0.04, "omega": 0.9, "t1": 60.0, "t2": 300.0}
    columns = [
        (
            log_profile(POSITION, *(start | {name: start[name] + step}).values())
            - log_profile(POSITION, *start.values())
        )
        / step
        for name in names
    ]
    jacobian = np.stack([*columns, np.where(POSITION > 300, -0.04, 0.0)], axis=1)
    error = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    separate = FORMS.index("separate")
    assert found["t2"][separate, 0] == pytest.approx(1.96 * error[4], rel=1e-3)
    assert found["omega"][separate, 0] == pytest.approx(1.96 * error[3], rel=1e-3)
    wave = log_profile(POSITION, 0.0, 0.5, 0.0, 0.9, 60, 300)
    assert found["t1"][separate, 0] == pytest.approx(11.03 * 240 / (wave**2).sum(), rel=1e-9)
    monotone = FORMS.index("monotone")
    assert found["t1"][monotone, 0] == found["t2"][monotone, 0]


def test_half_width_of_t2_is_what_the_search_does_in_correlated_noise():
    truth = log_profile(POSITION, -7.0, 0.0, 0.08, np.nan, 300, 300)
    found = search_monotone(truth + arma(0.55, 0.0, 600, 400, seed=1) * 0.8, 1)
    half = placement(
        rows(eta_tail=0.08), noise(0.55, 0.64), POSITION, np.ones((1, 400), dtype=bool)
    )["t2"][0, 0]
    assert np.std(found["t2"]) == pytest.approx(half / 1.96, rel=0.15)
    # Taken as white noise of the same size it would be much too narrow.
    white = placement(
        rows(eta_tail=0.08),
        noise(0.0, 0.64 / (1 - 0.55**2)),
        POSITION,
        np.ones((1, 400), dtype=bool),
    )["t2"][0, 0]
    assert white < 0.65 * half


def test_nothing_marks_the_breaks_of_an_absent_phase():
    found = half_widths(eta_osc=0.0, eta_tail=0.0)
    separate = FORMS.index("separate")
    assert np.isinf([found[name][separate, 0] for name in ("t1", "t2", "omega")]).all()


def test_strength_compares_nats_with_nats():
    found = strength(rows(), noise(0.5, 0.75), np.full((3, 1), 2.0), LAST)
    separate = FORMS.index("separate")
    assert found["growth"][separate, 0] == pytest.approx(0.04 * 100 / 2.0)
    density = 0.75 / (1.25 - np.cos(0.9))
    assert found["oscillation"][separate, 0] == pytest.approx(0.5 / np.sqrt(2 * density / 240))


def codes(seen=(True, True), large=(True, True), half=(1.0, 1.0, 1e-4), bound="", **values):
    wave, growth = (np.full((3, 1), flag) for flag in seen)
    big_wave, big_growth = (np.full((3, 1), flag) for flag in large)
    standing = Standing(
        oscillation_seen=wave,
        oscillation_large=big_wave,
        growth_seen=growth,
        growth_large=big_growth,
    )
    widths = {
        name: np.full((3, 1), value)
        for name, value in zip(("t1", "t2", "omega"), half, strict=True)
    }
    at_bound = {name: np.full((3, 1), name == bound) for name in ("eta", "eta_tail", "omega")}
    found = reasons(rows(**values), standing, widths, at_bound, LAST)
    return {name: int(code[FORMS.index("separate"), 0]) for name, code in found.items()}


def test_the_first_reason_against_a_standard_error_is_told():
    assert set(codes().values()) == {HAS_ONE}
    assert codes(b=np.nan) == dict.fromkeys(
        ("p_base", "eta", "eta_tail", "omega", "t1", "t2"), NOT_FITTED
    )
    no_wave = codes(seen=(False, True))
    assert [no_wave[name] for name in ("eta", "omega", "t1")] == [ABSENT] * 3
    assert [no_wave[name] for name in ("eta_tail", "t2")] == [HAS_ONE] * 2
    no_growth = codes(seen=(True, False))
    assert [no_growth[name] for name in ("eta_tail", "t2")] == [ABSENT] * 2
    assert no_growth["t1"] == HAS_ONE
    weak = codes(large=(False, False))
    assert [weak[name] for name in ("eta", "omega", "t1", "t2", "eta_tail")] == [BELOW] * 4 + [
        HAS_ONE
    ]
    bound = codes(bound="eta")
    assert (bound["eta"], bound["t1"], bound["eta_tail"]) == (AT_BOUND, AT_BOUND, HAS_ONE)
    # 2% of 400 tokens is 8, and of ω = 0.9 is 0.018.
    assert [codes(half=(8.1, 8.1, 0.0181))[name] for name in ("t1", "t2", "omega", "eta")] == [
        ROUGH
    ] * 3 + [HAS_ONE]
    assert set(codes(half=(7.9, 7.9, 0.0179)).values()) == {HAS_ONE}
