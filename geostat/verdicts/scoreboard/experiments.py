"""Claims of §4, Figures 5-8, 10, 11: what a run says of the bounds, of small N, of the sink and of
regimes of heads. Imports numpy and xarray, and reports for numbers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import most_tokens
from geostat.verdicts.scoreboard.finding import Answer, Finding
from geostat.verdicts.words import hundredths, with_interval
from reports.text.number import percent, rounded

REGIMES: Final = ("retriever", "reset", "mixer")
"""In the order in which the paper finds them in depth."""
FEWEST: Final = 5
"""Heads of a regime from which on its mean says something."""


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
    answer: Answer = "undecided"
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
    answer: Answer = "confirmed" if between and gap > reach else "undecided"
    if gap < -reach:
        answer = "contradicted"
    low, high = (
        rounded(float(one["precision_mean"]), float(one["precision_se"])).plain
        for one in (lowest, first)
    )
    return Finding(
        answer, f"Precision {high} at N = {int(first['n'])}, {low} at N = {int(lowest['n'])}"
    )


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
    answer: Answer = "confirmed" if all(small) else "undecided" if any(small) else "contradicted"
    at_two = float(gain.sel(null="random_directions").dropna("n").isel(n=0))
    sign = "−" if at_two < 0 else "+"
    return Finding(
        answer,
        f"largest gain over random selection at N = {best[0]}, over random directions at"
        f" N = {best[1]}",
        "At the smallest N the directions of values change Precision by"
        f" {sign}{hundredths(abs(at_two))}: a few heavy tokens stand apart whatever they say.",
    )


def sink_correlates(tree: xr.DataTree) -> Finding:
    """Answer whether Recall correlates with ρ₀, free of the documents' noise."""
    at = tree["sink"].to_dataset().sel(measure="pearson")
    if not at["unattenuated"].notnull().any():
        return Finding("not testable here", "no head sees the sink, or it does not vary")
    three = at.sel(n=3, method="nearest")
    value, low, high = (float(three[f"unattenuated{end}"]) for end in ("", "_lower", "_upper"))
    peak = int(at["n"][int(at["unattenuated"].fillna(-np.inf).argmax("n"))])
    answer: Answer = "confirmed" if low > 0 and peak <= 10 else "undecided"
    if high < 0:
        answer = "contradicted"
    measured = rounded(float(three["correlation"]), digits=2).plain
    return Finding(
        answer,
        f"{with_interval(value, low, high)} at N = {int(three['n'])}, largest at N = {peak}",
        f"As measured, with the documents' noise in it, {measured}. Heads differ in more than ρ₀.",
    )


def regimes(tree: xr.DataTree) -> Finding:
    """Answer whether sizes and alignment name the same regimes, by Cohen's κ."""
    at = tree["heads"].to_dataset()
    kappa, low, high = (float(at[f"kappa{end}"]) for end in ("", "_lower", "_upper"))
    answer: Answer = "undecided"
    if low > 0.6:
        answer = "confirmed"
    elif high < 0.4:
        answer = "contradicted"
    both = _by_both(at)
    none = at["label"].isel(criterion=0).size - sum(both.values())
    counts = ", ".join(f"{number} {name}s" for name, number in both.items())
    return Finding(
        answer,
        f"κ = {with_interval(kappa, low, high)}; {counts}, {none} unclassified",
        "The paper gives no thresholds; ours were set beforehand (docs/experiments.md).",
    )


def _by_both(at: xr.Dataset) -> dict[str, int]:
    """Heads of each regime by both descriptions."""
    heads = at["heads"].sel(criterion="both")
    return {
        str(name): int(heads.sel(regime=name)) for name in at["regime"].values if name in REGIMES
    }


def regimes_depth(tree: xr.DataTree) -> Finding:
    """Answer whether regimes follow one another in depth, by their mean layers."""
    at = tree["heads"].to_dataset()
    layers = np.broadcast_to(at["layer"].values[:, None], at["contribution_sink"].shape)
    label, codes = at["label"].sel(criterion="both").values, list(at["regime"].values)
    groups = [layers[label == codes.index(name)] for name in REGIMES]
    here = ", ".join(
        f"{name}s in layer {group.mean():.1f} on average ({group.size})"
        if group.size
        else f"no {name}s"
        for name, group in zip(REGIMES, groups, strict=True)
    )
    if min(group.size for group in groups) < FEWEST:
        return Finding("undecided", here)
    steps = []
    for shallow, deep in pairwise(groups):
        error = np.sqrt(shallow.var(ddof=1) / shallow.size + deep.var(ddof=1) / deep.size)
        steps.append((deep.mean() - shallow.mean()) / error)
    if min(steps) > 2:
        return Finding("confirmed", here)
    return Finding("contradicted" if min(steps) < -2 else "undecided", here)


def regimes_curves(tree: xr.DataTree) -> Finding:
    """Answer whether regimes differ little in mean Precision and Recall."""
    at = tree["heads"].to_dataset().sel(criterion="both")
    numbers = _by_both(tree["heads"].to_dataset())
    kept = [name for name, number in numbers.items() if number]
    near = at.sel(n=8, method="nearest")
    spread = {}
    for statistic in ("precision", "recall"):
        level = near[statistic].sel(regime=kept).values
        spread[statistic] = float(np.ptp(level)) if len(kept) > 1 else float("nan")
    here = (
        f"at N = {int(near['n'])} by up to {hundredths(spread['precision'])} (Precision) and"
        f" {hundredths(spread['recall'])} (Recall)"
    )
    if min(numbers.values(), default=0) < FEWEST:
        return Finding("undecided", here)
    most = max(spread.values())
    return Finding(
        "confirmed" if most <= 0.10 else "contradicted" if most > 0.20 else "undecided", here
    )


def families(tree: xr.DataTree) -> Finding:
    """Answer that one run has one model."""
    return Finding("not testable here", "one model")
