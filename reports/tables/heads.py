"""Tables of every head: one wide table for the page, three narrow ones for paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr
from markupsafe import Markup

from reports.run import Run
from reports.tables.cells import Cell, header, number, percentage, whole
from reports.tables.table import Table

VALUE_HEAD = "value head"
Column = tuple[str, str | None, str]
"""Name of a variable, its form of similarity (None where there is but one), and the header."""

COLUMNS: dict[str, list[Column]] = {
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
TWO_ETAS: list[Column] = [
    ("eta_swing", None, r"$\eta$ of the oscillation"),
    ("eta_growth", None, r"$\eta$ of the growth"),
]
"""What stands for η on the page, which has room for both of its meanings."""
UNITS = (
    "C is in the model's own unit of its value vectors (value norm), β and η are per token, ω is in"
    " radians per token, T₁ and T₂ are positions, MAE is in units of cosine, RMSE in nats, the rest"
    " has no unit. η: amplitude of the oscillation, where the fit has one, and rate of the growth"
    " towards the last token, which as printed are one number. Limit: the fit ended at an end of"
    " the range that it may search, which is no estimate. P and R inside: share of sizes 1 < N < T"
    " with the measured curve within its bounds."
)
AT_LIMIT = "†: the fit ended at a limit of its range, which is no estimate."
ON_PAPER: dict[str, tuple[str, str, str]] = {
    "norms": (
        "Value lengths",
        "Assumption 1 by value head",
        "C is in the model's own unit of its value vectors (value norm).",
    ),
    "similarity": (
        "Similarity",
        "Assumption 2 by value head",
        f"β is per token. {AT_LIMIT}",
    ),
    "weights": (
        "Attention weights",
        "Assumption 3 by head",
        "η is per token, ω in radians per token, T₁ and T₂ are positions, RMSE in nats."
        f" {AT_LIMIT}",
    ),
}
"""Title, caption and units of each narrow table."""


def head_tables(run: Run) -> list[Table]:
    """All heads in one wide table (for the page) and in three that fit on paper."""
    errors = (
        f"± jackknife standard error over {run.counted('document')}"
        if run.documents > 1
        else "one document: no standard errors (n/a)"
    )
    shown = {data: _shown(getattr(run, data), columns) for data, columns in COLUMNS.items()}
    cells = {data: _values(getattr(run, data), columns) for data, columns in shown.items()}
    weights = _etas_apart(run.weights)
    apart = [
        one
        for column in shown["weights"]
        for one in (TWO_ETAS if column[0] == "eta" and "eta_swing" in weights else [column])
    ]
    on_page = shown | {"weights": apart}
    return [
        _on_page(run, errors, on_page, cells | {"weights": _values(weights, apart)}),
        *(_on_paper(run, errors, data, shown[data], cells[data]) for data in ON_PAPER),
    ]


def _etas_apart(weights: xr.Dataset) -> xr.Dataset:
    """Both meanings of η: of the fits that parameters are reported of, those without an oscillation
    have no amplitude, and those with one of its own size keep their growth beside it.
    """
    if not {"form_chosen", "form_eta_tail"} <= set(weights):
        return weights
    forms = [str(form) for form in weights["form"].values]
    chosen = weights["form_chosen"]
    swings, apart = chosen != forms.index("monotone"), chosen == forms.index("separate")
    parts = {}
    for end in ("", "_se"):
        eta, tail = weights[f"eta{end}"], weights[f"form_eta_tail{end}"].sel(form="separate")
        parts[f"eta_swing{end}"] = eta.where(swings)
        parts[f"eta_growth{end}"] = xr.where(apart, tail, eta)
    return weights.assign(
        {name: part.drop_vars("form", errors="ignore") for name, part in parts.items()}
    )


def _on_page(
    run: Run, errors: str, shown: dict[str, list[Column]], cells: dict[str, list[list[list[Cell]]]]
) -> Table:
    """One row a head, with the numbers of its value head and how often bounds hold."""
    edition, gram = run.drawn_bounds[-1]
    inside = [
        run.envelope[f"{name}_inside_by_head"].sel(edition=edition, gram=gram).values
        for name in ("precision", "recall")
    ]
    layers, heads, value_heads = (_names(run, name) for name in ("layer", "head", "kv_head"))
    rows = [
        [
            layer,
            heads[j],
            value_heads[k],
            *cells["norms"][i][k],
            *cells["similarity"][i][k],
            *cells["weights"][i][j],
            *(percentage(float(part[i, j]), 0) for part in inside),
        ]
        for i, layer in enumerate(layers)
        for j, k in enumerate(run.value_heads)
    ]
    of_fits = (words for data in shown for *_, words in shown[data])
    of_bounds = (f"${short}$ inside ({edition}, {gram})" for short in ("P", "R"))
    headers = header("layer", "head", VALUE_HEAD, *of_fits, *of_bounds)
    caption = f"{errors[0].upper()}{errors[1:]}. {UNITS}"
    return Table("heads", "Every head", caption, headers, rows, "r" * len(headers), only_page=True)


def _on_paper(
    run: Run, errors: str, data: str, columns: list[Column], cells: list[list[list[Cell]]]
) -> Table:
    """One row a head, or value head, with the numbers of one assumption."""
    title, about, unit = ON_PAPER[data]
    dim = "head" if data == "weights" else "kv_head"
    called = "head" if dim == "head" else VALUE_HEAD
    headers = header("layer", called, *(words for *_, words in columns))
    rows = [
        [layer, name, *cells[i][j]]
        for i, layer in enumerate(_names(run, "layer"))
        for j, name in enumerate(_names(run, dim))
    ]
    caption, align = f"{about}; {errors}. {unit}", "r" * len(headers)
    return Table(f"heads_{data}", title, caption, headers, rows, align, keys=2, only_latex=True)


def _names(run: Run, dim: str) -> list[Cell]:
    """The numbers by which layers, heads or value heads are called."""
    return [whole(float(label)) for label in run.capture[dim].values]


def _shown(data: xr.Dataset, columns: Sequence[Column]) -> list[Column]:
    """The columns that the run holds."""
    return [
        column
        for column in columns
        if column[0] in data and (column[1] is None or column[1] in data["gram"].values)
    ]


def _values(data: xr.Dataset, columns: Sequence[Column]) -> list[list[list[Cell]]]:
    """Cells by layer, head and column."""
    arrays = []
    for name, form, _ in columns:
        chosen = data if form is None else data.sel(gram=form)
        error = (
            np.asarray(chosen[f"{name}_se"].values, dtype=np.float64)
            if f"{name}_se" in chosen
            else None
        )
        at_bound = f"{name}_at_bound"
        limit = np.asarray(chosen[at_bound].values, dtype=bool) if at_bound in chosen else None
        arrays.append((np.asarray(chosen[name].values, dtype=np.float64), error, limit))
    layers, heads = (
        data.sizes[dim] for dim in ("layer", "kv_head" if "kv_head" in data.dims else "head")
    )
    return [
        [
            [
                _cell(
                    float(value[i, j]),
                    None if error is None else float(error[i, j]),
                    limit is not None and bool(limit[i, j]),
                )
                for value, error, limit in arrays
            ]
            for j in range(heads)
        ]
        for i in range(layers)
    ]


def _cell(value: float, error: float | None, at_limit: bool) -> Cell:
    """A number with its error; of a fit that ended at a limit of its range the page and plain text
    say so, and paper by a dagger.
    """
    if not at_limit or not np.isfinite(value):
        return number(value, error)
    end = number(value)
    return replace(
        number(value, error),
        plain=f"limit {end.plain}",
        html=Markup("limit {}").format(end.html),
        latex=rf"{end.latex}$^\dagger$",
        number="",
    )
