"""Tables of every head: one wide table for the page, three narrow ones for paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from reports.run import Run
from reports.tables.cells import Cell, Table, missing, mixed, number, share, stacked, whole
from reports.text.number import count, percent

VALUE_HEAD = stacked("value", "head")
Column = tuple[str, str | None, str]
"""Name of a variable, its form of similarity (None where there is but one), and the header."""

NORMS: Sequence[Column] = (
    ("C", None, "$C$"),
    ("lam", None, r"$\lambda$"),
    ("cv_token", None, r"$\mathrm{CV}$ token"),
    ("cv_profile", None, r"$\mathrm{CV}$ profile"),
)
SIMILARITY: Sequence[Column] = (
    ("beta", "exponential", r"$\beta$ exponential"),
    ("beta", "offset", r"$\beta$ offset"),
    ("offset", "offset", "$c$"),
    ("rho0", None, r"$\rho_0$"),
    ("mae_by_lag", "exponential", "MAE exponential"),
    ("mae_by_lag", "offset", "MAE offset"),
)
WEIGHTS: Sequence[Column] = (
    ("p_sink", None, r"$p_{\mathrm{sink}}$"),
    ("p_base", None, r"$p_{\mathrm{base}}$"),
    ("eta", None, r"$\eta$"),
    ("omega", None, r"$\omega$"),
    ("t1", None, "$T_1$"),
    ("t2", None, "$T_2$"),
    ("rmse", None, "RMSE"),
)


def head_tables(run: Run) -> list[Table]:
    """All heads in one wide table (for the page) and in three that fit on paper."""
    errors = (
        f"± jackknife standard error over {count(run.documents, 'document')}"
        if run.documents > 1
        else "one document: no standard errors (n/a)"
    )
    layers, heads, kv_heads = (run.capture.sizes[name] for name in ("layer", "head", "kv_head"))
    of_norms, of_similarity, of_weights = _values(run.norms, NORMS), _values(run.similarity, SIMILARITY), _values(run.weights, WEIGHTS)
    covered, covered_headers = _covered(run)
    layer_names, head_names, kv_names = (run.capture[name].values for name in ("layer", "head", "kv_head"))
    group = run.capture["kv_head_of_head"].values

    wide = [
        [whole(float(layer_names[i])), whole(float(head_names[j])), whole(float(kv_names[group[j]])),
         *of_norms[i][group[j]], *of_similarity[i][group[j]], *of_weights[i][j], *covered[i][j]]
        for i in range(layers) for j in range(heads)
    ]  # fmt: skip
    value_rows = {
        name: [[whole(float(layer_names[i])), whole(float(kv_names[j])), *cells[i][j]] for i in range(layers) for j in range(kv_heads)]
        for name, cells in (("norms", of_norms), ("similarity", of_similarity))
    }
    weight_rows = [
        [whole(float(layer_names[i])), whole(float(head_names[j])), *of_weights[i][j]] for i in range(layers) for j in range(heads)
    ]
    own = [mixed("layer"), mixed("head")]
    value_own = [mixed("layer"), VALUE_HEAD]
    units = (
        "C is in the model's own unit of its value vectors (value norm), β and η are per token, ω is in radians per token, T₁ and T₂ are positions, MAE is in "
        "units of cosine, RMSE in nats, the rest has no unit. P and R inside: share of sizes 1 < N < T with the measured curve within "
        "its bounds."
    )
    norm_headers, weight_headers = _headers(run.norms, NORMS), _headers(run.weights, WEIGHTS)
    similarity_headers = _headers(run.similarity, SIMILARITY)
    all_headers = [*own, VALUE_HEAD, *norm_headers, *similarity_headers, *weight_headers, *covered_headers]
    of_heads = f"Assumption 3 by head; {errors}. η is per token, ω in radians per token, T₁ and T₂ are positions, RMSE in nats."
    of_cosines = f"Assumption 2 by value head; {errors}. β is per token."
    return [
        _table("heads", "Every head", f"{errors[0].upper()}{errors[1:]}. {units}", all_headers, wide, only_page=True),
        _table(
            "heads_norms",
            "Value lengths",
            f"Assumption 1 by value head; {errors}. C is in the model's own unit of its value vectors (value norm).",
            [*value_own, *norm_headers],
            value_rows["norms"],
            only_latex=True,
        ),
        _table(
            "heads_similarity",
            "Similarity",
            of_cosines,
            [*value_own, *similarity_headers],
            value_rows["similarity"],
            only_latex=True,
            on_paper=_halves(_there(run.similarity, SIMILARITY), lambda column: column[1] != "offset"),
        ),
        _table(
            "heads_weights",
            "Attention weights",
            of_heads,
            [*own, *weight_headers],
            weight_rows,
            only_latex=True,
            on_paper=_halves(_there(run.weights, WEIGHTS), lambda column: column[0] not in {"omega", "t1", "t2"}),
        ),
    ]


def _halves(columns: Sequence[Column], first: Callable[[Column], bool]) -> list[list[int]]:
    """Columns for paper behind the two that name a head: those that come first, then the others."""
    sides = [[place for place, column in enumerate(columns, start=2) if first(column) is side] for side in (True, False)]
    return [[0, 1, *side] for side in sides if side]


def _table(
    name: str,
    title: str,
    caption: str,
    headers: list[Cell],
    rows: list[list[Cell]],
    *,
    only_page: bool = False,
    only_latex: bool = False,
    on_paper: Sequence[Sequence[int]] = (),
) -> Table:
    return Table(
        name=name,
        title=title,
        caption=caption,
        headers=headers,
        rows=rows,
        align="r" * len(headers),
        only_page=only_page,
        only_latex=only_latex,
        on_paper=on_paper,
    )


def _there(data: xr.Dataset, columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if column[0] in data and (column[1] is None or column[1] in data["gram"].values)]


def _headers(data: xr.Dataset, columns: Sequence[Column]) -> list[Cell]:
    return [mixed(header) for _, _, header in _there(data, columns)]


def _values(data: xr.Dataset, columns: Sequence[Column]) -> list[list[list[Cell]]]:
    """Cells by layer, head and column."""
    arrays = []
    for name, form, _ in _there(data, columns):
        chosen = data if form is None else data.sel(gram=form)
        value = np.asarray(chosen[name].values, dtype=np.float64)
        error = np.asarray(chosen[f"{name}_se"].values, dtype=np.float64) if f"{name}_se" in chosen else None
        arrays.append((value, error))
    layers, heads = (data.sizes[dim] for dim in ("layer", "kv_head" if "kv_head" in data.dims else "head"))
    return [
        [[number(float(value[i, j]), None if error is None else float(error[i, j])) for value, error in arrays] for j in range(heads)]
        for i in range(layers)
    ]


def _covered(run: Run) -> tuple[list[list[list[Cell]]], list[Cell]]:
    """Shares inside the sharp bounds (or the only ones) by layer and head, and their headers."""
    edition, gram = run.drawn_bounds[-1]
    shares = [run.envelope[f"{name}_inside_by_head"].sel(edition=edition, gram=gram).values for name in ("precision", "recall")]
    cells = [
        [
            [share(float(part[i, j]), percent(float(part[i, j]), 0)) if np.isfinite(part[i, j]) else missing() for part in shares]
            for j in range(shares[0].shape[1])
        ]
        for i in range(shares[0].shape[0])
    ]
    return cells, [mixed(f"${short}$ inside ({edition}, {gram})") for short in ("P", "R")]
