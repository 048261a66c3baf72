"""Attention weights (Assumption 3): claims, key result, sentence, and statements of the paper.

Source: arXiv 2602.01893, §3.3, Figure 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.variable import known
from geostat.statistics.equivalence import HOLDS
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.statistics.proportion import wilson
from geostat.topics.records import (
    Claim,
    Finding,
    KeyResult,
    Tolerance,
    by_majority,
    by_rule,
    by_verdict,
    in_percent,
    median,
    number_of,
    of_assumption,
    quartiles,
    sink_missing,
    spread,
    statement,
    two_decimals,
)
from reports.text.number import count, percent

CLAIMS: Final = (
    Claim(
        "weights.total",
        "the weights of the fitted phases sum to 1",
        "total_model_log",
        "within",
        short="fitted weights sum to 1",
        tolerance=Tolerance(
            0.1,
            "no value in the paper; set beforehand: 10% changes the printed exponent κd(Δ/B)² by a"
            " fifth",
        ),
    ),
    Claim(
        "weights.growth",
        "weights grow towards the last token",
        "growth",
        "at_least",
        presence="growth_p",
        short="growth towards the last token",
        tolerance=Tolerance(
            0.69, "§3.3: probabilities grow rapidly; a factor of two (ln 2) is the weakest reading"
        ),
    ),
    Claim(
        "weights.shape",
        "log weights averaged over these documents follow the four phases",
        "rmse",
        flat="gain_over_constant_p",
        short="four phases: mean of documents",
        tolerance=Tolerance(
            0.69, "no value in the paper; set beforehand: ln 2, the maximum of ln(1 + η cos ωi)"
        ),
    ),
    Claim(
        "weights.shape_position",
        "log weights averaged over infinitely many documents follow the four phases",
        "misfit",
        "at_most",
        flat="gain_over_constant_p",
        short="four phases: limit of the mean",
        tolerance=Tolerance(
            0.69,
            "no value in the paper; ln 2, without the document noise that remains in the mean",
        ),
    ),
)
"""Claims about attention weights, each tested in every query head."""


def key_result(tree: xr.DataTree) -> KeyResult:
    """Return the key result on weights, from the verdicts on the many-document limit of the fit."""
    claim = "weights.shape_position"
    limit = known(tree["verdicts"].to_dataset()["tolerance"].sel(claim=claim))
    size = "the tolerance" if limit is None else _factor(limit)
    verdicts = {
        "holds": f"In most heads the misfit of the four phases is within {size}.",
        "holds trivially": f"In most heads the misfit is within {size}, trivial ones included.",
        "fails": f"In most heads the misfit of the four phases exceeds {size}.",
        "mixed": f"The misfit is within {size} in some heads, not in others.",
        "undetermined": f"Whether the misfit of the four phases is within {size} is undetermined.",
    }
    seen = _phases_in_words(tree["weights"].to_dataset()).capitalize()
    return of_assumption(
        tree,
        "weights",
        claim,
        {answer: f"{verdict} {seen}." for answer, verdict in verdicts.items()},
        number_of(
            tree["verdicts"].to_dataset().sel(claim=claim),
            "true_share",
            f"Estimated share with a misfit within {size}, trivial ones included",
        ),
    )


def _factor(misfit: float) -> str:
    """Return a misfit in nats as a factor: "a factor of 2" for ln 2."""
    return f"a factor of {math.exp(misfit):.2g}"


PLATEAU: Final = 8
"""A plateau that ends at this position or before it is not counted as one."""


def phases_shown(weights: xr.Dataset) -> xr.DataArray:
    """Return whether each head shows each of the four phases, (phase, layer, head).

    An oscillation and growth are shown if they exceed the noise, a plateau if T₁ is above PLATEAU,
    and the sink if the interval of its weight lies above that of the plateau.
    """
    oscillates = weights["form_oscillation_identified"].astype(bool).any("form")
    shown = {
        "an oscillation": oscillates,
        f"a plateau (T₁ > {PLATEAU})": weights["t1"] > PLATEAU,
        "growth": weights["growth_identified"].astype(bool),
        "a sink weight above the plateau's": weights["p_sink_lower"] > weights["p_base_upper"],
    }
    return xr.Dataset(shown).to_dataarray("phase")


def _near_the_phases(tree: xr.DataTree, tolerance: float) -> str:
    """Count the phases that are shown by heads with a misfit within the tolerance; "" without
    verdicts.
    """
    if "verdicts" not in tree.children:
        return ""
    near = tree["verdicts"]["answer_head"].sel(claim_head="weights.shape_position") == HOLDS
    shown = (phases_shown(tree["weights"].to_dataset()) & near).transpose("phase", ...)
    counts = "".join(f"{heads['phase'].item()} in {int(heads.sum())}, " for heads in shown)
    return (
        f" The misfit of the four phases is within {_factor(tolerance)} (at 95%) in"
        f" {int(near.sum())} of {near.size} heads. These show {counts}and all four in"
        f" {int(shown.all('phase').sum())}."
    )


def _phases_in_words(weights: xr.Dataset) -> str:
    """Say how many heads show all four phases."""
    shown = phases_shown(weights).all("phase")
    return f"all four phases are fitted in {int(shown.sum())} of {shown.size} heads"


def sentence(tree: xr.DataTree, summary: xr.Dataset, tolerances: Mapping[str, Tolerance]) -> str:
    """Return the paragraph of a report on attention weights."""
    weights = tree["weights"].to_dataset()
    fitted = weights["r2"].notnull()
    heads = quartiles(weights["common_share"])[3]
    growth = int((weights["growth_identified"].astype(bool) & fitted).sum())
    oscillates = weights["form_oscillation_identified"].astype(bool) & fitted
    shared, separate = (int(oscillates.sel(form=form).sum()) for form in ("shared", "separate"))
    common = spread(weights["common_share"], two_decimals, over=f" over {heads} heads")
    explained = spread(weights["r2_document"], two_decimals)
    sink = spread(weights["p_sink"], in_percent, over=" of the attention in the median head")
    periods = f" (median {quartiles(_periods(weights))[0]:.1f} periods)" if separate else ""
    text = (
        "Assumption 3 (attention weights run through four phases: sink, plateau, oscillation,"
        " growth towards the last token): within a document and without the sink, the share of the"
        f" variance of log weights that is common to all documents has median {common}. Phases"
        f" fitted to the other documents explain a median share of {explained}. Growth of any shape"
        f" towards the last token is identified above the noise in {growth} of these heads. The"
        " printed oscillation, whose amplitude is the growth's parameter η, is identified in"
        f" {shared} of them; an oscillation with a separate amplitude in {separate}{periods}."
        f" Without an oscillation each would be identified in at most {SIGNIFICANCE:.0%} of heads."
    )
    text += _near_the_phases(tree, tolerances["weights.shape_position"].value)
    if int(weights["rival_loss_held_out_se"].notnull().any("rival").sum()):
        text += f" {_best_forms(weights)}"
    if not quartiles(weights["p_sink"])[3]:
        return f"{text} {sink_missing(weights, 'share of the attention')}."
    return f"{text} The sink receives {sink}."


FORMS: Final = {
    "shared": "the printed form",
    "separate": "the form with a separate oscillation amplitude",
    "power_law": "a power law of the distance to the last token",
}
"""Rival forms named in the paragraph, and their names there."""


def _best_forms(weights: xr.Dataset) -> str:
    """Count the heads in which each form has the lowest held-out loss, and in which clearly so."""
    loss = weights["rival_loss_held_out"]
    compared = loss.notnull().any("rival")
    lowest = weights["rival"][loss.fillna(np.inf).argmin("rival")].where(compared, "")
    counts = []
    for form, name in FORMS.items():
        clearly = int(weights["rival_clearly_lowest"].sel(rival=form).sum())
        counts.append(f"for {name} in {int((lowest == form).sum())} (clearly in {clearly})")
    return (
        f"In {int(compared.sum())} heads {weights.sizes['rival']} forms are compared by their loss"
        f" on held-out documents. The loss is lowest {', '.join(counts[:-1])} and {counts[-1]}."
        " Clearly means by paired tests at 95%."
    )


def _ends_known(weights: xr.Dataset) -> str:
    """Quote the rule for a plateau and the number of heads in which its end is identified."""
    ends = int(weights["t1_identified"].astype(bool).sum())
    return (
        f"A plateau is counted if the fitted T₁ is above {PLATEAU}; T₁ is identified in"
        f" {count(ends, 'head')}."
    )


def _periods(weights: xr.Dataset) -> xr.DataArray:
    """Return the number of periods between T₁ and T₂ of each identified separate oscillation."""
    separate = weights.sel(form="separate")
    periods = (separate["form_t2"] - separate["form_t1"]) * separate["form_omega"] / (2 * np.pi)
    return periods.where(separate["form_oscillation_identified"].astype(bool))


PERIODS: Final = 3
"""Fewest periods of a curve that counts as an oscillation; fewer are a bend."""


@statement(
    "the sink's weight is at least two orders of magnitude above the plateau's",
    "§3.3, Figure 4",
    "a factor of 100",
    "more than half of the heads with a plateau (fitted T₁ > 8), by Wilson's 95% interval with as"
    " many trials as KV heads: the 95% interval of the ratio of arithmetic means over tokens and"
    " documents, sink over plateau, lies above (below) 100",
    null="a ratio of 100",
)
def sink_weight(tree: xr.DataTree) -> Finding:
    """Test whether the sink's weight is 100 times the plateau's, by the interval of the ratio."""
    weights = tree["weights"].to_dataset()
    if "sink_to_plateau" not in weights:
        return Finding(
            "not testable here", "an older geostat made the fits; run `geostat fit` again"
        )
    plateau = weights["t1"] > PLATEAU
    times = weights["sink_to_plateau"].where(plateau)
    heads = int(times.notnull().sum())
    above = int(((weights["sink_to_plateau_lower"] > 100) & plateau).sum())
    below = int(((weights["sink_to_plateau_upper"] < 100) & plateau).sum())
    kv_heads = int(times.notnull().groupby("kv_head_of_head").any().sum())
    shares = np.array([above, below]) / max(heads, 1)
    limits = wilson(shares * kv_heads, np.full(2, kv_heads))
    low, high = (percent(float(end[0]), 0) for end in (limits.lower, limits.upper))
    share = f", a share of {percent(shares[0], 0)} ({low} to {high}) above" if heads else ""
    middle, mixed = (
        f"{float(f'{median(ratios):.2g}'):,g}" if ratios.notnull().any() else "n/a"
        for ratios in (times, (weights["p_sink"] / weights["p_base"]).where(plateau))
    )
    return Finding(
        by_rule(confirmed=limits.lower[0] > 0.5, contradicted=limits.lower[1] > 0.5),
        f"median ratio {middle}; intervals above 100 in {above}, below in {below} of {heads} heads"
        f" with a plateau{share}",
        "Both means are arithmetic. Over p_base, a geometric mean, the median ratio is"
        f" {mixed}, because most weights are far below their mean. {_ends_known(weights)}",
    )


@statement(
    "log weights follow the four phases",
    "abstract, §3.3, Figure 4",
    "no number",
    "weights.shape_position holds (fails) in more than half of the heads",
    null="a flat line; a misfit beyond the tolerance",
)
def phases(tree: xr.DataTree) -> Finding:
    """Test whether log weights follow the phases, by the verdicts on their misfit."""
    weights = tree["weights"].to_dataset()
    common, explained = (
        percent(median(weights[name]), 0) for name in ("common_share", "r2_document")
    )
    why = (
        f"Of the variance over positions of a document, {common} is common to all documents and"
        f" {explained} is explained by the phases (medians over heads). {_ends_known(weights)}"
    )
    return by_verdict(tree, "weights.shape_position", _phases_in_words(weights), why)


@statement(
    "weights oscillate between plateau and recency",
    "§3.3, Figure 4",
    "positions 100 to 800",
    "an oscillation with a separate amplitude is identified, with three or more periods, in"
    " more than half of the heads; never contradicted, because noise can hide an oscillation",
    null="noise of the documents without oscillation",
)
def oscillation(tree: xr.DataTree) -> Finding:
    """Test whether weights oscillate, by the number of identified oscillations."""
    weights = tree["weights"].to_dataset()
    fitted = weights["r2"].notnull()
    identified = weights["form_oscillation_identified"].astype(bool) & fitted
    shared, separate = (int(identified.sel(form=form).sum()) for form in ("shared", "separate"))
    heads = int(fitted.sum())
    several = int(((_periods(weights) >= PERIODS) & fitted).sum())
    return Finding(
        by_majority(several, 0, heads),
        f"identified in {separate} of {heads} heads, with {PERIODS} or more periods in {several};"
        f" with one η for oscillation and growth, as printed, in {shared}",
        "With fewer periods the oscillation is hardly more than a bend.",
    )


@statement(
    "weights grow towards the last token",
    "§3.3, Figure 4",
    "positions 800 to 1024",
    "weights.growth holds (fails) in more than half of the heads",
    null="growth below the tolerance; noise without growth",
)
def recency(tree: xr.DataTree) -> Finding:
    """Test whether weights grow towards the last token, by the verdicts on growth."""
    why = "Recency of any shape; the next row tests the shape."
    return by_verdict(tree, "weights.growth", why=why)


@statement(
    "the growth towards the last token is exponential",
    "§3.3, Figure 4",
    "no number",
    "an exponential form (a power law of the distance) has clearly the lowest loss on held-out"
    " documents in more than half of the heads",
    null="a power law of the distance, a constant",
)
def recency_exponential(tree: xr.DataTree) -> Finding:
    """Test whether that growth is exponential, by losses on held-out documents."""
    weights = tree["weights"].to_dataset()
    clearly = weights["rival_clearly_lowest"].astype(bool)
    growing = [name for name in weights["rival"].values if name not in ("constant", "power_law")]
    exponential = int(clearly.sel(rival=growing).any("rival").sum())
    bent = int(clearly.sel(rival="separate").sum())
    power = int(clearly.sel(rival="power_law").sum())
    heads = int(weights["r2"].notnull().sum())
    return Finding(
        by_majority(exponential, power, heads),
        f"exponential growth clearly best in {exponential} ({bent} with an oscillation of separate"
        f" amplitude), a power law of the distance in {power} of {heads} heads",
        "The exponential forms have more parameters than the power law.",
    )
