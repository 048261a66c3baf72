"""Records of /weights, every one, in the order of docs/reference/variables.md."""

from __future__ import annotations

from typing import Final

from geostat.fits.weights.variables import effects, goodness, noise, parameters

_BY_HEAD = (
    *parameters.BY_HEAD,
    *effects.TOTALS,
    *effects.DISTANCES,
    *effects.MASSES,
    *goodness.SIMPLE_RIVALS,
    *goodness.FIT,
    *goodness.GAINS,
    *noise.IDENTIFIED,
    *parameters.AT_BOUND,
    goodness.CONVERGED,
    *goodness.DATA,
    *noise.P_VALUES,
    *noise.NOISE,
    effects.TOTAL_DIFFERS,
    *parameters.DOCUMENT_SPREAD,
    *goodness.CHOICE,
    *goodness.CURVES,
)
_BY_FORM = (*parameters.BY_FORM, *goodness.BY_FORM, *noise.BY_FORM)
RECORDS: Final = (*_BY_HEAD, *_BY_FORM, *goodness.BY_RIVAL, *parameters.BY_DOCUMENT)
