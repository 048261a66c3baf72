"""What intervals and p-values of the experiments say, regimes in numbers, and quartiles of measured
by predicted values.

Source: arXiv 2602.01893, §4.1, §4.2, Figures 6-8 and 11. Imports numpy and xarray.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.separability import STATISTICS
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import SIGNIFICANCE, document_mean
from geostat.statistics.losses import mean_over_documents

STABLE: Final = 0.95
"""Share of the resamples from which a head counts as keeping its regime."""
LARGE: Final = 4
"""Regimes are compared at a small N, and at the size nearest to this part of T."""
KINDS: Final = ("left_out", "resampled", "sweep")
PARTS: Final = ("sink", "last", "rest")
PREDICTED_BINS: Final = 10
"""Bins of predicted values from 0 to 1 in which measured ones have quartiles."""
LEAST_CELLS: Final = 10
"""Cells below which a bin has none."""
QUARTILES: Final = (0.25, 0.5, 0.75)
TYPICAL: Final = (
    "representative_norm",
    "representative_norm_without_sink",
    "representative_norm_without_last",
    "cosine_to_sink",
    "cosine_to_last",
)
"""Curves over N of a typical head of each regime."""


def sign(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return 1 where an interval lies above 0, −1 below it, 0 where it holds 0, and NaN where it is
    unknown.

    >>> sign(np.array([0.1, -0.2, -0.2, np.nan]), np.array([0.3, -0.1, 0.1, np.nan])).tolist()
    [1.0, -1.0, 0.0, nan]
    """
    return np.where(
        np.isfinite(lower), (np.asarray(lower) > 0) * 1.0 - (np.asarray(upper) < 0), np.nan
    )


def sink_signs(sink: xr.Dataset) -> xr.Dataset:
    """Return the sign of each coefficient of /sink by its interval, (measure, n)."""
    dims = sink["correlation_lower"].dims
    signs = {
        name: sign(sink[f"{name}_lower"].values, sink[f"{name}_upper"].values)
        for name in ("correlation", "unattenuated")
    }
    return xr.Dataset(
        {f"{name}_sign": (dims, values) for name, values in signs.items()},
        coords={name: sink[name] for name in dims},
    )


def separable_side(separable: xr.Dataset) -> xr.Dataset:
    """Return where the measured mean lies beyond each null at all N at once, s_side (null, n): 1
    above, −1 below, 0 neither, NaN untested.
    """
    result = xr.Dataset()
    for statistic in STATISTICS:
        p, gain = separable[f"{statistic}_p_holm"], separable[f"{statistic}_gain"]
        result[f"{statistic}_side"] = xr.where(
            p <= SIGNIFICANCE, (gain > 0) * 1 - (gain < 0) * 1, 0
        ).where(np.isfinite(p))
    return result


def regime_summary(heads: xr.Dataset, tokens: int) -> xr.Dataset:
    """Return what the heads of each regime have in common.

    mean_depth is in layers from 0, by both criteria; contribution the median over heads, stability
    the mean share of replicates that give a head its label again. labelled and kept are heads with
    a regime by both criteria, and those of them that keep it in STABLE of the resamples; large_size
    is the N beside a small one.
    """
    contribution, stability = _contribution_and_stability(heads)
    both = (
        heads["stability_resampled"]
        .sel(criterion="both")
        .where(heads["label"].sel(criterion="both") > 0)
        .values
    )
    each = heads["count"].sel(criterion="both").transpose("regime", "layer").values
    depth, of = (each * heads["layer"].values.astype(np.float64)).sum(axis=1), each.sum(axis=1)
    n = heads["n"].values
    return xr.Dataset(
        {
            "mean_depth": ("regime", ratio(depth, of)),
            "contribution": (("criterion", "regime", "part"), contribution),
            "stability": (("criterion", "regime", "kind"), stability),
            "kappa_sign": sign(heads["kappa_lower"].values, heads["kappa_upper"].values),
            "labelled": int(np.isfinite(both).sum()),
            "kept": int((both >= STABLE).sum()),
            "large_size": int(n[np.abs(np.log(n / (tokens / LARGE))).argmin()]),
        },
        coords={
            "regime": heads["regime"],
            "criterion": heads["criterion"],
            "part": list(PARTS),
            "kind": list(KINDS),
        },
    )


def typical_curves(capture: xr.Dataset, heads: xr.Dataset) -> xr.Dataset:
    """Return the curves of `TYPICAL` of the typical head of each regime, typical_x (regime, n),
    means over documents, with their 95% limits; NaN where a regime has none.
    """
    result = {}
    places = list(zip(heads["typical_layer"].values, heads["typical_head"].values, strict=True))
    for name in TYPICAL:
        each = capture[name].transpose("document", "layer", "head", "n").values.astype(np.float64)
        chosen = [each[:, layer, head] for layer, head in places]  # of none, −1, any
        mean = document_mean(np.stack(chosen, axis=1))
        known = np.array([layer >= 0 for layer, _ in places])[:, None]
        for part, values in (("", mean.value), ("_lower", mean.lower), ("_upper", mean.upper)):
            result[f"typical_{name}{part}"] = (("regime", "n"), np.where(known, values, np.nan))
    return xr.Dataset(result, coords={"regime": heads["regime"], "n": capture["n"]})


def _contribution_and_stability(heads: xr.Dataset) -> tuple[FloatArray, FloatArray]:
    """The median contribution over the heads of a regime, (criterion, regime, part), and their mean
    stability, (criterion, regime, kind); NaN where it has no heads.
    """
    regimes, criteria = heads.sizes["regime"], heads.sizes["criterion"]
    contribution = np.full((criteria, regimes, len(PARTS)), np.nan)
    stability = np.full((criteria, regimes, len(KINDS)), np.nan)
    label = heads["label"].transpose("criterion", "layer", "head").values
    for i, j in np.ndindex(criteria, regimes):
        own = label[i] == j
        if own.any():
            contribution[i, j] = [
                np.median(heads[f"contribution_{part}"].values[own]) for part in PARTS
            ]
            shares = np.stack(
                [
                    heads[f"stability_{kind}"]
                    .transpose("criterion", "layer", "head")
                    .values[i][own]
                    for kind in KINDS
                ]
            )
            stability[i, j] = mean_over_documents(shares.T)
    return contribution, stability


def predictive_quartiles(predictive: xr.Dataset) -> xr.Dataset:
    """Return the median predicted value, s_predicted_median (source, bin), and the quartiles of
    measured ones, s_measured_quartile (source, quartile, bin).

    Cells (head, N) are binned by their predicted value; NaN in bins that hold fewer than
    LEAST_CELLS.
    """
    dims = ("layer", "head", "n_predicted")
    sources = predictive["source"].values
    out: dict[str, tuple[tuple[str, ...], FloatArray]] = {}
    for statistic in STATISTICS:
        measured = predictive[statistic].transpose(*dims).values.ravel()
        centre = np.full((len(sources), PREDICTED_BINS), np.nan)
        level = np.full((len(sources), len(QUARTILES), PREDICTED_BINS), np.nan)
        for row, source in enumerate(sources):
            predicted = (
                predictive[f"{statistic}_predicted"]
                .sel(source=source)
                .transpose(*dims)
                .values.ravel()
            )
            known = np.isfinite(predicted) & np.isfinite(measured)
            bin_of = np.clip((predicted[known] * PREDICTED_BINS).astype(int), 0, PREDICTED_BINS - 1)
            for k in range(PREDICTED_BINS):
                if (bin_of == k).sum() >= LEAST_CELLS:
                    centre[row, k] = np.median(predicted[known][bin_of == k])
                    level[row, :, k] = np.quantile(measured[known][bin_of == k], QUARTILES)
        out[f"{statistic}_predicted_median"] = (("source", "bin"), centre)
        out[f"{statistic}_measured_quartile"] = (("source", "quartile", "bin"), level)
    return xr.Dataset(out, coords={"source": predictive["source"], "quartile": list(QUARTILES)})


def form_counts(fits: xr.Dataset, prefix: str, form: str) -> xr.Dataset:
    """Return, along the dimension `form`, in how many heads each form has the lowest BIC, the
    lowest loss on documents left out, and clearly the lowest: lowest_bic, lowest_loss,
    clearly_lowest; nothing of what is not known.

    `prefix` is what the names of the fits' variables begin with.

    >>> fits = xr.Dataset({"bic": (("form", "head"), [[1.0, 5.0], [2.0, 3.0], [np.nan, 4.0]])})
    >>> form_counts(fits, "", "form")["lowest_bic"].values.tolist()
    [1, 1, 0]
    """
    counts = {}
    for name, of in {"lowest_bic": "bic", "lowest_loss": "loss_left_out"}.items():
        if f"{prefix}{of}" in fits:
            values = fits[f"{prefix}{of}"].transpose(form, ...).values.astype(np.float64)
            values = values.reshape(fits.sizes[form], -1)
            values = values[:, np.isfinite(values).any(axis=0)]
            if values.size:
                lowest = np.where(np.isfinite(values), values, np.inf).argmin(axis=0)
                counts[name] = (form, np.bincount(lowest, minlength=fits.sizes[form]))
    if (name := f"{prefix}clearly_lowest") in fits:
        over = [dim for dim in fits[name].dims if dim != form]
        counts["clearly_lowest"] = (form, fits[name].sum(over).values)
    return xr.Dataset(counts)
