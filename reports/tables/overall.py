"""Tables of the whole run: fitted parameters as median and quartiles over heads, separability, coverage, errata.

A parameter's typical error is the median over heads of its standard error, a jackknife over documents.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr
from markupsafe import Markup

from reports.run import Run, own_cosines
from reports.statistics import flat, median, quartiles
from reports.tables.cells import Cell, between, header, missing, mixed, number, share, stacked, symbol, text, whole
from reports.tables.table import Table
from reports.text.number import MISSING, count, percent, rounded

PARAMETER_HEADERS = tuple(mixed(word) for word in ("parameter", "meaning (unit); source", "median [quartiles]", "typical ±", "heads"))
PARAMETER_WIDTHS = {1: "4.4cm", 2: "2.7cm"}
PARAMETER_ROWS = 12
"""Rows of parameters to a tabular on paper, where they have up to four lines."""
SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Sizes N of the table of separability."""


def _parameter(data: xr.Dataset, name: str, *, label: str | None = None, meaning: str | None = None) -> list[Cell]:
    """A row: one parameter over all heads."""
    values = data[name]
    attrs = values.attrs
    error = f"{name}_se"
    typical = number(median(data[error]), digits=2) if error in data else Cell("–", text("–").html, "--")
    shown = symbol(label or str(attrs.get("symbol") or "")) if (label or attrs.get("symbol")) else text(name)
    unit = str(attrs.get("units", "1"))
    heads = whole(float(flat(values).size))
    words = f"{meaning or attrs.get('long_name', name)}{'' if unit == '1' else f' ({unit})'}"
    return [shown, mixed(words + _source(attrs)), between(*quartiles(values)), typical, heads]


def _source(attrs: dict[str, object]) -> str:
    """The equation of a variable, to stand behind its meaning; the paper's own number is understood."""
    result = str(attrs.get("equation", "")).removeprefix("arXiv 2602.01893").removeprefix(", ").strip()
    return f"; {result}" if result else ""


def _flag(data: xr.Dataset, name: str, meaning: str | None = None, *, known: xr.DataArray | None = None) -> list[Cell]:
    """A row: the share of heads for which a flag is set."""
    flags = np.asarray(data[name].values, dtype=bool)
    among = np.ones(flags.shape, dtype=bool) if known is None else np.isfinite(np.asarray(known.values, dtype=np.float64))
    total = int(among.sum())
    part = float((flags & among).sum() / total) if total else float("nan")
    words = meaning or str(data[name].attrs.get("long_name", name))
    return [
        text("share"),
        mixed(words + _source(data[name].attrs)),
        share(part, f"{percent(part)} of heads"),
        text("–"),
        whole(total),
    ]


def _parameters(name: str, title: str, what: str, run: Run, rows: Sequence[list[Cell]]) -> Table:
    error = (
        "typical ± is the median over heads of the standard error of a head's estimate, a jackknife over "
        f"{count(run.documents, 'document')}"
        if run.documents > 1
        else "one document gives no standard errors (n/a)"
    )
    return Table(
        name=name, title=title, headers=PARAMETER_HEADERS, rows=list(rows), align="lprrr", widths=PARAMETER_WIDTHS, paper_rows=PARAMETER_ROWS,
        caption=f"{what} Median over heads with quartiles in brackets; {error}; heads: those with an estimate. Sources: arXiv 2602.01893.",
    )  # fmt: skip


NORMS_SHOWN = (
    "C", "lam", "sink_smallest_share", "cv_token", "cv_profile", "cv_position", "trend", "trend_se_hac",
    "share_document", "share_position", "share_residual", "compressed_share",
)  # fmt: skip


SHORT = {
    "sink_smallest_share": r"\pi_{\mathrm{sink}}",
    "compressed_share": r"\pi_{\mathrm{short}}",
    "rho0_spread_floor": r"\mathrm{sd}_{\min}",
}
"""Symbols that fit a column on paper, in place of formulas."""


def norms(run: Run) -> Table:
    """Assumption 1."""
    rows = [_parameter(run.norms, name, label=SHORT.get(name)) for name in NORMS_SHOWN if name in run.norms]
    return _parameters(
        "norms",
        "Lengths of value vectors (Assumption 1)",
        "Value lengths by value head; “value norm” is the model's own unit of its value vectors.",
        run,
        rows,
    )


TOLD = {"exponential": "exponential form", "offset": "form with an offset"}
"""Forms of similarity whose parameters are tabulated, as they are called; all are compared in the table of rivals."""
SIMILARITY_SHOWN = (
    "chance_by_lag",
    "chance_by_pair",
    "rho0",
    "rho0_spread",
    "rho0_spread_floor",
    "negative_fraction",
    "drift_slope",
    "drift_rms",
)
"""What is tabulated without a form: what chance alone would give stands beside the errors."""


def similarity(run: Run) -> Table:
    """Assumption 2 and its rival with an offset."""
    rows: list[list[Cell]] = []
    for form in (form for form in run.similarity["gram"].values if form in TOLD):
        fit = run.similarity.sel(gram=form)
        known = fit["mae_by_lag"]
        form_words = TOLD[str(form)]
        names = [name for name in ("beta", "offset", "mae_by_lag", "mae_by_pair", "rmse", "r2") if name in fit]
        names = [name for name in names if not (name == "offset" and form == "exponential")]
        rows += [_parameter(fit, name, meaning=f"{form_words}: {_short(fit[name].attrs.get('long_name', name))}") for name in names]
        if "feasible" in fit:
            rows.append(_flag(fit, "feasible", f"{form_words}: vectors with these cosines exist", known=known))
    rows += [_parameter(run.similarity, name, label=SHORT.get(name)) for name in SIMILARITY_SHOWN if name in run.similarity]
    if "offset_preferred" in run.similarity:
        rows.append(
            _flag(
                run.similarity,
                "offset_preferred",
                "the offset predicts left-out documents better by more than one standard error (one document: by BIC)",
            )
        )
    return _parameters(
        "similarity",
        "Similarity of value vectors (Assumption 2)",
        "Cosines of value vectors by lag and with the sink, by value head.",
        run,
        rows,
    )


def _short(long_name: str) -> str:
    return long_name.removesuffix("; 0 for forms without").removesuffix(", density uniform within histogram bins")


def weights(run: Run) -> Table:
    """Assumption 3."""
    names = (
        "p_sink",
        "p_base",
        "eta",
        "omega",
        "t1",
        "t2",
        "total",
        "total_model",
        "mass_plateau",
        "mass_oscillation",
        "mass_tail",
        "rmse",
        "r2",
        "residual_autocorrelation",
        "long_run_noise",
    )
    rows = [_parameter(run.weights, name) for name in names if name in run.weights]
    rows += [_flag(run.weights, name) for name in ("oscillation_identified", "growth_identified") if name in run.weights]
    what = (
        "Attention weights of the last token, by head; ω exists only where an oscillation is identified (T₁ < T₂), T₁ and T₂ are "
        "positions, η is per token."
    )
    return _parameters("weights", "Attention weights (Assumption 3)", what, run, rows)


def separability(run: Run) -> Table:
    """Precision and Recall at round sizes, with baselines and bounds."""
    summary = run.summary
    nulls = [str(name) for name in summary["null"].values] if "precision_null" in summary else []
    headers = [mixed("N")]
    for short in ("P", "R"):
        headers += [
            stacked(f"${short}$", "measured"),
            *(stacked(f"${short}$, {name.split('_')[0]}", name.split("_")[-1]) for name in nulls),
        ]
        headers += [stacked("floor of $P$,", "$N/T$")] if short == "P" else []
    rows = []
    for index, size in enumerate(summary["n"].values):
        if int(size) not in SIZES or not np.isfinite(summary["precision_mean"].values[index]):
            continue
        row = [whole(float(size))]
        for statistic in ("precision", "recall"):
            point = summary.isel(n=index)
            row.append(number(float(point[f"{statistic}_mean"]), float(point[f"{statistic}_se"])))
            row += [number(float(point[f"{statistic}_null"].sel(null=name)), digits=2) for name in nulls]
            row += [number(float(point["floor"]), digits=2)] if statistic == "precision" else []
        rows.append(row)
    words = f"± standard error over {count(run.documents, 'document')}" if run.documents > 1 else "one document: no standard error"
    return Table(
        name="separability", title="Separability by number of selected tokens", headers=headers, rows=rows, align="r" * len(headers),
        caption=f"Precision P and Recall R (shares, no unit), mean over {count(run.heads, 'head')} of each document, then over "
        f"documents; {words}. Random selection, random directions: null baselines of each.",
        on_paper=_by_statistic(len(nulls)),
    )  # fmt: skip


def _by_statistic(nulls: int) -> list[list[int]]:
    """Columns of Precision (N, measured, baselines, floor) and those of Recall, each behind N."""
    precision = range(1, 3 + nulls)
    return [[0, *precision], [0, *range(precision.stop, precision.stop + 1 + nulls)]]


def coverage(run: Run) -> Table:
    """How often bounds hold, by edition, Gram and statistic."""
    words = {"precision": r"$P$", "recall": r"$R$", "f_outer": r"$F(r_{\max})$", "f_inner": r"$F(r_{\min})$"}
    names = [name for name in words if f"{name}_inside" in run.summary]
    beyond = [name for name in ("precision", "recall") if f"{name}_outside" in run.summary]
    wide = [name for name in ("precision", "recall") if f"{name}_width" in run.summary]
    headers = [mixed("edition"), mixed("Gram"), *(stacked(words[name], "inside") for name in names)]
    headers += [*(stacked(words[name], "clearly outside") for name in beyond), *(stacked(words[name], "width") for name in wide)]
    rows = []
    for edition, gram in run.bounds:
        point = run.summary.sel(edition=edition, gram=gram)
        clearly = [float(point[f"{name}_outside"]) for name in beyond]
        inside = [_inside(point, name, edition) for name in names]
        widths = [number(float(point[f"{name}_width"]), digits=2) for name in wide]
        rows.append([text(edition), text(gram), *inside, *(share(x, percent(x)) for x in clearly), *widths])
    caption = (
        f"Share of (head, N) cells, {count(run.heads, 'head')}, 1 < N < T, in which the measured curve (mean over "
        f"{count(run.documents, 'document')}) lies within its bounds; in brackets the mean distance from them where it does not. "
        "Clearly outside: by more than the 95% document interval of the gap between curve and bound; for P, near its floor in most texts, chance "
        "must not explain either that no other kind of text was met. Width: mean distance of the bounds, cut to 0 to 1; wide "
        f"bounds hold cheaply. Shares, no unit. Bounds on an expectation may miss a single head.{own_cosines(run)}"
    )
    if any(cell.plain == VOID for row in rows for cell in row):
        caption += (
            f" {VOID}: the printed lower bound of F at the inner radius is 2x/(1+x) of a lower bound x of Recall; x is negative here, where that has a "
            "pole at x = −1, and nothing can be read from it."
        )
    align = "ll" + "r" * (len(headers) - 2)
    first = 2 + len(names)
    return Table(
        name="coverage", title="Do the bounds hold?", headers=headers, rows=rows, align=align, caption=caption,
        on_paper=[range(first), [0, 1, *range(first, len(headers))]],
    )  # fmt: skip


VOID = f"{MISSING} (erratum 18)"
"""What stands for a bound that erratum 18 makes void."""


def _inside(point: xr.Dataset, name: str, edition: str) -> Cell:
    """A share inside, with the mean distance of the rest in brackets; a printed bound of F(r_min) that is nowhere readable is void."""
    part, distance = float(point[f"{name}_inside"]), float(point[f"{name}_excess"])
    if not math.isfinite(part):
        void = (edition, name) == ("printed", "f_inner")
        return (
            replace(text(VOID), html=Markup(f'<span class="whole">{MISSING}</span> <span class="whole">(erratum 18)</span>'), sort="")
            if void
            else missing()
        )
    shown = f"{percent(part)} ({rounded(distance, digits=2).plain})" if part < 1 else percent(part)
    return share(part, shown)


def errata(run: Run) -> Table:
    """What is wrong in print and matters for reading the report."""
    result = json.loads(run.summary.attrs.get("errata") or "[]")
    rows = [
        [whole(float(row.get("number", 0))), *(mixed(str(row.get(key) or "")) for key in ("title", "printed", "true", "reading"))]
        for row in result
    ]
    headers = header("no.", "what", "printed", "true", "why it matters here")
    return Table(
        name="errata", title="Errata", headers=headers, rows=rows, align="rpppp", widths={1: "1.8cm", 2: "2.4cm", 3: "3.7cm", 4: "2.7cm"},
        paper_rows=5,
        caption="Statements of arXiv 2602.01893 that are wrong or undefined in print and matter for reading this report.",
    )  # fmt: skip
