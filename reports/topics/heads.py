"""All heads: maps by layer, one wide table for the page, three narrow tables for LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from markupsafe import Markup
from matplotlib.axes import Axes
from numpy.typing import NDArray

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.figures.shapes import cells, label_cells
from reports.run import SCORES, Run
from reports.statistics import flat
from reports.tables.table import Cell, Table, header, number, percentage, whole


def figure_heads(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw maps of heads by layer on three axes: P and R at N = 4, misfit of the exponential
    similarity.
    """
    for axis, (statistic, title) in zip(axes, SCORES.items(), strict=False):
        values = run.display[f"{statistic}_of_head"]
        _map(axis, run, values, "head", f"{title} at $N={run.small_size}$", 1.0)
    misfit = run.similarity["mae_by_lag"]
    form = "exponential" if "exponential" in misfit["gram"].values else misfit["gram"].values[0]
    values = misfit.sel(gram=form).transpose("layer", "kv_head")
    largest = float(values.max()) if values.notnull().any() else 1.0
    _map(axes[2], run, values, "kv_head", f"Misfit of the {form} similarity", largest)
    axes[2].set_xlabel("layer")
    return axes


def _map(axes: Axes, run: Run, values: xr.DataArray, dim: str, title: str, largest: float) -> None:
    image = cells(axes, values.values.astype(np.float64).T, largest)
    label_cells(axes.xaxis, run.capture["layer"].values, 16)
    label_cells(axes.yaxis, run.capture[dim].values, style.labels_that_fit(axes))
    axes.set(ylabel="head" if dim == "head" else "KV head", title=title)
    axes.figure.colorbar(image, ax=axes, pad=0.015, fraction=0.03)


def _map_height(run: Run) -> float:
    rows = 2 * run.capture.sizes["head"] + run.capture.sizes["kv_head"]
    return min(9.0, 2.4 + 0.13 * rows)


@planned(figure_heads, "Which heads?", _map_height, grid=(3, 1))
def caption_heads(run: Run) -> Caption:
    """Return the caption of the head maps."""
    size = run.small_size
    description = (
        f"One cell per head; mean over {run.counted('document')}. Top: Precision and Recall at N ="
        f" {size}. Bottom: misfit of the exponential similarity, one cell per KV head (several"
        " heads may share one). Look for: layers or heads that stand out; the table of all heads"
        " gives the numbers."
    )
    precision = run.display["precision_of_head"].values
    if not np.isfinite(precision).any():
        return Caption(description)
    say = Numbers()
    ends = []
    for pick in (np.nanargmin, np.nanargmax):
        where = np.unravel_index(int(pick(precision)), precision.shape)
        name = run.name_of(int(where[0]), int(where[1]))
        ends.append(f"{say.figures(f'precision of {name}', float(precision[where]))} ({name})")
    finding = f"Precision at N = {say.whole('N', size)} ranges from {ends[0]} to {ends[1]}."
    edition, gram = run.drawn_bounds[-1]
    inside = flat(run.envelope["recall_inside_by_head"].sel(edition=edition, gram=gram))
    if inside.size:
        finding += (
            f" {say.whole('heads inside at every N', int((inside >= 1).sum()))} of"
            f" {say.whole('heads', inside.size)} heads have mean Recall within the {edition} bounds"
            f" ({gram} Gram) at every N, without allowance for errors."
        )
    return Caption(description, finding, say.all)


Columns = list[tuple[str, str | None, str]]
"""Name of each variable, its form of similarity (None if there is only one), and the header."""

COLUMNS: dict[str, Columns] = {
    "norms": [
        ("C", None, "$C$"),
        ("lam", None, r"$\lambda$"),
        ("cv_token", None, r"$\mathrm{CV}$ token"),
        ("cv_profile", None, r"$\mathrm{CV}$ profile"),
    ],
    "similarity": [
        ("beta", "exponential", r"$\beta$ exponential"),
        ("beta", "offset", r"$\beta$ offset"),
        ("offset", "offset", "$c$"),
        ("rho0", None, r"$\rho_0$"),
        ("mae_by_lag", "exponential", "MAE exponential"),
        ("mae_by_lag", "offset", "MAE offset"),
    ],
    "weights": [
        ("p_sink", None, r"$p_{\mathrm{sink}}$"),
        ("p_base", None, r"$p_{\mathrm{base}}$"),
        ("eta", None, r"$\eta$"),
        ("omega", None, r"$\omega$"),
        ("t1", None, "$T_1$"),
        ("t2", None, "$T_2$"),
        ("rmse", None, "RMSE"),
    ],
}

TWO_ETAS: Columns = [
    ("eta_swing", None, r"$\eta$ of the oscillation"),
    ("eta_growth", None, r"$\eta$ of the growth"),
]
"""Columns of η on the page, which separates its two meanings."""

UNITS = (
    "C is in the unit of the model’s value vectors (value norm), β and η are per token, ω is in"
    " radians per token, T₁ and T₂ are positions, MAE is in units of cosine, RMSE in nats; other"
    " columns have no unit. η: amplitude of the oscillation, if the fit has one, and rate of the"
    " growth towards the last token; the printed form uses one number for both. Limit: the fit"
    " ended at a limit of its range, so there is no estimate. P and R inside: share of sizes 1 < N"
    " < T with the measured curve within its bounds."
)

AT_LIMIT = "†: the fit ended at a limit of its range, so there is no estimate."

ON_PAPER: dict[str, tuple[str, str, str]] = {
    "norms": (
        "Value lengths",
        "Assumption 1 by KV head",
        "C is in the unit of the model’s value vectors (value norm).",
    ),
    "similarity": ("Similarity", "Assumption 2 by KV head", f"β is per token. {AT_LIMIT}"),
    "weights": (
        "Attention weights",
        "Assumption 3 by head",
        "η is per token, ω in radians per token, T₁ and T₂ are positions, RMSE in nats."
        f" {AT_LIMIT}",
    ),
}
"""Title, caption and units of each narrow table."""


def tables(run: Run) -> list[Table]:
    """Return all heads in one wide table for the page, and in three narrow tables for LaTeX."""
    errors = (
        f"± jackknife standard error over {run.counted('document')}"
        if run.documents > 1
        else "one document: no standard errors (n/a)"
    )
    groups = {"norms": run.norms, "similarity": run.similarity, "weights": run.weights}
    shown = {name: _shown(data, COLUMNS[name]) for name, data in groups.items()}
    on_paper = [_on_paper(run, errors, name, groups[name], shown[name]) for name in ON_PAPER]
    groups["weights"] = _separate_etas(run.weights)
    if "eta_swing" in groups["weights"]:
        shown["weights"] = [
            page_column
            for column in shown["weights"]
            for page_column in (TWO_ETAS if column[0] == "eta" else [column])
        ]
    return [_on_page(run, errors, groups, shown), *on_paper]


def _separate_etas(weights: xr.Dataset) -> xr.Dataset:
    """Add η of the reported fits as amplitude of the oscillation and as rate of growth."""
    if not {"form_chosen", "form_eta_tail"} <= set(weights):
        return weights
    forms = [str(name) for name in weights["form"].values]
    form = weights["form_chosen"]
    oscillates, separate = form != forms.index("monotone"), form == forms.index("separate")
    parts = {}
    for end in ("", "_se"):
        eta, tail = weights[f"eta{end}"], weights[f"form_eta_tail{end}"].sel(form="separate")
        parts[f"eta_swing{end}"] = eta.where(oscillates)
        parts[f"eta_growth{end}"] = xr.where(separate, tail, eta)
    return weights.assign(
        {name: part.drop_vars("form", errors="ignore") for name, part in parts.items()}
    )


def _on_page(
    run: Run, errors: str, groups: Mapping[str, xr.Dataset], shown: Mapping[str, Columns]
) -> Table:
    """Return the wide table: one row per head, with its KV head and coverage of bounds."""
    edition, gram = run.drawn_bounds[-1]
    inside = [
        run.envelope[f"{name}_inside_by_head"].sel(edition=edition, gram=gram).values
        for name in ("precision", "recall")
    ]
    norms, similarity, weights = (_values(data, shown[name]) for name, data in groups.items())
    layers, heads, kv_heads = (_names(run, name) for name in ("layer", "head", "kv_head"))
    rows = [
        [
            *(layer, heads[j], kv_heads[k]),
            *(*norms[i, k], *similarity[i, k], *weights[i, j]),
            *(percentage(float(part[i, j]), 0) for part in inside),
        ]
        for i, layer in enumerate(layers)
        for j, k in enumerate(run.kv_head_of_head)
    ]
    of_fits = (words for columns in shown.values() for *_, words in columns)
    of_bounds = (f"${short}$ inside ({edition}, {gram})" for short in ("P", "R"))
    headers = header("layer", "head", "KV head", *of_fits, *of_bounds)
    caption = f"{errors[0].upper()}{errors[1:]}. {UNITS}"
    return Table("heads", "Every head", caption, headers, rows, "r" * len(headers), only_page=True)


def _on_paper(run: Run, errors: str, name: str, data: xr.Dataset, columns: Columns) -> Table:
    """Return a narrow table: one row per head or KV head, with parameters of one assumption."""
    title, about, unit = ON_PAPER[name]
    dim = "head" if name == "weights" else "kv_head"
    headers = header("layer", dim.replace("kv_", "KV "), *(words for *_, words in columns))
    cells = _values(data, columns)
    rows = [
        [layer, head, *cells[i, j]]
        for i, layer in enumerate(_names(run, "layer"))
        for j, head in enumerate(_names(run, dim))
    ]
    caption, align = f"{about}; {errors}. {unit}", "r" * len(headers)
    return Table(f"heads_{name}", title, caption, headers, rows, align, only_latex=True)


def _names(run: Run, dim: str) -> list[Cell]:
    """Return the labels of layers, heads or KV heads as cells."""
    return [whole(float(label)) for label in run.capture[dim].values]


def _shown(data: xr.Dataset, columns: Columns) -> Columns:
    """Return the columns with data in the run."""
    return [
        column
        for column in columns
        if column[0] in data and (column[1] is None or column[1] in data["gram"].values)
    ]


def _values(data: xr.Dataset, columns: Columns) -> NDArray[np.object_]:
    """Return cells, (layer, head, column)."""
    cells = []
    for name, form, _ in columns:
        fit = data if form is None else data.sel(gram=form)
        error, at_limit = (
            fit[part].values if part in fit else None for part in (f"{name}_se", f"{name}_at_bound")
        )
        cells.append(np.frompyfunc(_cell, 3, 1)(fit[name].values, error, at_limit))
    return np.stack(cells, axis=-1)


def _cell(value: Any, error: Any, at_limit: Any) -> Cell:
    """Return a number with its error, or the limit at which the fit ended (LaTeX: dagger)."""
    cell, end = number(float(value), None if error is None else float(error)), number(float(value))
    if not at_limit or not np.isfinite(value):
        return cell
    plain, html = f"limit {end.plain}", Markup("limit {}").format(end.html)
    return replace(cell, plain=plain, html=html, latex=rf"{end.latex}$^\dagger$", number="")
