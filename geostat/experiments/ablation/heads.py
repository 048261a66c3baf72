r"""Features of each head, the loss increase from ablating that head alone, and whether geometric
features predict it.

Spearman correlations over heads of a feature with the relative loss increase; partial ones that
control for selected mass and entropy of the weights (residuals of both ranks after least squares on
the ranks of these); and R² on held-out layers. Standard errors combine documents and layers.

N*_τ of a head is the smallest evaluated N with ΔNLL_rel ≤ τ at N and at every larger evaluated N,
with only that head ablated. The search evaluates the given sizes, then bisects down to adjacent N.
Imports numpy, scipy.special and xarray.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import JACKKNIFE, Quantity
from geostat.analyses.effective_size import PLAIN, Cell, crossing, crossing_of, star, star_of
from geostat.analyses.head_regime_rules import REGIMES
from geostat.datasets.table import quantities
from geostat.datasets.variable import Value, stacked, variables, words_along
from geostat.statistics.arrays import BoolArray, FloatArray, ranks, ratio
from geostat.statistics.jackknife import (
    Estimate,
    document_mean,
    jackknife,
    jackknife_of_two,
    leave_one_out_mean,
)
from geostat.statistics.losses import mean_over_documents

CURVES: Final = ("precision", "recall", "f_outer", "f_inner")
PREDICTORS: Final = {
    "precision": "Precision at N",
    "recall": "Recall at N",
    "f_outer": "F(r_max) at N",
    "f_inner": "F(r_min) at N",
    "sharp_f_lower": "sharp lower bound on F(r_max) at N",
    "sharp_f_margin": "F(r_max) at N minus its sharp lower bound",
    "lam": "λ, sink norm over content norm",
    "rho0": "ρ₀, mean cosine of the sink with content tokens",
    **{name: f"is a {name} head" for name in REGIMES[1:]},
    "selected_mass": "share of the N largest weights (selected mass)",
    "entropy": "entropy of the weights",
}


def features_of(
    measured: Mapping[str, FloatArray], sizes: Sequence[int], tree: xr.DataTree
) -> xr.Dataset:
    """Join the features of heads measured by document with those of a confronted run.

    Args:
        measured: CURVES, (document, layer, head, n); selected_mass, the share of the N = 1, 2, …
            largest weights, (document, layer, head, T); entropy, (document, layer, head), nats.

    Returns:
        FEATURES; `mass`, the selected mass at every N, (document, layer, head, token); λ and ρ₀ of
        the KV head of each head, and its regime by size, a code of REGIMES, (layer, head).
    """
    _, layers, heads, _ = measured["precision"].shape

    def of_values(values: xr.DataArray) -> FloatArray:
        by_kv_head = values.transpose("layer", "kv_head").values
        return np.repeat(by_kv_head, heads // by_kv_head.shape[1], axis=1)

    envelope = tree["envelope"].to_dataset()
    sharp = np.full((layers, heads, len(sizes)), np.nan)
    if "sharp" in envelope["edition"].values:
        lower = envelope["f_outer_lower"].sel(edition="sharp").isel(gram=0)
        lower = lower.transpose("layer", "head", "n_envelope")
        logs, log_sizes = np.log(lower["n_envelope"].values), np.log(sizes)
        for place in np.ndindex(layers, heads):
            row = lower.values[place]
            known = np.isfinite(row)
            if known.any():
                sharp[place] = np.interp(log_sizes, logs[known], row[known])
    of_head, by_document = ("layer", "head"), ("document", "layer", "head")
    mass = measured["selected_mass"]
    return xr.Dataset(
        {
            **{name: ((*by_document, "n"), measured[name].astype(np.float64)) for name in CURVES},
            "selected_mass": ((*by_document, "n"), mass[..., [n - 1 for n in sizes]]),
            "entropy": (by_document, measured["entropy"]),
            "sharp_f_lower": ((*of_head, "n"), sharp),
            "mass": ((*by_document, "token"), mass),
            "lam": (of_head, of_values(tree["norms"].to_dataset()["lam"])),
            "rho0": (of_head, of_values(tree["similarity"].to_dataset()["rho0"])),
            "regime": (of_head, tree["heads"].to_dataset()["label"].sel(criterion="size").values),
        },
        coords={"n": list(sizes)},
    )


def of_regime(features: xr.Dataset, name: str) -> BoolArray:
    """Return a mask of the heads of a regime, (layer, head)."""
    return np.asarray(features["regime"].values == REGIMES.index(name))


def predictors_at(features: xr.Dataset, n: int) -> dict[str, FloatArray]:
    """Return PREDICTORS at one N, (document, head) or (head,)."""
    by_head = {str(name): values.values for name, values in features.sel(n=n).items()}
    by_head["sharp_f_margin"] = by_head["f_outer"] - by_head["sharp_f_lower"]
    by_head |= {name: of_regime(features, name).astype(float) for name in REGIMES[1:]}
    return {name: _flat(by_head[name]) for name in PREDICTORS}


def _flat(values: FloatArray) -> FloatArray:
    """Reshape (..., layer, head) to (..., layer × head)."""
    return values.reshape(*values.shape[:-2], -1)


WEIGHTS: Final = ("selected_mass", "entropy")
"""Features of the weights, used as controls."""
CONTROLS: Final = {
    "nothing": "no controls",
    "weights": "controlling for selected mass and entropy",
    "weights and layer": "controlling for selected mass, entropy and the layer",
}
MODELS: Final = ("weights", "geometry", "weights and geometry")
"""Models that predict held-out layers."""
OF_OTHERS: Final = ("sharp_f_margin",)
"""Features excluded from models, as differences of two others."""
SPARE: Final = 3
"""Fewest fitted heads per predictor of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Table of heads: loss increases from ablation, and features."""

    rise: FloatArray
    """Relative loss increase with only this head ablated, (document, size, head)."""
    outcome: Callable[[FloatArray], FloatArray]
    """Function from mean rises, (size, head), to the outcome, (head,)."""
    features: Mapping[str, FloatArray]
    """Features by name, `WEIGHTS` among them: (document, head), or (head,) without documents."""
    layer: FloatArray
    """Layer of each head, (head,)."""

    def replicates(self) -> list[tuple[FloatArray, dict[str, FloatArray]]]:
        """Return outcome and features, (head,), from means over all documents, then from
        leave-one-document-out means.
        """
        features = {
            name: _with_replicates(values) if values.ndim == 2 else [values] * (len(self.rise) + 1)
            for name, values in self.features.items()
        }
        return [
            (self.outcome(rise), {name: means[index] for name, means in features.items()})
            for index, rise in enumerate(_with_replicates(self.rise))
        ]


def _with_replicates(values: FloatArray) -> list[FloatArray]:
    return [mean_over_documents(values), *leave_one_out_mean(values)]


def associations(heads: Heads) -> Estimate:
    """Return rank correlations of features with the outcome, (feature, controls).

    Features are in the order of `heads.features`, controls as in CONTROLS; a control does not
    control for itself. Errors combine jackknives over documents and over layers on Fisher's z.
    A correlation is NaN if one of the two, or its residual, is constant; its error is NaN if that
    is so for a jackknife replicate.
    """

    def of(
        rise: FloatArray, features: Mapping[str, FloatArray], keep: BoolArray | slice = slice(None)
    ) -> FloatArray:
        """Return correlations over the heads of a mask."""
        selected = {name: values[keep] for name, values in features.items()}
        return _partials(rise[keep], selected, heads.layer[keep])

    replicates = heads.replicates()
    value, *without = (of(*means) for means in replicates)
    without_layer = [of(*replicates[0], heads.layer != layer) for layer in np.unique(heads.layer)]
    z = jackknife_of_two(*map(_fisher, (value, np.stack(without), np.stack(without_layer))))
    lower, upper = np.tanh(z.lower), np.tanh(z.upper)
    return Estimate(value=value, se=z.se * (1 - value**2), lower=lower, upper=upper)


def predictions(heads: Heads, weights: Mapping[str, FloatArray]) -> tuple[Estimate, int]:
    """Return R² of the ranks of the outcome on held-out layers, and the number of heads.

    R² has shape (model + 1,): MODELS, and the gain of geometry over weights. Models are fitted by
    least squares on ranks, and on squared ranks of features with more than two values. Each layer
    is predicted from the others, clipped to their range; R² is relative to their mean. `OF_OTHERS`
    are excluded. All models use the same heads: those with every feature that most heads have.
    Standard errors combine jackknives over documents and over layers. R² is NaN with too few heads
    (`SPARE`) or one layer.

    Args:
        weights: features of the weights, such as selected mass at several N.
    """
    excluded = (*WEIGHTS, *OF_OTHERS)
    geometry = {name: values for name, values in heads.features.items() if name not in excluded}
    features = {**geometry, **weights}
    replicates = replace(heads, features=features).replicates()
    mean_outcome, means = replicates[0]
    used = {name for name, mean in means.items() if np.isfinite(mean).mean() > 0.5}
    use = np.isfinite(np.stack([mean_outcome, *(means[name] for name in used)])).all(axis=0)
    layer, layers = heads.layer[use], np.unique(heads.layer[use])
    groups = [[name for name in part if name in used] for part in (weights, geometry, features)]

    def parts(rise: FloatArray, features: Mapping[str, FloatArray]) -> FloatArray:
        """Return residual sums of squares by model, and the total, (layer, model + 1)."""
        squares = [
            _held_out(rise[use], [features[name][use] for name in group], layer) for group in groups
        ]
        return np.stack([*(residual for residual, _ in squares), squares[0][1]], axis=-1)

    value, *without = (parts(*means) for means in replicates)
    without_layer = np.stack([np.delete(value, index, axis=0) for index in range(len(layers))])
    r2 = jackknife_of_two(*map(_r_squared, (value, np.stack(without), without_layer)))
    return r2, int(use.sum())


def _fisher(correlation: FloatArray) -> FloatArray:
    """Return Fisher's z; infinite for ±1 and beyond (rounding)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.arctanh(np.clip(correlation, -1, 1)))


def _r_squared(squares: FloatArray) -> FloatArray:
    """Return R² by model and the gain of geometry, (..., model + 1), from squares by layer."""
    sums = squares.sum(axis=-2)
    r2 = 1 - ratio(sums[..., :-1], sums[..., -1:])
    return np.concatenate([r2, r2[..., 2:] - r2[..., :1]], axis=-1)


def _partials(
    rise: FloatArray, features: Mapping[str, FloatArray], layer: FloatArray
) -> FloatArray:
    """Return (partial) rank correlations of features with the outcome, (feature, controls)."""
    names, rows = list(features), np.stack([rise, *features.values()])
    finite = np.isfinite(rows)
    cache: dict[bytes, FloatArray] = {}

    def ranked(*indices: int) -> tuple[BoolArray, FloatArray]:
        """Return the heads with finite values in these rows, and their ranks, (row, head)."""
        use: BoolArray = np.asarray(finite[list(indices)].all(axis=0))
        if use.tobytes() not in cache:
            cache[use.tobytes()] = ranks(rows[:, use])
        return use, cache[use.tobytes()][list(indices)]

    correlations = []
    for index, name in enumerate(names, start=1):
        controls = [1 + names.index(weight) for weight in WEIGHTS if weight != name]
        (_, plain), (use, controlled) = ranked(0, index), ranked(0, index, *controls)
        of_layers = [layer[use] == other for other in np.unique(layer[use])[1:]]
        correlations.append(
            [_partial(plain), _partial(controlled), _partial(np.stack([*controlled, *of_layers]))]
        )
    return np.array(correlations)


def _partial(rows: FloatArray) -> float:
    """Return the correlation of the first two rows, (row, head), given the others."""
    heads = rows.shape[1]
    if heads < 3:
        return np.nan
    design = np.stack([np.ones(heads), *rows[2:]], axis=1)
    residuals = []
    for values in rows[:2]:
        residual = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
        is_rounding_error = np.linalg.norm(residual) <= 1e-9 * heads**1.5
        residuals.append(np.where(is_rounding_error, np.nan, residual))
    x, y = residuals
    return float(ratio((x * y).sum(), np.sqrt((x**2).sum() * (y**2).sum())))


def _held_out(
    rise: FloatArray, features: Sequence[FloatArray], layer: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return sums of squares of the ranks of each held-out layer, (layer,): residuals of the
    prediction, and deviations from the mean of the other layers.
    """
    layers = np.unique(layer)
    residual, total = np.full((2, len(layers)), np.nan)
    y, *ranked = ranks(np.stack([rise, *features]))
    scaled = [2 * feature / (len(y) + 1) - 1 for feature in ranked]
    squared = [feature**2 for feature in scaled if len(np.unique(feature)) > 2]
    design = np.stack([np.ones(len(y)), *scaled, *squared], axis=1)
    fewest = min(((layer != held_out).sum() for held_out in layers), default=0)
    known_all = np.isfinite(y).all() and np.isfinite(design).all()
    if len(layers) < 2 or fewest < SPARE * design.shape[1] or not known_all:
        return residual, total
    for index, held_out in enumerate(layers):
        test = layer == held_out
        fit = np.linalg.lstsq(design[~test], y[~test], rcond=None)[0]
        predicted = np.clip(design[test] @ fit, y[~test].min(), y[~test].max())
        residual[index] = ((y[test] - predicted) ** 2).sum()
        total[index] = ((y[test] - y[~test].mean()) ** 2).sum()
    return residual, total


GAIN: Final = "geometry adds"
"""Last label along `predictor`: R² of weights and geometry minus R² of weights."""
HEADS: Final = quantities(
    r"""
    head_rise | 1 | \Delta\mathrm{NLL}_{\mathrm{rel}} | relative loss increase with only this
        head at N selected tokens, mean over documents | dims: mode n layer head | estimated
    head_n_star | tokens | N^*_\tau | smallest evaluated N from which the rise is at most tau; the
        window if there is none | estimated
    head_steps_up | 1 | - | number of steps between evaluated N (and the window) at which the rise
        grows with N
    group_heads | 1 | - | number of heads of a group | dims: mode group
    head_share_of_one | 1 | - | share of a group's heads with N* = 1 | dims: mode group | estimated
    head_needed | tokens | N^*_\tau | N* that this share of a group's heads does not exceed |
        dims: mode group quantile | estimated
    rank_correlation | 1 | \rho_S | Spearman correlation over heads of a feature with the loss
        increase from ablation; errors over documents and layers |
        dims: mode outcome feature controls | estimated
    r2_held_out_layers | 1 | R^2 | R² of the ranks of the loss increase on held-out layers; errors
        over documents and layers | dims: mode outcome predictor | estimated
    r2_heads | 1 | - | number of heads behind R² | dims: mode outcome
    """,
    dims=("mode", "layer", "head"),
    more={"head_n_star": {"interval": JACKKNIFE}},
)
FEATURES: Final = (
    *(
        Quantity(name, PREDICTORS[name], dims=("document", "layer", "head", "n"))
        for name in (*CURVES, "selected_mass")
    ),
    Quantity("entropy", PREDICTORS["entropy"], "nats", dims=("document", "layer", "head")),
    Quantity("sharp_f_lower", PREDICTORS["sharp_f_lower"], dims=("layer", "head", "n")),
)
PRIMARY: Final = 8
"""N of the primary outcome, fixed before measurement."""


def primary_size(sizes: Sequence[int]) -> int:
    """Return PRIMARY if it was measured, otherwise the smallest N above 1.

    >>> primary_size([1, 8, 64]), primary_size([1, 4, 16])
    (8, 4)
    """
    return PRIMARY if PRIMARY in sizes else next((n for n in sizes if n > 1), sizes[0])


QUANTILES: Final = (0.5, 0.9)
"""Quantiles of N* over heads."""
SEARCH: Final = ", N*"
"""Suffix of the scope for N that the search for N* evaluated."""


def head_cell(layer: int, head: int, mode: str, n: int, *, search: bool = False) -> Cell:
    """Return the key of a single-head ablation; `search` marks an N evaluated by the search for N*.

    >>> head_cell(3, 1, "deletion", 8)
    Cell(scope='L3H1', rule='attention', mode='deletion', n=8)
    """
    return Cell(f"L{layer}H{head}{SEARCH if search else ''}", "attention", mode, n)


def sizes_held(losses: Iterable[Cell], shape: Sequence[int]) -> dict[str, list[int]]:
    """Return by mode the N at which every head was ablated alone; `shape` is (layers, heads)."""
    counts: Counter[tuple[str, int]] = Counter(
        (cell.mode, cell.n) for cell in losses if re.fullmatch(r"L\d+H\d+", cell.scope)
    )
    complete = sorted(key for key, count in counts.items() if count == shape[0] * shape[1])
    modes = dict.fromkeys(mode for mode, _ in complete)
    return {mode: [n for other, n in complete if other == mode] for mode in modes}


def curve_of_head(
    losses: Mapping[Cell, FloatArray], layer: int, head: int, mode: str
) -> dict[int, FloatArray]:
    """Return the losses of ablating one head, (document,) each, by N, ascending."""
    scopes = {head_cell(layer, head, mode, 0, search=search).scope for search in (False, True)}
    curve = {
        cell.n: loss
        for cell, loss in losses.items()
        if cell.scope in scopes and cell.mode == mode and cell.n
    }
    return dict(sorted(curve.items()))


def heads_dataset(
    losses: Mapping[Cell, FloatArray], features: xr.Dataset, tau: float
) -> xr.Dataset | None:
    """Return HEADS: loss increases of single heads and their predictors; None if not measured.

    Args:
        losses: losses by intervention, (document,) each; PLAIN without ablation.
        features: as of `features_of`, at every N at which all heads were ablated.
        tau: relative loss increase that defines N* of a head.
    """
    by_mode = sizes_held(losses, features["regime"].shape)
    if not by_mode:
        return None
    data = xr.concat(
        [_of_mode(losses, features, mode, sizes, tau) for mode, sizes in by_mode.items()],
        xr.Variable("mode", list(by_mode)),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="outer",
        combine_attrs="override",
    )
    sizes = sorted(data["n"].values.tolist())
    outcomes = [*(f"rise at N = {n}" for n in sizes), _star_name(tau)]
    words = words_along("outcome", outcomes, "outcome of the ablation")
    data = data.reindex(n=sizes, outcome=outcomes)
    return data.assign_coords(outcome=words, **along_sizes(sizes))


def _of_mode(
    losses: Mapping[Cell, FloatArray],
    features: xr.Dataset,
    mode: str,
    sizes: Sequence[int],
    tau: float,
) -> xr.Dataset:
    """Return HEADS of one mode, without the dim `mode`."""
    layers, heads = features["regime"].shape
    tokens = features.sizes["token"]
    curves = [curve_of_head(losses, layer, head, mode) for layer, head in np.ndindex(layers, heads)]
    plain = losses[PLAIN]
    rise = np.stack([[curve[n] / plain - 1 for curve in curves] for n in sizes])
    rise = np.moveaxis(rise, -1, 0)  # (document, n, head)
    # Limits are integers up to T for each head, without moderation over heads.
    stars = [replace(star(plain, curve, tau, tokens, first=sizes), skew=None) for curve in curves]
    layer = np.repeat(np.arange(layers, dtype=np.float64), heads)
    outcomes = {
        f"rise at N = {n}": Heads(
            rise=rise, outcome=itemgetter(index), features=predictors_at(features, n), layer=layer
        )
        for index, n in enumerate(sizes)
    }
    complete = all(np.isfinite(estimate.value) for estimate in stars)
    if complete:
        all_rises, star_of_means = _star_outcome(plain, curves, tau, tokens)
        predictors = predictors_at(features, primary_size(sizes))
        outcomes[_star_name(tau)] = Heads(
            rise=all_rises, outcome=star_of_means, features=predictors, layer=layer
        )
    masses = {n: features["selected_mass"].sel(n=n).values for n in sizes}
    weights = {f"selected_mass at {n}": _flat(mass) for n, mass in masses.items()}
    weights["entropy"] = _flat(features["entropy"].values)
    held_out = [predictions(outcome, weights) for outcome in outcomes.values()]
    means = [[*((curve[n] / plain - 1).mean() for n in sorted(curve)), 0.0] for curve in curves]
    steps_up = [int((np.diff(mean) > 0).sum()) for mean in means]
    groups = {"all": np.ones(layers * heads, dtype=bool)}
    groups |= {name: of_regime(features, name).ravel() for name in REGIMES[1:]}
    members = list(groups.values())
    numbers: dict[str, Value] = {
        "group_heads": np.array([int(group.sum()) for group in members]),
        **needs_of_groups(plain, curves, tau, tokens, members, complete=complete),
        "head_rise": document_mean(rise.reshape(*rise.shape[:2], layers, heads)),
        "head_n_star": stacked(stars, layers, heads),
        "head_steps_up": np.array(steps_up).reshape(layers, heads),
        "rank_correlation": stacked([associations(outcome) for outcome in outcomes.values()]),
        "r2_held_out_layers": stacked([r2 for r2, _ in held_out]),
        "r2_heads": np.array([count for _, count in held_out]),
    }
    coords = {
        "outcome": words_along("outcome", outcomes, "outcome of the ablation"),
        "feature": words_along("feature", PREDICTORS, "feature of a head"),
        "controls": words_along("controls", CONTROLS, "controls of the correlation"),
        "group": words_along("group", groups, "group of heads: all, or a regime (by size)"),
        "quantile": xr.Variable("quantile", list(QUANTILES), {"long_name": "share of the heads"}),
        "predictor": words_along(
            "predictor", (*MODELS, GAIN), "features that predict held-out layers"
        ),
    }
    records = [replace(record, dims=record.dims[1:]) for record in HEADS]
    return xr.Dataset(variables(records, numbers), coords=coords | along_sizes(sizes))


def needs_of_groups(
    plain: FloatArray,
    curves: Sequence[Mapping[int, FloatArray]],
    tau: float,
    tokens: int,
    groups: Sequence[BoolArray],
    *,
    complete: bool,
) -> dict[str, Value]:
    """Return the share of heads with N* = 1, (group,), and quantiles of N*, (group, quantile),
    with jackknives over documents; NaN for groups without heads, or if a search is incomplete.
    """
    crossings = [crossing(plain, curve, tau, tokens) for curve in curves]
    place = np.array([value for value, _ in crossings])
    without = np.stack([replicates for _, replicates in crossings], axis=1)  # (document, head)
    shares, needed = [], []
    for group in groups:
        known = group if complete else np.zeros_like(group)
        share = jackknife(_share_of_one(place[..., known]), _share_of_one(without[..., known]))
        lower, upper = share.lower.clip(0, 1), share.upper.clip(0, 1)
        shares.append(replace(share, lower=lower, upper=upper))
        logs, logs_without = (_quantiles(np.log(values[..., known])) for values in (place, without))
        needed.append(star_of(logs, logs_without, tokens))
    return {"head_share_of_one": stacked(shares), "head_needed": stacked(needed)}


def _share_of_one(places: FloatArray) -> FloatArray:
    """Return the share of ones along the last axis; NaN if it is empty."""
    return np.asarray(
        (places <= 1).mean(axis=-1) if places.shape[-1] else np.full(places.shape[:-1], np.nan)
    )


def _quantiles(logs: FloatArray) -> FloatArray:
    """Return quantiles of the last axis, (..., quantile); NaN if it is empty."""
    if not logs.shape[-1]:
        return np.full((*logs.shape[:-1], len(QUANTILES)), np.nan)
    return np.moveaxis(np.quantile(logs, QUANTILES, axis=-1, method="inverted_cdf"), 0, -1)


def _star_outcome(
    plain: FloatArray, curves: Sequence[Mapping[int, FloatArray]], tau: float, tokens: int
) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
    """Return rises at every evaluated N, (document, size, head), NaN for sizes not evaluated, and a
    function from mean rises, (size, head), to N* of each head before rounding up.
    """
    sizes = sorted({n for curve in curves for n in curve})
    rise = np.full((len(plain), len(sizes), len(curves)), np.nan)
    for index, curve in enumerate(curves):
        rise[:, [sizes.index(n) for n in curve], index] = np.stack(list(curve.values()), axis=1)

    def stars(mean: FloatArray) -> FloatArray:
        crossings = []
        for row in mean.T:
            known = np.isfinite(row)
            evaluated = [*np.array(sizes)[known].tolist(), tokens]
            crossings.append(crossing_of(evaluated, np.append(row[known], 0.0), tau))
        return np.array(crossings)

    return rise / plain[:, None, None] - 1, stars


def _star_name(tau: float) -> str:
    return f"N* at {100 * tau:.3g}%"


def along_sizes(sizes: Sequence[int]) -> dict[str, Any]:
    """Return the coordinate of N."""
    return {"n": xr.Variable("n", list(sizes), {"long_name": "selected tokens of a head"})}
