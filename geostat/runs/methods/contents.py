"""Contents of a run's summary: what heads it, fitted parameters with errors and goodness of fit,
counts of claims, notes. Plain texts, which `summary` sets as tables. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.parts import PART, parts
from geostat.runs.methods.selection import SELECTION
from geostat.verdicts.scoreboard.lines import counted_claims

NUMBERS: Final = ("pooled", "std err", "[0.025", "0.975]")
HEADS: Final = ("median", "std err", "[0.25", "0.75]", "heads")
GRAMS: Final = {"exponential": "", "offset": " (offset)"}
"""Forms of similarity in a summary, and how their rows are marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A parameter or a measure of fit: its name, and where its numbers stand."""

    name: str
    group: str
    variable: str
    gram: str = ""
    pooled: str = ""
    """A parameter of /pooled, or a variable `overall_…` of it."""
    only: bool | None = None
    """Of heads with (True) or without an oscillation, where the letter means two things."""


ROWS: Final = {
    "Assumption 1: norms of value vectors": (
        Row(name="C, content norm", group="norms", variable="C", pooled="C"),
        Row(name="lam, norm of the sink / C", group="norms", variable="lam", pooled="lam"),
        Row(name="CV in a document", group="norms", variable="cv_token", pooled="cv_token"),
        Row(name="trend along a document", group="norms", variable="trend"),
    ),
    "Assumption 2: similarity of value vectors": (
        Row(name="rho0, cosine with the sink", group="similarity", variable="rho0", pooled="rho0"),
        *(
            Row(name=name + mark, group="similarity", variable=of, gram=gram, pooled=pooled)
            for gram, mark in GRAMS.items()
            for name, of, pooled in (
                ("beta, decay per token", "beta", "beta" + "_offset" * bool(mark)),
                *([("c, cosine at long lags", "offset", "offset")] if mark else []),
                ("R2 of mean cosines", "r2", "overall_r2"),
                ("MAE of mean cosines", "mae_by_lag", "overall_mae_by_lag"),
            )
        ),
    ),
    "Assumption 3: attention weights": (
        Row(name="p_sink, weight of the sink", group="weights", variable="p_sink", pooled="p_sink"),
        Row(
            name="eta, growth per token", group="weights", variable="eta", pooled="eta", only=False
        ),
        Row(name="eta, oscillation's size", group="weights", variable="eta", only=True),
        Row(name="omega, oscillation", group="weights", variable="omega"),
        Row(name="R2 of log weights", group="weights", variable="r2"),
        Row(name="R2 on other documents", group="weights", variable="r2_document"),
        Row(name="MAE of log weights (nat)", group="weights", variable="mae"),
    ),
}
"""Rows of each assumption. Names are in letters that every terminal and LaTeX have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One table of a summary."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    """Each begins with its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a summary says."""

    facts: list[tuple[str, str]]
    blocks: list[Block]
    notes: list[str]


def contents(run: xr.DataTree, version: str) -> Contents:
    """Gather what a summary of a run says; what the run lacks is left out.

    Args:
        run: captured, fitted or confronted, or fits alone.
        version: of the geostat that makes the summary.
    """
    blocks = []
    for part in parts(run) if "capture" in run.children else [run]:
        blocks += _fits(part)
    if "verdicts" in run.children:
        blocks.append(_claims(run["verdicts"].to_dataset()))
    return Contents(facts=_facts(run, version), blocks=blocks, notes=_notes(run, blocks))


def _facts(run: xr.DataTree, version: str) -> list[tuple[str, str]]:
    model = run.attrs.get("model")
    known = model if isinstance(model, Mapping) else {}
    facts = [("Model", str(known.get("id", model or "n/a")))]
    if "capture" in run.children:
        sizes = run["capture"].to_dataset().sizes
        facts += [
            ("Documents", f"{sizes['document']:,}"),
            ("Tokens a document", f"{sizes['position']:,}"),
            ("Tokens in all", f"{sizes['document'] * sizes['position']:,}"),
            ("Layers", f"{sizes['layer']:,}"),
            ("Heads a layer", f"{sizes['head']:,}"),
            ("Value heads a layer", f"{sizes['kv_head']:,}"),
            ("Heads in all", f"{sizes['layer'] * sizes['head']:,}"),
            ("Queries", str(run.attrs.get("queries", "last"))),
        ]
    facts.append(("Captured by geostat", str(run.attrs.get("geostat_version", "n/a"))))
    return [*facts, ("Summary by geostat", version)]


def _fits(part: xr.DataTree) -> list[Block]:
    """A table an assumption; heads pooled where the part has it for all its heads."""
    pooled = part["pooled"].to_dataset() if "pooled" in part.children else None
    if pooled is not None and PART in pooled.dims:
        pooled = None  # fits alone do not say which layers are of which T
    seen = part.attrs.get(PART)
    where = f"; {seen['layers']} layers that see {seen['tokens']:,} tokens" if seen else ""
    blocks = []
    for title, rows in ROWS.items():
        there = [_row(row, part, pooled) for row in rows if row.group in part.children]
        if there:
            header = HEADS if pooled is None else (*NUMBERS, *HEADS)
            blocks.append(Block(title=title + where, header=header, rows=there))
    return blocks


def _row(row: Row, part: xr.DataTree, pooled: xr.Dataset | None) -> tuple[str, ...]:
    data = part[row.group].to_dataset()
    data = data.sel(gram=row.gram) if row.gram else data
    if row.only is not None:
        names = [row.variable, f"{row.variable}_se"]
        data = data[names].where(data["omega"].notnull() == row.only)
    cells = _of_heads(data, row.variable)
    if pooled is not None:
        cells = [*map(_digits, _of_all(pooled, row)), *cells]
    return (row.name, *cells)


def _of_all(pooled: xr.Dataset, row: Row) -> list[float]:
    """The value of all heads pooled, its standard error and interval; NaN for what is not there."""
    if row.pooled.startswith("overall_"):
        name, at = row.pooled, pooled.sel(gram=row.gram)
    elif row.pooled in pooled["parameter"].values:
        name, at = "whole", pooled.sel(parameter=row.pooled)
    else:
        return [np.nan] * 4
    names = (name, f"{name}_se", f"{name}_lower", f"{name}_upper")
    return [float(at[one]) if one in at else np.nan for one in names]


def _of_heads(data: xr.Dataset, name: str) -> list[str]:
    """Median over heads, the median of their standard errors, the middle half, how many."""
    values = _known(data, name)
    if not values.size:
        return ["", "", "", "", "0"]
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    errors = _known(data, f"{name}_se")
    error = float(np.median(errors)) if errors.size else np.nan
    return [*map(_digits, (middle, error, low, high)), f"{values.size:,}"]


def _known(data: xr.Dataset, name: str) -> np.ndarray:
    values = np.asarray(data[name].values if name in data else [], dtype=np.float64).ravel()
    return values[np.isfinite(values)]


def _digits(value: float) -> str:
    """Four digits; nothing for what is unknown.

    >>> _digits(0.216836), _digits(1432.2), _digits(float("nan"))
    ('0.2168', '1432', '')
    """
    if not np.isfinite(value):
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


CLAIMS: Final = ("of", "tolerance", "hold", "fail", "undet.", "no est.", "true of")


def _claims(verdicts: xr.Dataset) -> Block:
    rows = []
    for claim in counted_claims(verdicts):
        share = claim["true_share"]
        counts = (claim[name] for name in ("holds", "fails", "undetermined", "no_estimate"))
        of = {"kv_head": "value heads", "head": "heads"}[claim["of"]]
        true = "" if share is None else f"{share:.0%}"
        rows.append((claim["key"], of, f"{claim['tolerance']:g}", *map(str, counts), true))
    return Block(title="Claims, head by head", header=CLAIMS, rows=rows)


def _notes(run: xr.DataTree, blocks: Sequence[Block]) -> list[str]:
    headers = {name for block in blocks for name in block.header}
    notes = []
    documents = run["capture"].sizes["document"] if "capture" in run.children else None
    over = "documents" if documents is None else f"{documents:,} documents"
    if NUMBERS[0] in headers:
        notes.append(
            "pooled: all heads averaged first, then fitted; std err and 95% interval by a jackknife"
            f" over {over}, Student's t."
        )
    if "median" in headers:
        notes.append(
            f"median: over heads, with the middle half; its std err is the median of the heads'"
            f" own, each a jackknife over {over}. heads: those with an estimate, value heads for"
            " norms and similarity."
        )
    if "hold" in headers:
        notes.append(
            "A claim holds of a head whose 95% interval lies within the tolerance, and fails of"
            " one whose interval lies outside. true of: estimated share of heads."
        )
    if documents == 1:
        notes.append("One document gives no standard errors, intervals or verdicts.")
    if not blocks:
        notes.append("The run is captured only. Fit it: fits = geostat.fit(run).")
    if left := left_in_words(run):
        notes.insert(0, left)
    return notes


def left_in_words(run: xr.DataTree) -> str:
    """Say of which part of a run one is; nothing of a whole one.

    >>> left_in_words(xr.DataTree())
    ''
    """
    left: Mapping[str, Sequence[Any]] = run.attrs.get(SELECTION, {})
    words = "; ".join(
        f"{dim} {', '.join(map(str, labels[:12]))}{' ...' if len(labels) > 12 else ''}"
        for dim, labels in left.items()
    )
    return f"A part of a run ({words}): nothing here speaks of the whole." if words else ""
