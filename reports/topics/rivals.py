"""Rival forms of similarity and of weights: the number of heads in which each is preferred.

Source: arXiv 2602.01893, Assumptions 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports.figures import style
from reports.figures.plan import Caption, Numbers, planned
from reports.run import Run
from reports.statistics import quartiles
from reports.tables.table import Cell, Table, between, header, missing, mixed, whole
from reports.topics.assumptions import null_misfit

CHOSEN = {"gram": "chosen", "rival": "preferred"}
"""Variable with the code of the simplest form within one standard error of the lowest loss."""
PRINTED = {"gram": "exponential", "rival": "shared"}
"""Printed form of each assumption."""


MARKS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "simplest": ("simplest within 1 SE", {"marker": "D", "color": style.BLACK, "markersize": 4.5}),
    "lowest_bic": (
        "lowest BIC",
        {
            "marker": "o",
            "markerfacecolor": "white",
            "markeredgecolor": style.VERMILLION,
            "markersize": 5.5,
        },
    ),
}
"""Label and marker of each rule drawn as a marker."""


def best_counts(data: xr.Dataset, dim: str) -> xr.Dataset:
    """Return the number of heads in which each form along `dim` is best, by each available rule."""
    counts = data[
        [name for name in ("lowest_loss", "clearly_lowest", "lowest_bic") if name in data]
    ]
    chosen = CHOSEN[dim]
    if chosen in data and bool((data[chosen] >= 0).any()):
        codes = data[chosen].values[data[chosen].values >= 0].astype(int)
        counts = counts.assign(simplest=(dim, np.bincount(codes, minlength=data.sizes[dim])))
    return counts


def form_text(data: xr.Dataset, dim: str, form: str, which: str = "label") -> str:
    """Return the label or the formula of a form; the form where the run has none."""
    known = which in data and form in data[dim].values
    return str(data[which].sel({dim: form}).item()) if known else form


def figure_rivals(axes: Sequence[Axes], run: Run) -> Sequence[Axes]:
    """Draw the number of heads in which each form of similarity and of weights is best, by rule, on
    two axes.
    """
    panels = (
        (run.needed("similarity"), "gram", "Similarity", "KV heads"),
        (run.needed("weights"), "rival", "Weights", "heads"),
    )
    for axis, (data, dim, title, heads) in zip(axes, panels, strict=True):
        counts = best_counts(data, dim)
        forms = [str(form) for form in data[dim].values] if dim in data.dims else []
        rows = np.arange(len(forms))
        for name, label, colour, height in (
            ("lowest_loss", "lowest held-out loss", style.SKY, 0.7),
            ("clearly_lowest", "clearly lowest", style.BLUE, 0.36),
        ):
            if name in counts:
                axis.barh(rows, counts[name].values, height, color=colour, label=label)
        for name, (label, mark) in MARKS.items():
            if name in counts:
                axis.plot(counts[name].values, rows, linestyle="none", label=label, **mark)
        axis.set_yticks(rows, [form_text(data, dim, form) for form in forms])
        axis.invert_yaxis()
        axis.set_xlim(left=0)
        axis.margins(x=0.08)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
        axis.grid(False, axis="y")
        axis.set(title=title, xlabel=heads)
    style.legend_shared(axes)
    return axes


@planned(figure_rivals, "Which form fits best?", 3.8, group="rivals")
def caption_rivals(run: Run) -> Caption:
    """Return the caption of the rival forms."""
    description = (
        "Number of heads in which each form is best, by up to four rules. Pale bar: lowest squared"
        f" error on held-out documents (leave-one-out over {run.counted('document')}). Dark bar:"
        " clearly lowest, by a one-sided paired t-test over documents at 95% against each other"
        " form. Diamond: the form with the fewest parameters within one standard error of the"
        " lowest loss. Circle: lowest BIC, which treats neighbouring tokens as independent and"
        " therefore favours many parameters. Forms of the mean cosine by lag (left) and of the log"
        " weight by position (right); norms have no rival forms. Look for: long bars at the printed"
        " form."
    )
    say = Numbers()
    parts = [
        _best(say, run.similarity, "gram", (run.kv_heads, "KV head"), "similarity"),
        _best(say, run.weights, "rival", (run.heads, "head"), "weights"),
    ]
    return Caption(description, " ".join(part for part in parts if part), say.all)


def _best(say: Numbers, data: xr.Dataset, dim: str, heads: tuple[int, str], what: str) -> str:
    """Return a sentence: the form that is best in most heads, and the count of the printed form."""
    counts = best_counts(data, dim)
    rule = next((name for name in ("lowest_loss", "lowest_bic") if name in counts), None)
    if rule is None or not int(counts[rule].sum()):
        return ""
    heads_by_form = dict(zip(map(str, data[dim].values), counts[rule].values.tolist(), strict=True))
    best = max(heads_by_form, key=lambda form: heads_by_form[form])
    words = {"lowest_loss": "loss", "lowest_bic": "BIC"}[rule]
    all_heads = say.counted(f"{what}, heads", *heads)
    text = (
        f"For {what}, “{form_text(data, dim, best)}” has the lowest {words} in"
        f" {say.whole(f'{what}, {best}', heads_by_form[best])} of {all_heads}"
    )
    if "clearly_lowest" in counts:
        clearly = int(counts["clearly_lowest"].sel({dim: best}))
        text += f" (clearly in {say.whole(f'{what}, {best} clearly', clearly)})"
    printed = PRINTED[dim]
    if best != printed and printed in heads_by_form:
        text += f"; the printed form in {say.whole(f'{what}, {printed}', heads_by_form[printed])}"
    return f"{text}."


def tables(run: Run) -> list[Table]:
    """Return the table of rival forms; none if the run does not compare forms."""
    rows = [
        *_forms(run.similarity, "gram", "mae_by_lag", "cosine at lag $k$"),
        *_forms(run.weights, "rival", "rival_rmse", r"$\log\alpha$"),
    ]
    if not rows:
        return []
    by_rule = "lowest loss", "clearly lowest", "simplest within 1 SE", "lowest BIC"
    others = "source of parameters", "misfit, median [quartiles]"
    headers = header("quantity", "form", *by_rule, *others)
    caption = (
        "Number of heads in which each form is best, by four rules. Lowest loss: mean squared error"
        f" on held-out documents (leave-one-out over {run.counted('document')}); a richer form that"
        " contains the true one often wins by chance. Clearly lowest: every other form has a higher"
        " loss by a one-sided paired t-test over documents at 95%. Simplest within 1 SE: the form"
        " with the fewest parameters within one standard error of the lowest loss. BIC treats"
        " neighbouring lags or tokens as independent, which they are not, and therefore favours"
        " many parameters. Misfit: mean absolute error of the mean cosine by lag; root mean squared"
        " error of log α, nats."
    )
    caption += _conflict(run.weights)
    if np.isfinite(floor := null_misfit(run)):
        caption += (
            f" Null baseline: random directions with mean cosine 0 give a misfit of {floor:.2g} by"
            " lag."
        )
    return [Table("rivals", "Rival forms", caption, headers, rows, "lprrrrrr")]


def _forms(data: xr.Dataset, dim: str, misfit: str, quantity: str) -> list[list[Cell]]:
    """Return one row per form along `dim`: counts of heads by rule, and the misfit."""
    if CHOSEN[dim] not in data:
        return []
    counts = best_counts(data, dim)
    rules = ("lowest_loss", "clearly_lowest", "simplest", "lowest_bic")
    return [
        [
            mixed(quantity),
            mixed(form_text(data, dim, form, "formula")),
            *(whole(float(counts[rule][index])) if rule in counts else missing() for rule in rules),
            _reported(data, form),
            between(*quartiles(data[misfit].sel({dim: form}))),
        ]
        for index, form in enumerate(map(str, data[dim].values))
    ]


def _reported(data: xr.Dataset, form: str) -> Cell:
    """Return the number of heads whose reported parameters come from a form; n/a for similarity."""
    if "form_chosen" not in data or form not in data["form"].values:
        return missing()
    return whole(float((data["form"].values[data["form_chosen"].values] == form).sum()))


def _conflict(weights: xr.Dataset) -> str:
    """Return sentences on heads whose parameters do not come from the preferred form."""
    if "preferred_differs" not in weights:
        return ""
    differs = weights["preferred_differs"].values.astype(bool)
    preferred = weights["rival"].isel(rival=weights["preferred"].clip(min=0)).values
    identified = weights["form_oscillation_identified"].astype(bool)
    unidentified = sum(
        int((differs & (preferred == form) & ~identified.sel(form=form).values).sum())
        for form in identified["form"].values
        if form in ("shared", "separate")
    )
    return (
        " Source of parameters: the form of Assumption 3 that gives p_base, η, ω, T₁ and T₂."
        " Another rule selects it: a form with an oscillation where the oscillation is significant,"
        f" otherwise plateau and growth. In {differs.sum()} of {differs.size} heads it is not the"
        f" simplest within 1 SE; in {unidentified} of them the simplest form has an oscillation"
        " that is not significant."
    )
