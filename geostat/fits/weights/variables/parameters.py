"""Records of the profile's parameters: by head, by form and by document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from geostat.datasets.variable import Variable
from geostat.fits.weights.variables.kinds import (
    DOCUMENT,
    LOG,
    LOGIT,
    along,
    estimate,
    head,
    reason,
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
    estimate("eta", "sensitivity of oscillation and growth", "1/token", r"\eta"),
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
DOCUMENT_SPREAD = (
    head(
        "t1_document_sd",
        "standard deviation over documents, each fitted alone, of the last position of the plateau",
        "token",
        r"\mathrm{sd}_k(T_1)",
    ),
    head(
        "t2_document_sd",
        "standard deviation over documents, each fitted alone, of the last position before the"
        " growth",
        "token",
        r"\mathrm{sd}_k(T_2)",
    ),
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
