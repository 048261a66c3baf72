"""Variables of a comparison: estimates of runs and their differences."""

from __future__ import annotations

from functools import partial
from typing import Final

from geostat.datasets.variable import Variable

_JACKKNIFE: Final = {"interval": "95% document jackknife, t(K-1); correlations on Fisher's z"}
_quantity = partial(Variable, dims=("run", "quantity"))
_difference = partial(Variable, dims=("pair", "quantity"))
_pair = partial(Variable, dims=("pair",))
ESTIMATES: Final = (
    _quantity("estimate", "mean over heads", more=_JACKKNIFE),
    _quantity("estimate_se", "its standard error over documents", more=_JACKKNIFE),
    _quantity("estimate_lower", "its lower limit", more=_JACKKNIFE),
    _quantity("estimate_upper", "its upper limit", more=_JACKKNIFE),
    _quantity("at_n", "size N of a largest value", more=_JACKKNIFE),
    _quantity("heads", "heads it is averaged over"),
    Variable("documents", "documents", dims=("run",)),
)
DIFFERENCES: Final = (
    _difference("difference", "first run's number minus the second's"),
    _difference("difference_se", "standard error of the first run's number minus the second's"),
    _difference("difference_lower", "lower limit of the first run's number minus the second's"),
    _difference("difference_upper", "upper limit of the first run's number minus the second's"),
    _difference("degrees", "degrees of freedom of the difference"),
    _difference("p", "two-sided p-value of the difference"),
    _difference("p_holm", "the same, Holm over all differences here"),
    _difference("minds", "settings that differ and bear on the difference"),
    _pair("shared", "documents that both runs hold"),
    _pair("pairing", "how the standard error was made"),
    _pair("first", "index of the first run"),
    _pair("second", "index of the second run"),
)
