r"""Does a head's geometry tell what the model loses where that head alone is cut?

Rank correlations over heads (Spearman) of what is known of a head with the relative rise of the
loss; partial ones given kept mass and entropy of its weights, that is of the residuals of both
ranks after least squares on the ranks of these; and what geometry adds to them in predicting layers
that were left out. Errors are over documents, for these heads. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean
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
    """Return rank correlations with the rise, (predictor, given), with a document jackknife.

    Predictors in the order of `heads.known`, `given` as in GIVEN. A control is not given itself.
    NaN where either is level, or what is left of it is.
    """
    names = list(heads.known)

    def of(rise: FloatArray, known: Mapping[str, FloatArray]) -> FloatArray:
        return np.stack(
            [[_partial(name, rise, known, heads.layer, given) for given in GIVEN] for name in names]
        )

    return _over_documents(of, heads)


def predictions(heads: Heads) -> Estimate:
    """Return the share of the variance of the rise's ranks that is told for layers left out, R² by
    MODELS, and how much geometry adds to weights: (model + 1), with a document jackknife.

    Least squares on ranks, each layer predicted from the others; R² is against their mean. What is
    known of no head is left out. NaN where there are too few heads (`SPARE`) or one layer.
    """

    def of(rise: FloatArray, known: Mapping[str, FloatArray]) -> FloatArray:
        weights, geometry = (
            [name for name in known if (name in WEIGHTS) is own and np.isfinite(known[name]).any()]
            for own in (True, False)
        )
        told = [
            _left_out(rise, [known[name] for name in names], heads.layer)
            for names in (weights, geometry, weights + geometry)
        ]
        return np.array([*told, told[2] - told[0]])

    return _over_documents(of, heads)


def _over_documents(
    function: Callable[[FloatArray, Mapping[str, FloatArray]], FloatArray], heads: Heads
) -> Estimate:
    """Put means over documents through a function, and those without each document."""
    means = {
        name: mean_over_documents(each) if each.ndim == 2 else each
        for name, each in heads.known.items()
    }
    without = {
        name: leave_one_out_mean(each) if each.ndim == 2 else np.stack([each] * len(heads.rise))
        for name, each in heads.known.items()
    }
    fewer = leave_one_out_mean(heads.rise)
    replicates = [
        function(heads.outcome(one), {name: each[at] for name, each in without.items()})
        for at, one in enumerate(fewer)
    ]
    value = function(heads.outcome(mean_over_documents(heads.rise)), means)
    return jackknife(value, np.stack(replicates))


def _partial(
    name: str,
    rise: FloatArray,
    known: Mapping[str, FloatArray],
    layer: FloatArray,
    given: str,
) -> float:
    """Return a rank correlation, of what ranks of the controls leave over."""
    controls = [] if given == "nothing" else [known[one] for one in WEIGHTS if one != name]
    use = np.isfinite(np.stack([rise, known[name], *controls])).all(axis=0)
    if use.sum() < 3:
        return np.nan
    columns = [np.ones(use.sum()), *(ranks(control[use]) for control in controls)]
    if given == "weights and layer":
        columns += [(layer[use] == one).astype(float) for one in np.unique(layer[use])[1:]]
    design = np.stack(columns, axis=1)
    left = [_residual(design, ranks(values[use])) for values in (rise, known[name])]
    scale = use.sum() ** 1.5  # ranks that the controls tell wholly leave rounding alone
    a, b = (np.where(np.linalg.norm(one) > 1e-9 * scale, one, np.nan) for one in left)
    return float(ratio((a * b).sum(), np.sqrt((a**2).sum() * (b**2).sum())))


def _residual(design: FloatArray, values: FloatArray) -> FloatArray:
    return values - design @ np.linalg.lstsq(design, values, rcond=None)[0]


def _left_out(rise: FloatArray, known: Sequence[FloatArray], layer: FloatArray) -> float:
    """Return R² of the ranks of the rise, each layer predicted from the others."""
    use = np.isfinite(np.stack([rise, *known])).all(axis=0)
    layers = np.unique(layer[use])
    fewest = min(((layer[use] != one).sum() for one in layers), default=0)
    if len(layers) < 2 or fewest < SPARE * (len(known) + 1):
        return np.nan
    y = ranks(rise[use])
    design = np.stack([np.ones(use.sum()), *(ranks(one[use]) for one in known)], axis=1)
    missed = expected = 0.0
    for one in layers:
        out = layer[use] == one
        fit = np.linalg.lstsq(design[~out], y[~out], rcond=None)[0]
        missed += float(((y[out] - design[out] @ fit) ** 2).sum())
        expected += float(((y[out] - y[~out].mean()) ** 2).sum())
    return 1 - missed / expected if expected else np.nan
