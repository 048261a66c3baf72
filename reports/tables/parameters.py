"""Tables of fitted parameters: each assumption over all heads, compressed tokens, rival forms, and
heads pooled by depth and layer.

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
    missing,
    mixed,
    number,
    share,
    stacked,
    symbol,
    text,
    whole,
)
from reports.tables.table import Table
from reports.text.number import count, percent

PARAMETER_HEADERS = header(
    "parameter", "meaning (unit); source", "median [quartiles]", "typical ±", "heads"
)
PARAMETER_ROWS = 12
"""Rows of parameters to a tabular on paper, where they have up to four lines."""
SHORT = {
    "sink_smallest_share": r"\pi_{\mathrm{sink}}",
    "compressed_share": r"\pi_{\mathrm{short}}",
    "rho0_spread_floor": r"\mathrm{sd}_{\min}",
}
"""Symbols that fit a column on paper, in place of formulas."""
NORMS = (
    "C",
    "lam",
    "sink_smallest_share",
    "cv_token",
    "cv_profile",
    "cv_position",
    "trend",
    "trend_se_hac",
    "share_document",
    "share_position",
    "share_residual",
    "compressed_share",
)
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
WEIGHTS = (
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
    return Table(
        name=name,
        title=title,
        headers=PARAMETER_HEADERS,
        rows=rows,
        align="lprrr",
        widths={1: "4.4cm", 2: "2.7cm"},
        paper_rows=PARAMETER_ROWS,
        caption=(
            f"{what} Median over heads with quartiles in brackets; {error}; heads: those with an"
            " estimate. Sources: arXiv 2602.01893."
        ),
    )


def norms(run: Run) -> Table:
    """Assumption 1."""
    what = "Value lengths by value head; “value norm” is the model's own unit of its value vectors."
    return _parameters(
        run, "norms", "Lengths of value vectors (Assumption 1)", what, _rows(run.norms, NORMS)
    )


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
    rows = []
    for word, kind, names in (
        ("token", "compressed_token", ("id", "count", "occurrences")),
        ("position", "secondary_sink", ("position", "documents", "occurrences")),
    ):
        for index in range(listed.sizes.get(kind, 0)):
            at = listed.isel({kind: index})
            part, *counts = (float(at[f"{kind}_{name}"]) for name in ("share", *names, "heads"))
            *counted, heads = map(whole, counts)
            rows.append([text(word), *counted, share(part, percent(part)), heads])
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
    return [
        Table(
            name="compressed",
            title=title,
            headers=headers,
            rows=rows,
            align="lrrrrr",
            caption=caption,
        )
    ]


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
    rows = (
        _rows(run.weights, WEIGHTS)
        + _flag(run.weights, "oscillation_identified")
        + _flag(run.weights, "growth_identified")
    )
    what = (
        "Attention weights of the last token, by head; ω exists only where an oscillation is"
        " identified (T₁ < T₂), T₁ and T₂ are positions, η is per token."
    )
    return _parameters(run, "weights", "Attention weights (Assumption 3)", what, rows)


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
    rows = []
    for data, best, dim, misfit, of, words in (
        (run.similarity, "chosen", "gram", "mae_by_lag", "cosine at lag $k$", FORMS),
        (
            run.weights,
            "preferred",
            "rival",
            "rival_rmse",
            r"$\log\alpha$",
            FORMS | {"constant": "no change"},
        ),
    ):
        if best not in data:
            continue
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
    if not rows:
        return []
    headers = [
        mixed("of"),
        mixed("form"),
        stacked("best", "in"),
        mixed("share"),
        stacked("lowest", "BIC in"),
        mixed("misfit, median [quartiles]"),
    ]
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
    widths = {1: "4cm", 5: "2.7cm"}
    return [
        Table(
            name="rivals",
            title="Rival forms",
            headers=headers,
            rows=rows,
            align="lprrrr",
            widths=widths,
            caption=caption,
        )
    ]


BY_LAYER_ON_PAPER = (0, 1, 2, 3, 4), (0, 5, 6, 7), (0, 8, 9)
"""Which columns of the table by layer stand side by side on paper."""


def pooled_tables(run: Run) -> list[Table]:
    """Both tables; none where the run holds no pooled fits."""
    return [] if run.pooled is None else [_depth(run, run.pooled), _by_layer(run, run.pooled)]


def _errors(run: Run) -> str:
    return (
        f"± over {run.counted('document')} (jackknife)"
        if run.documents > 1
        else "One document gives no standard errors"
    )


def _depth(run: Run, data: xr.Dataset) -> Table:
    """One row a parameter: its value in the whole model, and its change from the first layer to
    the last.
    """
    rows: list[list[Cell]] = []
    for name in data["parameter"].values:
        at = data.sel(parameter=name)
        unit, logarithm = str(at["unit"].item()), bool(at["logarithm"])
        words = f"{at['about'].item()}{'' if unit == '1' else f' ({unit})'}; {at['source'].item()}"
        rows.append(
            [
                symbol(str(at["latex"].item())),
                mixed(words),
                _pair(at, "whole"),
                text("log" if logarithm else "linear"),
                _pair(at, "change"),
                number(float(at["change_se_hac"]), digits=2),
                whole(float(at["layers_used"])),
            ]
        )
    headers = [
        mixed(""),
        mixed("of heads pooled (unit); source"),
        stacked("whole", "model"),
        mixed("line"),
    ]
    headers += [stacked("first to", "last layer"), stacked("±", "of layers"), mixed("layers")]
    caption = (
        "Where a curve is fitted heads are pooled first. First to last layer: change along a"
        " least-squares line through the layers' values, or (log) through their logarithms, where"
        f" 0.69 is a factor of two. {_errors(run)}; ± of layers: Newey–West, to which it is the"
        " scatter of layers about the line that is noise. Layers: those with an estimate inside"
        " its bounds, whichever document is left out."
    )
    return Table(
        name="depth",
        title="Heads pooled, and how they change with depth",
        headers=headers,
        rows=rows,
        align="lprlrrr",
        widths={1: "4.2cm"},
        on_paper=((0, 1, 2, 6), (0, 3, 4, 5)),
        caption=caption,
    )


def _by_layer(run: Run, data: xr.Dataset) -> Table:
    """One row a layer, one column a parameter."""
    rows = [
        [
            whole(float(layer)),
            *(
                _pair(data.sel(layer=layer, parameter=name), "by_layer")
                for name in data["parameter"].values
            ),
        ]
        for layer in data["layer"].values
    ]
    symbols = [
        symbol(str(data["latex"].sel(parameter=name).item())) for name in data["parameter"].values
    ]
    return Table(
        name="pooled",
        title="Heads pooled by layer",
        headers=[mixed("layer"), *symbols],
        rows=rows,
        align="r" * (len(symbols) + 1),
        caption=(
            f"What the table above says of the whole model, layer by layer. {_errors(run)}; n/a: at"
            " a bound, or not there."
        ),
        on_paper=BY_LAYER_ON_PAPER,
    )


def _pair(at: xr.Dataset, name: str) -> Cell:
    return number(float(at[name]), float(at[f"{name}_se"]))
