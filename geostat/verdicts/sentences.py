"""The verdict in five sentences: what was measured, what the three assumptions are worth here, and
what the bounds are.

The sentences are made from the fits and the confrontation alone, and each can be quoted by itself:
a median or mean stands with its spread and its count. Imports numpy, xarray, and reports for
numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr

from geostat import paper
from geostat.bounds.overall import overall
from geostat.datasets.flags import why
from geostat.datasets.queries import queries_in_words
from geostat.datasets.tokens import most_tokens
from geostat.verdicts.errata import paper_for_readers
from geostat.verdicts.scoreboard.key_results import key_results
from geostat.verdicts.scoreboard.scoreboard import scoreboard
from geostat.verdicts.tolerances import Tolerance, read_tolerances
from geostat.verdicts.words import (
    acting_sinks,
    exactly,
    hundredths,
    in_percent,
    part_in_words,
    plus_minus,
    quartiles,
    sees_sink,
    spread,
    without_sink,
)
from reports.text.number import count, percent, rounded


def summarise(tree: xr.DataTree, tolerances: Mapping[str, Tolerance] | None = None) -> xr.Dataset:
    """Return /summary: the overall curves and coverage, the five sentences and the errata that
    matter here.

    It is what `geostat.bounds.overall.overall` returns of a run with /capture, the fits, /envelope,
    the experiments and /verdicts, with attributes `sentences` (list of five), `key_results` (list
    of six, JSON), `scoreboard`, `errata` and `paper_tables` (JSON). `tolerances` are by claim, over
    those of `tolerances.toml`.
    """
    result, by_claim = overall(tree), {**read_tolerances(), **(tolerances or {})}
    sentences = [
        _separability(tree, result),
        _norms(tree["norms"].to_dataset(), by_claim) + acting_sinks(tree) + ".",
        _similarity(tree["similarity"].to_dataset(), by_claim["similarity.exponential"].value),
        _weights(tree["weights"].to_dataset()),
        _bounds(result),
    ]
    result.attrs["sentences"] = [part_in_words(tree) + sentence for sentence in sentences]
    whole = tree.assign({"summary": xr.DataTree(result)})
    result.attrs["scoreboard"] = json.dumps(scoreboard(whole), ensure_ascii=False)
    result.attrs["key_results"] = key_results(whole)
    result.attrs |= paper_for_readers()
    return result


def _separability(tree: xr.DataTree, summary: xr.Dataset) -> str:
    capture = tree["capture"].to_dataset()
    documents, positions = capture.sizes["document"], capture.sizes["position"]
    model = tree.attrs.get("model", {})
    start = f"In {model.get('id', 'this model') if isinstance(model, Mapping) else model}, "
    measured = summary["precision_mean"].notnull().values
    between = (summary["n"].values > 1) & (summary["n"].values < most_tokens(capture))
    chosen = summary.isel(n=np.flatnonzero(between & measured))
    if chosen.sizes["n"] == 0:
        return (
            start
            + "Precision and Recall are 1 at N = 1 and N = T, as they must be; no other number N of"
            " selected tokens was measured."
        )
    ends = [chosen.isel(n=0)]
    lowest = chosen.isel(n=int(chosen["precision_mean"].argmin("n")))
    precision, recall = (
        plus_minus(ends[0][f"{name}_mean"], ends[0][f"{name}_se"])
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
            plus_minus(lowest[f"{name}_mean"], lowest[f"{name}_se"])
            for name in ("precision", "recall")
        )
        text += (
            f"; Precision is lowest at N = {int(lowest['n'])}, {precision}, where Recall is"
            f" {recall}"
        )
    queries = tree["queries"].to_dataset() if "queries" in tree.children else None
    over = (
        f"{count(documents, 'document')} of {positions:,} tokens, at"
        f" {queries_in_words(queries, positions)}"
    )
    text += (
        f" (mean of {capture.sizes['layer'] * capture.sizes['head']} heads in"
        f" {over}{', ± one standard error over documents' * (documents > 1)})"
    )
    if "precision_null" in summary:
        selection, directions = (
            " and ".join(hundredths(float(at["precision_null"].sel(null=name))) for at in ends)
            for name in ("random_selection", "random_directions")
        )
        where = "there" if len(ends) == 1 else "at these two sizes"
        text += (
            f"; by chance Precision would be {selection} {where} if tokens were selected at"
            " random, "
        )
        text += f"and {directions} if the value vectors had random directions"
    return text + "."


def _norms(norms: xr.Dataset, tolerances: Mapping[str, Tolerance]) -> str:
    tolerance, most = (tolerances[f"norms.{claim}"].value for claim in ("cv", "sink"))
    heads = quartiles(norms["cv_token"])[3]
    within = int((norms["cv_token"] <= tolerance).sum())
    reason = why(norms, "flags", ["no_norms", "zero_norms"])
    (token, tokens), (profile, profiles), (rest, rests) = (
        spread(norms[name], in_percent, reason)
        for name in ("cv_token", "cv_profile", "cv_position")
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
        return f"{text}; {without_sink(norms, 'λ', reason or why(norms, 'flags', ['no_sink']))}"
    compressed = int((norms["lam"] <= most).sum())
    middle, half = spread(norms["lam"], hundredths)
    return (
        text
        + f"; the sink is λ times as long as the mean of the other tokens, with λ = {middle} in the"
        f" median of {sinks} value heads {half}, and λ ≤ {most:g} in {compressed} of them"
    )


def _similarity(similarity: xr.Dataset, tolerance: float) -> str:
    exponential, offset = (
        similarity.sel(gram=name)["mae_by_lag"] for name in ("exponential", "offset")
    )
    heads = int(exponential.notnull().sum())
    within = int((exponential <= tolerance).sum())
    known = similarity["beta"].sel(gram="exponential").notnull() & similarity["rho0"].notnull()
    impossible = int((~similarity["feasible"].sel(gram="exponential").astype(bool) & known).sum())
    reason = why(similarity, "flags")
    (miss, misses), (rival, rivals) = (
        spread(exponential, hundredths, reason),
        spread(offset, lambda value: rounded(value, digits=2).plain, reason),
    )
    negative = in_percent(float(similarity["negative_fraction"].mean()))
    text = (
        "Assumption 2 (the mean cosine of two value vectors decays as e^(−βk) with their distance"
        f" of k tokens): the fitted curve misses it by {miss} in the median of {heads} value heads"
        f" {misses}, where the paper's average is {paper.MAE:g}, and by at most"
        f" {exactly(tolerance)} in {within} of them; a decay towards a constant, one parameter"
        f" more, misses it by {rival} {rivals}; {negative} of all cosines are negative, which no"
        " exponential is"
    )
    if not bool(known.any()) and not sees_sink(similarity):
        return text + "; no value head has both a fitted decay and a visible sink."
    if not bool(known.any()):
        lost = why(similarity, "head_flags", ["no_data", "no_sink_cosine"]) or reason
        lost = f" ({lost})" if lost else ""
        return f"{text}; no value head has both a fitted decay and a cosine with the sink{lost}."
    return (
        text
        + f", and in {impossible} of {int(known.sum())} value heads no vectors can have the cosines"
        " of the fitted exponential and the sink."
    )


def _weights(weights: xr.Dataset) -> str:
    fitted = weights["r2"].notnull()
    heads = quartiles(weights["common_share"])[3]
    growth = int((weights["growth_identified"].astype(bool) & fitted).sum())
    oscillates = weights["form_oscillation_identified"].astype(bool) & fitted
    shared, separate = (int(oscillates.sel(form=form).sum()) for form in ("shared", "separate"))
    (common, commons), (r2, half), (sink, sinks) = (
        spread(weights["common_share"], hundredths),
        spread(weights["r2_document"], hundredths),
        spread(weights["p_sink"], in_percent),
    )
    text = (
        "Assumption 3 (weights run through four phases: sink, plateau, oscillation, growth towards"
        " the last token): behind the sink, of how the logarithm of the weight varies with"
        f" position in a document, a share {common} is common to all documents in the median of"
        f" {heads} heads {commons}, and the phases, fitted to the others, explain {r2} {half};"
        f" more weight towards the last token, of whatever shape, stands out of the noise in"
        f" {growth} of them, an oscillation with the growth's own parameter η, as printed, in"
        f" {shared}, and one with a size of its own in {separate}"
    )
    if separate:
        text += (
            f", where it runs through {quartiles(_periods(weights))[0]:.1f} periods in the median"
        )
    if int(weights["rival_loss_left_out_se"].notnull().any("rival").sum()):
        text += f"; {_best_forms(weights)}"
    if not quartiles(weights["p_sink"])[3]:
        return f"{text}; {without_sink(weights, 'share of the attention')}."
    return text + f"; the sink takes {sink} of the attention in the median head {sinks}."


FORMS: Final = {
    "shared": "the printed one",
    "separate": "one with an oscillation of its own size",
    "power_law": "a power of the distance to the last token",
}
"""Forms of the weights that the sentence tells of, and how it calls them."""


def _best_forms(weights: xr.Dataset) -> str:
    """In how many heads which form has the lowest loss on documents left out, and clearly so."""
    loss = weights["rival_loss_left_out"]
    lowest = loss.fillna(np.inf).argmin("rival").where(loss.notnull().any("rival"))
    compared, rivals = int(lowest.notnull().sum()), list(weights["rival"].values)
    counts = []
    for form, words in FORMS.items():
        best = int((lowest == rivals.index(form)).sum())
        clearly = int(weights["rival_clearly_lowest"].sel(rival=form).sum())
        counts.append(f"{words} in {best} ({clearly})")
    return (
        f"of six forms, the lowest loss on documents left out has, of {compared} heads,"
        f" {', '.join(counts)} (in brackets: clearly, by paired tests at 95%)"
    )


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
cosines test nothing (docs/studies/bounds.md).
"""


def _bounds(summary: xr.Dataset) -> str:
    """How often the bounds hold, how often they clearly fail, and how much they say: a wide
    bound holds cheaply.
    """
    editions, grams = ([str(name) for name in summary[axis].values] for axis in ("edition", "gram"))
    several, drawn = int(summary.attrs["documents"]) > 1, "recall_drawn_inside" in summary
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
        expected, beyond = (
            f" (drawn: {percent(float(chosen[f'recall_drawn_{name}']), 0)})" if drawn else ""
            for name in ("inside", "outside")
        )
        clearly = f", with {percent(outside, 0)}{beyond} clearly outside" if several else ""
        parts.append(
            f"{label} contain {percent(inside, 0)}{expected}{clearly}, and are"
            f" {hundredths(width)} wide"
        )
    words = (
        "on average, on a scale from 0 to 1"
        + "; clearly: by more than the 95% interval over documents" * several
        + "; drawn: what heads drawn from the bounds' own random model at these fits give, as the"
        " measured ones would if the assumptions were true as fitted" * drawn
    )
    return (
        f"Bounds on expected Recall, against {int(summary['recall_cells'].max()):,} measured"
        " values, one for each head and size N of the selection at the last query:"
        f" {'; '.join(parts) if parts else 'none could be evaluated'} (wide: {words})."
    )
