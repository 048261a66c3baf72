"""Tables of every head: one wide table for the page, three narrow ones for paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from reports.run import Run
from reports.tables.cells import Cell, header, mixed, number, percentage, stacked, whole
from reports.tables.table import Table

VALUE_HEAD = stacked("value", "head")
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
UNITS = (
    "C is in the model's own unit of its value vectors (value norm), β and η are per token, ω is in"
    " radians per token, T₁ and T₂ are positions, MAE is in units of cosine, RMSE in nats, the rest"
    " has no unit. P and R inside: share of sizes 1 < N < T with the measured curve within its"
    " bounds."
)
ON_PAPER: dict[str, tuple[str, str, str, Callable[[Column], bool] | None]] = {
    "norms": (
        "Value lengths",
        "Assumption 1 by value head",
        "C is in the model's own unit of its value vectors (value norm).",
        None,
    ),
    "similarity": (
        "Similarity",
        "Assumption 2 by value head",
        "β is per token.",
        lambda column: column[1] != "offset",
    ),
    "weights": (
        "Attention weights",
        "Assumption 3 by head",
        "η is per token, ω in radians per token, T₁ and T₂ are positions, RMSE in nats.",
        lambda column: column[0] not in {"omega", "t1", "t2"},
    ),
}
"""Title, caption, units of each narrow table, and which columns come first on paper where all do
not fit side by side.
"""


def head_tables(run: Run) -> list[Table]:
    """All heads in one wide table (for the page) and in three that fit on paper."""
    errors = (
        f"± jackknife standard error over {run.counted('document')}"
        if run.documents > 1
        else "one document: no standard errors (n/a)"
    )
    names = {
        name: [whole(float(label)) for label in run.capture[name].values]
        for name in ("layer", "head", "kv_head")
    }
    shown = {data: _shown(getattr(run, data), columns) for data, columns in COLUMNS.items()}
    cells = {data: _values(getattr(run, data), columns) for data, columns in shown.items()}
    headers = {data: header(*(words for *_, words in columns)) for data, columns in shown.items()}
    edition, gram = run.drawn_bounds[-1]
    inside = [
        run.envelope[f"{name}_inside_by_head"].sel(edition=edition, gram=gram).values
        for name in ("precision", "recall")
    ]
    wide = []
    for i, layer in enumerate(names["layer"]):
        for j, k in enumerate(run.capture["kv_head_of_head"].values):
            covered = [percentage(float(part[i, j]), 0) for part in inside]
            own = [
                *cells["norms"][i][k],
                *cells["similarity"][i][k],
                *cells["weights"][i][j],
                *covered,
            ]
            wide.append([layer, names["head"][j], names["kv_head"][k], *own])
    all_headers = [
        *header("layer", "head"),
        VALUE_HEAD,
        *headers["norms"],
        *headers["similarity"],
        *headers["weights"],
    ]
    all_headers += header(*(f"${short}$ inside ({edition}, {gram})" for short in ("P", "R")))
    made = [
        _table(
            "heads",
            "Every head",
            f"{errors[0].upper()}{errors[1:]}. {UNITS}",
            all_headers,
            wide,
            only_page=True,
        )
    ]
    for data, (title, about, unit, first) in ON_PAPER.items():
        dim = "head" if data == "weights" else "kv_head"
        rows = [
            [layer, name, *cells[data][i][j]]
            for i, layer in enumerate(names["layer"])
            for j, name in enumerate(names[dim])
        ]
        lead = [mixed("layer"), mixed("head") if dim == "head" else VALUE_HEAD]
        groups = [] if first is None else _halves(shown[data], first)
        caption = f"{about}; {errors}. {unit}"
        made.append(
            _table(
                f"heads_{data}",
                title,
                caption,
                [*lead, *headers[data]],
                rows,
                only_latex=True,
                on_paper=groups,
            )
        )
    return made


def _halves(columns: Sequence[Column], first: Callable[[Column], bool]) -> list[list[int]]:
    """Columns for paper behind the two that name a head: those that come first, then the others."""
    sides = [
        [index for index, column in enumerate(columns, start=2) if first(column) is side]
        for side in (True, False)
    ]
    return [[0, 1, *side] for side in sides if side]


def _table(
    name: str, title: str, caption: str, headers: list[Cell], rows: list[list[Cell]], **more: Any
) -> Table:
    return Table(
        name=name,
        title=title,
        caption=caption,
        headers=headers,
        rows=rows,
        align="r" * len(headers),
        **more,
    )


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
        arrays.append((np.asarray(chosen[name].values, dtype=np.float64), error))
    layers, heads = (
        data.sizes[dim] for dim in ("layer", "kv_head" if "kv_head" in data.dims else "head")
    )
    return [
        [
            [
                number(float(value[i, j]), None if error is None else float(error[i, j]))
                for value, error in arrays
            ]
            for j in range(heads)
        ]
        for i in range(layers)
    ]
