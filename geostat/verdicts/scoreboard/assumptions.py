"""Claims of §3, Figures 2-4: what a run says of norms, similarity and weights. Imports numpy and
xarray, and reports for numbers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.verdicts.scoreboard.finding import Finding, by_majority, by_verdict, median
from reports.text.number import percent, rounded

PERIODS: Final = 3
"""Of an oscillation that is more than a bend."""


def norms_stable(tree: xr.DataTree) -> Finding:
    """Answer whether norms are nearly constant, by the verdict on their CV within a document."""
    answer, counts = by_verdict(tree, "norms.cv")
    norms = tree["norms"].to_dataset()
    each, averaged = (median(norms[name]) for name in ("cv_token", "cv_profile"))
    return Finding(
        answer,
        f"median CV {rounded(each, digits=2).plain} within a document; {counts}",
        f"Averaged over these documents first, as in the paper's figure, it is"
        f" {rounded(averaged, digits=2).plain}: averaging takes out what varies from text to text.",
    )


def sink_compressed(tree: xr.DataTree) -> Finding:
    """Answer whether the sink's value is much shorter, by the verdict on λ."""
    answer, counts = by_verdict(tree, "norms.sink")
    lam = tree["norms"].to_dataset()["lam"]
    return Finding(answer, f"median λ = {rounded(median(lam), digits=2).plain}; {counts}")


def decay_exponential(tree: xr.DataTree) -> Finding:
    """Answer whether similarity decays exponentially, by the verdict on its error."""
    answer, counts = by_verdict(tree, "similarity.exponential")
    mae = tree["similarity"].to_dataset()["mae_by_lag"]
    printed, offset = (float(mae.sel(gram=name).mean()) for name in ("exponential", "offset"))
    return Finding(
        answer,
        f"{rounded(printed, digits=2).plain} on average; {counts}",
        f"Cosines decay to a constant, not to 0: with an offset the mean error is"
        f" {rounded(offset, digits=2).plain}.",
    )


def sink_one_cosine(tree: xr.DataTree) -> Finding:
    """Answer whether the sink's cosine keeps along a document, by the verdict on its trend."""
    answer, counts = by_verdict(tree, "similarity.sink")
    return Finding(answer, counts, "Tested: no trend of the cosine along the document.")


def sink_weight(tree: xr.DataTree) -> Finding:
    """Answer whether the sink's weight is a hundred times the plateau's, by their intervals."""
    weights = tree["weights"].to_dataset()
    above = weights["p_sink_lower"] > 100 * weights["p_base_upper"]
    below = weights["p_sink_upper"] < 100 * weights["p_base_lower"]
    ratio = weights["p_sink"] / weights["p_base"]
    heads = int(ratio.notnull().sum())
    plateau = weights["mass_plateau"] / weights["t1"].where(weights["t1"] > 0)
    middle, arithmetic = (
        f"{float(f'{median(one):.2g}'):,g}" if one.notnull().any() else "n/a"
        for one in (ratio, weights["p_sink"] / plateau.where(plateau > 0))
    )
    return Finding(
        by_majority(int(above.sum()), int(below.sum()), max(heads, 1)),
        f"median ratio {middle}; surely above 100 in"
        f" {int(above.sum())}, surely below in {int(below.sum())} of {heads} heads",
        "p_base is a geometric mean over tokens and documents; over the plateau's arithmetic mean"
        f" the median ratio is {arithmetic}.",
    )


def phases(tree: xr.DataTree) -> Finding:
    """Answer whether log weights follow the phases, by the verdict on their misfit."""
    answer, counts = by_verdict(tree, "weights.shape_position")
    weights = tree["weights"].to_dataset()
    common, explained = (median(weights[name]) for name in ("common_share", "r2_document"))
    return Finding(
        answer,
        counts,
        f"Of the variance by position in a document {percent(common, 0)} is common to all documents"
        f" and {percent(explained, 0)} is explained by the phases, in the median head.",
    )


def oscillation(tree: xr.DataTree) -> Finding:
    """Answer whether weights oscillate, by how many oscillations stand out of the noise."""
    weights = tree["weights"].to_dataset()
    stands = weights["form_oscillation_identified"].astype(bool) & weights["r2"].notnull()
    shared, separate = (int(stands.sel(form=form).sum()) for form in ("shared", "separate"))
    heads = int(weights["r2"].notnull().sum())
    own = weights.sel(form="separate")
    periods = (own["form_t2"] - own["form_t1"]) * own["form_omega"] / (2 * np.pi)
    several = int(((periods >= PERIODS) & stands.sel(form="separate")).sum())
    return Finding(
        by_majority(several, 0, heads),
        f"stands out in {separate} of {heads} heads, through {PERIODS} periods or more in"
        f" {several}; with one η for swing and growth, as printed, in {shared}",
        "With fewer periods it is hardly more than a bend.",
    )


def recency(tree: xr.DataTree) -> Finding:
    """Answer whether weights grow towards the last token, by the verdict on growth."""
    answer, counts = by_verdict(tree, "weights.growth")
    return Finding(answer, counts, "Recency, of whatever shape: the next line asks for the shape.")


def recency_exponential(tree: xr.DataTree) -> Finding:
    """Answer whether that growth is exponential, by losses on documents left out."""
    weights = tree["weights"].to_dataset()
    clearly = weights["rival_clearly_lowest"].astype(bool)
    grows = [name for name in weights["rival"].values if name not in ("constant", "power_law")]
    exponential = int(clearly.sel(rival=grows).any("rival").sum())
    power = int(clearly.sel(rival="power_law").sum())
    heads = int(weights["r2"].notnull().sum())
    return Finding(
        by_majority(exponential, power, heads),
        f"clearly best with exponential growth in {exponential}, as a power of the distance in"
        f" {power} of {heads} heads",
        "The exponential forms have more parameters than the power.",
    )
