"""Page of a comparison: a self-contained comparison.html that opens offline and fetches nothing,
with the same figures and tables as files.

Names of models and texts are foreign; the templates escape them.
"""

from __future__ import annotations

import json
from pathlib import Path

import xarray as xr

from reports.comparison.figures import plans
from reports.comparison.tables import comparison_tables, letters
from reports.figures.plan import draw
from reports.files import replaced
from reports.page import header
from reports.page.page import template, write_figures_and_tables
from reports.page.svg import shown
from reports.run import listed

PAGE_NAME = "comparison.html"
FIRST = ("comparison_runs", "comparison_numbers", "comparison_differences", "comparison_reported")
"""Tables with a separate section."""


def write_comparison(data: xr.Dataset, out: Path) -> Path:
    """Write comparison.html, figures/*.pdf and *.png, and tables/*.tex and *.md, as `write_page`
    does, and return the page's path.

    Raises:
        InputError: if the folder cannot be written.
    """
    drawn, tables = {plan: draw(plan, data) for plan in plans(data)}, comparison_tables(data)
    write_figures_and_tables(drawn, tables, out)
    names = [str(name) for name in data["run"].values]
    page = template("comparison.html").render(
        names=names,
        facts=[(f"Run {letter}", name) for letter, name in zip(letters(data), names, strict=True)],
        notes=listed(data.attrs, "notes"),
        sentences=listed(data.attrs, "sentences"),
        figures=shown(drawn, data, "{plan.title}. {caption.text}"),
        first={name.removeprefix("comparison_"): tables.get(name) for name in FIRST},
        tables=[table for name, table in tables.items() if name not in FIRST],
        provenance=list(
            zip(
                letters(data),
                names,
                map(header.entries, json.loads(str(data.attrs["provenance"]))),
                strict=True,
            )
        ),
    )
    return replaced(out / PAGE_NAME, page)
