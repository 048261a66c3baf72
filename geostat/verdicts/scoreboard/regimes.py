"""Claims of §4.2, Figures 7, 8, 10 and 11: what a run says of regimes of heads. Imports numpy and
xarray.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import most_tokens
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.proportion import wilson
from geostat.verdicts.scoreboard.finding import Answer, Finding
from geostat.verdicts.words import hundredths, with_interval

REGIMES: Final = ("retriever", "reset", "mixer")
"""In the order in which the paper finds them in depth."""
FEWEST: Final = 5
"""Heads of a regime from which on its mean says something."""
MODEST: Final = 0.10
FAR: Final = 0.20
"""Differences of mean Precision and Recall between regimes."""


def regimes(tree: xr.DataTree) -> Finding:
    """Answer whether sizes and alignment name the same regimes, by Cohen's κ."""
    at = tree["heads"].to_dataset()
    kappa, low, high = (float(at[f"kappa{end}"]) for end in ("", "_lower", "_upper"))
    answer: Answer = "undetermined"
    if low > 0.6:
        answer = "confirmed"
    elif high < 0.4:
        answer = "contradicted"
    both = _by_both(at)
    none = at["label"].isel(criterion=0).size - sum(both.values())
    counts = ", ".join(f"{number} {name}s" for name, number in both.items())
    return Finding(
        answer,
        f"Cohen’s κ = {with_interval(kappa, low, high)}; by both descriptions {counts}; {none}"
        " unclassified",
        "The paper gives no thresholds; ours were set beforehand"
        " (docs/explanation/experiments.md).",
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
    here = "by both descriptions " + ", ".join(
        f"{name}s in layer {group.mean():.1f} on average ({group.size})"
        if group.size
        else f"no {name}s"
        for name, group in zip(REGIMES, groups, strict=True)
    )
    why = "The paper's order is of LLaMA-2-7B; another model need not have it."
    if min(group.size for group in groups) < FEWEST:
        return Finding("undetermined", here, why)
    steps = []
    for shallow, deep in pairwise(groups):
        error = np.sqrt(shallow.var(ddof=1) / shallow.size + deep.var(ddof=1) / deep.size)
        steps.append((deep.mean() - shallow.mean()) / error)
    if min(steps) > 2:
        return Finding("confirmed", here, why)
    return Finding("contradicted" if min(steps) < -2 else "undetermined", here, why)


def regimes_curves(tree: xr.DataTree) -> Finding:
    """Answer whether regimes differ little in mean Precision and Recall."""
    at = tree["heads"].to_dataset().sel(criterion="both")
    numbers = _by_both(tree["heads"].to_dataset())
    kept = [name for name, number in numbers.items() if number]
    at = at.isel(
        n=(at["n"].values > 1) & (at["n"].values < most_tokens(tree["capture"].to_dataset()))
    )
    curves = at[["precision", "recall"]].sel(regime=kept)
    known = curves.notnull().to_dataarray().all(("variable", "regime"))
    curves = curves.isel(n=np.flatnonzero(known))
    if len(kept) < 2 or not curves.sizes["n"]:
        return Finding("undetermined", "no two regimes to compare")
    spread = {
        str(name): np.ptp(curve.transpose("n", "regime").values, axis=1)
        for name, curve in curves.items()
    }
    of = "; ".join(
        f"{name.capitalize()} by up to {hundredths(float(apart.max()))}, at N ="
        f" {int(curves['n'][int(apart.argmax())])}"
        for name, apart in spread.items()
    )
    here = f"{of} ({', '.join(f'{number} {name}s' for name, number in numbers.items())})"
    if min(numbers.values(), default=0) < FEWEST:
        return Finding("undetermined", here)
    every = np.stack(list(spread.values()))
    if (every <= MODEST).all():
        return Finding("confirmed", here)
    far = ((every > FAR).mean(axis=1) > 0.5).any()
    return Finding("contradicted" if far else "undetermined", here)


def regimes_norms(tree: xr.DataTree) -> Finding:
    """Answer whether heads told by alignment, Figure 7's lower row, have the norms of its upper
    row.
    """
    heads, capture = tree["heads"].to_dataset(), tree["capture"].to_dataset()
    at, n = heads.attrs["thresholds"], capture["n"].values
    norms = [
        capture[f"representative_norm{part}"].mean("document").values.astype(np.float64)
        for part in ("", "_without_sink", "_without_last")
    ]
    small = np.broadcast_to((n > 1) & (n <= at["small"]), norms[0].shape)
    middle = (n > 1) & (n <= at["large"] * capture["tokens"].values[:, None, None])
    middle = np.broadcast_to(middle, norms[0].shape)
    without_sink, without_last = (ratio(part, norms[0]) for part in norms[1:])
    apart = np.abs(without_sink - without_last)
    lead = _mean(without_sink - without_last, middle)
    last = np.where(middle, np.arange(n.size), -1).max(axis=-1, keepdims=True)
    late = np.take_along_axis(apart, np.maximum(last, 0), axis=-1)[..., 0]
    return _described(
        heads,
        {"retriever": lead > 0, "reset": lead < 0, "mixer": late < _mean(apart, small)},
        "Not independent: a sum that points along a token is apt to shrink without it.",
    )


def regimes_sizes(tree: xr.DataTree) -> Finding:
    """Answer whether heads told by alignment contribute token by token as in Figure 10."""
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
        "At one length of context; the figure has several.",
    )


def _mean(values: FloatArray, where: BoolArray) -> FloatArray:
    """The mean along the last axis of the known values there, NaN without any."""
    known = where & np.isfinite(values)
    return ratio(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1).astype(np.float64))


def _described(heads: xr.Dataset, as_printed: dict[str, BoolArray], why: str = "") -> Finding:
    """Answer by the share of each regime's heads, told by alignment, that are as printed."""
    label = heads["label"].sel(criterion="alignment").values
    members = [label == list(heads["regime"].values).index(name) for name in REGIMES]
    like = [int((as_printed[name] & of).sum()) for name, of in zip(REGIMES, members, strict=True)]
    every = [int(of.sum()) for of in members]
    share = wilson(np.array(like), np.array(every))
    answer: Answer = "confirmed" if (share.lower > 0.5).all() else "undetermined"
    if (share.upper < 0.5).any():
        answer = "contradicted"
    counts = zip(REGIMES, like, every, strict=True)
    here = ", ".join(f"{one} of {number} {name}s" for name, one, number in counts)
    return Finding(answer, f"as described, of those told by alignment: {here}", why)
