"""Head regimes (Retriever, Mixer, Reset): statements of the paper and their tests.

Source: arXiv 2602.01893, §4.2, Figures 7, 8, 10 and 11.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import inner_sizes
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.proportion import wilson
from geostat.topics.records import Answer, Finding, by_rule, statement, two_decimals, with_interval
from reports.text.number import count, rounded

REGIMES: Final = ("retriever", "reset", "mixer")
"""Regimes in the paper's order of depth."""


FEWEST: Final = 5
"""Smallest number of heads of a regime whose mean is used."""
MODEST: Final = 0.10
"""Largest difference of mean Precision or Recall between regimes that is called modest."""
FAR: Final = 0.20
"""Difference of mean Precision or Recall between regimes that contradicts "modest"."""


@statement(
    "heads are Retrievers, Mixers or Resets, whether classified by size or by alignment",
    "abstract, §4.2",
    "three robust regimes",
    "the 95% interval of Cohen's κ between the two classifications lies above 0.6 (below 0.4,"
    " less than moderate agreement)",
    null="moderate agreement, κ of 0.4 to 0.6; independent labels have κ = 0",
)
def regimes(tree: xr.DataTree) -> Finding:
    """Test whether classifications by size and by alignment agree, by Cohen's κ."""
    data = tree["heads"].to_dataset()
    kappa, low, high = (float(data[f"kappa{end}"]) for end in ("", "_lower", "_upper"))
    both = _by_both(data)
    if low == high:  # at most one label occurs
        return Finding("undetermined", "too few heads are classified for an agreement")
    unclassified = data["label"].isel(criterion=0).size - sum(both.values())
    counts = ", ".join(f"{number} {name}s" for name, number in both.items())
    return Finding(
        by_rule(confirmed=low > 0.6, contradicted=high < 0.4),
        f"with our thresholds, Cohen’s κ = {with_interval(kappa, low, high)}; by both criteria"
        f" {counts}; {unclassified} unclassified",
        "The paper gives no thresholds; ours were set beforehand"
        " (docs/explanation/experiments.md).",
    )


def _by_both(data: xr.Dataset) -> dict[str, int]:
    """Return the number of heads of each regime by both criteria."""
    heads = data["heads"].sel(criterion="both")
    return {
        str(name): int(heads.sel(regime=name)) for name in data["regime"].values if name in REGIMES
    }


@statement(
    "in depth, Retrievers come first, then Resets, then Mixers",
    "§4.2, Figure 8",
    "in LLaMA-2-7B",
    "§4.2 puts Retrievers in the first two layers and Resets in the first few, without a number"
    " (erratum 44); our reading: the mean layer of each regime's heads, by both criteria, rises"
    " from one regime to the next by more than two standard errors over heads; contradicted if one"
    " falls by as much; undetermined with fewer than five heads in a regime, or unless the criteria"
    " agree better than chance (95% interval of κ above 0)",
    null="equal mean layers",
)
def regimes_depth(tree: xr.DataTree) -> Finding:
    """Test the order of regimes in depth, by their mean layers."""
    data = tree["heads"].to_dataset()
    layers = np.broadcast_to(data["layer"].values[:, None], data["contribution_sink"].shape)
    label, codes = data["label"].sel(criterion="both").values, list(data["regime"].values)
    groups = [layers[label == codes.index(name)] for name in REGIMES]
    here = "mean layer by both criteria: " + ", ".join(
        f"{name}s {_with_error(group)}" if group.size else f"no {name}s"
        for name, group in zip(REGIMES, groups, strict=True)
    )
    why = (
        "± over heads. If the two criteria agree no better than chance, which heads have a regime"
        " is arbitrary. The paper's order is that of LLaMA-2-7B; other models may differ."
    )
    if min(group.size for group in groups) < FEWEST or not float(data["kappa_lower"]) > 0:
        return Finding("undetermined", here, why)
    steps = []
    for shallow, deep in pairwise(groups):
        error = np.sqrt(shallow.var(ddof=1) / shallow.size + deep.var(ddof=1) / deep.size)
        steps.append((deep.mean() - shallow.mean()) / error)
    answer = by_rule(confirmed=min(steps) > 2, contradicted=min(steps) < -2)
    return Finding(answer, here, why)


@statement(
    "mean Precision and Recall differ little between regimes",
    "appendix A.4, Figure 11",
    "modest",
    "by both criteria, the largest difference between regimes at every 1 < N < T is at most"
    " 0.10 for Precision and Recall, our reading of “modest”; contradicted if one exceeds 0.20"
    " at more than half of these N; undetermined with fewer than five heads in a regime",
    null="differences of 0.10",
)
def regimes_curves(tree: xr.DataTree) -> Finding:
    """Test whether mean Precision and Recall differ little between regimes."""
    data = tree["heads"].to_dataset()
    numbers = _by_both(data)
    present = [name for name, number in numbers.items() if number]
    inner = inner_sizes(data.sel(criterion="both"), tree["capture"].to_dataset())
    curves = inner[["precision", "recall"]].sel(regime=present)
    known = curves.notnull().to_dataarray().all(("variable", "regime"))
    curves = curves.isel(n=np.flatnonzero(known))
    if len(present) < 2 or not curves.sizes["n"]:
        return Finding("undetermined", "fewer than two regimes have heads")
    ranges = {
        str(name): np.ptp(curve.transpose("n", "regime").values, axis=1)
        for name, curve in curves.items()
    }
    largest = "; ".join(
        f"{name.capitalize()} differs by up to {two_decimals(float(difference.max()))}, at N ="
        f" {int(curves['n'][int(difference.argmax())])}"
        for name, difference in ranges.items()
    )
    here = f"{largest} ({', '.join(f'{number} {name}s' for name, number in numbers.items())})"
    if min(numbers.values(), default=0) < FEWEST:
        return Finding("undetermined", here)
    differences = np.stack(list(ranges.values()))
    far = ((differences > FAR).mean(axis=1) > 0.5).any()
    return Finding(by_rule(confirmed=(differences <= MODEST).all(), contradicted=far), here)


@statement(
    "the sum of contributions shrinks most without the last token (Retriever) or without the"
    " sink (Reset); the two norms converge with N (Mixer)",
    "§4.2, Figure 7",
    "one head of each",
    "for heads classified by alignment alone (the figure's lower row), with norms averaged over"
    " documents and relative to ‖s‖: ‖s∖L‖ < ‖s∖0‖ on average over 1 < N ≤ T/2 (Retriever); the"
    " reverse (Reset); |‖s∖0‖ − ‖s∖L‖| smaller at the largest such N than on average over"
    " 1 < N ≤ 4 (Mixer). Contradicted if in a regime the 95% Wilson interval of the share of such"
    " heads lies below one half; never confirmed, because heads with random weights and"
    " values, classified alike, meet the same condition",
    null="random weights and values",
)
def regimes_norms(tree: xr.DataTree) -> Finding:
    """Test whether heads classified by alignment have the norms of Figure 7, upper row."""
    heads, capture = tree["heads"].to_dataset(), tree["capture"].to_dataset()
    thresholds, n = heads.attrs["thresholds"], capture["n"].values
    norms = [
        capture[f"representative_norm{part}"].mean("document").values.astype(np.float64)
        for part in ("", "_without_sink", "_without_last")
    ]
    small = np.broadcast_to((n > 1) & (n <= thresholds["small"]), norms[0].shape)
    middle = (n > 1) & (n <= thresholds["large"] * capture["tokens"].values[:, None, None])
    middle = np.broadcast_to(middle, norms[0].shape)
    without_sink, without_last = (ratio(part, norms[0]) for part in norms[1:])
    apart = np.abs(without_sink - without_last)
    lead = _mean(without_sink - without_last, middle)
    last = np.where(middle, np.arange(n.size), -1).max(axis=-1, keepdims=True)
    late = np.take_along_axis(apart, np.maximum(last, 0), axis=-1)[..., 0]
    return _described(
        heads,
        {"retriever": lead > 0, "reset": lead < 0, "mixer": late < _mean(apart, small)},
        "A sum aligned with a token tends to shrink without it: most heads with random weights and"
        " values, classified alike, have these norms as well.",
    )


@statement(
    "the last token's contribution is the largest (Retriever), lies between sink and content"
    " (Mixer), or is not dominant (Reset)",
    "Figure 10",
    "one head of each",
    "for heads classified by alignment alone: the last token's contribution is above those of"
    " the sink and the mean content token (Retriever), between them (Mixer), below the larger"
    " (Reset). Contradicted if in a regime the 95% Wilson interval of the share of such heads lies"
    " below one half; never confirmed, because most Retrievers and Resets with random weights and"
    " values, classified alike, meet the same condition",
    null="random weights and values",
)
def regimes_sizes(tree: xr.DataTree) -> Finding:
    """Test whether heads classified by alignment have the contributions of Figure 10."""
    heads, capture = tree["heads"].to_dataset(), tree["capture"].to_dataset()
    sink, last, rest = (
        heads[f"contribution_{name}"].values for name in ("sink", "last", "rest_total")
    )
    content = rest / np.maximum(capture["tokens"].values[:, None] - 2, 1)
    largest = last > np.maximum(sink, content)
    between = (last < np.maximum(sink, content)) & (last > np.minimum(sink, content))
    return _described(
        heads,
        {"retriever": largest, "reset": last < np.maximum(sink, content), "mixer": between},
        "Of heads with random weights and values, classified alike, 61% of Retrievers and 95% of"
        " Resets are as described (tests/geostat/topics/test_regimes.py). One context length; the"
        " figure has several.",
    )


def _with_error(layers: FloatArray) -> str:
    """Return the mean layer of heads with its standard error and their number."""
    error = layers.std(ddof=1) / np.sqrt(layers.size) if layers.size > 1 else np.nan
    mean = rounded(layers.mean(), error).plain if error > 0 else f"{layers.mean():.1f}"
    return f"{mean} ({count(layers.size, 'head')})"


def _mean(values: FloatArray, where: BoolArray) -> FloatArray:
    """Return the mean of the finite values at `where` along the last axis; NaN if none."""
    used = where & np.isfinite(values)
    return ratio(np.where(used, values, 0.0).sum(axis=-1), used.sum(axis=-1).astype(np.float64))


def _described(heads: xr.Dataset, as_printed: dict[str, BoolArray], why: str = "") -> Finding:
    """Test by the share of each regime's heads, classified by alignment, that are as printed.

    Nothing is confirmed, because random heads that are classified alike are as printed too.
    """
    label = heads["label"].sel(criterion="alignment").values
    members = [label == list(heads["regime"].values).index(name) for name in REGIMES]
    matching = [
        int((as_printed[name] & heads_of).sum())
        for name, heads_of in zip(REGIMES, members, strict=True)
    ]
    totals = [int(heads_of.sum()) for heads_of in members]
    share = wilson(np.array(matching), np.array(totals))
    answer: Answer = "contradicted" if (share.upper < 0.5).any() else "not testable here"
    counts = zip(REGIMES, matching, totals, strict=True)
    here = ", ".join(f"{number} of {total} {name}s" for name, number, total in counts)
    return Finding(answer, f"among heads classified by alignment, as described: {here}", why)
