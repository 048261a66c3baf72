"""The verdict in five sentences: what was measured, what the three assumptions are worth here, and what the bounds are.

The sentences are made from the fits and the confrontation alone; every number in them is a median or mean with its spread and its count. Imports xarray
and, for the errata, theory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr

from geostat.envelope import MEASURED
from geostat.overall import overall
from reports.number import rounded

PAPER_CV: Final = "0.02–0.03"
PAPER_MAE: Final = "0.09"
"""Figures 2 and 3 of arXiv 2602.01893."""

TOLERANCES: Final[Mapping[str, float]] = {"cv": 0.05, "mae": 0.10}
"""What the paper calls stable (few CVs above 0.05, §3.1) and a good fit (most errors of 5% to 10%, §3.2)."""

READING: Final[Mapping[int, str]] = {
    1: "The printed bounds move when all values are multiplied by a constant: where they lie against the measured curves is partly an accident of units.",
    4: "The printed margins leave out the sink's own terms; with a strong sink the printed upper bounds come out too low.",
    6: "The printed margin needs cosines of one sign; the share of negative ones is given with Assumption 2.",
    8: "The printed lower bound of F at the inner radius does not hold; the sharp edition's does.",
    9: "Why some fitted Grams are marked projected: no vectors have those cosines.",
    12: "At N = 1 Precision and Recall are 1 for any selection; that is not counted as separability here.",
    13: "κ is not given in print; printed bounds are drawn at κ = 1/8, the sharp ones need none.",
    16: "Where Δ₀ is negative the printed lower bound is near 1 for the wrong reason.",
    17: "At N = L the printed lower bound is exactly 1, and the truth is below it.",
    18: "A negative lower bound of Recall, put into the printed bound of F, has a pole: F's printed bounds at the inner radius are not read here.",
}
"""Why an erratum matters to someone who reads this report."""


def summarise(tree: xr.DataTree) -> xr.Dataset:
    """Return /summary: the overall curves and coverage, the five sentences and the errata that matter here.

    Args:
        tree: a run with /capture, /norms, /similarity, /weights and /envelope.

    Returns:
        What `geostat.overall.overall` returns, with attributes `sentences` (list of five) and `errata` (JSON list).
    """
    found = overall(tree)
    found.attrs["sentences"] = [
        _separability(tree, found),
        _norms(tree["norms"].to_dataset()),
        _similarity(tree["similarity"].to_dataset()),
        _weights(tree["weights"].to_dataset()),
        _bounds(found),
    ]
    found.attrs["errata"] = json.dumps([_erratum(number) for number in READING], ensure_ascii=False)
    return found


def _erratum(number: int) -> dict[str, str | int]:
    from theory import catalogue  # sympy takes its time to load

    entry = next(row for row in catalogue.errata() if row.number == number)
    return {"number": number, "title": entry.title, "printed": entry.printed, "true": entry.true, "reading": READING[number]}


def quartiles(values: xr.DataArray | np.ndarray) -> tuple[float, float, float, int]:
    """Median, lower and upper quartile, and how many finite values they rest on."""
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[np.isfinite(known)]
    if not known.size:
        return float("nan"), float("nan"), float("nan"), 0
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    return float(middle), float(low), float(high), int(known.size)


def _median(values: xr.DataArray, digits: int = 2) -> str:
    middle, _, _, count = quartiles(values)
    return f"{middle:.{digits}f}" if count else "n/a"


def _average(values: xr.DataArray, digits: int = 2) -> str:
    return f"{float(values.mean()):.{digits}f}" if bool(values.notnull().any()) else "n/a"


def _plus_minus(mean: xr.DataArray, error: xr.DataArray) -> str:
    return rounded(float(mean), float(error)).plain if np.isfinite(error) else f"{float(mean):.2f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if np.isfinite(share) else "n/a"


def _model_name(tree: xr.DataTree) -> str:
    model = tree.attrs.get("model", {})
    return str(model.get("id", "this model")) if isinstance(model, Mapping) else str(model)


def _separability(tree: xr.DataTree, found: xr.Dataset) -> str:
    capture = tree["capture"].to_dataset()
    documents, positions = capture.sizes["document"], capture.sizes["position"]
    heads = capture.sizes["layer"] * capture.sizes["head"]
    start = f"In {_model_name(tree)} ({heads} heads, {documents} document{'s' * (documents > 1)} of {positions:,} tokens) "
    measured = found["precision_mean"].notnull().values
    chosen = found.isel(n=np.flatnonzero((found["n"].values > 1) & (found["n"].values < positions) & measured))
    if chosen.sizes["n"] == 0:
        return start + "Precision and Recall are 1 at N = 1 and N = T, as they must be; no other size was measured."
    first, lowest = chosen.isel(n=0), chosen.isel(n=int(chosen["precision_mean"].argmin("n")))
    text = start + (
        f"mean Precision is {_plus_minus(first['precision_mean'], first['precision_se'])} at N = {int(first['n'])} and lowest, "
        f"{_plus_minus(lowest['precision_mean'], lowest['precision_se'])}, at N = {int(lowest['n'])}; mean Recall is "
        f"{_plus_minus(first['recall_mean'], first['recall_se'])} and {_plus_minus(lowest['recall_mean'], lowest['recall_se'])} there"
    )
    if "precision_null" in found:
        selection, directions = (
            [f"{float(at['precision_null'].sel(null=name)):.2f}" for at in (first, lowest)]
            for name in ("random_selection", "random_directions")
        )
        text += (
            f"; chance gives a Precision of {selection[0]} and {selection[1]} at these N when the tokens are selected at random, and of {directions[0]} and "
            f"{directions[1]} when the weights stay and the directions of the values are random"
        )
    return text + "."


def _norms(norms: xr.Dataset) -> str:
    _, _, _, count = quartiles(norms["cv_token"])
    within = int((norms["cv_token"] <= TOLERANCES["cv"]).sum())
    text = (
        f"Assumption 1, stable value norms: within a document norms vary by a CV of {_median(norms['cv_token'])} (median of {count} value heads; {within} stay "
        f"within {TOLERANCES['cv']:.2f}), and by {_median(norms['cv_profile'])} once averaged over documents, the kind for which the paper reports {PAPER_CV}"
    )
    if not quartiles(norms["lam"])[3]:
        return text + "; the sink is not visible to the last token."
    below = float((norms["lam"] < 1).sum() / norms["lam"].notnull().sum())
    return text + f"; the sink is compressed in {_percent(below)} of value heads, to λ = {_median(norms['lam'])} in the median."


def _similarity(similarity: xr.Dataset) -> str:
    exponential, offset = (similarity.sel(gram=name)["mae_by_lag"] for name in ("exponential", "offset"))
    count = int(exponential.notnull().sum())
    within = int((exponential <= TOLERANCES["mae"]).sum())
    known = similarity["beta"].sel(gram="exponential").notnull() & similarity["rho0"].notnull()
    impossible = int((~similarity["feasible"].sel(gram="exponential").astype(bool) & known).sum())
    text = (
        f"Assumption 2, exponentially decaying similarity: e^(−βk) misses the mean cosine at a lag by {_average(exponential)} on average over {count} value "
        f"heads (the paper: {PAPER_MAE}; {within} heads stay within {TOLERANCES['mae']:.2f}), decay towards an offset by {_average(offset, 3)}; "
        f"{_percent(float(similarity['negative_fraction'].mean()))} of all cosines are negative"
    )
    if not bool(known.any()):
        return text + "; no value head has both a fitted decay and a visible sink."
    return text + f", and {impossible} of {int(known.sum())} exponential Gram matrices cannot exist with their own ρ₀."


def _weights(weights: xr.Dataset) -> str:
    fitted = weights["r2"].notnull()
    count = int(fitted.sum())
    growth = int((weights["growth_identified"].astype(bool) & fitted).sum())
    shared, separate = (
        int((weights["form_oscillation_identified"].sel(form=form).astype(bool) & fitted).sum()) for form in ("shared", "separate")
    )
    text = (
        f"Assumption 3, four-phase weights: the phases explain R² = {_median(weights['r2'])} of the mean log weight (median of {count} heads); growth "
        f"towards the last token is identified in {growth} heads, an oscillation with the growth's own η, as printed, in {shared}, and one of its own size "
        f"in {separate}"
    )
    if separate:
        text += f", through {_median(_periods(weights), 1)} periods between T₁ and T₂ in the median"
    if not quartiles(weights["p_sink"])[3]:
        return text + "; the sink is not visible to the last token."
    return text + f"; the sink holds {_median(weights['p_sink'])} of the attention in the median head."


def _periods(weights: xr.Dataset) -> xr.DataArray:
    """How many periods each identified oscillation of its own size runs through between T₁ and T₂; one or two are hardly an oscillation."""
    own = weights.sel(form="separate")
    periods = (own["form_t2"] - own["form_t1"]) * own["form_omega"] / (2 * np.pi)
    return periods.where(own["form_oscillation_identified"].astype(bool))


def _bounds(found: xr.Dataset) -> str:
    """How often the bounds hold, how often they clearly fail, and how much they say: a wide bound holds cheaply."""
    editions, grams = ([str(name) for name in found[axis].values] for axis in ("edition", "gram"))
    parts = []
    for edition, gram, label in (
        ("printed", "exponential", "as printed, under the printed assumptions"),
        ("sharp", "exponential", "sharp, under the printed assumptions"),
        ("sharp", "offset", "sharp, with the offset"),
        ("sharp", MEASURED, "sharp, with each head's own Gram matrix"),
    ):
        if edition not in editions or gram not in grams:
            continue
        chosen = found.sel(edition=edition, gram=gram)
        if not float(chosen["recall_cells"]):
            continue
        inside, outside = (_percent(float(chosen[f"recall_{name}"])) for name in ("inside", "outside"))
        parts.append(f"{label}, {inside} inside, {outside} clearly outside, {_average(chosen['recall_width'])} wide")
    return (
        f"Bounds on Recall, over {int(found['recall_cells'].max()):,} cells of head and N between 1 and T (clearly: by more than the 95% document interval; "
        f"width on a scale of 1): {'; '.join(parts) if parts else 'none could be evaluated'}."
    )
