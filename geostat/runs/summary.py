"""Summary of a run as statsmodels tables: measurement, fitted parameters, claims and notes.

The tables render as text, HTML, LaTeX or CSV. Imports statsmodels.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, NamedTuple

import numpy as np
import xarray as xr
from markupsafe import escape
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from geostat.datasets.parts import PART, parts
from geostat.errors import printable
from geostat.runs.groups import group_of, joined
from geostat.runs.selection import selection_note
from geostat.topics.records import ANSWER_CODES, quartiles
from geostat.topics.verdicts import counted_claims
from reports.text.latex import text_latex
from reports.text.printable import no_formula

WIDTH: Final = 100
"""Line width of a note, in characters."""


class Block(NamedTuple):
    """One table of a summary."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    """Rows of cells; the first cell is the name."""


class RunSummary(Summary):
    """A statsmodels `Summary` of a run, with names escaped for each output format.

    LaTeX output needs the package booktabs.
    """

    def __init__(
        self,
        facts: list[tuple[str, str]],
        blocks: list[Block],
        notes: list[str],
        escape_: Callable[[str], str] = printable,
    ) -> None:
        super().__init__()
        self._contents = (facts, blocks, notes)
        self.tables = [_header(facts, escape_)]
        for block in blocks:
            self.tables.append(
                SimpleTable(
                    [[escape_(cell) for cell in row[1:]] for row in block.rows],
                    headers=[escape_(line) for line in block.header],
                    stubs=[escape_(row[0]) for row in block.rows],
                    title=escape_(block.title),
                    txt_fmt=fmt_params | {"data_fmts": ["%s"], "data_aligns": "r"},
                )
            )
        lines = ["Notes:"]
        for number, note in enumerate(notes, start=1):
            wrapped = textwrap.wrap(f"[{number}] {note}", WIDTH, subsequent_indent="    ")
            lines += map(escape_, wrapped)
        self.add_extra_txt(lines)

    def __repr__(self) -> str:
        return self.as_text()

    def as_html(self) -> str:
        """Return the tables as HTML."""
        return str(Summary.as_html(self._escaped(lambda text: str(escape(printable(text))))))

    def as_csv(self) -> str:
        """Return the tables as comma-separated values, one after another."""
        return str(Summary.as_csv(self._escaped(_csv)))

    def as_latex(self) -> str:
        """Return the tables as LaTeX, one after another."""
        summary = self._escaped(_latex)
        as_tabular: dict[str, Any] = {"replacements": {}}  # `text_latex` escapes all text
        tables = [
            rf"\textbf{{{table.title}}}\par" + "\n" + table.as_latex_tabular(**as_tabular)
            for table in summary.tables
        ]
        return "\n\n".join([*tables, *summary.extra_txt.splitlines()])

    def _escaped(self, escape_: Callable[[str], str]) -> RunSummary:
        return RunSummary(*self._contents, escape_)


def _header(facts: list[tuple[str, str]], escape_: Callable[[str], str]) -> SimpleTable:
    """Return the header table of statsmodels: facts in two columns."""
    half = -(-len(facts) // 2)
    left, right = facts[:half], [*facts[half:], *[("", "")] * (len(facts) % 2)]
    rows = [
        [escape_(text) for text in (left_value, f"{name}:" if name else "", right_value)]
        for (_, left_value), (name, right_value) in zip(left, right, strict=True)
    ]
    stubs = [escape_(f"{name}:") for name, _ in left]
    txt_fmt = fmt_2cols | {"data_fmts": ["%s", "   %s", "%s"], "data_aligns": "rlr"}
    return SimpleTable(
        rows, stubs=stubs, title=escape_("Attention heads of a model"), txt_fmt=txt_fmt
    )


def _csv(text: str) -> str:
    """Return a CSV cell, quoted if it holds a comma or a quote."""
    plain = no_formula(printable(text))
    return '"' + plain.replace('"', '""') + '"' if set(',"') & set(plain) else plain


def _latex(text: str) -> str:
    """Escape text for LaTeX; statsmodels would interpret a double dollar sign."""
    return text_latex(text).replace("$$", "${}$")


def summarised(run: xr.DataTree, fits: xr.DataTree | None = None) -> RunSummary:
    """Return the summary of a run and of separate fits; see `geostat.summary`.

    Results that the run lacks are omitted.
    """
    if not isinstance(run, xr.DataTree) or not run.children:
        group_of(run, "capture")
    if fits is not None:
        run = joined(run, fits)
    blocks = []
    for part in parts(run) if "capture" in run.children else [run]:
        blocks += _fits(part)
    if "verdicts" in run.children:
        blocks.append(_claims(run["verdicts"].to_dataset()))
    return RunSummary(_facts(run), blocks, _notes(run, blocks))


NUMBERS: Final = ("pooled", "std err", "[0.025", "0.975]")
HEADS: Final = ("median", "std err", "[0.25", "0.75]", "heads")


class Row(NamedTuple):
    """A parameter or a measure of fit."""

    name: str
    """ASCII, for terminals and LaTeX."""
    variable: str
    pooled: str = ""
    """Parameter of /pooled, or its variable `overall_…`."""
    gram: str = ""
    oscillates: bool | None = None
    """Restrict to heads with (True) or without (False) an oscillation, where a symbol has two
    meanings.
    """


ROWS: Final = {
    ("norms", "Assumption 1: norms of value vectors"): (
        Row("C, content norm", "C", "C"),
        Row("lam, norm of the sink / C", "lam", "lam"),
        Row("CV in a document", "cv_token", "cv_token"),
        Row("trend along a document", "trend"),
    ),
    ("similarity", "Assumption 2: similarity of value vectors"): (
        Row("rho0, cosine with the sink", "rho0", "rho0"),
        Row("beta, decay per token", "beta", "beta", "exponential"),
        Row("R2 of mean cosines", "r2", "overall_r2", "exponential"),
        Row("MAE of mean cosines", "mae_by_lag", "overall_mae_by_lag", "exponential"),
        Row("beta, decay per token (offset)", "beta", "beta_offset", "offset"),
        Row("c, cosine at long lags (offset)", "offset", "offset", "offset"),
        Row("R2 of mean cosines (offset)", "r2", "overall_r2", "offset"),
        Row("MAE of mean cosines (offset)", "mae_by_lag", "overall_mae_by_lag", "offset"),
    ),
    ("weights", "Assumption 3: attention weights"): (
        Row("p_sink, weight of the sink", "p_sink", "p_sink"),
        Row("eta, growth per token", "eta", "eta", oscillates=False),
        Row("eta, oscillation's size", "eta", oscillates=True),
        Row("omega, oscillation", "omega"),
        Row("R2 of log weights", "r2"),
        Row("R2 of held-out documents", "r2_document"),
        Row("MAE of log weights (nat)", "mae"),
    ),
}
"""Rows of each assumption, by group and title."""


def _facts(run: xr.DataTree) -> list[tuple[str, str]]:
    model = run.attrs.get("model")
    fields = model if isinstance(model, Mapping) else {}
    facts = [("Model", str(fields.get("id", model or "n/a")))]
    if "capture" in run.children:
        sizes = run["capture"].to_dataset().sizes
        facts += [
            ("Documents", f"{sizes['document']:,}"),
            ("Tokens a document", f"{sizes['position']:,}"),
            ("Tokens in all", f"{sizes['document'] * sizes['position']:,}"),
            ("Layers", f"{sizes['layer']:,}"),
            ("Heads a layer", f"{sizes['head']:,}"),
            ("KV heads a layer", f"{sizes['kv_head']:,}"),
            ("Heads in all", f"{sizes['layer'] * sizes['head']:,}"),
            ("Queries", str(run.attrs.get("queries", "last"))),
        ]
    facts.append(("Captured by geostat", str(run.attrs.get("geostat_version", "n/a"))))
    return [*facts, ("Summary by geostat", version("attention-geostat"))]


def _fits(part: xr.DataTree) -> list[Block]:
    """Return a table for each assumption, with the pooled fit of all heads if the part has one."""
    pooled = part["pooled"].to_dataset() if "pooled" in part.children else None
    if pooled is not None and PART in pooled.dims:
        pooled = None  # without /capture the parts of the layers are unknown
    layers = part.attrs.get(PART)
    suffix = f"; {layers['layers']} layers that see {layers['tokens']:,} tokens" if layers else ""
    blocks = []
    header = HEADS if pooled is None else (*NUMBERS, *HEADS)
    for (group, title), rows in ROWS.items():
        if group in part.children:
            data = part[group].to_dataset()
            blocks.append(Block(title + suffix, header, [_row(row, data, pooled) for row in rows]))
    return blocks


def _row(row: Row, data: xr.Dataset, pooled: xr.Dataset | None) -> tuple[str, ...]:
    data = data.sel(gram=row.gram) if row.gram else data
    if row.oscillates is not None:
        names = [row.variable, f"{row.variable}_se"]
        data = data[names].where(data["omega"].notnull() == row.oscillates)
    cells = _of_heads(data, row.variable)
    if pooled is not None:
        cells = [*map(_digits, _of_all(pooled, row)), *cells]
    return (row.name, *cells)


def _of_all(pooled: xr.Dataset, row: Row) -> list[float]:
    """Return the pooled value of all heads, its standard error and interval; NaN if missing."""
    if row.pooled.startswith("overall_"):
        name, selected = row.pooled, pooled.sel(gram=row.gram)
    elif row.pooled in pooled["parameter"].values:
        name, selected = "whole", pooled.sel(parameter=row.pooled)
    else:
        return [np.nan] * 4
    names = (name, f"{name}_se", f"{name}_lower", f"{name}_upper")
    return [float(selected[name]) if name in selected else np.nan for name in names]


def _of_heads(data: xr.Dataset, name: str) -> list[str]:
    """Return median, median standard error, quartiles and number of heads, as cells."""
    values, errors = (data.get(variable, np.array(np.nan)) for variable in (name, f"{name}_se"))
    middle, low, high, heads = quartiles(values)
    error, *_ = quartiles(errors)
    return [*map(_digits, (middle, error, low, high)), f"{heads:,}"]


def _digits(value: float) -> str:
    """Return a number with four significant digits; empty for NaN.

    >>> _digits(0.216836), _digits(1432.2), _digits(float("nan"))
    ('0.2168', '1432', '')
    """
    if not np.isfinite(value):
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


CLAIMS: Final = ("of", "tolerance", "hold", "trivially", "fail", "undet.", "no est.", "true of")


def _claims(verdicts: xr.Dataset) -> Block:
    rows = []
    for claim in counted_claims(verdicts):
        share = claim["true_share"]
        counts = (str(claim[name]) for name in ANSWER_CODES)
        unit = {"kv_head": "KV heads", "head": "heads"}[claim["of"]]
        true_of = "" if share is None else f"{share:.0%}"
        rows.append((claim["key"], unit, f"{claim['tolerance']:g}", *counts, true_of))
    return Block("Claims, head by head", CLAIMS, rows)


def _notes(run: xr.DataTree, blocks: Sequence[Block]) -> list[str]:
    headers = {name for block in blocks for name in block.header}
    notes = []
    documents = run["capture"].sizes["document"] if "capture" in run.children else None
    over = "documents" if documents is None else f"{documents:,} documents"
    if NUMBERS[0] in headers:
        notes.append(
            "pooled: fit to the average of all heads; std err and 95% interval by a jackknife"
            f" over {over}, Student's t."
        )
    if "median" in headers:
        notes.append(
            "median: median over heads, with quartiles; std err is the median of the heads'"
            f" jackknife standard errors over {over}. heads: heads with an estimate, KV heads for"
            " norms and similarity."
        )
    if "hold" in headers:
        notes.append(
            "A claim holds for a head if its 95% interval lies within the tolerance, and fails if"
            " the interval lies outside. It holds trivially if a flat form predicts as well. true"
            " of: estimated share of heads whose effect lies within the tolerance."
        )
    if documents == 1:
        notes.append("One document gives no standard errors, intervals or verdicts.")
    if not blocks:
        notes.append("The run has no fits. Fit it: fits = geostat.fit(run).")
    if note := selection_note(run):
        notes.insert(0, note)
    return notes
