"""What stands under the figures of the three assumptions. Imports nothing that draws."""

from __future__ import annotations

import numpy as np
import xarray as xr

from reports.figures.captions.caption import Caption, Numbers, figures_of
from reports.run import Run
from reports.statistics import flat, mean, median


def _flagged(data: xr.Dataset, name: str) -> int:
    return int(np.asarray(data[name].values, dtype=bool).sum())


def norms(run: Run) -> Caption:
    """Caption of the counterpart of Figure 2."""
    token, profile, sinks = (flat(run.norms[name]) for name in ("cv_token", "cv_profile", "lam"))
    limit = run.display.attrs["paper_cv_range"][1]
    steady, smooth, shorter = (
        int((token <= limit).sum()),
        int((profile <= limit).sum()),
        int((sinks < 1).sum()),
    )
    text = (
        "Left: length of the value vectors at each position, in units of each head’s own mean"
        f" length C, averaged over {run.counted('document')}. Line: mean over"
        f" {run.counted('value head')}; band: the middle 80% of them; circle: the sink, with the"
        " same band. Right: coefficient of variation (standard deviation over mean) of the length"
        " in each head, once from token to token within a document, once for the profile averaged"
        " over documents, which is what the paper plots. Look for: a flat line at 1 behind a low"
        " circle, and coefficients near 0."
    )
    say = Numbers()
    most = say.percent("limit", limit, 0)
    finding = (
        "From token to token the length varies by"
        f" {say.percent('cv_token, median of heads', median(token), 0)} in the median head, and by"
        f" at most {most} in {say.whole('heads within, token to token', steady)} of"
        f" {say.whole('heads, token to token', token.size)}; averaged over documents first, by"
        f" {say.percent('cv_profile, median of heads', median(profile))}"
        f" ({say.whole('heads within, averaged', smooth)} of"
        f" {say.whole('heads, averaged', profile.size)} at most {most}). "
    )
    if not sinks.size:
        return Caption(text, f"{finding}The analysed query sees no sink.", say.all)
    finding += (
        f"The sink is {say.figures('lam, median of heads', median(sinks))} times as long as a"
        " content token in the median head, and shorter in"
        f" {say.whole('heads with a shorter sink', shorter)} of"
        f" {say.whole('heads with a sink', sinks.size)}."
    )
    return Caption(text, finding, say.all)


def similarity(run: Run) -> Caption:
    """Caption of the counterpart of Figure 3."""
    floors = [
        median(run.similarity[name])
        for name in ("chance_by_lag", "chance_by_pair")
        if name in run.similarity
    ]
    chance = (
        " Dotted: a null baseline, how far the mean cosines by lag of random directions in"
        f" {run.dimension} dimensions lie from 0, {figures_of(floors[0])} (the cosine of a single"
        f" pair: {figures_of(floors[1])})."
        if len(floors) == 2 and np.isfinite(floors).all()
        else ""
    )
    text = (
        "Left: how far two fitted forms miss the mean cosine between value vectors k tokens apart:"
        " the exponential of Assumption 2, and the same decay towards an offset c;"
        f" {run.counted('value head')}, each fitted to the mean over"
        f" {run.counted('document')}.{chance} Right: the mean cosine by distance in the head of"
        " median misfit (black), both fits to it, and the middle 80% of all heads (grey). Look"
        f" for: misfits well below {run.display.attrs['paper_mae']:g}, the paper’s average, and a"
        " black line on the dashed one."
    )
    words = {
        "exponential": "The exponential misses the mean cosine by",
        "offset": "the form with an offset by",
    }
    say = Numbers()
    heads = say.whole("value heads", run.kv_heads)
    parts = [
        f"{words[form]} {say.figures(f'mae_by_lag, {form}, median of heads', misfit)}"
        for form in map(str, run.similarity["gram"].values)
        if form in words
        for misfit in [median(run.similarity["mae_by_lag"].sel(gram=form))]
    ]
    finding = f"{', '.join(parts)} in the median of {heads} value heads"
    if "offset_preferred" in run.similarity:
        how = "predicts a document left out better" if run.documents > 1 else "has the better BIC"
        preferred = say.whole(
            "heads that prefer the offset", _flagged(run.similarity, "offset_preferred")
        )
        finding += f"; the offset {how} in {preferred} of {heads} heads"
    finding += "."
    if "negative_fraction" in run.similarity:
        share = say.percent("negative_fraction, mean", mean(run.similarity["negative_fraction"]), 0)
        finding += f" {share} of all cosines are negative, which no exponential is."
    return Caption(text, finding, say.all)


def weights(run: Run) -> Caption:
    """Caption of the counterpart of Figure 4."""
    sinks = flat(run.weights["p_sink"])
    content = run.display["weight_geometric"].values[1 if sinks.size else 0 :]
    text = (
        f"Left: attention weight of {run.queries} on each position, over {run.counted('head')} and"
        f" {run.counted('document')}. The arithmetic mean is ruled by the few heads that look at a"
        " position, the geometric mean by the many that do not; Assumption 3 is fitted to the"
        f" latter. Right: that fit {_typical(run)}: a sink, a plateau up to T₁, an oscillation up"
        " to T₂, exponential growth beyond (T₁ = T₂: no oscillation). Look for: a circle far above"
        " the line, a flat stretch, waves, a rise at the right end."
    )
    say, finding = Numbers(), ""
    if sinks.size:
        share = say.percent("p_sink, median of heads", median(sinks), 0)
        finding = f"The sink takes {share} of the attention in the median head. "
    finding += (
        "The geometric mean weight of half of all positions is below"
        f" {say.figures('weight, median of positions', median(content))}; if attention were"
        f" uniform, all would have {say.figures('1/T', float(run.display['uniform']))}."
    )
    return Caption(text, finding + _phases(run, say), say.all)


def _typical(run: Run) -> str:
    """Which head stands for all in the picture of the phases, and how far its fit is off."""
    if (chosen := run.display.attrs["weights_head"]) is None:
        return "(no head could be fitted)"
    layer, head = chosen
    misfit = figures_of(float(run.weights["rmse"].transpose("layer", "head").values[chosen]))
    return (
        f"in the head of median misfit (layer {run.capture['layer'].values[layer]}, head"
        f" {run.capture['head'].values[head]}; root mean square {misfit} nats)"
    )


def _phases(run: Run, say: Numbers) -> str:
    """In how many heads growth and oscillation stand out, and how strong the oscillation is
    there.
    """
    text = ""
    if "growth_identified" in run.weights:
        growing = say.whole("heads with growth", _flagged(run.weights, "growth_identified"))
        text += (
            f" Growth towards the last token stands out of the noise in {growing} of"
            f" {say.whole('heads', run.heads)} heads."
        )
    if "oscillation_identified" in run.weights:
        waves = run.weights["oscillation_identified"].astype(bool)
        number = int(waves.sum())
        text += (
            " An oscillation with the growth’s own η, as printed, does in"
            f" {say.whole('heads with the printed oscillation', number)}"
        )
        if number:
            size = median(run.weights["eta"].where(waves))
            text += (
                f", where its amplitude η is {say.percent('eta, median of these', size)} of the"
                " plateau in the median"
            )
        text += "."
    return text
