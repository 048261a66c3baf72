"""Records of the profile's parameters, by head, by form and by document, and of what is made of
them: totals, growth, distance of the form from the log weights, masses of the phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from geostat.datasets.flags import codes
from geostat.datasets.variable import Variable
from geostat.fits.weights.identifiability.estimates import REASONS

HEAD, TOKEN, DOCUMENT = (
    ("layer", "head"),
    ("layer", "head", "position"),
    ("document", "layer", "head"),
)
LOG = {"scale": "interval on the log scale, exponentiated"}
LOGIT = {"scale": "interval on the logit scale, carried back"}
head = partial(Variable, equation="Assumption 3", dims=HEAD)
"""A number of each head."""
estimate = partial(head, estimated=True)
"""One with an error."""
effect = partial(estimate, judged=True)
"""One that a claim is on."""
codes_of_head = partial(codes, equation="Assumption 3", dims=HEAD)
"""An integer of each head that stands for a word."""


def reason(record: Variable) -> Variable:
    """Return the record of the code why a parameter has no standard error."""
    about = f"why there is no standard error of {record.long_name}"
    return codes(
        f"{record.name}_reason",
        about,
        REASONS,
        symbol=record.symbol,
        equation=record.equation,
        dims=record.dims,
    )


def along(dim: str, words: str, *records: Variable) -> tuple[Variable, ...]:
    """The same numbers along another dim: of every form, of every rival, of every document."""
    return tuple(
        replace(
            one,
            name=f"{dim}_{one.name}",
            long_name=f"{one.long_name}, {words}",
            dims=(dim, *one.dims),
            estimated=False,
            judged=False,
        )
        for one in records
    )


_BREAK = {
    "scale": "integer; interval: the wider of the jackknife's and that of the residuals' noise"
}


def _reasoned(record: Variable) -> Iterator[Variable]:
    """Yield a parameter, whether the data identify it, why it has no error, and, of those that
    lmfit has errors of, that error.
    """
    yield record
    plain = replace(record, more={}, estimated=False)
    if record.name.removeprefix("form_") in ("p_base", "eta", "eta_tail", "omega"):
        note = {"note": "lmfit's own, with tokens taken as independent: too small"}
        about, symbol = (
            f"lmfit's standard error of {record.long_name}",
            rf"\mathrm{{se}}_0({record.symbol})",
        )
        yield replace(
            plain, name=f"{record.name}_se_tokens", long_name=about, symbol=symbol, more=note
        )
    yield replace(
        plain,
        name=f"{record.name}_identified",
        long_name=f"the data identify {record.long_name}",
        units="1",
    )
    yield reason(record)


_PARAMETERS = (
    estimate(
        "p_base",
        "weight of a plateau token, geometric mean over documents",
        "1",
        r"p_{\mathrm{base}}",
        more=LOG,
    ),
    estimate(
        "eta",
        "amplitude of the oscillation; without one, sensitivity of the growth",
        "1/token",
        r"\eta",
    ),
    estimate(
        "omega",
        "frequency of the oscillation",
        "rad/token",
        r"\omega",
        more={"missing": '"none": NaN where no oscillation is identified'},
    ),
    estimate("t1", "last position of the plateau", "token", "T_1", more=_BREAK),
    estimate("t2", "last position before the growth", "token", "T_2", more=_BREAK),
)
BY_HEAD = (
    estimate(
        "p_sink",
        "weight of the sink, arithmetic mean over documents",
        "1",
        r"p_{\mathrm{sink}}",
        more=LOGIT,
    ),
    *(one for record in _PARAMETERS for one in _reasoned(record)),
)
"""The parameters of the head's chosen form."""
AT_BOUND = (
    head(
        "eta_at_bound",
        "the optimum of eta is at a bound (0, or 0.99 with an oscillation)",
        "1",
        r"\eta \in \{0, 0.99\}",
    ),
    head(
        "omega_at_bound",
        "omega is at a bound (one period in the phase, or pi) or undetermined (eta = 0)",
        "1",
        r"\omega \in \partial\Omega",
    ),
)
DOCUMENT_SPREAD = tuple(
    head(
        f"{one.name}_document_sd",
        f"standard deviation over documents, each fitted alone, of the {one.long_name}",
        one.units,
        rf"\mathrm{{sd}}_k({one.symbol})",
    )
    for one in _PARAMETERS[3:]
)
_separate = replace(
    _PARAMETERS[1], long_name="sensitivity, in the separate form of the oscillation alone"
)
_tail = replace(
    _PARAMETERS[1], name="eta_tail", long_name="growth rate", symbol=r"\eta_{\mathrm{tail}}"
)
_OF_FORMS = (_PARAMETERS[0], _separate, _tail, replace(_PARAMETERS[2], more={}), *_PARAMETERS[3:])
BY_FORM = tuple(
    one
    for record in along("form", "by form", *_OF_FORMS)
    for one in _reasoned(replace(record, estimated=True))
)
_plateau = replace(_PARAMETERS[0], long_name="weight of a plateau token")
BY_DOCUMENT = (
    head(
        "document_p_sink",
        "weight of the sink in one document",
        "1",
        r"p_{\mathrm{sink}}",
        dims=DOCUMENT,
    ),
    *(
        replace(one, more={})
        for one in along(
            "document", "the document fitted alone with the head's form", _plateau, *_PARAMETERS[1:]
        )
    ),
)
_GROWTH = effect(
    "growth",
    "total growth, log of the last weight over the plateau's; each document's from the T_2 of the"
    " others",
    "nat",
    r"\eta(L - T_2)",
    more={
        "missing": "NaN where growth does not stand out of the noise",
        "scale": "standard error: the larger of scatter over documents and jackknife",
    },
)
RMSE = effect("rmse", "root mean squared residual of the mean log weight", "nat", r"\mathrm{RMSE}")
EFFECTS = (
    estimate("total", "measured sum of the weights", "1", r"\sum_i \alpha_i", equation=""),
    estimate(
        "total_model",
        "sum of the fitted weights, sink included where visible",
        "1",
        r"\sum_i \hat\alpha_i",
        more=LOG,
    ),
    effect(
        "total_model_log", "log of the sum of the fitted weights", "nat", r"\log\sum_i \hat\alpha_i"
    ),
    _GROWTH,
    reason(_GROWTH),
    RMSE,
    effect(
        "misfit",
        "root mean squared residual of the mean log weight, as it would be with ever more"
        " documents",
        "nat",
        r"\mathrm{RMSE}_\infty",
        more={
            "scale": (
                "interval of its square, whose root is taken; standard error: its longer arm over t"
            )
        },
    ),
    estimate("mass_sink", "weight of the sink, arithmetic mean", "1", r"\alpha_0", more=LOGIT),
    estimate(
        "mass_plateau",
        "weight of the plateau, arithmetic mean",
        "1",
        r"\sum_{0<i\le T_1}\alpha_i",
        more=LOGIT,
    ),
    estimate(
        "mass_oscillation",
        "weight of the oscillation, arithmetic mean",
        "1",
        r"\sum_{T_1<i\le T_2}\alpha_i",
        more=LOGIT,
    ),
    estimate(
        "mass_tail",
        "weight of the growth phase, arithmetic mean",
        "1",
        r"\sum_{i>T_2}\alpha_i",
        more=LOGIT,
    ),
)
TOTAL_DIFFERS = head(
    "total_model_differs",
    "the fitted weights do not sum to 1: their interval excludes it",
    "1",
    r"\sum_i \hat\alpha_i \neq 1",
)
