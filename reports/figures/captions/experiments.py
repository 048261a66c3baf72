"""What stands under the figures of the paper's experiments. Imports nothing that draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from reports.figures.captions.caption import Caption, Numbers
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


def _limits(say: Numbers, name: str, value: float, low: float, high: float) -> str:
    text = say.figures(name, value)
    if not np.isfinite(low):
        return text
    ends = (say.figures(f"{name}, {side}", end) for side, end in (("lower", low), ("upper", high)))
    return f"{text} (95%: {' to '.join(ends)})"


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
    say, parts = Numbers(), []
    for size in sizes:
        measured = at_size(data["correlation"].sel(measure="pearson"), size)
        if np.isfinite(measured):
            at = say.whole("N", size)
            plain = say.figures(f"correlation at N = {size}", measured)
            freed, name = _unattenuated(data, "pearson", size), f"unattenuated at N = {size}"
            clean = ""
            if np.isfinite(freed[0]):
                clean = f" and {_limits(say, name, *freed)} free of noise"
            parts.append(f"at N = {at}, {plain} as measured{clean}")
    if not parts:
        return Caption(text, notes(data))
    peak = int(data["peak_n"].sel(measure="pearson"))
    top = at_size(data["correlation"].sel(measure="pearson"), peak)
    finding = (
        f"{_direction(data, sizes)}: {'; '.join(parts)}; as measured largest at N ="
        f" {say.whole('N of the largest', peak)}, {say.figures('largest correlation', top)}."
        f" {_other_things_equal(data, sizes[0], say)}{notes(data)}"
    )
    return Caption(text, finding.strip(), say.all)


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


def _other_things_equal(data: xr.Dataset, size: int, say: Numbers) -> str:
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
    left = _limits(say, "given weight and layer", value, low, high)
    return (
        f"Between heads of equal sink weight in the same layer it is {left} at N ="
        f" {say.whole('N, given weight and layer', size)}: {verdict}. "
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
    say = Numbers()
    every = say.counted("heads", total, "head")
    known = ", ".join(
        f"{say.whole(name, int(heads.sel(regime=name)))} {noun}"
        for name, noun in {**NOUNS, "unclassified": "unclassified"}.items()
    )
    finding = f"Of {every}: {known}. {_agreement(data, say)}{notes(data)}"
    return Caption(text, finding.strip(), say.all)


CHANCE = {
    0: ", which these documents cannot tell from chance",
    1: ", more often than chance",
    -1: ", less often than chance",
}
"""What the sign of Cohen's κ by its interval says."""


def _agreement(data: xr.Dataset, say: Numbers) -> str:
    if not int(data["told"]):
        return ""
    value, low, high = (float(data[f"kappa{part}"]) for part in ("", "_lower", "_upper"))
    text = (
        "Sizes and alignment both name a regime in"
        f" {say.whole('heads named by both', int(data['told']))} heads, and the same one in"
        f" {say.whole('heads named alike', int(data['agreed']))}"
    )
    if not np.isfinite(value):
        return f"{text}. "
    sign = float(data["kappa_sign"])
    return (
        f"{text}{CHANCE[int(sign)] if np.isfinite(sign) else ''}: Cohen’s κ is"
        f" {_limits(say, 'kappa', value, low, high)}. "
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
    say = Numbers()
    depths = [
        f"{noun} {say.figures(f'mean depth, {name}', depth)}"
        for name, noun in NOUNS.items()
        if np.isfinite(depth := float(data["mean_depth"].sel(regime=name)))
    ]
    finding = (
        f"Mean depth (layers from 0 to {say.whole('last layer', data.sizes['layer'] - 1)}) where"
        f" both agree: {', '.join(depths)}. "
        if depths
        else ""
    )
    if labelled := int(data["labelled"]):
        kept = say.counted("heads that keep it", int(data["kept"]), "head")
        of = say.whole("heads of a regime", labelled)
        resamples = say.counted("resamples", int(data.attrs["resamples"]), "resample")
        finding += (
            f"Of these {of}, {kept} keep their regime in 95% of {resamples} of the documents."
        )
    finding = finding.strip() + (f" {notes(data)}" if notes(data) else "")
    return Caption(text, finding.strip(), say.all)


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
    say, parts = Numbers(), []
    for size in sorted({run.small_size, int(data["large_size"])}):
        of_size = []
        for name, noun in NOUNS.items():
            values = {
                statistic: at_size(both[statistic].sel(regime=name), size)
                for statistic in ("precision", "recall")
            }
            if np.isfinite(values["precision"]):
                shown = (
                    say.figures(f"{statistic} of {name} at N = {size}", value)
                    for statistic, value in values.items()
                )
                of_size.append(f"{noun} {' and '.join(shown)}")
        if of_size:
            at = say.whole("N", size)
            parts.append(f"At N = {at}, Precision and Recall are: {', '.join(of_size)}")
    return Caption(text, ". ".join(parts) + "." if parts else notes(data), say.all)
