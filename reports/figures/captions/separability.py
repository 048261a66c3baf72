"""What stands under the picture of what is measured, separability, coverage and the maps of heads.

Imports nothing that draws.
"""

from __future__ import annotations

import numpy as np

from reports.figures.captions.caption import Caption, figures_of
from reports.run import Run, at_size, own_cosines
from reports.statistics import flat
from reports.text.number import percent

NULL_WORDS = {"random_selection": "a random selection", "random_directions": "random directions"}


def idea(run: Run) -> Caption:
    """Caption of the picture of what is measured."""
    return Caption(
        "A made-up example in a plane. Each mark is what one token adds to the output of an"
        " attention head: its attention weight times its value vector. The N tokens with the"
        " largest weights are selected (stars); their sum is the representative s (cross)."
        " Precision: of all tokens no farther from s than the farthest selected one, the share that"
        " was selected. Recall: of the selected tokens, the share no farther from s than the"
        " nearest other one. Both are 1 if the selected tokens stand apart from all others."
    )


def separability(run: Run) -> Caption:
    """Caption of the counterpart of Figure 5."""
    summary, size = run.summary, run.small_size
    band = "with a 95% band over documents" if run.documents > 1 else "(one document: no band)"
    bounds = " and ".join(f"{edition} with the {gram} Gram" for edition, gram in run.drawn_bounds)
    nulls = (
        "random selection draws the N tokens by lot; random directions keep weights and lengths and"
        " turn every value vector at random; "
        if "precision_null" in summary
        else ""
    )
    text = (
        "Precision and Recall against the number N of selected tokens, mean over"
        f" {run.counted('head')} and {run.queries} of {run.counted('document')} {band}. Null"
        f" baselines: {nulls}the floor N/T is the Precision of a ball that holds all tokens."
        f" Bounds: {bounds} (Gram: the table of cosines put into them), evaluated at the weights"
        " of each document’s last query, then averaged, cut to 0 to 1. At N = 1 both scores are 1"
        " for any selection. Look for: a blue line above the null baselines and between its bounds."
    )
    p, r = (figures_of(at_size(summary[name], size)) for name in ("precision_mean", "recall_mean"))
    finding = f"At N = {size}: Precision {p}, Recall {r}"
    for null in summary["null"].values if "precision_null" in summary else ():
        two = [
            figures_of(at_size(summary[f"{statistic}_null"].sel(null=null), size))
            for statistic in ("precision", "recall")
        ]
        finding += f"; {NULL_WORDS.get(str(null), str(null))}: {two[0]} and {two[1]}"
    finding += (
        f"; floor of Precision: {figures_of(at_size(summary['floor'], size))}.{_below_null(run)}"
    )
    return Caption(
        text, finding + "".join(f" {_means_inside(run, *pair)}" for pair in run.drawn_bounds)
    )


def _below_null(run: Run) -> str:
    """At which sizes the measured means lie below a null baseline by more than their 95%
    document interval; empty where nowhere.
    """
    summary, n = run.summary, run.summary["n"].values
    text = ""
    for statistic in ("precision", "recall"):
        for null in summary["null"].values if f"{statistic}_null" in summary else ():
            below = n[summary[f"{statistic}_below_null"].sel(null=null).values]
            if not below.size:
                continue
            unbroken = int(((n >= below[0]) & (n <= below[-1])).sum()) == below.size
            where = ", ".join(map(str, below[:4])) + (" and more" if below.size > 4 else "")
            if unbroken and below.size > 1:
                where = f"{below[0]} to {below[-1]}"
            text += (
                f" {statistic.capitalize()} is below that of {NULL_WORDS.get(str(null), str(null))}"
                f" at N = {where}."
            )
    return text


def _means_inside(run: Run, edition: str, gram: str) -> str:
    """How often the mean curves lie within the mean bounds of one edition and Gram."""
    at = run.summary.sel(edition=edition, gram=gram)
    curves = [
        f"mean {name.capitalize()} at {int(at[f'{name}_means_inside'])} of"
        f" {int(at[f'{name}_means_counted'])}"
        for name in ("precision", "recall")
    ]
    return f"The {edition} bounds ({gram} Gram) contain {' and '.join(curves)} sizes N."


def coverage(run: Run) -> Caption:
    """Caption of the coverage map."""
    text = (
        f"Share of {run.counted('head')} whose measured curve (mean over {run.counted('document')})"
        " lies within its own bounds, at each N between 1 and T. Rows: edition of the theory"
        " (printed: the paper’s formulas to the letter; sharp: the best that its random model"
        " allows) and the Gram matrix, that is the table of cosines put into it: the fitted"
        " exponential, the fitted form with an offset, or the head’s own. Bounds on an expectation"
        f" may miss a single head.{own_cosines(run)} Look for: bright rows."
    )
    parts = []
    for edition, gram in run.drawn_bounds:
        p, r = (
            percent(float(run.summary[f"{name}_inside"].sel(edition=edition, gram=gram)))
            for name in ("precision", "recall")
        )
        parts.append(
            f"the {edition} bounds ({gram} Gram) contain Precision in {p} and Recall in {r} of all"
            " cells (head, N)"
        )
    finding = "; ".join(parts)
    finding = f"{finding[0].upper()}{finding[1:]}."
    edition, gram = run.drawn_bounds[-1]
    share = run.envelope["recall_inside_by_size"].sel(edition=edition, gram=gram)
    if np.isfinite(share.values).any() and (lowest := float(share.min())) < 1:
        where = int(share["n_envelope"].values[int(np.nanargmin(share.values))])
        finding += (
            f" The {edition} ones miss Recall most often at N = {where}, in"
            f" {percent(1 - lowest, 0)} of heads."
        )
    return Caption(text, finding)


def heads(run: Run) -> Caption:
    """Caption of the head maps."""
    size = run.small_size
    text = (
        f"Every head of the model, one cell each; mean over {run.counted('document')}. Top:"
        f" Precision and Recall at N = {size}. Bottom: misfit of the exponential similarity, one"
        " cell for each value head (several heads may share one). Look for: layers or heads that"
        " stand out; the table of all heads gives their numbers."
    )
    precision = run.display["precision_of_head"].values
    if not np.isfinite(precision).any():
        return Caption(text)
    (low, first), (high, second) = (
        (float(precision[where]), run.name_of(int(where[0]), int(where[1])))
        for where in (
            np.unravel_index(int(pick(precision)), precision.shape)
            for pick in (np.nanargmin, np.nanargmax)
        )
    )
    finding = (
        f"Precision at N = {size} runs from {figures_of(low)} ({first}) to {figures_of(high)}"
        f" ({second})."
    )
    edition, gram = run.drawn_bounds[-1]
    inside = flat(run.envelope["recall_inside_by_head"].sel(edition=edition, gram=gram))
    if inside.size:
        finding += (
            f" {int((inside >= 1).sum())} of {inside.size} heads keep their Recall within the"
            f" {edition} bounds ({gram} Gram) at every N."
        )
    return Caption(text, finding)
