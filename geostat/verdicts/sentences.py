"""The verdict in five sentences: what was measured, what the three assumptions are worth here, and
what the bounds are.

The sentences are made from the fits and the confrontation alone, and each can be quoted by itself:
a median or mean stands with its spread and its count. Imports numpy, xarray, and reports for
numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import xarray as xr

from geostat import paper
from geostat.bounds.overall import overall
from geostat.verdicts.errata import errata_for_readers
from geostat.verdicts.tolerances import Tolerance, read_tolerances
from reports.text.number import count, percent, rounded


def summarise(tree: xr.DataTree, tolerances: Mapping[str, Tolerance] | None = None) -> xr.Dataset:
    """Return /summary: the overall curves and coverage, the five sentences and the errata that
    matter here.

    It is what `geostat.bounds.overall.overall` returns of a run with /capture, the fits and
    /envelope, with attributes `sentences` (list of five) and `errata` (JSON list). `tolerances` are
    by claim, over those of `tolerances.toml`.
    """
    result, by_claim = overall(tree), {**read_tolerances(), **(tolerances or {})}
    result.attrs["sentences"] = [
        _separability(tree, result),
        _norms(tree["norms"].to_dataset(), by_claim["norms.cv"].value),
        _similarity(tree["similarity"].to_dataset(), by_claim["similarity.exponential"].value),
        _weights(tree["weights"].to_dataset()),
        _bounds(result),
    ]
    result.attrs["errata"] = json.dumps(errata_for_readers(), ensure_ascii=False)
    return result


def quartiles(values: xr.DataArray | np.ndarray) -> tuple[float, float, float, int]:
    """Median, lower and upper quartile, and how many finite values they rest on."""
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[np.isfinite(known)]
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75]) if known.size else np.full(3, np.nan)
    return float(middle), float(low), float(high), known.size


def _spread(values: xr.DataArray, show: Callable[[float], str]) -> tuple[str, str]:
    """The median of the finite values, and their quartiles as words in brackets; n/a where there
    are none.
    """
    middle, low, high, known = quartiles(values)
    return (
        (show(middle), f"(middle half {show(low)} to {show(high)})")
        if known
        else ("n/a", "(no estimate)")
    )


def _hundredths(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "n/a"


def _percent(share: float) -> str:
    """A share as percent: whole from 10% on, else with one decimal."""
    return percent(share, 0 if not np.isfinite(share) or share >= 0.0995 or share == 0 else 1)


def _exact(tolerance: float) -> str:
    """A tolerance with two decimals, or as many as it has."""
    text = f"{tolerance:.2f}"
    return text if float(text) == tolerance else f"{tolerance:g}"


def _plus_minus(mean: xr.DataArray, error: xr.DataArray) -> str:
    return rounded(float(mean), float(error)).plain if np.isfinite(error) else f"{float(mean):.2f}"


def _separability(tree: xr.DataTree, summary: xr.Dataset) -> str:
    capture = tree["capture"].to_dataset()
    documents, positions = capture.sizes["document"], capture.sizes["position"]
    model = tree.attrs.get("model", {})
    start = f"In {model.get('id', 'this model') if isinstance(model, Mapping) else model}, "
    measured = summary["precision_mean"].notnull().values
    chosen = summary.isel(
        n=np.flatnonzero((summary["n"].values > 1) & (summary["n"].values < positions) & measured)
    )
    if chosen.sizes["n"] == 0:
        return (
            start
            + "Precision and Recall are 1 at N = 1 and N = T, as they must be; no other number N of"
            " selected tokens was measured."
        )
    ends = [chosen.isel(n=0)]
    lowest = chosen.isel(n=int(chosen["precision_mean"].argmin("n")))
    precision, recall = (
        _plus_minus(ends[0][f"{name}_mean"], ends[0][f"{name}_se"])
        for name in ("precision", "recall")
    )
    text = (
        start
        + f"the N = {int(ends[0]['n'])} tokens to which an attention head gives most weight make up"
        f" {precision} of the tokens in the smallest ball that holds them all about the sum of"
        f" their contributions (Precision), and {recall} of them lie nearer to that sum than any"
        " token not selected (Recall)"
    )
    if int(lowest["n"]) != int(ends[0]["n"]):
        ends.append(lowest)
        precision, recall = (
            _plus_minus(lowest[f"{name}_mean"], lowest[f"{name}_se"])
            for name in ("precision", "recall")
        )
        text += (
            f"; Precision is lowest at N = {int(lowest['n'])}, {precision}, where Recall is"
            f" {recall}"
        )
    over = f"{count(documents, 'document')} of {positions:,} tokens"
    text += (
        f" (mean of {capture.sizes['layer'] * capture.sizes['head']} heads in"
        f" {over}{', ± one standard error over documents' * (documents > 1)})"
    )
    if "precision_null" in summary:
        selection, directions = (
            " and ".join(_hundredths(float(at["precision_null"].sel(null=name))) for at in ends)
            for name in ("random_selection", "random_directions")
        )
        where = "there" if len(ends) == 1 else "at these two sizes"
        text += (
            f"; by chance Precision would be {selection} {where} if tokens were selected at"
            " random, "
        )
        text += f"and {directions} if the value vectors had random directions"
    return text + "."


def _norms(norms: xr.Dataset, tolerance: float) -> str:
    heads = quartiles(norms["cv_token"])[3]
    within = int((norms["cv_token"] <= tolerance).sum())
    (token, tokens), (profile, profiles), (rest, rests) = (
        _spread(norms[name], _percent) for name in ("cv_token", "cv_profile", "cv_position")
    )
    text = (
        "Assumption 1 (value vectors are of one length, behind a shorter first token, the sink):"
        f" within a document the standard deviation of the length is {token} of its mean in the"
        f" median of {heads} value heads {tokens}, and at most {100 * tolerance:g}% in {within} of"
        " them; once lengths are averaged over documents, which is how the paper finds"
        f" {paper.CV_RANGE[0]:.0%} to {paper.CV_RANGE[1]:.0%}, it is {profile} {profiles}, and"
        f" would be {rest} {rests} after averaging over ever more"
    )
    sinks = quartiles(norms["lam"])[3]
    if not sinks:
        return text + "; the sink is not visible to the last token."
    shorter = int((norms["lam"] < 1).sum())
    middle, spread = _spread(norms["lam"], _hundredths)
    return (
        text
        + f"; the sink is shorter than the mean of the other tokens in {shorter} of {sinks} value"
        f" heads, and λ times as long with λ = {middle} in the median of all {sinks} {spread}."
    )


def _similarity(similarity: xr.Dataset, tolerance: float) -> str:
    exponential, offset = (
        similarity.sel(gram=name)["mae_by_lag"] for name in ("exponential", "offset")
    )
    heads = int(exponential.notnull().sum())
    within = int((exponential <= tolerance).sum())
    known = similarity["beta"].sel(gram="exponential").notnull() & similarity["rho0"].notnull()
    impossible = int((~similarity["feasible"].sel(gram="exponential").astype(bool) & known).sum())
    (miss, misses), (rival, rivals) = (
        _spread(exponential, _hundredths),
        _spread(offset, lambda value: rounded(value, digits=2).plain),
    )
    negative = _percent(float(similarity["negative_fraction"].mean()))
    text = (
        "Assumption 2 (the mean cosine of two value vectors decays as e^(−βk) with their distance"
        f" of k tokens): the fitted curve misses it by {miss} in the median of {heads} value heads"
        f" {misses}, where the paper's average is {paper.MAE:g}, and by at most {_exact(tolerance)}"
        f" in {within} of them; a decay towards a constant, one parameter more, misses it by"
        f" {rival} {rivals}; {negative} of all cosines are negative, which no exponential is"
    )
    if not bool(known.any()):
        return text + "; no value head has both a fitted decay and a visible sink."
    return (
        text
        + f", and in {impossible} of {int(known.sum())} value heads no vectors can have the cosines"
        " of the fitted exponential and the sink."
    )


def _weights(weights: xr.Dataset) -> str:
    fitted = weights["r2"].notnull()
    heads = int(fitted.sum())
    growth = int((weights["growth_identified"].astype(bool) & fitted).sum())
    oscillates = weights["form_oscillation_identified"].astype(bool) & fitted
    shared, separate = (int(oscillates.sel(form=form).sum()) for form in ("shared", "separate"))
    (r2, spread), (sink, sinks) = (
        _spread(weights["r2"], _hundredths),
        _spread(weights["p_sink"], _percent),
    )
    text = (
        "Assumption 3 (weights run through four phases: sink, plateau, oscillation, growth towards"
        f" the last token): behind the sink, the phases explain a share R² = {r2} of how the mean"
        f" logarithm of the weight varies with position, in the median of {heads} heads {spread};"
        f" growth stands out of the noise in {growth} of them, an oscillation with the growth's own"
        f" parameter η, as printed, in {shared}, and one with a size of its own in {separate}"
    )
    if separate:
        text += (
            f", where it runs through {quartiles(_periods(weights))[0]:.1f} periods in the median"
        )
    compared = int((weights["preferred"] >= 0).sum())
    if compared:
        rivals = list(weights["rival"].values)
        printed, power = (
            int((weights["preferred"] == rivals.index(form)).sum())
            for form in ("shared", "power_law")
        )
        text += (
            f"; of six forms, the printed one predicts documents left out best in {printed} of"
            f" {compared}, "
        )
        text += f"a power of the distance to the last token in {power}"
    if not quartiles(weights["p_sink"])[3]:
        return text + "; the sink is not visible to the last token."
    return text + f"; the sink takes {sink} of the attention in the median head {sinks}."


def _periods(weights: xr.Dataset) -> xr.DataArray:
    """How many periods each identified oscillation of its own size runs through between T₁ and
    T₂; one or two are hardly an oscillation.
    """
    own = weights.sel(form="separate")
    periods = (own["form_t2"] - own["form_t1"]) * own["form_omega"] / (2 * np.pi)
    return periods.where(own["form_oscillation_identified"].astype(bool))


BOUNDS: Final = (
    ("printed", "exponential", "the bounds as printed"),
    ("sharp", "exponential", "the best that the paper's assumptions allow (“sharp”)"),
    ("sharp", "offset", "sharp ones with the decay towards a constant"),
)
"""Which bounds the last sentence tells of, and how it calls them; those at each head's own
cosines test nothing (docs/bounds.md).
"""


def _bounds(summary: xr.Dataset) -> str:
    """How often the bounds hold, how often they clearly fail, and how much they say: a wide
    bound holds cheaply.
    """
    editions, grams = ([str(name) for name in summary[axis].values] for axis in ("edition", "gram"))
    several = int(summary.attrs["documents"]) > 1
    parts = []
    for edition, gram, label in BOUNDS:
        if edition not in editions or gram not in grams:
            continue
        chosen = summary.sel(edition=edition, gram=gram)
        if not float(chosen["recall_cells"]):
            continue
        inside, outside, width = (
            float(chosen[f"recall_{name}"]) for name in ("inside", "outside", "width")
        )
        clearly = f", with {percent(outside, 0)} clearly outside" if several else ""
        parts.append(
            f"{label} contain {percent(inside, 0)}{clearly}, and are {_hundredths(width)} wide"
        )
    words = (
        "on average, on a scale from 0 to 1"
        + "; clearly: by more than the 95% interval over documents" * several
    )
    return (
        f"Bounds on expected Recall, against {int(summary['recall_cells'].max()):,} measured"
        " values, one for each head and size N of the selection:"
        f" {'; '.join(parts) if parts else 'none could be evaluated'} (wide: {words})."
    )
