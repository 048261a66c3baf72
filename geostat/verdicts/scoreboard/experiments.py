"""Claims of §4, Figure 5: what a run says of the bounds and of small N. Imports numpy and xarray,
and reports for numbers.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from geostat.datasets.tokens import most_tokens
from geostat.verdicts.scoreboard.finding import Answer, Finding
from geostat.verdicts.words import hundredths
from reports.text.number import percent, rounded


def envelopes(tree: xr.DataTree) -> Finding:
    """Answer whether mean curves lie within the printed bounds."""
    at = tree["summary"].to_dataset()
    if "printed" not in at["edition"].values or "exponential" not in at["gram"].values:
        return Finding("not testable here", "the printed bounds were not evaluated")
    at = at.sel(edition="printed", gram="exponential")
    inside, counted = (
        [int(at[f"{name}_means_{part}"]) for name in ("precision", "recall")]
        for part in ("inside", "counted")
    )
    answer: Answer = "undetermined"
    if inside == counted and min(counted) > 0:
        answer = "confirmed"
    elif any(2 * part < all_of_them for part, all_of_them in zip(inside, counted, strict=True)):
        answer = "contradicted"
    widths = [
        rounded(float(at[f"{name}_width"]), digits=2).plain for name in ("precision", "recall")
    ]
    return Finding(
        answer,
        f"Precision at {inside[0]} of {counted[0]}, Recall at {inside[1]} of {counted[1]} sizes N",
        f"The bounds are {widths[0]} (Precision) and {widths[1]} (Recall) wide on a scale of 1, so"
        " containing says little; of single heads' Recall they contain"
        f" {percent(float(at['recall_inside']), 0)}.",
    )


def lowest_between(tree: xr.DataTree) -> Finding:
    """Answer whether Precision is highest for few tokens and lowest between."""
    at, tokens = tree["summary"].to_dataset(), most_tokens(tree["capture"].to_dataset())
    chosen = at.isel(n=np.flatnonzero((at["n"].values > 1) & (at["n"].values < tokens)))
    chosen = chosen.isel(n=np.flatnonzero(chosen["precision_mean"].notnull()))
    if not chosen.sizes["n"]:
        return Finding("not testable here", "no N between 1 and T was measured")
    lowest, first = chosen.isel(n=int(chosen["precision_mean"].argmin("n"))), chosen.isel(n=0)
    gap = float(first["precision_mean"] - lowest["precision_mean"])
    # both are means over the same documents; their errors added is the cautious choice
    reach = 2 * float(np.nan_to_num(first["precision_se"] + lowest["precision_se"]))
    between = 4 < int(lowest["n"]) < tokens / 2
    answer: Answer = "confirmed" if between and gap > reach else "undetermined"
    if gap < -reach:
        answer = "contradicted"
    low, high = (
        rounded(float(one["precision_mean"]), float(one["precision_se"])).plain
        for one in (lowest, first)
    )
    return Finding(
        answer,
        f"Precision {high} at N = {int(first['n'])}, {low} at N = {int(lowest['n'])}",
        _lowest_by_chance(chosen),
    )


def _lowest_by_chance(at: xr.Dataset) -> str:
    """Say where the baselines are lowest, in words; nothing without them."""
    if "precision_null" not in at:
        return ""
    words = {
        "random_selection": "tokens selected at random",
        "random_directions": "values of random direction",
    }
    lowest = {
        said: int(at["n"][int(curve.argmin("n"))])
        for null, said in words.items()
        if null in at["null"].values
        and (curve := at["precision_null"].sel(null=null)).notnull().any()
    }
    where = " and ".join(f"N = {n} ({said})" for said, n in lowest.items())
    return f"By chance Precision is lowest at {where}." if where else ""


def best_small(tree: xr.DataTree) -> Finding:
    """Answer whether the gain over chance is largest at N up to 4."""
    at = tree["separable"].to_dataset()
    nulls = [
        name for name in ("random_selection", "random_directions") if name in at["null"].values
    ]
    if len(nulls) < 2:
        return Finding("not testable here", "measured without the null baselines")
    gain = at["precision_gain"].sel(null=nulls)
    gain = gain.where((at["n"] > 1) & (at["n"] < most_tokens(tree["capture"].to_dataset())))
    if not gain.notnull().any("n").all():
        return Finding("not testable here", "no N between 1 and T was measured")
    best = [int(at["n"][int(gain.sel(null=name).argmax("n"))]) for name in nulls]
    small = [n <= 4 for n in best]
    answer: Answer = "confirmed" if all(small) else "undetermined" if any(small) else "contradicted"
    at_two = float(gain.sel(null="random_directions").dropna("n").isel(n=0))
    sign = "−" if at_two < 0 else "+"
    return Finding(
        answer,
        f"largest gain over random selection at N = {best[0]}, over random directions at"
        f" N = {best[1]}",
        "At the smallest N the directions of values change Precision by"
        f" {sign}{hundredths(abs(at_two))}: a few heavy tokens stand apart whatever they say.",
    )


def families(tree: xr.DataTree) -> Finding:
    """Answer that one run has one model."""
    return Finding("not testable here", "one model")
