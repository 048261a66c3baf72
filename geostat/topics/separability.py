"""Separability (Definitions 1-2): key results against null baselines, sentence, and statements of
the paper.

Source: arXiv 2602.01893, §4, Figure 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import queries_in_words
from geostat.datasets.tokens import inner_sizes, most_tokens
from geostat.topics.records import (
    Counts,
    Finding,
    KeyResult,
    Number,
    Settled,
    Tolerance,
    by_rule,
    statement,
    two_decimals,
    unmeasured,
)
from reports.text.number import count, in_runs, rounded

PERMUTED: Final = "permuted_values"
PERMUTED_SINK: Final = "permuted_sink"
OCTAVES: Final = "permuted_octaves"
OTHER_HEAD: Final = "other_head"
STRONGER: Final = {
    OCTAVES: "of values permuted within octaves of rank",
    OTHER_HEAD: "of another KV head's values",
}
"""Null baselines closer to the head than permuted values, in the words of the key result."""
NULL_WORDS: Final = {
    "random_selection": "randomly selected tokens",
    "random_directions": "value vectors of random direction",
    PERMUTED: "values permuted among content tokens",
    PERMUTED_SINK: "values permuted so, with a random direction of the sink",
    OCTAVES: "values permuted within octaves of rank",
    OTHER_HEAD: "the values of another KV head",
}
"""Null baselines in sentences: random tokens, values without geometry, values of the head in random
order, values of the same tokens that this head does not weigh.
"""
WITHIN_THE_SELECTION: Final = (
    " If N is a power of 2 and the sink is selected, the others fill whole octaves, and values"
    " permuted within octaves stay within the selection: such N test little."
)
DENSE: Final = ("random_selection", "random_directions")
"""Null baselines at every measured N."""


def key_result(tree: xr.DataTree) -> KeyResult:
    """Return the key result on separability, from the gain over randomly selected tokens. It holds
    trivially if values of random direction are more separable at the N of the largest gain.
    """
    directions, also = _gains(tree, "random_directions"), ""
    if directions is not None:
        below = directions["precision_gain_band_upper"].values < 0
        if below.any():
            sizes = in_runs(directions["n"].values, below)
            also = f" At N = {sizes} values of random direction are more separable still."
    result = _of_gain(
        tree,
        "separability",
        "random_selection",
        {
            "holds": "At N = {n} selected tokens are more separable than randomly selected tokens."
            f"{also}",
            "fails": "Selected tokens are less separable than randomly selected tokens.",
            "undetermined": "Whether selected tokens are more separable than random ones is"
            " undetermined.",
        },
    )
    gains = _gains(tree, "random_selection")
    if result.answer != "holds" or gains is None or directions is None:
        return result
    best = int(gains["n"][int(gains["precision_gain"].argmax("n"))])
    upper = directions["precision_gain_band_upper"].reindex(n=[best]).item()
    return replace(result, answer="holds trivially") if upper < 0 else result


def geometry(tree: xr.DataTree) -> KeyResult:
    """Return the key result on selection by value geometry, from the gain over permuted values.

    Random directions differ from real values in anisotropy too, so they do not answer it.
    """
    gains, below = _gains(tree, PERMUTED), ""
    if gains is not None and (lower := gains["precision_gain_band_upper"].values < 0).any():
        below = f" It is lower at N = {in_runs(gains['n'].values, lower)}."
    better = f"At N = {{n}} separability exceeds that of permuted values.{below}"
    if not_above := [
        f"{words}{_heads_apart(tree, null, gains)}"
        for null, words in STRONGER.items()
        if _nowhere_above(tree, null)
    ]:
        better += (
            " Averaged over heads, Precision is at no N detectably above that"
            f" {' or '.join(not_above)}."
        )
    verdicts = {
        "mixed" if below else "holds": better,
        "fails": "Separability is below that of permuted values.",
        "undetermined": "Whether separability exceeds that of permuted values is undetermined.",
    }
    return _of_gain(tree, "geometry", PERMUTED, verdicts)


def _heads_apart(tree: xr.DataTree, null: str, gains: xr.Dataset | None) -> str:
    """Count in brackets the heads above and below a null baseline at the N of the largest of
    `gains`; "" if none is.
    """
    others = _gains(tree, null)
    if gains is None or others is None:
        return ""
    n = int(gains["n"][int(gains["precision_gain"].argmax("n"))])
    if n not in others["n"].values:
        return ""
    counts = _head_counts(others.sel(n=n))
    if not counts.holds + counts.fails:
        return ""
    return f" ({counts.holds} heads above and {counts.fails} below at N = {n})"


def _nowhere_above(tree: xr.DataTree, null: str) -> bool:
    """Return whether a null was measured and mean Precision exceeds it at no N (band)."""
    gains = _gains(tree, null)
    return gains is not None and not bool((gains["precision_gain_band_lower"] > 0).any())


def _of_gain(tree: xr.DataTree, key: str, null: str, verdicts: dict[str, str]) -> KeyResult:
    """Return a key result from the largest gain of mean Precision, tested with its band; "{n}" in
    a verdict stands for its N.
    """
    gains = _gains(tree, null)
    if gains is None:
        words = NULL_WORDS[null].capitalize()
        return unmeasured(key, f"{words} were not measured at any N between 1 and T.")
    selected = gains.isel(n=int(gains["precision_gain"].argmax("n")))
    low, high = (float(selected[f"precision_gain_band_{side}"]) for side in ("lower", "upper"))
    answer: Settled = "holds" if low > 0 else "fails" if high < 0 else "undetermined"
    if answer == "holds" and verdicts.get("mixed"):
        answer = "mixed"
    finite = bool(np.isfinite([low, high]).all())
    limits = {"lower": max(low, -1.0), "upper": min(high, 1.0)} if finite else {}
    of = f"Largest gain in Precision, at N = {int(selected['n'])}"
    number = Number(of=of, value=float(selected["precision_gain"]), **limits)
    verdict = verdicts[answer].format(n=int(selected["n"]))
    return KeyResult(key, answer, verdict, number, _head_counts(selected))


def _gains(tree: xr.DataTree, null: str) -> xr.Dataset | None:
    """Return gains of mean Precision over a null baseline at 1 < N < T; None if there are none."""
    if "separable" not in tree.children:
        return None
    data = tree["separable"].to_dataset()
    if null not in data["null"].values:
        return None
    gains = inner_sizes(data.sel(null=null), tree["capture"].to_dataset(), "precision_gain")
    gains = gains.sel(n=gains["precision_gain"].notnull())
    return gains if gains.sizes["n"] else None


def _head_counts(gains: xr.Dataset) -> Counts:
    """Count the heads whose Precision is clearly above the baseline, clearly below, or neither."""
    heads = int(gains["precision_heads"])
    if not np.isfinite([gains["precision_more"], gains["precision_less"]]).all():  # not tested
        return Counts(of="heads", no_estimate=heads)
    more, less = int(gains["precision_more"]), int(gains["precision_less"])
    return Counts(of="heads", holds=more, fails=less, undetermined=heads - more - less)


def sentence(tree: xr.DataTree, summary: xr.Dataset, tolerances: Mapping[str, Tolerance]) -> str:
    """Return the paragraph of a report on separability."""
    capture = tree["capture"].to_dataset()
    documents, positions = capture.sizes["document"], capture.sizes["position"]
    model = tree.attrs.get("model", {})
    start = f"In {model.get('id', 'this model') if isinstance(model, Mapping) else model}, "
    selected = inner_sizes(summary, capture, "precision_mean")
    if selected.sizes["n"] == 0:
        return (
            start
            + "Precision and Recall are 1 at N = 1 and N = T by definition; no other selection size"
            " N was measured."
        )
    first = selected.isel(n=0)
    lowest = selected.isel(n=int(selected["precision_mean"].argmin("n")))
    quoted = [first] if int(lowest["n"]) == int(first["n"]) else [first, lowest]
    queries = tree["queries"].to_dataset() if "queries" in tree.children else None
    text = (
        f"{start}Precision is {_mean(first, 'precision')} and Recall is {_mean(first, 'recall')} at"
        f" N = {int(first['n'])} selected tokens"
        f" (mean of {capture.sizes['layer'] * capture.sizes['head']} heads in"
        f" {count(documents, 'document')} of {positions:,} tokens, at"
        f" {queries_in_words(queries, positions)}"
        f"{', ± one standard error over documents' * (documents > 1)})."
        " The selected tokens are the N tokens with the largest attention weights. Precision is the"
        " share of selected tokens among the tokens in the smallest ball that contains all selected"
        " tokens, centred at the sum of their contributions. Recall is the share of selected tokens"
        " nearer to that sum than every unselected token."
    )
    if len(quoted) == 2:
        text += (
            f" Precision is lowest at N = {int(lowest['n'])}: {_mean(lowest, 'precision')}, with"
            f" Recall {_mean(lowest, 'recall')}."
        )
    if "precision_null" in summary:
        nulls = [
            f"{two_decimals(float(first['precision_null'].sel(null=null)))} for {words}"
            for null, words in NULL_WORDS.items()
            if null in summary["null"].values
        ]
        listed = f"{', '.join(nulls[:-1])} and {nulls[-1]}" if len(nulls) > 1 else nulls[0]
        text += f" At N = {int(first['n'])}, Precision of the null baselines is {listed}."
    return text + "".join(_compared(tree, null) for null in tuple(NULL_WORDS)[2:])


def _compared(tree: xr.DataTree, null: str) -> str:
    """Return a sentence on the gain over a null baseline by N; "" if not measured."""
    gains = _gains(tree, null)
    if gains is None:
        return ""
    shown = []
    for name in ("precision", "recall"):
        low, high = (gains[f"{name}_gain_band_{side}"].values for side in ("lower", "upper"))
        parts = [
            f"{word} at N = {in_runs(gains['n'].values, side)}"
            for word, side in (("higher", low > 0), ("lower", high < 0))
            if side.any()
        ]
        words = " and ".join(parts) or "not distinguishable at any N"
        shown.append(f"{name.capitalize()} is {words}")
    text = (
        f" Compared with {NULL_WORDS[null]}, {shown[0]}; {shown[1]} (simultaneous 95%"
        f" bands, N = {', '.join(str(n) for n in gains['n'].values)})."
    )
    return text + WITHIN_THE_SELECTION * (null == OCTAVES)


def _mean(size: xr.Dataset, name: str) -> str:
    """Return mean Precision or Recall at one N with its standard error, if it is known."""
    mean, error = (float(size[f"{name}_{part}"]) for part in ("mean", "se"))
    return rounded(mean, error).plain if np.isfinite(error) else f"{mean:.2f}"


@statement(
    "separability is highest for few tokens and lowest for an intermediate N",
    "abstract, §4, Figure 5",
    "lowest for tens of tokens",
    "mean Precision is lowest at 4 < N < T/2, and the 95% interval of Precision at the smallest"
    " N lies above that minimum; contradicted if it lies below. Holds trivially if Precision of"
    " randomly selected tokens or of random directions has such a minimum too: P is 1 at N = 1 and"
    " at N = T, so every curve has one in between",
    null="the shape of the null baselines’ curves",
)
def lowest_between(tree: xr.DataTree) -> Finding:
    """Test whether Precision is highest for few tokens and lowest at an intermediate N."""
    capture = tree["capture"].to_dataset()
    curve = inner_sizes(tree["summary"].to_dataset(), capture, "precision_mean")
    if not curve.sizes["n"]:
        return Finding("not testable here", "no N between 1 and T was measured")
    lowest, first = curve.isel(n=int(curve["precision_mean"].argmin("n"))), curve.isel(n=0)
    gap = float(first["precision_mean"] - lowest["precision_mean"])
    # Both means are over the same documents, so adding their errors is conservative; NaN with one
    # document, which decides nothing.
    margin = 2 * float(first["precision_se"] + lowest["precision_se"])
    between = 4 < int(lowest["n"]) < most_tokens(capture) / 2
    low, high = (_mean(size, "precision") for size in (lowest, first))
    answer = by_rule(confirmed=between and gap > margin, contradicted=gap < -margin)
    baselines = _lowest_of_baselines(curve)
    if answer == "confirmed" and any(4 < n < most_tokens(capture) / 2 for n in baselines.values()):
        answer = "holds trivially"
    where = " and ".join(f"N = {n} ({words})" for words, n in baselines.items())
    return Finding(
        answer,
        f"Precision {high} at N = {int(first['n'])}, {low} at N = {int(lowest['n'])}",
        f"Precision of the null baselines is lowest at {where}." if where else "",
    )


def _lowest_of_baselines(summary: xr.Dataset) -> dict[str, int]:
    """Return N at which Precision of each null baseline is lowest, by its words.

    Permuted values are measured at few N.
    """
    if "precision_null" not in summary:
        return {}
    return {
        words: int(summary["n"][int(curve.argmin("n"))])
        for null, words in NULL_WORDS.items()
        if null in DENSE
        and null in summary["null"].values
        and (curve := summary["precision_null"].sel(null=null)).notnull().any()
    }


@statement(
    "non-trivial separability is strongest for N from 1 to 4",
    "abstract, §4, Figure 5",
    "N in [1, 4]",
    "the gains in mean Precision over random selection and over permuted values are both"
    " largest at 2 ≤ N ≤ 4; contradicted if neither is. N = 1 is trivial, P = R = 1 for any token"
    " (erratum 42), and left out",
    null="random selection; permuted values",
)
def best_small(tree: xr.DataTree) -> Finding:
    """Test whether the gain over both null baselines is largest at N up to 4."""
    gains = {null: _gains(tree, null) for null in ("random_selection", PERMUTED)}
    best = [
        int(gain["n"][int(gain["precision_gain"].argmax("n"))])
        for gain in gains.values()
        if gain is not None
    ]
    if len(best) < 2:
        return Finding("not testable here", "the null baselines were not measured at 1 < N < T")
    small = [n <= 4 for n in best]
    directions = _gains(tree, "random_directions")
    why = ""
    if directions is not None:
        at_two = float(directions["precision_gain"][0])
        why = (
            f"At N = {int(directions['n'][0])} Precision differs from that of random directions by"
            f" {two_decimals(at_two)}: a few large weights suffice for separability."
        )
    return Finding(
        by_rule(confirmed=all(small), contradicted=not any(small)),
        f"largest gain over random selection at N = {best[0]}, over permuted values at"
        f" N = {best[1]}",
        why,
    )
