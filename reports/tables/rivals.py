"""The table of rival forms: which of them predicts documents left out, for similarity and for weights. Imports this room's cells and pooled runs."""

from __future__ import annotations

import numpy as np
import xarray as xr

from reports.run import Run
from reports.statistics import median, quartiles
from reports.tables.cells import Cell, between, missing, mixed, share, stacked, whole
from reports.tables.table import Table
from reports.text.number import count, percent

FORMS = {
    "exponential": r"$e^{-\beta k}$, as printed",
    "offset": r"$c + (1-c) e^{-\beta k}$",
    "constant": "$c$",
    "power": r"$(1+k)^{-\beta}$",
    "stretched": r"$e^{-(\beta k)^s}$",
    "offset_power": r"$c + (1-c)(1+k)^{-\beta}$",
    "no_plateau": "growth from the first token on",
    "power_law": "a power of the distance to the last token",
    "monotone": "plateau and growth",
    "shared": r"four phases, as printed (one $\eta$)",
    "separate": r"four phases, a size of its own for the oscillation",
}
"""How a form is told; a constant weight is told in words."""


def rival_tables(run: Run) -> list[Table]:
    """The table; none where the run does not compare forms."""
    rows: list[list[Cell]] = []
    if "chosen" in run.similarity:
        rows += _rows(
            "cosine at lag $k$",
            run.similarity["chosen"],
            run.similarity["gram"].values,
            run.similarity["mae_by_lag"],
            FORMS,
            run.similarity.get("lowest_bic"),
        )
    if "preferred" in run.weights:
        words = FORMS | {"constant": "no change"}
        rows += _rows(
            r"$\log\alpha$",
            run.weights["preferred"],
            run.weights["rival"].values,
            run.weights["rival_rmse"],
            words,
            run.weights.get("lowest_bic"),
        )
    if not rows:
        return []
    headers = [
        mixed("of"),
        mixed("form"),
        stacked("best", "in"),
        mixed("share"),
        stacked("lowest", "BIC in"),
        mixed("misfit, median [quartiles]"),
    ]
    caption = (
        "Best: a document left out is predicted with the least squared error by the fit to the others, and of the forms within one standard error of "
        f"that (over {count(run.documents, 'document')}) this is the simplest. BIC counts neighbouring lags or tokens as "
        "independent, which they are not, and so favours many parameters. Misfit: mean absolute error of the mean cosine by lag; root mean "
        "squared error of log α, nats."
    )
    if np.isfinite(floor := median(run.similarity["chance_by_lag"]) if "chance_by_lag" in run.similarity else np.nan):
        caption += f" Noise alone, random directions behind a cosine of 0, gives a misfit of {floor:.2g} by lag."
    return [
        Table(
            name="rivals", title="Rival forms", headers=headers, rows=rows, align="lprrrr", widths={1: "4cm", 5: "2.7cm"}, caption=caption
        )
    ]


def _rows(
    of: str, best: xr.DataArray, forms: np.ndarray, misfit: xr.DataArray, words: dict[str, str], lowest_bic: xr.DataArray | None
) -> list[list[Cell]]:
    """One row a form, in the order of the run."""
    compared = int((best >= 0).sum())
    dim = next(str(name) for name in misfit.dims if name in ("gram", "rival"))
    rows = []
    for index, form in enumerate(forms):
        heads = int((best == index).sum())
        part = heads / compared if compared else float("nan")
        rows.append([
            mixed(of), mixed(words[str(form)]), whole(float(heads)) if compared else missing(), share(part, percent(part, 0)),
            whole(float(lowest_bic[index])) if lowest_bic is not None else missing(), between(*quartiles(misfit.sel({dim: form}))),
        ])  # fmt: skip
    return rows
