"""What stands under the figures of the paper's experiments. Imports nothing that draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from reports.figures.captions.caption import Caption, figures_of
from reports.run import Run, at_size, notes
from reports.text.number import count

NOUNS = {"retriever": "Retrievers", "mixer": "Mixers", "reset": "Resets"}


def _unattenuated(data: xr.Dataset, measure: str, size: int) -> tuple[float, float, float]:
    """A coefficient of /sink free of noise, and its 95% limits, at a size; NaN where the run
    holds none.
    """
    value, low, high = (
        at_size(data[f"unattenuated{part}"].sel(measure=measure), size)
        for part in ("", "_lower", "_upper")
    )
    return value, low, high


def _limits(value: float, low: float, high: float) -> str:
    if not np.isfinite(low):
        return figures_of(value)
    return f"{figures_of(value)} (95%: {figures_of(low)} to {figures_of(high)})"


def sink(run: Run) -> Caption:
    """Caption of the counterpart of Figure 6."""
    data = run.needed("sink")
    heads, distinct = int(data.attrs["heads"]), int(data.attrs["distinct"])
    bands = (
        f"Bands: 95% jackknife over {run.counted('document')}, t with {run.documents - 1} degrees"
        " of freedom, on Fisher’s z. Noise of few documents pulls a correlation towards 0; the"
        " dashed lines are freed of it by multiplying different documents only. Dotted, in the"
        f" colour of the coefficient: percentiles of {data.attrs['resamples']:,} resamples of the"
        " documents, which add that noise once more and so lie too low. "
        if run.documents > 1
        else ""
    )
    text = (
        "Correlation of Recall with ρ₀, a head’s mean cosine between the sink’s value and the"
        f" others’, over {count(heads, 'head')} that see the sink, against the number N of selected"
        f" tokens. Heads that share a value head share ρ₀: there are {distinct} distinct ones."
        f" {bands}Right: the part of the correlation that is left between heads of equal sink"
        " weight, and of equal weight in the same layer. Look for: the paper’s peaks,"
        f" {run.display.attrs['paper_correlations']}."
    )
    sizes = run.display.attrs["paper_correlation_sizes"]
    parts = []
    for size in sizes:
        measured = at_size(data["correlation"].sel(measure="pearson"), size)
        if np.isfinite(measured):
            freed = _unattenuated(data, "pearson", size)
            clean = f" and {_limits(*freed)} free of noise" if np.isfinite(freed[0]) else ""
            parts.append(f"at N = {size}, {figures_of(measured)} as measured{clean}")
    if not parts:
        return Caption(text, notes(data))
    peak = int(data["peak_n"].sel(measure="pearson"))
    top = at_size(data["correlation"].sel(measure="pearson"), peak)
    finding = (
        f"{_direction(data, sizes)}: {'; '.join(parts)}; largest at N = {peak}, {figures_of(top)}."
        f" {_other_things_equal(data, sizes[0])}{notes(data)}"
    )
    return Caption(text, finding.strip())


def _direction(data: xr.Dataset, sizes: Sequence[int]) -> str:
    """Whether Recall goes with ρ₀ at the paper's first size that the run holds."""
    at = data.sel(measure="pearson")
    size = next(size for size in sizes if np.isfinite(at_size(at["correlation"], size)))
    sign = at_size(at["unattenuated_sign"], size)
    if not np.isfinite(sign):  # too noisy to be freed of it
        sign = at_size(at["correlation_sign"], size)
    if not np.isfinite(sign):
        return "Correlation of Recall with the sink’s similarity"
    if not sign:
        return "Whether Recall goes with the sink’s similarity is not settled"
    return (
        f"Heads whose sink resembles the other tokens have {'more' if sign > 0 else 'less'} Recall"
    )


def _other_things_equal(data: xr.Dataset, size: int) -> str:
    """Whether anything is left of the correlation at the paper's first size once weight and
    layer are known.
    """
    value, low, high = _unattenuated(data, "given_weight_and_layer", size)
    if not np.isfinite(low):
        return ""
    verdict = (
        "the sink’s similarity tells of Recall beyond what its weight tells"
        if at_size(data["unattenuated_sign"].sel(measure="given_weight_and_layer"), size)
        else (
            "these documents do not settle whether the sink’s similarity tells more than its weight"
        )
    )
    return (
        f"Between heads of equal sink weight in the same layer it is {_limits(value, low, high)} at"
        f" N = {size}: {verdict}. "
    )


def regimes(run: Run) -> Caption:
    """Caption of the counterpart of Figure 7."""
    data = run.needed("regimes")
    at = {key: float(value) for key, value in dict(data.attrs["thresholds"]).items()}
    bands = " with 95% bands for all but the grey line" if run.documents > 1 else ""
    text = (
        "One head of each regime: of its heads, the one whose alignment fits the rule by the"
        " median amount. Top: norm of the representative s(N), and without the sink or the last"
        " token. Bottom: its cosine with the values of the sink, v₀, and of the last token, v_L."
        f" Mean over {run.counted('document')}{bands}, at the last query. A head’s regime is told"
        " twice. By sizes, from the last token’s contribution ‖α_L v_L‖ beside the sink’s and the"
        " sum of all others: largest"
        " for a Retriever, between them for a Mixer, smallest for a Reset. By alignment: strong"
        f" with v_L at all N (cosine above {at['strong']:g}) for a Retriever; from v₀ at N ≤"
        f" {at['small']:g} towards v_L later for a Mixer; nearer to v₀ throughout, and weak with"
        f" v_L, for a Reset, all up to N = {at['large']:g} T. Sizes must differ by a factor"
        f" {at['factor']:g}, cosines by {at['margin']:g}; heads that two readings do not agree on"
        " are unclassified. The paper has the words only; the numbers are ours, not tuned."
    )
    heads = data["heads"].sel(criterion="both")
    total = int(heads.sum())
    if not total:
        return Caption(text, notes(data))
    known = ", ".join(f"{int(heads.sel(regime=name))} {noun}" for name, noun in NOUNS.items())
    finding = (
        f"Of {count(total, 'head')}: {known}, {int(heads.sel(regime='unclassified'))} unclassified."
        f" {_agreement(data)}{notes(data)}"
    )
    return Caption(text, finding.strip())


CHANCE = {
    0: ", which these documents cannot tell from chance",
    1: ", more often than chance",
    -1: ", less often than chance",
}
"""What the sign of Cohen's κ by its interval says."""


def _agreement(data: xr.Dataset) -> str:
    if not int(data["told"]):
        return ""
    value, low, high = (float(data[f"kappa{part}"]) for part in ("", "_lower", "_upper"))
    text = (
        f"Sizes and alignment both name a regime in {int(data['told'])} heads, and the same one in"
        f" {int(data['agreed'])}"
    )
    if not np.isfinite(value):
        return f"{text}. "
    sign = float(data["kappa_sign"])
    return (
        f"{text}{CHANCE[int(sign)] if np.isfinite(sign) else ''}: Cohen’s κ is"
        f" {_limits(value, low, high)}. "
    )


def regime_depth(run: Run) -> Caption:
    """Caption of the counterpart of Figure 8."""
    data = run.needed("regimes")
    text = (
        f"Heads of each regime, layer by layer, of {run.counted('head')}: told by sizes alone, by"
        " alignment alone, and where both agree (rules under the figure before). Look for: the"
        " paper’s order for Llama-2-7B, Retrievers in the first two layers, Resets in the next"
        " few, Mixers from the lower middle on."
    )
    depths = [
        f"{noun} {figures_of(depth)}"
        for name, noun in NOUNS.items()
        if np.isfinite(depth := float(data["mean_depth"].sel(regime=name)))
    ]
    finding = (
        f"Mean depth (layers from 0 to {data.sizes['layer'] - 1}) where both agree:"
        f" {', '.join(depths)}. "
        if depths
        else ""
    )
    if labelled := int(data["labelled"]):
        kept = count(int(data["kept"]), "head")
        finding += (
            f"Of these {labelled}, {kept} keep their regime in 95% of {data.attrs['resamples']:,}"
            " resamples of the documents."
        )
    return Caption(text, (finding.strip() + (f" {notes(data)}" if notes(data) else "")).strip())


def regime_curves(run: Run) -> Caption:
    """Caption of the counterpart of Figure 11."""
    data = run.needed("regimes")
    band = (
        f"; bands: 95% over {run.counted('document')}, t with {run.documents - 1} degrees of"
        " freedom"
        if run.documents > 1
        else ""
    )
    text = (
        "Precision and Recall against the number N of selected tokens, mean over the heads of a"
        f" regime (both criteria){band}. Look for: the paper’s findings, more Recall but less"
        " Precision at large N for Retrievers, metrics of Resets rising again."
    )
    both = data.sel(criterion="both")
    parts = []
    for size in sorted({run.small_size, int(data["large_size"])}):
        of_size = []
        for name, noun in NOUNS.items():
            p, r = (
                at_size(both[statistic].sel(regime=name), size)
                for statistic in ("precision", "recall")
            )
            if np.isfinite(p):
                of_size.append(f"{noun} {figures_of(p)} and {figures_of(r)}")
        if of_size:
            parts.append(f"At N = {size}, Precision and Recall are: {', '.join(of_size)}")
    return Caption(text, ". ".join(parts) + "." if parts else notes(data))
