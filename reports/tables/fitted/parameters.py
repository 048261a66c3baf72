"""Tables of fitted parameters: each assumption over all heads, and compressed tokens.

A parameter's typical error is the median over heads of its standard error, a jackknife over
documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import xarray as xr

from reports.run import Run
from reports.statistics import flat, median, quartiles
from reports.tables.cells import (
    Cell,
    between,
    header,
    mixed,
    number,
    share,
    symbol,
    text,
    whole,
)
from reports.tables.table import Table
from reports.text.number import count, percent

PARAMETER_HEADERS = header(
    "parameter", "meaning (unit); source", "median [quartiles]", "typical ±", "heads"
)
SHORT = {
    "sink_smallest_share": r"\pi_{\mathrm{sink}}",
    "compressed_share": r"\pi_{\mathrm{short}}",
    "rho0_spread_floor": r"\mathrm{sd}_{\min}",
}
"""Symbols that fit a column on paper, in place of formulas."""
LENGTHS = ("C", "lam", "sink_smallest_share", "cv_token", "cv_profile", "cv_position")
VARIATION = ("trend", "trend_se_hac", "share_document", "share_position", "share_residual")
"""How norms vary: along positions, and between documents, positions and the rest."""
NORMS = (*LENGTHS, *VARIATION, "compressed_share")
SIMILARITY_FORMS = {"exponential": "exponential form", "offset": "form with an offset"}
"""Forms of similarity whose parameters are tabulated, as they are called; all are compared in
the table of rivals.
"""
SIMILARITY = (
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
PHASES = ("p_sink", "p_base", "eta", "omega", "t1", "t2")
MASSES = ("total", "total_model", "mass_plateau", "mass_oscillation", "mass_tail")
OSCILLATIONS = {
    "shared": "with the growth’s own η, as printed,",
    "separate": "with a size of its own",
}
"""Forms of weights that oscillate, as they are called."""
WEIGHTS = (*PHASES, *MASSES, "rmse", "r2", "residual_autocorrelation", "long_run_noise")


def _rows(data: xr.Dataset, names: Iterable[str], form: str = "") -> list[list[Cell]]:
    """One row a parameter that is there, over all heads; `form` says which form of similarity it
    belongs to.
    """
    rows = []
    for name in (name for name in names if name in data):
        values, error = data[name], f"{name}_se"
        attrs = values.attrs
        typical = (
            number(median(data[error]), digits=2) if error in data else replace(text("–"), sort="")
        )
        letter, unit = (
            SHORT.get(name) or str(attrs.get("symbol") or ""),
            str(attrs.get("units", "1")),
        )
        words = str(attrs.get("long_name", name))
        if form:
            for ending in ("; 0 for forms without", ", density uniform within histogram bins"):
                words = words.removesuffix(ending)
            words = f"{form}: {words}"
        meaning = mixed(f"{words}{'' if unit == '1' else f' ({unit})'}{_source(attrs)}")
        heads = whole(float(flat(values).size))
        rows.append(
            [
                symbol(letter) if letter else text(name),
                meaning,
                between(*quartiles(values)),
                typical,
                heads,
            ]
        )
    return rows


def _source(attrs: dict[str, object]) -> str:
    """The equation of a variable, to stand behind its meaning; the paper's own number is
    understood.
    """
    result = (
        str(attrs.get("equation", "")).removeprefix("arXiv 2602.01893").removeprefix(", ").strip()
    )
    return f"; {result}" if result else ""


def _flag(
    data: xr.Dataset, name: str, meaning: str | None = None, *, known: xr.DataArray | None = None
) -> list[list[Cell]]:
    """A row with the share of heads for which a flag is set; none where the run does not hold
    it.
    """
    if name not in data:
        return []
    flags = np.asarray(data[name].values, dtype=bool)
    among = (
        np.ones(flags.shape, dtype=bool)
        if known is None
        else np.isfinite(np.asarray(known.values, dtype=np.float64))
    )
    total = int(among.sum())
    part = float((flags & among).sum() / total) if total else float("nan")
    words = meaning or str(data[name].attrs.get("long_name", name))
    return [
        [
            text("share"),
            mixed(words + _source(data[name].attrs)),
            share(part, f"{percent(part)} of heads"),
            text("–"),
            whole(total),
        ]
    ]


def _parameters(run: Run, name: str, title: str, what: str, rows: list[list[Cell]]) -> Table:
    error = (
        "typical ± is the median over heads of the standard error of a head's estimate, a"
        f" jackknife over {run.counted('document')}"
        if run.documents > 1
        else "one document gives no standard errors (n/a)"
    )
    caption = (
        f"{what} Median over heads with quartiles in brackets; {error}; heads: those with an"
        " estimate. Sources: arXiv 2602.01893."
    )
    return Table(
        name,
        title,
        caption,
        PARAMETER_HEADERS,
        rows,
        "lprrr",
        keys=2,
    )


def norms(run: Run) -> Table:
    """Assumption 1."""
    what = "Value lengths by value head; “value norm” is the model's own unit of its value vectors."
    return _parameters(
        run, "norms", "Lengths of value vectors (Assumption 1)", what, _rows(run.norms, NORMS)
    )


def token_texts(run: Run) -> dict[int, str]:
    """What tokens stand for, by id, with line breaks and the like as escapes; those that the run
    tells.
    """
    told = run.attrs.get("token_texts") or {}
    pairs = zip(told.get("id", ()), told.get("text", ()), strict=False)
    return {int(one): repr(str(words))[1:-1] for one, words in pairs}


MOST_TOKENS = 12
"""Compressed tokens that are listed."""


def compressed_tables(run: Run) -> list[Table]:
    """Tokens and positions with compressed value vectors besides the sink; none where the run
    did not look for them.
    """
    if "compressed_token_id" not in run.norms:
        return []
    listed = run.norms.isel(compressed_token=slice(MOST_TOKENS)).assign(
        secondary_sink_occurrences=run.norms["documents"].sum()
    )
    rows, texts = [], token_texts(run)
    for word, kind, names in (
        ("token", "compressed_token", ("id", "count", "occurrences")),
        ("position", "secondary_sink", ("position", "documents", "occurrences")),
    ):
        for index in range(listed.sizes.get(kind, 0)):
            at = listed.isel({kind: index})
            part, *counts = (float(at[f"{kind}_{name}"]) for name in ("share", *names, "heads"))
            *counted, heads = map(whole, counts)
            known = texts.get(int(at[f"{kind}_id"])) if kind == "compressed_token" else None
            what = word if known is None else f"{word} “{known}”"
            rows.append([text(what), *counted, share(part, percent(part)), heads])
    caption = (
        "A token is compressed where its norm is at most half the median content norm of its"
        f" document. Counts are over documents and {run.counted('value head')}; value heads: of a"
        " token those that compress at least half of its occurrences, of a position those whose"
        " secondary sink it is (compressed in most documents, and in more than luck explains:"
        f" {count(listed.sizes.get('secondary_sink', 0), 'such position')}). The tokens most often"
        " compressed; the model’s tokenizer says what an id stands for."
    )
    headers = header(
        "what", "token id or position", "compressed", "of occurrences", "share", "value heads"
    )
    title = "Compressed tokens besides the sink"
    return [Table("compressed", title, caption, headers, rows, "lrrrrr")]


def similarity(run: Run) -> Table:
    """Assumption 2 and its rival with an offset."""
    rows: list[list[Cell]] = []
    for form in (form for form in run.similarity["gram"].values if form in SIMILARITY_FORMS):
        fit, form_words = run.similarity.sel(gram=form), SIMILARITY_FORMS[str(form)]
        rows += _rows(
            fit,
            ("beta", *(["offset"] * (form == "offset")), "mae_by_lag", "mae_by_pair", "rmse", "r2"),
            form_words,
        )
        rows += _flag(
            fit,
            "feasible",
            f"{form_words}: vectors with these cosines exist",
            known=fit["mae_by_lag"],
        )
    rows += _rows(run.similarity, SIMILARITY)
    better = (
        "the offset predicts left-out documents better by more than one standard error (one"
        " document: by BIC)"
    )
    rows += _flag(run.similarity, "offset_preferred", better)
    what = "Cosines of value vectors by lag and with the sink, by value head."
    return _parameters(run, "similarity", "Similarity of value vectors (Assumption 2)", what, rows)


def weights(run: Run) -> Table:
    """Assumption 3."""
    rows = _rows(run.weights, WEIGHTS)
    if "form_oscillation_identified" in run.weights:
        for form in (form for form in run.weights["form"].values if form in OSCILLATIONS):
            rows += _flag(
                run.weights.sel(form=form),
                "form_oscillation_identified",
                f"an oscillation {OSCILLATIONS[str(form)]} stands above the noise",
            )
    rows += _flag(run.weights, "growth_identified")
    what = (
        "Attention weights of the last token, by head; ω exists only where an oscillation is"
        " identified (T₁ < T₂), where η is its amplitude; elsewhere η is the growth’s, per token."
        " T₁ and T₂ are positions."
    )
    return _parameters(run, "weights", "Attention weights (Assumption 3)", what, rows)
