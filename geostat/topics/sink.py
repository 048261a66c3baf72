"""Sink similarity and separability: statements of the paper and their tests.

Source: arXiv 2602.01893, §4.1, Figure 6.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.analyses.sink import Table, correlations, selects_sink
from geostat.bounds.by_document import change_with_sink_cosine
from geostat.datasets.separability import MEASURED, over_queries
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import jackknife_of_two
from geostat.topics.records import Finding, by_rule, statement, with_interval
from geostat.topics.separability import PERMUTED, PERMUTED_SINK
from reports.text.number import rounded

SIZE: Final = 3
"""N near which the paper reports the largest correlation."""
RISE: Final = 0.1
"""Change of ρ₀, all else fixed, for which the change of a bound is computed."""
MOVES: Final = 0.001
"""Smallest change of a bound that counts."""
NO_MECHANISM: Final = (
    "Heads differ in more than ρ₀: no mechanism is shown, and r is not a causal effect."
)
DIMS: Final = ("document", "layer", "head", "n")


def _unknown(correlation: xr.DataArray) -> str:
    """Return why no correlation could be corrected for attenuation."""
    if correlation.notnull().any():
        return "documents are too few or too noisy to correct for attenuation"
    return "no head sees the sink, or its similarity does not vary"


def _near_three(data: xr.Dataset, of: str = "") -> tuple[float, float, str, str]:
    """Return limits of the disattenuated correlation near N = 3; both correlations as text."""
    near = data.sel(n=SIZE, method="nearest")
    value, low, high = (float(near[f"{of}unattenuated{end}"]) for end in ("", "_lower", "_upper"))
    uncorrected = rounded(float(near[f"{of}correlation"]), digits=2).plain
    return low, high, f"r = {with_interval(value, low, high)} at N = {int(near['n'])}", uncorrected


@statement(
    "Recall correlates with the sink's similarity, most strongly at small N",
    "abstract, §4.1, Figure 6",
    "0.25 (LLaMA-2) to 0.6 (Gemma, Mistral) near N = 3 to 6",
    "corrected for attenuation, the 95% interval at N = 3 lies above 0 and the correlation is"
    " largest at N ≤ 10; contradicted if the interval lies below 0. Holds trivially unless ρ₀ also"
    " correlates with the gain over values with a random direction of the sink, which have ρ₀ near"
    " 0 (95% interval over documents and KV heads). This tests the measurement, not the theorem:"
    " the printed lower bound of Recall does not contain ρ₀ if the sink is selected (erratum 30)",
    null="no correlation over heads; permuted values with a random direction of the sink",
)
def sink_correlates(tree: xr.DataTree) -> Finding:
    """Test whether Recall correlates with ρ₀ over heads, corrected for attenuation."""
    selected = tree["sink"].to_dataset().sel(measure="pearson")
    if not selected["unattenuated"].notnull().any():
        return Finding("not testable here", _unknown(selected["correlation"]))
    low, high, quoted, uncorrected = _near_three(selected)
    peak = int(selected["n"][int(selected["unattenuated"].fillna(-np.inf).argmax("n"))])
    answer = by_rule(confirmed=low > 0 and peak <= 10, contradicted=high < 0)
    trivial, of_null = _of_random_sink(tree, "recall", uncorrected)
    return Finding(
        "holds trivially" if answer == "confirmed" and trivial else answer,
        f"{quoted}, corrected for attenuation; largest at N = {peak}; uncorrected, {of_null}",
        f"{_without_the_sink(tree)}{NO_MECHANISM}",
    )


def _of_random_sink(tree: xr.DataTree, statistic: str, uncorrected: str) -> tuple[bool, str]:
    """Return whether ρ₀ does not correlate with the gain over permuted values with a random
    direction of the sink at N = 3, and the uncorrected correlations in words: of measured values,
    of both nulls, and of that gain. (False, the first) if the nulls were not measured there.
    Permuted values with the sink's own direction keep ρ₀, so they are no null.
    """
    alone = False, f"r = {uncorrected}"
    null = tree["null"].to_dataset() if "null" in tree.children else xr.Dataset()
    if "null" not in null or not {PERMUTED, PERMUTED_SINK} <= {*null["null"].values.tolist()}:
        return alone
    groups = {name: tree[name].to_dataset() for name in MEASURED if name in tree.children}
    capture = over_queries(groups)
    index = [int(np.abs(capture["n"].values - SIZE).argmin())]
    measured = capture.isel(n=index)
    drawn = null[statistic].sel(null=PERMUTED_SINK).isel(n=index).values
    limits = []
    own = null[statistic].sel(null=PERMUTED).isel(n=index).values
    true = measured[statistic].values
    for values in (true, own, drawn, true - own, true - drawn):
        table = Table.of(measured.assign({statistic: (DIMS, values)}), statistic)
        if (pair := correlations(table)) is None:
            return alone
        limits.append(_over_kv_heads(table, pair[0][:, 0]))
    if not np.isfinite(limits).all():
        return alone
    of_measured, of_own, of_null, over_own, of_gain = (with_interval(*pair) for pair in limits)
    return not limits[-1][1] > 0, (
        f"r = {of_measured} over documents and KV heads, with permuted values {of_own}, with a"
        f" random direction of the sink as well {of_null}; of the gain over permuted values"
        f" {over_own}, over those with a random direction {of_gain}"
    )


def _over_kv_heads(table: Table, documents: FloatArray, size: int = 0) -> list[float]:
    """Return a correlation of document means at one N, and its limits over documents and KV heads;
    `documents` is the correlation in all documents, then without each.
    """
    x, y = table.similarity.mean(axis=0), table.recall[..., size].mean(axis=0)
    others = [table.kv_head != kv_head for kv_head in np.unique(table.kv_head)]
    without = np.array([np.corrcoef(x[other], y[other])[0, 1] for other in others])
    z = jackknife_of_two(*map(np.arctanh, (documents[0], documents[1:], without)))
    return [float(np.tanh(limit)) for limit in (z.value, z.lower, z.upper)]


def _without_the_sink(tree: xr.DataTree) -> str:
    """Quote the correlation over heads that never select the sink near N = 3, where the theory
    predicts the opposite sign; "" if the run has too few such heads.
    """
    groups = {name: tree[name].to_dataset() for name in MEASURED if name in tree.children}
    capture = groups["capture"]
    if "attention_weight" not in capture:
        return ""
    index = int(np.abs(capture["n"].values - SIZE).argmin())
    size = int(capture["n"][index])
    heads = Table.of(over_queries(groups), among=~selects_sink(capture, size))
    pair = correlations(heads)
    if pair is None:
        return ""
    limits = _over_kv_heads(heads, pair[0][:, index], index)
    if not np.isfinite(limits).all():
        return ""
    return (
        f"In the {heads.heads} heads that select the sink at N = {size} in no document, where the"
        f" theory predicts the opposite sign, r = {with_interval(*limits)} (over documents and KV"
        " heads). "
    )


@statement(
    "Precision rises as the sink's value vector aligns with the others",
    "§4.1, last paragraph",
    "no number",
    "over heads, the 95% interval of the correlation of Precision and ρ₀ at N = 3, corrected"
    " for attenuation, lies above (below) 0. Holds trivially unless ρ₀ also correlates with the"
    " gain over values with a random direction of the sink (95% interval over documents and KV"
    " heads)",
    null="no correlation over heads; permuted values with a random direction of the sink",
)
def sink_precision(tree: xr.DataTree) -> Finding:
    """Test whether Precision correlates with ρ₀ over heads, corrected for attenuation."""
    name = "precision_unattenuated"
    data = tree["sink"].to_dataset()
    if name not in data:
        return Finding("not testable here", "an older geostat wrote the run")
    if not data[name].notnull().any():
        return Finding("not testable here", _unknown(data["precision_correlation"]))
    low, high, quoted, uncorrected = _near_three(data, "precision_")
    answer = by_rule(confirmed=low > 0, contradicted=high < 0)
    trivial, of_null = _of_random_sink(tree, "precision", uncorrected)
    return Finding(
        "holds trivially" if answer == "confirmed" and trivial else answer,
        f"{quoted}, corrected for attenuation; uncorrected, {of_null}",
        f"The paper states this without a figure; Figure 6 shows Recall only. {NO_MECHANISM}",
    )


@statement(
    "the printed bounds of Recall rise with the sink's similarity",
    "abstract, §4.1, (14)-(15), (32)-(33)",
    "“the predicted link”, no number",
    "no rule: the paper gives no κ. Counted at κ = 1/8, our constant: heads in which a printed"
    " bound of Recall at N = 3, clipped to [0, 1], rises by more than 0.001 if ρ₀ rises by 0.1"
    " (erratum 30)",
    null="bounds that do not depend on ρ₀",
)
def sink_predicted(tree: xr.DataTree) -> Finding:
    """Test whether the printed bounds of Recall rise with ρ₀, all else fixed."""
    groups = {name: tree[name].to_dataset() for name in ("capture", "norms", "similarity")}
    lower, upper = change_with_sink_cosine(groups, size=SIZE, rise=RISE)
    known = np.isfinite(lower + upper)
    heads = int(known.sum())
    if not heads:
        return Finding("not testable here", "no head has fits and a visible sink")
    rises = (np.maximum(lower, upper) > MOVES) & known
    falls = (np.minimum(lower, upper) < -MOVES) & known
    up, neither = int((rises & ~falls).sum()), int((known & ~rises).sum())
    moved = int((np.abs(lower[known]) > MOVES).sum())
    return Finding(
        "not testable here",
        f"at κ = 1/8 a bound of Recall rises with ρ₀ and none falls in {up}, and no bound rises in"
        f" {neither} of {heads} heads; the lower bound, mostly below 0, changes in {moved}",
        f"ρ₀ alone rises by {RISE}, at N = {SIZE}. Erratum 30 derives that the exact means rise"
        " with ρ₀.",
    )
