"""Reference of a run's variables: every record of every group as a Markdown page.

`python -m geostat.runs.reference docs/reference/variables.md` writes it. Imports the groups'
records.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from empirical import schema
from empirical.measure.query_records import QUERIES
from empirical.measure.sinks import SINKS
from geostat.bounds import cost_of_assumptions, envelope, overall, sensitivity
from geostat.bounds.predictive import check
from geostat.bounds.predictive import variables as predictive
from geostat.datasets.separability import ALL_BOUNDS, bound_attributes
from geostat.datasets.variable import SINK_VISIBLE, Variable
from geostat.experiments import effective_dataset, effective_geometry, normaliser_dataset
from geostat.experiments.ablation import context
from geostat.experiments.ablation import records as ablation_records
from geostat.experiments.chance import VARIABLES as SEPARABLE
from geostat.experiments.found_sinks import VARIABLES as FOUND_SINKS
from geostat.experiments.head_regimes import VARIABLES as REGIMES
from geostat.experiments.kinds_of_text import VARIABLES as KINDS
from geostat.experiments.sink import VARIABLES as SINK
from geostat.fits.norms.variables import HEADS, POSITIONS, TOKENS
from geostat.fits.pooled.depth import RECORDS as DEPTH
from geostat.fits.pooled.fit import LAYER, OVERALL
from geostat.fits.similarity.variables import BY_FORM, BY_HEAD
from geostat.fits.weights.variables.records import RECORDS as WEIGHTS
from geostat.verdicts import variables as verdicts

MEASURED: Final = ("document", "layer", "edition", "head", "n_envelope")
RECORDS: Final[Mapping[str, tuple[Variable, ...]]] = {
    **{
        group: tuple(
            Variable(
                name,
                row.long_name,
                row.units,
                row.symbol,
                row.equation,
                dims=("document", *row.dims),
            )
            for name, row in rows.items()
        )
        for group, rows in (
            ("capture", schema.CAPTURE | schema.PRINCIPAL),
            ("queries", QUERIES),
            ("sinks", SINKS),
            ("null", schema.NULL),
        )
    },
    "measured_envelope": tuple(
        Variable(name, dims=MEASURED, **bound_attributes(name)) for name in ALL_BOUNDS
    ),
    "norms": (*HEADS, *TOKENS, *POSITIONS, SINK_VISIBLE),
    "similarity": (*BY_FORM, *BY_HEAD, SINK_VISIBLE),
    "weights": (*WEIGHTS, SINK_VISIBLE),
    "pooled": (*LAYER, *OVERALL, *DEPTH),
    "envelope": envelope.VARIABLES,
    "ingredients": cost_of_assumptions.VARIABLES,
    "sensitivity": sensitivity.VARIABLES,
    "predictive": (*predictive.VARIABLES, *check.VARIABLES),
    "sink": SINK,
    "sinks_found": FOUND_SINKS,
    "heads": REGIMES,
    "separable": SEPARABLE,
    "effective": (
        *effective_dataset.VARIABLES,
        *effective_dataset.SETS,
        *effective_geometry.VARIABLES,
    ),
    "ablation": (
        *ablation_records.CELLS,
        *ablation_records.FACTS,
        *ablation_records.HEADS,
        *ablation_records.BUDGETS,
        *ablation_records.REGIME,
        *context.VARIABLES,
    ),
    "normaliser": normaliser_dataset.VARIABLES,
    "verdicts": (
        *(
            record
            for unit in (verdicts.BY_UNIT, verdicts.OF_BOUNDS)
            for records in unit.values()
            for record in records
        ),
        *verdicts.OVERALL,
    ),
    "summary": (*overall.VARIABLES, *KINDS),
}
"""Records of a run's variables, by group."""

HEAD: Final = """# Variables of a run

Written by `python -m geostat.runs.reference docs/reference/variables.md` from the records that the
results themselves are labelled with.

An estimate, marked \\*, is four variables: `x`, `x_se` (standard error), `x_lower` and `x_upper`
(95% interval; over documents unless its attribute `interval` says otherwise). Where a claim is on
it, or its share between kinds of text is told, marked \\*\\*, there are also `x_skew` (skewness of
single documents) and `x_without` (the estimate without each document, along `document`). Each
variable carries its meaning, unit, symbol and equation as the attributes `long_name`, `units`,
`symbol` and `equation`; equation numbers are those of arXiv 2602.01893.
"""


def reference(records: Mapping[str, Iterable[Variable]] = RECORDS) -> str:
    """Return the page: a table a group, a row a record.

    >>> record = Variable("C", "norm of a token", "value norm", "C", dims=("layer", "kv_head"))
    >>> print(reference({"norms": [record]}).splitlines()[-1])
    | `C` | layer, kv_head | value norm | $C$ | norm of a token |  |
    """
    return HEAD + "".join(f"\n## /{group}\n\n{_table(rows)}" for group, rows in records.items())


def _table(rows: Iterable[Variable]) -> str:
    lines = [
        "| variable | over | unit | symbol | meaning | equation |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        mark = r"\*\*" if row.judged else r"\*" if row.estimated else ""
        symbol = f"${row.symbol}$".replace("|", r"\|") if row.symbol else ""
        meaning = row.long_name.replace("|", r"\|")
        lines.append(
            f"| `{row.name}`{mark} | {', '.join(row.dims)} | {row.units} | {symbol} | {meaning} |"
            f" {row.equation} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
