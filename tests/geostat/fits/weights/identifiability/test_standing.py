"""Which form's parameters are reported for a head."""

import numpy as np

from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.identifiability.standing import Standing, reported
from geostat.fits.weights.rivals import RIVALS

# heads: nothing stands out; both, separate not better; both, separate better; separate alone
SHARED, SEPARATE = [False, True, True, False], [False, True, True, True]


def standing() -> Standing:
    seen = np.array([[False] * 4, SHARED, SEPARATE])
    yes = np.ones_like(seen)
    return Standing(oscillation_seen=seen, oscillation_large=yes, growth_seen=yes, growth_large=yes)


def test_the_reported_form_is_one_whose_oscillation_stands_out():
    loss = np.zeros((len(RIVALS), 8, 4))
    wiggle = np.linspace(-1, 1, 8)[:, None]
    loss[RIVALS.index("shared")] = np.array([0.0, 0.1, 5.0, 0.0]) + wiggle
    forms = [FORMS[k] for k in reported(standing(), loss)]
    assert forms == ["monotone", "shared", "separate", "separate"]


def test_with_one_document_the_printed_form_stays():
    forms = reported(standing(), np.zeros((len(RIVALS), 1, 4)))
    assert [FORMS[k] for k in forms] == ["monotone", "shared", "shared", "separate"]
