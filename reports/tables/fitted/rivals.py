"""Table of rival forms: how many heads each form of similarity and of weights predicts best.

Imports this room's cells, numbers and run.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from reports.run import Run
from reports.statistics import median, quartiles
from reports.tables.cells import Cell, between, header, missing, mixed, share, whole
from reports.tables.table import Table
from reports.text.number import percent

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
"""What a form is called; a constant weight has words of its own."""


def rival_tables(run: Run) -> list[Table]:
    """Which form predicts documents left out, of similarity and of weights; none where the run
    does not compare forms.
    """
    of_weights = FORMS | {"constant": "no change"}
    rows = [
        *_forms(run.similarity, "chosen", "gram", "mae_by_lag", "cosine at lag $k$", FORMS),
        *_forms(run.weights, "preferred", "rival", "rival_rmse", r"$\log\alpha$", of_weights),
    ]
    if not rows:
        return []
    misfit = "misfit, median [quartiles]"
    headers = header("of", "form", ("best", "in"), "share", ("lowest", "BIC in"), misfit)
    caption = (
        "Best: a document left out is predicted with the least squared error by the fit to the"
        " others, and of the forms within one standard error of that (over"
        f" {run.counted('document')}) this is the simplest. BIC counts neighbouring lags or tokens"
        " as independent, which they are not, and so favours many parameters. Misfit: mean"
        " absolute error of the mean cosine by lag; root mean squared error of log α, nats."
    )
    if np.isfinite(
        floor := (
            median(run.similarity["chance_by_lag"]) if "chance_by_lag" in run.similarity else np.nan
        )
    ):
        caption += (
            f" Noise alone, random directions behind a cosine of 0, gives a misfit of {floor:.2g}"
            " by lag."
        )
    return [
        Table(
            "rivals", "Rival forms", caption, headers, rows, "lprrrr", widths={1: "4cm", 5: "2.7cm"}
        )
    ]


def _forms(
    data: xr.Dataset, best: str, dim: str, misfit: str, of: str, words: Mapping[str, str]
) -> list[list[Cell]]:
    """One row a form along `dim`: in how many heads `best` names it, and its misfit; none where
    the run does not compare them.
    """
    if best not in data:
        return []
    rows = []
    compared, lowest_bic = int((data[best] >= 0).sum()), data.get("lowest_bic")
    for index, form in enumerate(data[dim].values):
        heads = int((data[best] == index).sum())
        part = heads / compared if compared else float("nan")
        rows.append(
            [
                mixed(of),
                mixed(words[str(form)]),
                whole(float(heads)) if compared else missing(),
                share(part, percent(part, 0)),
                whole(float(lowest_bic[index])) if lowest_bic is not None else missing(),
                between(*quartiles(data[misfit].sel({dim: form}))),
            ]
        )
    return rows
