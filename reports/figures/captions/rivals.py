"""What stands under the figures of rival forms, of costs and of the ladder of predictions. Imports
nothing that draws.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from reports.figures.captions.caption import Caption, Numbers
from reports.figures.captions.predictive import PREDICTED_FROM
from reports.run import Run
from reports.text.forms import SIMILARITY, WEIGHTS

FORMS: Final = {"gram": SIMILARITY, "rival": WEIGHTS}
"""What forms of similarity and of weights are called, by the dimension that they lie along."""
SWAPS: Final = {
    "all but norms": "norms",
    "all but similarity": "similarity",
    "all but weights": "weights",
    "none": "all three",
}
"""What is fitted, not measured, in each swap."""
LADDER: Final = {
    "exponential": "exponential fit",
    "offset": "fit with an offset",
    "all but weights": "weights fitted",
    "measured": "all measured",
    "heads": "mean of other heads",
}
"""Rungs: what curves are predicted from."""


def best_counts(data: xr.Dataset, dim: str) -> xr.Dataset:
    """In how many heads each form along `dim` is the best by each rule that the run tells of."""
    counts = data[
        [name for name in ("lowest_loss", "clearly_lowest", "lowest_bic") if name in data]
    ]
    chosen = {"gram": "chosen", "rival": "preferred"}[dim]
    if chosen in data and bool((data[chosen] >= 0).any()):
        codes = data[chosen].values[data[chosen].values >= 0].astype(int)
        counts = counts.assign(simplest=(dim, np.bincount(codes, minlength=data.sizes[dim])))
    return counts


PRINTED = {"gram": "exponential", "rival": "shared"}
"""The form of each assumption in print."""


def rivals(run: Run) -> Caption:
    """Caption of the rival forms."""
    text = (
        "In how many heads each form is the best, by up to four rules. Pale bar: lowest squared"
        f" error on a document left out, of {run.counted('document')}. Dark bar: clearly so, that"
        " is by a one-sided paired t-test over documents at 95% against each other form. Diamond:"
        " the form of fewest parameters within one standard error of the lowest. Circle: lowest"
        " BIC, which takes neighbouring tokens as independent and so favours many parameters. Forms"
        " of the mean cosine by distance (left) and of the log weight by position (right); norms"
        " have no rival forms. Look for: long bars at the printed form."
    )
    say = Numbers()
    parts = [
        _best(say, run.similarity, "gram", (run.kv_heads, "value head"), "similarity"),
        _best(say, run.weights, "rival", (run.heads, "head"), "weights"),
    ]
    return Caption(text, " ".join(part for part in parts if part), say.all)


def _best(say: Numbers, data: xr.Dataset, dim: str, of: tuple[int, str], what: str) -> str:
    """Which form is the best in most heads, by loss or by BIC, and in how many the printed one."""
    counts = best_counts(data, dim)
    rule = next((name for name in ("lowest_loss", "lowest_bic") if name in counts), None)
    if rule is None or not int(counts[rule].sum()):
        return ""
    rows = dict(zip(map(str, data[dim].values), counts[rule].values.tolist(), strict=True))
    best = max(rows, key=lambda form: rows[form])
    words = {"lowest_loss": "loss", "lowest_bic": "BIC"}[rule]
    every = say.counted(f"{what}, heads", *of)
    text = (
        f"Of {what}, the lowest {words} is that of “{FORMS[dim].get(best, best)}” in"
        f" {say.whole(f'{what}, {best}', rows[best])} of {every}"
    )
    if "clearly_lowest" in counts:
        clearly = int(counts["clearly_lowest"].sel({dim: best}))
        text += f" (clearly in {say.whole(f'{what}, {best} clearly', clearly)})"
    printed = PRINTED[dim]
    if best != printed and printed in rows:
        text += f", of the printed form in {say.whole(f'{what}, {printed}', rows[printed])}"
    return f"{text}."


def costs(run: Run) -> Caption:
    """Caption of what each assumption costs the bounds."""
    data = run.needed("ingredients")
    interval = "; bars: 95% over documents, fits held" if run.documents > 1 else ""
    text = (
        "Share of values (head, N) inside sharp bounds when weights, norms and similarity are the"
        f" head’s own, less that share when one of them, or all, are fitted; {run.counted('head')},"
        f" {run.counted('document')},"
        f" N = {', '.join(map(str, data['n_envelope'].values))}{interval}."
        " Measured norms and cosines are means over documents, by position and by distance: not the"
        " measured Gram of the coverage, which tests nothing."
        " Fitted weights are one profile for all documents: what a document has of its own counts"
        " as their cost. Costs do not add up: what one fit moves, another may move back. Below 0,"
        " more values lie inside with the fit. Look for: marks right of 0."
    )
    say, parts = Numbers(), []
    for score, word in (("recall", "Recall"), ("precision", "Precision")):
        inside = float(data[f"{score}_inside"].sel(swap="all"))
        whole = say.percent(f"{score}, all measured", inside)
        told = [
            f"{words} {_cost(say, data.sel(swap=swap), score, words)}"
            for swap, words in SWAPS.items()
            if swap in data["swap"].values and swap != "none"
        ]
        parts.append(
            f"Of {word}, {whole} lie inside where all is measured. Points lost to fitted"
            f" {', '.join(told)}."
        )
    return Caption(text, f"{' '.join(parts)} (Points: percentage points.)", say.all)


def _cost(say: Numbers, data: xr.Dataset, score: str, of: str) -> str:
    """A cost with its interval, where it has one."""
    cost, low, high = (
        (f"{score}, cost of {of}{part.replace('_', ', ')}", float(data[f"{score}_cost{part}"]))
        for part in ("", "_lower", "_upper")
    )
    limits = f" ({say.percent(*low)} to {say.percent(*high)})" if np.isfinite(low[1]) else ""
    return f"{say.percent(*cost)}{limits}"


def ladder(run: Run) -> Caption:
    """Caption of the ladder of predictions."""
    data = run.needed("predictive")
    interval = " Bars: 95% over documents." if run.documents > 1 else ""
    text = (
        "Mean distance of predicted from measured Precision and Recall over all cells (head, N) of"
        f" {run.counted('head')}, {run.counted('document')}, by what the curves are predicted from:"
        " fits alone, then ever more of what was measured, and for comparison the mean of the other"
        f" heads, which knows nothing of the head.{interval} Look for: rungs below the comparison."
    )
    mean = {
        source: float(data["recall_pooled_mae"].sel(source=source))
        for source in PREDICTED_FROM
        if source in data["source"].values
    }
    say = Numbers()
    told = [
        f"{say.figures(f'Recall, {source}', value)} {PREDICTED_FROM[source]}"
        for source, value in mean.items()
        if np.isfinite(value)
    ]
    finding = f"Recall is missed by {', '.join(told)}." if told else ""
    if finding and np.isfinite(other := mean.get("heads", float("nan"))):
        nearer = sum(value < other for source, value in mean.items() if source != "heads")
        finding += f" {say.counted('rungs that are nearer', nearer, 'rung')} of"
        finding += f" {say.whole('rungs', len(mean) - 1)} {'is' if nearer == 1 else 'are'}"
        finding += " nearer than the mean of the other heads."
    return Caption(text, finding, say.all)
