"""What stands under the picture of what is measured, separability, coverage and the maps of heads.

Imports nothing that draws.
"""

from __future__ import annotations

import numpy as np

from reports.figures.captions.caption import Caption, Numbers
from reports.run import Run, at_size, own_cosines
from reports.statistics import flat

STATISTICS = ("precision", "recall")
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
    say = Numbers()
    p, r = (
        say.figures(f"{name} at small N", at_size(summary[f"{name}_mean"], size))
        for name in STATISTICS
    )
    finding = f"At N = {say.whole('small N', size)}: Precision {p}, Recall {r}"
    for null in summary["null"].values if "precision_null" in summary else ():
        two = [
            say.figures(
                f"{name} at small N, {null}", at_size(summary[f"{name}_null"].sel(null=null), size)
            )
            for name in STATISTICS
        ]
        finding += f"; {NULL_WORDS.get(str(null), str(null))}: {two[0]} and {two[1]}"
    floor = say.figures("floor N/T", at_size(summary["floor"], size))
    finding += f"; floor of Precision: {floor}.{_below_null(run, say)}"
    inside = "".join(f" {_means_inside(run, say, *pair)}" for pair in run.drawn_bounds)
    return Caption(text, finding + inside, say.all)


def _below_null(run: Run, say: Numbers) -> str:
    """At which sizes the measured means lie below a null baseline by more than their 95%
    document interval; empty where nowhere.
    """
    summary, n = run.summary, run.summary["n"].values
    text = ""
    for statistic in STATISTICS:
        for null in summary["null"].values if f"{statistic}_null" in summary else ():
            below = n[summary[f"{statistic}_below_null"].sel(null=null).values]
            if not below.size:
                continue
            name = f"N of {statistic} below {null}"
            unbroken = int(((n >= below[0]) & (n <= below[-1])).sum()) == below.size
            if unbroken and below.size > 1:
                where = " to ".join(say.whole(name, at) for at in below[[0, -1]])
            else:
                where = ", ".join(say.whole(name, at) for at in below[:4])
                where += " and more" if below.size > 4 else ""
            text += (
                f" {statistic.capitalize()} is below that of {NULL_WORDS.get(str(null), str(null))}"
                f" at N = {where}."
            )
    return text


def _means_inside(run: Run, say: Numbers, edition: str, gram: str) -> str:
    """How often the mean curves lie within the mean bounds of one edition and Gram."""
    at = run.summary.sel(edition=edition, gram=gram)
    curves = []
    for name in STATISTICS:
        inside, counted = (
            say.whole(f"{name}_means_{part}, {edition}, {gram}", int(at[f"{name}_means_{part}"]))
            for part in ("inside", "counted")
        )
        curves.append(f"mean {name.capitalize()} at {inside} of {counted}")
    return f"The {edition} bounds ({gram} Gram) contain {' and '.join(curves)} sizes N."


def _inside(run: Run, say: Numbers, edition: str, gram: str) -> str:
    """How many values lie within one edition's bounds at one Gram, and how many would if the
    assumptions were true as fitted.
    """
    at, said = run.summary.sel(edition=edition, gram=gram), []
    for name in STATISTICS:
        where = f"{name}_inside, {edition}, {gram}"
        text = f"{name.capitalize()} {say.percent(where, float(at[f'{name}_inside']))}"
        drawn = float(at.get(f"{name}_drawn_inside", np.nan))
        if np.isfinite(drawn):
            text += f" ({say.percent(f'{where}, expected', drawn)})"
        said.append(text)
    return f"{edition} bounds, {gram} Gram: {', '.join(said)}"


def coverage(run: Run) -> Caption:
    """Caption of the coverage map."""
    text = (
        f"Share of {run.counted('head')} whose measured curve (mean over {run.counted('document')})"
        " lies within its own bounds, at each N between 1 and T. Rows: edition of the theory"
        " (printed: the paper’s formulas to the letter; sharp: the best that its random model"
        " allows) and the Gram matrix, that is the table of cosines put into it: the fitted"
        " exponential, the fitted form with an offset, or the head’s own. Bounds on an expectation"
        f" may miss a single head.{own_cosines(run)} Look for: rows near 100%."
    )
    say = Numbers()
    fitted = [pair for pair in run.bounds if pair[1] != "measured"] or run.bounds
    told = [_inside(run, say, *pair) for pair in fitted]
    expected = " (in brackets, if the assumptions were true as fitted)"
    finding = (
        f"Inside, of all cells (head, N){expected * any('(' in one for one in told)}:"
        f" {'; '.join(told)}."
    )
    for edition, gram in fitted:
        share = run.envelope["recall_inside_by_size"].sel(edition=edition, gram=gram)
        if edition == "printed" or not np.isfinite(share.values).any():
            continue
        lowest, where = float(share.min()), f"{edition}, {gram}"
        size = int(share["n_envelope"].values[int(np.nanargmin(share.values))])
        if lowest < 1:
            finding += (
                f" With {edition} bounds and the {gram} Gram Recall is missed most often at N ="
                f" {say.whole(f'N of most misses, {where}', size)}, in"
                f" {say.percent(f'heads missed there, {where}', 1 - lowest, 0)} of heads."
            )
    return Caption(text, finding, say.all)


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
    say = Numbers()
    ends = []
    for pick in (np.nanargmin, np.nanargmax):
        where = np.unravel_index(int(pick(precision)), precision.shape)
        name = run.name_of(int(where[0]), int(where[1]))
        ends.append(f"{say.figures(f'precision of {name}', float(precision[where]))} ({name})")
    finding = f"Precision at N = {say.whole('N', size)} runs from {ends[0]} to {ends[1]}."
    edition, gram = run.drawn_bounds[-1]
    inside = flat(run.envelope["recall_inside_by_head"].sel(edition=edition, gram=gram))
    if inside.size:
        finding += (
            f" {say.whole('heads inside at every N', int((inside >= 1).sum()))} of"
            f" {say.whole('heads', inside.size)} heads have their mean Recall within the"
            f" {edition} bounds ({gram} Gram) at every N, errors not counted."
        )
    return Caption(text, finding, say.all)
