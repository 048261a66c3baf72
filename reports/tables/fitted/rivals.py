"""Table of rival forms: how many heads each form of similarity and of weights predicts best.

Imports this room's cells, numbers and run.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from reports.run import Run
from reports.statistics import median, quartiles
from reports.tables.cells import Cell, between, header, missing, mixed, whole
from reports.tables.table import Table

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
    headers = header(
        "of",
        "form",
        "lowest loss in",
        "clearly lowest in",
        "simplest within 1 SE in",
        "lowest BIC in",
        "parameters are its in",
        "misfit, median [quartiles]",
    )
    caption = (
        "In how many heads each form is the best, by four rules. Lowest loss: squared error of a"
        f" document left out under the fit to the others, mean over {run.counted('document')}; a"
        " richer form that holds the true one often wins by chance. Clearly: each other form's loss"
        " is above it by a one-sided paired t-test over documents at 95%. Simplest within 1 SE: the"
        " one of fewest parameters among the forms within one standard error of the lowest. BIC"
        " counts neighbouring lags or tokens as independent, which they are not, and so favours"
        " many parameters. Misfit: mean absolute error of the mean cosine by lag; root mean squared"
        " error of log α, nats."
    )
    caption += _conflict(run.weights)
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
            "rivals",
            "Rival forms",
            caption,
            headers,
            rows,
            "lprrrrrr",
            keys=2,
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
    compared = bool((data[best] >= 0).any())
    for index, form in enumerate(data[dim].values):
        chosen = int((data[best] == index).sum())
        rows.append(
            [
                mixed(of),
                mixed(words[str(form)]),
                *(_counted(data, name, index) for name in ("lowest_loss", "clearly_lowest")),
                whole(float(chosen)) if compared else missing(),
                _counted(data, "lowest_bic", index),
                _reported(data, str(form)),
                between(*quartiles(data[misfit].sel({dim: form}))),
            ]
        )
    return rows


def _counted(data: xr.Dataset, name: str, index: int) -> Cell:
    """How many heads of a count along the forms; n/a where the run does not hold it."""
    return whole(float(data[name][index])) if name in data else missing()


def _reported(data: xr.Dataset, form: str) -> Cell:
    """Of how many heads a form gives the reported parameters; n/a of what is reported by form."""
    if "form_chosen" not in data or form not in data["form"].values:
        return missing()
    return whole(float((data["form"].values[data["form_chosen"].values] == form).sum()))


def _conflict(weights: xr.Dataset) -> str:
    """Say in how many heads another form than the preferred one gives the reported parameters."""
    if "preferred_differs" not in weights:
        return ""
    differs = weights["preferred_differs"].values.astype(bool)
    preferred = weights["rival"].isel(rival=weights["preferred"].clip(min=0)).values
    stands = weights["form_oscillation_identified"].astype(bool)
    waves = sum(
        int((differs & (preferred == form) & ~stands.sel(form=form).values).sum())
        for form in stands["form"].values
        if form in ("shared", "separate")
    )
    return (
        " Parameters: the form of Assumption 3 that p_base, η, ω, T₁ and T₂ are taken from, chosen"
        " by another rule: the oscillation that stands out of the noise, else plateau and growth."
        f" In {differs.sum()} of {differs.size} heads it is not the simplest within 1 SE; in"
        f" {waves} of them that is an oscillation that does not stand out."
    )
