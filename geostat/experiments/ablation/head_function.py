r"""Does a head's geometry tell what the model loses where that head alone is cut?

Rank correlations over heads (Spearman) of what is known of a head with the relative rise of the
loss; partial ones given kept mass and entropy of its weights, that is of the residuals of both
ranks after least squares on the ranks of these; and what geometry adds to them in predicting layers
that were left out. Errors join those over documents and over layers. Imports numpy and
scipy.special.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import stdtrit

from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import LEVEL, Estimate, jackknife, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents
from geostat.statistics.ranks import ranks

WEIGHTS: Final = ("kept_mass", "entropy")
"""What weights alone tell: the controls."""
GIVEN: Final = {
    "nothing": "the rank correlation itself",
    "weights": "given kept mass and entropy",
    "weights and layer": "given kept mass, entropy and the layer",
}
MODELS: Final = ("weights", "geometry", "weights and geometry")
"""What predicts layers that were left out."""
OF_OTHERS: Final = ("sharp_f_margin",)
"""A difference of two that a model has: it is not beside them."""
SPARE: Final = 3
"""A model has at most one predictor for so many heads it is fitted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Heads as rows: what the model loses without them, and what is known of them."""

    rise: FloatArray
    """Relative rise of the loss where the head alone is cut, (document, size, head)."""
    outcome: Callable[[FloatArray], FloatArray]
    """What is to be told, (head), from mean rises, (size, head)."""
    known: Mapping[str, FloatArray]
    """By name: (document, head), or (head) of what is known of all documents together. `WEIGHTS`
    are among them.
    """
    layer: FloatArray
    """Layer of each head, (head)."""


def associations(heads: Heads) -> Estimate:
    """Return rank correlations with the rise, (predictor, given), with errors over documents and
    over layers (jackknives) on Fisher's z.

    Predictors in the order of `heads.known`, `given` as in GIVEN. A control is not given itself.
    NaN where either is level, or what is left of it is; no error where it is so without a document
    or a layer.
    """

    def of(
        rise: FloatArray, known: Mapping[str, FloatArray], keep: BoolArray | slice = slice(None)
    ) -> FloatArray:
        """Correlations of the heads that are kept."""
        some = {name: each[keep] for name, each in known.items()}
        return _partials(rise[keep], some, heads.layer[keep])

    value, without = _over_documents(of, heads)
    means = _means(heads)
    others = np.stack([of(*means, heads.layer != one) for one in np.unique(heads.layer)])
    found = _joined(*(_fisher(one) for one in (value, without, others)))
    return Estimate(
        value=value,
        se=found.se * (1 - value**2),
        lower=np.tanh(found.lower),
        upper=np.tanh(found.upper),
    )


def predictions(heads: Heads, weights: Mapping[str, FloatArray]) -> tuple[Estimate, int]:
    """Return the share of the variance of the rise's ranks that is told for layers left out, R² by
    MODELS, and how much geometry adds to weights: (model + 1); and over how many heads.

    Least squares on ranks, and on their squares where there are more than two, each layer predicted
    from the others, within the ranks that these have; R² is against their mean. `OF_OTHERS` are
    left out. All models are of the same heads, those of which all is known that is
    known of most. The standard error joins that over documents and that over layers (jackknives),
    for a sum over few layers may be good by luck. NaN where there are too few heads (`SPARE`) or
    one layer.

    weights: what weights alone tell, such as kept mass at several N, as `heads.known`.
    """
    known = heads.known.items()
    geometry = {name: each for name, each in known if name not in (*WEIGHTS, *OF_OTHERS)}
    every = {**geometry, **weights}
    means = {name: mean_over_documents(x) if x.ndim == 2 else x for name, x in every.items()}
    used = {name for name, mean in means.items() if np.isfinite(mean).mean() > 0.5}
    use = np.isfinite(
        np.stack([heads.outcome(mean_over_documents(heads.rise)), *(means[name] for name in used)])
    ).all(axis=0)
    layer, layers = heads.layer[use], np.unique(heads.layer[use])
    groups = [[name for name in part if name in used] for part in (weights, geometry, every)]

    def parts(rise: FloatArray, known: Mapping[str, FloatArray]) -> FloatArray:
        """Squares that each model leaves and those about the mean, (layer, model + 1)."""
        told = [_left_out(rise[use], [known[name][use] for name in part], layer) for part in groups]
        return np.stack([*(missed for missed, _ in told), told[0][1]], axis=-1)

    own = Heads(rise=heads.rise, outcome=heads.outcome, known=every, layer=heads.layer)
    value, without = _over_documents(parts, own)
    others = np.stack([np.delete(value, at, axis=0) for at in range(len(layers))])
    joined = _joined(*(_shares(one) for one in (value, without, others)))
    return joined, int(use.sum())


def _joined(value: FloatArray, without: FloatArray, others: FloatArray) -> Estimate:
    """Return an estimate whose variance is the sum of those over documents and over layers, from
    what it is without each document and without each layer; t has Satterthwaite's degrees of
    freedom.
    """
    found = jackknife(value, without)
    parts = np.stack([found.se**2, jackknife(value, others).se ** 2])
    freedom = np.array([len(without), len(others)]).reshape(2, *[1] * value.ndim) - 1.0
    total = parts.sum(axis=0)
    joined = ratio(total**2, (parts**2 / np.maximum(freedom, 1)).sum(axis=0))
    half = np.where(total == 0, 0.0, stdtrit(joined, 0.5 + LEVEL / 2) * np.sqrt(total))
    return replace(found, se=np.sqrt(total), lower=value - half, upper=value + half, skew=None)


def _fisher(correlation: FloatArray) -> FloatArray:
    """Return Fisher's z; infinite of ±1, and of what rounding brought beyond."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.arctanh(np.clip(correlation, -1, 1)))


def _shares(parts: FloatArray) -> FloatArray:
    """Return R² by model, and what geometry adds, (..., model + 1), from squares by layer."""
    sums = parts.sum(axis=-2)
    told = 1 - ratio(sums[..., :-1], sums[..., -1:])
    return np.concatenate([told, told[..., 2:] - told[..., :1]], axis=-1)


def _over_documents(
    function: Callable[[FloatArray, Mapping[str, FloatArray]], FloatArray], heads: Heads
) -> tuple[FloatArray, FloatArray]:
    """Put means over documents through a function, and those without each document, (document,
    ...).
    """
    without = {
        name: leave_one_out_mean(each) if each.ndim == 2 else np.stack([each] * len(heads.rise))
        for name, each in heads.known.items()
    }
    fewer = leave_one_out_mean(heads.rise)
    replicates = [
        function(heads.outcome(one), {name: each[at] for name, each in without.items()})
        for at, one in enumerate(fewer)
    ]
    return function(*_means(heads)), np.stack(replicates)


def _means(heads: Heads) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return what is to be told and what is known, (head), of means over documents."""
    known = {
        name: mean_over_documents(each) if each.ndim == 2 else each
        for name, each in heads.known.items()
    }
    return heads.outcome(mean_over_documents(heads.rise)), known


def _partials(rise: FloatArray, known: Mapping[str, FloatArray], layer: FloatArray) -> FloatArray:
    """Return rank correlations of what is known with the rise, of what ranks of the controls leave
    over, (predictor, given).
    """
    names, rows = list(known), np.stack([rise, *known.values()])
    finite, no_layer = np.isfinite(rows), np.zeros_like(layer)
    made: dict[bytes, FloatArray] = {}

    def ranked(*at: int) -> tuple[BoolArray, FloatArray]:
        """Return which heads these rows tell of, and the ranks of these, (row, head)."""
        use: BoolArray = np.asarray(finite[list(at)].all(axis=0))
        if use.tobytes() not in made:
            made[use.tobytes()] = ranks(rows[:, use])
        return use, made[use.tobytes()][list(at)]

    out = []
    for at, name in enumerate(names, start=1):
        controls = [1 + names.index(one) for one in WEIGHTS if one != name]
        alone, beside = ranked(0, at), ranked(0, at, *controls)
        out.append([_left(*alone, no_layer), _left(*beside, no_layer), _left(*beside, layer)])
    return np.array(out)


def _left(use: BoolArray, ranked: FloatArray, layer: FloatArray) -> float:
    """Return the correlation of two rows of ranks, (row, head), of what those behind them and the
    layer leave over.
    """
    if use.sum() < 3:
        return np.nan
    columns = [np.ones(use.sum()), *ranked[2:]]
    columns += [(layer[use] == one).astype(float) for one in np.unique(layer[use])[1:]]
    design = np.stack(columns, axis=1)
    left = [_residual(design, values) for values in ranked[:2]]
    scale = use.sum() ** 1.5  # ranks that the controls tell wholly leave rounding alone
    a, b = (np.where(np.linalg.norm(one) > 1e-9 * scale, one, np.nan) for one in left)
    return float(ratio((a * b).sum(), np.sqrt((a**2).sum() * (b**2).sum())))


def _residual(design: FloatArray, values: FloatArray) -> FloatArray:
    return values - design @ np.linalg.lstsq(design, values, rcond=None)[0]


def _left_out(
    rise: FloatArray, known: Sequence[FloatArray], layer: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the squares that are left of the ranks of the rise where each layer is predicted from
    the others, and those about the others' mean, (layer) each.
    """
    layers = np.unique(layer)
    missed, expected = np.full((2, len(layers)), np.nan)
    y, *ranked = ranks(np.stack([rise, *known]))
    scaled = [2 * one / (len(y) + 1) - 1 for one in ranked]
    curved = [one**2 for one in scaled if len(np.unique(one)) > 2]
    design = np.stack([np.ones(len(y)), *scaled, *curved], axis=1)
    fewest = min(((layer != one).sum() for one in layers), default=0)
    known_all = np.isfinite(y).all() and np.isfinite(design).all()
    if len(layers) < 2 or fewest < SPARE * design.shape[1] or not known_all:
        return missed, expected
    for at, one in enumerate(layers):
        out = layer == one
        fit = np.linalg.lstsq(design[~out], y[~out], rcond=None)[0]
        predicted = np.clip(design[out] @ fit, y[~out].min(), y[~out].max())
        missed[at] = ((y[out] - predicted) ** 2).sum()
        expected[at] = ((y[out] - y[~out].mean()) ** 2).sum()
    return missed, expected
