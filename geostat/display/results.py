"""Results derived for display: confidence bands, coverage, signs of coefficients, regimes.

The module also holds the synthetic tokens of the page's first figure, and quartiles of measured
scores by predicted scores.

Source: arXiv 2602.01893, Definitions 1-2, Theorems 1-2, §4.1, §4.2, Figures 1, 5-8 and 11. Imports
numpy, scipy.special and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from geostat.datasets.separability import STATISTICS
from geostat.datasets.variable import Variables, with_limits
from geostat.paper import WORKING_SIZE
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import LEVEL, SIGNIFICANCE
from geostat.statistics.losses import mean_over_documents

CONTRIBUTIONS = np.stack(
    [
        [2.9, 1.5, 0.9, 1.0, 0.62, 0.35, -0.2, -0.7, -0.25, 0.1],
        [0.7, 1.5, -0.7, 0.45, 1.0, -0.45, 0.55, -0.25, -0.8, 1.25],
    ],
    axis=-1,
)
SELECTED = 3
"""Number of selected tokens, the first rows."""


def bands(summary: xr.Dataset, documents: int, tokens: int) -> xr.Dataset:
    """Return 95% bands over documents, and the sizes N at which a null baseline exceeds them.

    Variables for s = precision, recall: s_band_lower and s_band_upper, (n), by Student's t; and
    s_below_null, (null, n), for 1 < N < T. With one document the bands are NaN, and a null baseline
    is compared with the curve itself.
    """
    result = xr.Dataset()
    critical = float(stdtrit(documents - 1, 0.5 + LEVEL / 2)) if documents > 1 else float("nan")
    n = summary["n"]
    for statistic in STATISTICS:
        level = summary[f"{statistic}_mean"]
        half = critical * summary[f"{statistic}_se"]
        result[f"{statistic}_band_lower"] = level - half
        result[f"{statistic}_band_upper"] = level + half
        if f"{statistic}_null" in summary:
            reach = level + half if documents > 1 else level
            result[f"{statistic}_below_null"] = (
                (summary[f"{statistic}_null"] > reach) & (n > 1) & (n < tokens)
            )
    return result


def coverage(envelope: xr.Dataset, tokens: np.ndarray) -> xr.Dataset:
    """Return the share of measured curves within their bounds.

    Sizes count if both bounds are known and 1 < N < T; at N = 1 and N = T, P and R are 1 by
    definition.

    Args:
        envelope: /envelope.
        tokens: T of each layer.

    Returns:
        s_inside_by_size, (edition, gram, n_envelope), over heads, and s_inside_by_head, (edition,
        gram, layer, head), over sizes; NaN if nothing counts.
    """
    result = xr.Dataset()
    for statistic in STATISTICS:
        excess = envelope[f"{statistic}_excess"].transpose(
            "edition", "gram", "layer", "head", "n_envelope"
        )
        between = (excess["n_envelope"] > 1) & (
            excess["n_envelope"] < xr.DataArray(tokens, dims="layer")
        )
        counted = excess.notnull() & between
        for name, over in (("size", ("layer", "head")), ("head", ("n_envelope",))):
            cells, inside = counted.sum(over), ((excess <= 0) & counted).sum(over)
            result[f"{statistic}_inside_by_{name}"] = inside / cells.where(cells > 0)
    return result


def head_scores(capture: xr.Dataset) -> tuple[xr.Dataset, int]:
    """Return P and R of each head, (layer, head), averaged over documents, and their size N.

    N is the measured size closest to the upper edge of the paper's working range.
    """
    n = capture["n"].values
    size = int(n[np.abs(n - WORKING_SIZE).argmin()])
    by_document = capture[list(STATISTICS)].sel(n=size).drop_vars("n")
    scores = by_document.transpose("document", "layer", "head").mean("document")
    return scores.rename({name: f"{name}_of_head" for name in STATISTICS}), size


def example() -> xr.Dataset:
    """Return synthetic contributions, (token, axis), their representative s and two balls around
    it.

    outer_radius reaches the farthest selected token, inner_radius the nearest unselected one.
    inside_outer counts all tokens in the outer ball, inside_inner selected tokens in the inner one.

    >>> synthetic = example()
    >>> int(synthetic["inside_outer"]), int(synthetic["inside_inner"])
    (5, 2)
    """
    representative = CONTRIBUTIONS[:SELECTED].sum(axis=0)
    distance = np.linalg.norm(CONTRIBUTIONS - representative, axis=1)
    outer, inner = distance[:SELECTED].max(), distance[SELECTED:].min()
    return xr.Dataset(
        {
            "contribution": (("token", "axis"), CONTRIBUTIONS),
            "selected": ("token", np.arange(len(CONTRIBUTIONS)) < SELECTED),
            "representative": ("axis", representative),
            "outer_radius": outer,
            "inner_radius": inner,
            "inside_outer": int((distance <= outer).sum()),
            "inside_inner": int((distance[:SELECTED] <= inner).sum()),
        }
    )


STABLE: Final = 0.95
"""Share of resamples above which the regime of a head counts as stable."""
LARGE: Final = 4
"""Regimes are compared at a small N and at the size closest to T / LARGE."""
KINDS: Final = ("leave_one_out", "resampled", "sweep")
PARTS: Final = ("sink", "last", "rest")
PREDICTED_BINS: Final = 10
"""Number of bins of predicted scores in [0, 1]."""
LEAST_CELLS: Final = 10
"""Smallest number of cells for the quartiles of a bin."""
QUARTILES: Final = (0.25, 0.5, 0.75)
TYPICAL: Final = (
    "representative_norm",
    "representative_norm_without_sink",
    "representative_norm_without_last",
    "cosine_to_sink",
    "cosine_to_last",
)
"""Curves over N of each regime's typical head."""


def sign(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the sign of an interval: 1 above 0, −1 below, 0 if it contains 0, NaN if unknown.

    >>> sign(np.array([0.1, -0.2, -0.2, np.nan]), np.array([0.3, -0.1, 0.1, np.nan])).tolist()
    [1.0, -1.0, 0.0, nan]
    """
    return np.where(
        np.isfinite(lower), (np.asarray(lower) > 0) * 1.0 - (np.asarray(upper) < 0), np.nan
    )


def sink_signs(sink: xr.Dataset) -> xr.Dataset:
    """Return the sign of each coefficient of /sink by its interval, (measure, n)."""
    dims = sink["correlation_lower"].dims
    result = xr.Dataset(coords={name: sink[name] for name in dims})
    for name in ("correlation", "unattenuated"):
        signs = sign(sink[f"{name}_lower"].values, sink[f"{name}_upper"].values)
        result[f"{name}_sign"] = (dims, signs)
    return result


def separable_side(separable: xr.Dataset) -> xr.Dataset:
    """Return s_side, (null, n): 1 where the mean significantly exceeds a null baseline, −1 below.

    p-values are Holm-adjusted over N; 0 is not significant, NaN untested.
    """
    result = xr.Dataset()
    for statistic in STATISTICS:
        p, gain = separable[f"{statistic}_p_holm"], separable[f"{statistic}_gain"]
        side = xr.where(p <= SIGNIFICANCE, np.sign(gain), 0)
        result[f"{statistic}_side"] = side.where(np.isfinite(p))
    return result


def regime_summary(heads: xr.Dataset, tokens: int) -> xr.Dataset:
    """Return summary statistics of each regime.

    Returns:
        mean_depth, in layers from 0, by both criteria; contribution, median over heads; stability,
        mean share of replicates with the same label; labelled, the number of heads with a regime by
        both criteria; kept, the number of those with a stable regime (STABLE); large_size, the
        larger N of the comparison.
    """
    order = ("criterion", "layer", "head")
    label = heads["label"].transpose(*order).values
    shares = [heads[f"stability_{kind}"].transpose(*order).values for kind in KINDS]
    cells = (heads.sizes["criterion"], heads.sizes["regime"])
    contribution = np.full((*cells, len(PARTS)), np.nan)
    stability = np.full((*cells, len(KINDS)), np.nan)
    for i, j in np.ndindex(cells):
        members = label[i] == j
        if members.any():
            contribution[i, j] = [
                np.median(heads[f"contribution_{part}"].values[members]) for part in PARTS
            ]
            by_kind = np.stack([share[i][members] for share in shares])
            stability[i, j] = mean_over_documents(by_kind.T)
    of_both = heads[["label", "stability_resampled", "count"]].sel(criterion="both")
    both = of_both["stability_resampled"].where(of_both["label"] > 0).values
    counts = of_both["count"].transpose("regime", "layer").values
    layers = heads["layer"].values.astype(np.float64)
    total_depth, number = (counts * layers).sum(axis=1), counts.sum(axis=1)
    n = heads["n"].values
    return xr.Dataset(
        {
            "mean_depth": ("regime", ratio(total_depth, number)),
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
    """Return the curves `TYPICAL` of each regime's typical head, typical_x (regime, n).

    They are means over documents with 95% limits; NaN for a regime without heads.
    """
    typical = list(zip(heads["typical_layer"].values, heads["typical_head"].values, strict=True))
    known = np.array([layer >= 0 for layer, _ in typical])[:, None]

    def where_known(curve: FloatArray) -> FloatArray:
        return np.where(known, curve, np.nan)

    result: Variables = {}
    for name in TYPICAL:
        by_document = (
            capture[name].transpose("document", "layer", "head", "n").values.astype(np.float64)
        )
        curves = [by_document[:, layer, head] for layer, head in typical]  # −1: no typical head
        by_regime = np.stack(curves, axis=1)
        result |= with_limits(f"typical_{name}", ("regime", "n"), by_regime, where_known)
    return xr.Dataset(result, coords={"regime": heads["regime"], "n": capture["n"]})


def predictive_quartiles(predictive: xr.Dataset) -> xr.Dataset:
    """Return quartiles of measured scores in bins of predicted scores.

    Cells (head, N) are binned by predicted score; bins with fewer than LEAST_CELLS are NaN.

    Returns:
        s_predicted_median, (source, bin), and s_measured_quartile, (source, quartile, bin).
    """
    dims = ("source", "layer", "head", "n_predicted")
    sources = predictive["source"].values
    variables: Variables = {}
    for statistic in STATISTICS:
        measured = predictive[statistic].transpose(*dims[1:]).values.ravel()
        predicted = predictive[f"{statistic}_predicted"].transpose(*dims).values
        median = np.full((len(sources), PREDICTED_BINS), np.nan)
        quartiles = np.full((len(sources), len(QUARTILES), PREDICTED_BINS), np.nan)
        for row, scores in enumerate(predicted.reshape(len(sources), -1)):
            known = np.isfinite(scores) & np.isfinite(measured)
            bin_of = np.clip((scores[known] * PREDICTED_BINS).astype(int), 0, PREDICTED_BINS - 1)
            for k in range(PREDICTED_BINS):
                if (bin_of == k).sum() >= LEAST_CELLS:
                    median[row, k] = np.median(scores[known][bin_of == k])
                    quartiles[row, :, k] = np.quantile(measured[known][bin_of == k], QUARTILES)
        variables[f"{statistic}_predicted_median"] = (("source", "bin"), median)
        variables[f"{statistic}_measured_quartile"] = (("source", "quartile", "bin"), quartiles)
    coords = {"source": predictive["source"], "quartile": list(QUARTILES)}
    return xr.Dataset(variables, coords=coords)


def form_summary(
    fits: xr.Dataset, prefix: str, dim: str, labels: Mapping[str, tuple[str, str]]
) -> xr.Dataset:
    """Count heads by the form with the lowest BIC and the lowest held-out loss, and label forms.

    Args:
        fits: /similarity or /weights.
        prefix: prefix of the variables.
        dim: dimension of the forms.
        labels: label (in figures) and formula (in tables) of each form.

    Returns:
        lowest_bic, lowest_loss, clearly_lowest, label and formula, (dim,), as far as `fits` has
        data.

    >>> fits = xr.Dataset({"bic": (("form", "head"), [[1.0, 5.0], [2.0, 3.0], [np.nan, 4.0]])})
    >>> form_summary(fits, "", "form", {})["lowest_bic"].values.tolist()
    [1, 1, 0]
    """
    result = xr.Dataset()
    for name, criterion in {"lowest_bic": "bic", "lowest_loss": "loss_held_out"}.items():
        if f"{prefix}{criterion}" in fits:
            values = fits[f"{prefix}{criterion}"].transpose(dim, ...).values.astype(np.float64)
            values = values.reshape(fits.sizes[dim], -1)
            values = values[:, np.isfinite(values).any(axis=0)]
            if values.size:
                lowest = np.where(np.isfinite(values), values, np.inf).argmin(axis=0)
                result[name] = dim, np.bincount(lowest, minlength=fits.sizes[dim])
    if (name := f"{prefix}clearly_lowest") in fits:
        over = [other for other in fits[name].dims if other != dim]
        result["clearly_lowest"] = dim, fits[name].sum(over).values
    forms = [str(form) for form in fits[dim].values] if dim in fits.coords else []
    for index, name in enumerate(("label", "formula") if forms else ()):
        words = [labels.get(form, (form, form))[index] for form in forms]
        result[name] = dim, np.array(words, dtype=object)
    return result
