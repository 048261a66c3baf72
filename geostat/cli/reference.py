"""Reference page of a run's variables, in Markdown: every quantity of every group.

`python -m geostat.cli.reference docs/reference/variables.md` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from empirical import schema
from empirical.measure.sinks import SINKS
from empirical.schema import QUERIES, RANKS, Quantity, named
from geostat.analyses.chance import VARIABLES as SEPARABLE
from geostat.analyses.found_sinks import VARIABLES as FOUND_SINKS
from geostat.analyses.head_regimes import VARIABLES as REGIMES
from geostat.analyses.kinds_of_text import BY_KIND
from geostat.analyses.kinds_of_text import VARIABLES as KINDS
from geostat.analyses.sink import VARIABLES as SINK
from geostat.bounds import cost_of_assumptions, envelope, overall, sensitivity
from geostat.bounds.predictive import check
from geostat.bounds.predictive import variables as predictive
from geostat.datasets.separability import ALL_BOUNDS, bound_attributes
from geostat.datasets.variable import SINK_VISIBLE
from geostat.fits.amended.fit import RECORDS as AMENDED
from geostat.fits.amended.prediction import RECORDS as PREDICTED_BY_RANK
from geostat.fits.norms.fit import HEADS, POSITIONS, TOKENS
from geostat.fits.pooled import LAYER, OVERALL
from geostat.fits.pooled import RECORDS as DEPTH
from geostat.fits.similarity.fit import BY_FORM, BY_HEAD
from geostat.fits.weights.fit import RECORDS as WEIGHTS
from geostat.runs.experiments import EXPERIMENTS
from geostat.topics import verdicts

MEASURED: Final = ("document", "layer", "edition", "head", "n_envelope")
RECORDS: Final[Mapping[str, tuple[Quantity, ...]]] = {
    **{
        group: tuple(replace(row, dims=("document", *row.dims)) for row in named(rows).values())
        for group, rows in (
            ("capture", schema.CAPTURE | schema.PRINCIPAL),
            ("queries", QUERIES),
            ("sinks", SINKS),
            ("ranks", RANKS),
            ("null", schema.NULL),
        )
    },
    "measured_envelope": tuple(
        Quantity(name, dims=MEASURED, **bound_attributes(name)) for name in ALL_BOUNDS
    ),
    "norms": (*HEADS, *TOKENS, *POSITIONS, SINK_VISIBLE),
    "similarity": (*BY_FORM, *BY_HEAD, SINK_VISIBLE),
    "weights": (*WEIGHTS, SINK_VISIBLE),
    "pooled": (*LAYER, *OVERALL, *DEPTH),
    "envelope": envelope.VARIABLES,
    "ingredients": cost_of_assumptions.VARIABLES,
    "sensitivity": sensitivity.VARIABLES,
    "predictive": (*predictive.VARIABLES, *check.VARIABLES),
    "fitted": PREDICTED_BY_RANK,
    "sink": SINK,
    "sinks_found": FOUND_SINKS,
    "amended": AMENDED,
    "heads": REGIMES,
    "separable": SEPARABLE,
    **{experiment.group: experiment.module("dataset").RECORDS for experiment in EXPERIMENTS},
    "verdicts": (
        *(record for records in verdicts.BY_UNIT.values() for record in records),
        *verdicts.OF_BOUNDS,
        *verdicts.OVERALL,
    ),
    "summary": (*overall.VARIABLES, *KINDS, *BY_KIND),
}
"""Quantities of a run, by group."""

HEAD: Final = """# Variables of a run

Written by `python -m geostat.cli.reference docs/reference/variables.md` from the records that label
the results.

An estimate, marked \\*, has four variables: `x`, `x_se` (standard error), `x_lower` and `x_upper`
(95% interval over documents, unless its attribute `interval` differs). An estimate that a claim or
a variance between kinds of text uses, marked \\*\\*, also has `x_skew` (skewness of single
documents) and `x_without` (the leave-one-document-out estimates, along `document`). The attributes
`long_name`, `units`, `symbol` and `equation` hold meaning, unit, symbol and equation; equation
numbers are those of arXiv 2602.01893.
"""


def reference(records: Mapping[str, Iterable[Quantity]] = RECORDS) -> str:
    """Return the page: a table for each group, a row for each quantity.

    >>> record = Quantity("C", "norm of a token", "value norm", "C", dims=("layer", "kv_head"))
    >>> print(reference({"norms": [record]}).splitlines()[-1])
    | `C` | layer, kv_head | value norm | $C$ | norm of a token |  |
    """
    page = HEAD
    for group, rows in records.items():
        page += f"\n## /{group}\n\n| variable | over | unit | symbol | meaning | equation |\n"
        page += "|---|---|---|---|---|---|\n"
        for row in rows:
            mark = r"\*\*" if row.tested else r"\*" if row.estimated else ""
            symbol = f"${row.symbol}$" if row.symbol else ""
            cells = (", ".join(row.dims), row.units, symbol, row.long_name, row.equation)
            page += f"| `{row.name}`{mark} | {' | '.join(map(_cell, cells))} |\n"
    return page


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
