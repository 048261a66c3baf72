"""Kinds of records of /weights: of a head, estimated, judged; and the same along another dim."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from geostat.datasets.flags import codes
from geostat.datasets.variable import Variable
from geostat.fits.weights.identifiability.reasons import REASONS

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
