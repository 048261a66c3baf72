"""What-if studies: bounds over a grid of parameters.

Source: arXiv 2602.01893, eq. (8), (12)-(17) with Assumptions 1-3 as generators. Points with an
infeasible Gram are masked, not evaluated (erratum 9). Printed lower bounds are evaluated in one
broadcast, all others by `theory.evaluate`, once for each Gram. Imports numpy and `theory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np

from theory.arrays import FloatArray, selection_order
from theory.editions.printed import Margins, expected_losses, harmonic, printed_margins
from theory.head.ranked import Extremes, extremes_of
from theory.head.results import EDITIONS
from theory.what_if.grid import (
    Grid,
    Similarity,
    batches,
    gram_at,
    heads_of,
    over_axes,
    similarity_of,
)
from theory.what_if.parameters import GRAM, LOWER, PARAMETERS, PROFILE, Decay, Question

OF_WEIGHTS = tuple(name for name in Extremes.__slots__ if name != "n" and "rho" not in name)
"""Fields of `Extremes` that depend only on weights and norms."""


Arrays = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Arrays and their dimensions by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """Bounds over a grid. `values` maps each name to the dimensions of its array and the array; NaN
    where infeasible or N > T.

    Names: the requested bounds (all dimensions), `feasible`, `projected` and `projection_distance`
    (on request), `reliable` of `conditional` (no average dropped) and `predicted` (not flagged),
    and `margin` and `margin_sink` (units a²). fixed: fixed parameters, T1 and T2 as "0.5L" if they
    are shares of L. shares: parameters given as shares of L.
    """

    axes: Mapping[str, FloatArray]
    fixed: Mapping[str, float | str]
    shares: frozenset[str]
    values: Arrays = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the lengths of the axes."""
        return tuple(len(values) for values in self.axes.values())

    def full(self, name: str) -> np.ndarray:
        """Return one array over all axes."""
        dims, array = self.values[name]
        return np.broadcast_to(over_axes(array, dims, self.axes), self.shape)


def study(
    axes: Mapping[str, Sequence[float | str] | FloatArray],
    fixed: Mapping[str, float | str] | None = None,
    question: Question | None = None,
) -> Study:
    """Evaluate bounds at every point of a grid.

    Args:
        axes: values of each varying parameter by name (`PARAMETERS`); T1 and T2 may be shares of L,
            as in "0.5L".
        fixed: values of other parameters; the rest have their defaults.
        question: what to evaluate (default: the printed lower bounds under the exponential Gram).

    Raises:
        InputError: for an unknown parameter, an invalid value or profile, or more points than
            memory allows.

    Example:
        >>> found = study({"N": [2, 4], "beta": [0.5, 1.0]}, {"L": 64})
        >>> found.shape, sorted(found.values)[:2]
        ((2, 2), ['f_inner_lower', 'f_outer_lower'])
    """
    question = question or Question()
    grid = Grid.of(axes, fixed or {}, question)
    grid.check()
    lower = set(question.bounds) <= set(LOWER)
    printed = question.edition == "printed" and question.delta0 == "out"
    quick = lower and printed and question.decay not in ("measured", "rank")
    similarity = similarity_of(grid)
    values: Arrays = {"feasible": (similarity.dims, similarity.feasible)}
    if question.project:
        values["projected"] = (similarity.dims, similarity.projected)
        values["projection_distance"] = (similarity.dims, similarity.distance)
    values |= _printed_lower(grid, similarity) if quick else _pointwise(grid, similarity)
    return Study(axes=grid.axes, fixed=grid.known(), shares=grid.shares, values=values)


def _printed_lower(grid: Grid, similarity: Similarity) -> Arrays:
    """Evaluate eq. (12), (14) and the lower sides of (16), (17) in one broadcast over all axes."""
    dims, bounds = tuple(grid.axes), grid.question.bounds
    shape = tuple(len(values) for values in grid.axes.values())
    columns = {name: over_axes(grid.of_parameter(name), (name,), grid.axes) for name in PARAMETERS}
    margins = _margins(grid, columns, over_axes(similarity.rho0, similarity.dims, grid.axes))
    loss = expected_losses(
        margins, columns["N"], columns["L"] - columns["N"], columns["d"], columns["kappa"]
    )
    bound_values: dict[str, np.ndarray] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        if {"precision_lower", "f_outer_lower"} & set(bounds):
            bound_values["precision_lower"] = 1 / (1 + loss)
        if "f_outer_lower" in bounds:
            bound_values["f_outer_lower"] = harmonic(bound_values["precision_lower"])
        if {"recall_lower", "f_inner_lower"} & set(bounds):
            bound_values["recall_lower"] = np.subtract(1, loss, out=loss)
        if "f_inner_lower" in bounds:
            bound_values["f_inner_lower"] = harmonic(bound_values["recall_lower"])
    allowed = over_axes(similarity.feasible, similarity.dims, grid.axes)
    whole = columns["N"] == columns["L"] + 1
    values: Arrays = {}
    for name in ("margin", "margin_sink"):  # over the axes on which they depend
        margin = np.where(whole, np.nan, getattr(margins, name))
        depends = [size == full for size, full in zip(margin.shape, shape, strict=True)]
        varying = tuple(compress(dims, depends))
        values[name] = varying, margin.reshape(tuple(compress(shape, depends)))
    for name, bound in bound_values.items():  # 1 where N = T, NaN where the Gram is infeasible
        if name in bounds:
            bound = np.where(whole, 1.0, bound) if whole.any() else bound
            bound = bound if allowed.all() else np.where(allowed, bound, np.nan)
            full = bound if bound.shape == shape else np.broadcast_to(bound, shape).copy()
            values[name] = (dims, full)
    return values


def _margins(grid: Grid, columns: Mapping[str, FloatArray], rho0: FloatArray) -> Margins:
    """Return Δ, Δ₀ and B of every point, with the axes that they depend on, others of length 1."""
    selected, dims = _all_selections(grid)
    of_weights = {name: over_axes(array, dims, grid.axes) for name, array in selected.items()}
    # some selected and unselected content tokens are neighbours: the largest cosine between them is
    # that at lag 1, or that of the sink
    at_lag_1 = _at_one(grid.question.decay, columns["beta"], columns["stretch"])
    nearest = columns["c"] + (1 - columns["c"]) * at_lag_1
    sink_selected = of_weights["sink_selected"]
    content = columns["N"] - sink_selected  # number of selected content tokens
    largest_cosine = np.where(content < columns["L"], nearest, -np.inf)
    largest_cosine = np.where(sink_selected, largest_cosine, np.maximum(largest_cosine, rho0))
    rho_out = np.where((content > 0) & np.isfinite(largest_cosine), largest_cosine, 0.0)
    zeros, n = np.zeros_like(rho_out), grid.of_parameter("N").astype(np.int64)
    extremes = Extremes(n=n, rho_in=zeros, rho_out=rho_out, rho_least=zeros, **of_weights)
    sink_in_b = grid.question.sink_in_b
    return printed_margins(extremes, delta0="out", sink_in_b=sink_in_b, sink_visible=True)


def _at_one(decay: Decay, beta: FloatArray, stretch: FloatArray) -> FloatArray:
    """Return the similarity at lag 1, before the offset."""
    if decay == "power":
        return np.asarray(2.0**-beta)
    return np.exp(-(beta**stretch)) if decay == "stretched" else np.exp(-beta)


def _all_selections(grid: Grid) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Return the `OF_WEIGHTS` fields of every profile and N, and their axes in order."""
    dims = grid.dims(PROFILE)
    sizes = grid.of_parameter("N").astype(np.int64)
    shape = [len(grid.axes[name]) for name in dims]
    arrays: dict[str, np.ndarray] = {}
    for batch in batches(grid.profiles()):
        alpha, norms = heads_of([values for _, values in batch])
        order = selection_order(alpha)
        a = np.take_along_axis(alpha * norms, order, axis=1)
        result = extremes_of(a, np.argmin(order, axis=1), sizes)
        where = tuple(np.array([index for index, _ in batch]).T) if dims else (slice(None),)
        for name in OF_WEIGHTS:
            part = np.broadcast_to(getattr(result, name), (len(batch), len(sizes)))
            target = arrays.setdefault(name, np.empty([*(shape or [1]), len(sizes)], part.dtype))
            target[where] = part
    names = (*dims, "N") if "N" in grid.axes else dims
    order_of_axes = [names.index(name) for name in grid.axes if name in names]
    arranged = {
        name: array.reshape([len(grid.axes[x]) for x in names]).transpose(order_of_axes)
        for name, array in arrays.items()
    }
    return arranged, tuple(name for name in grid.axes if name in names)


def _pointwise(grid: Grid, similarity: Similarity) -> Arrays:
    """Evaluate any edition by `theory.envelopes`, once for each Gram, length, d and κ."""
    from theory.evaluate.envelopes import envelopes

    flags = ("reliable",) if EDITIONS[grid.question.edition].flagged else ()
    names = (*grid.question.bounds, "margin", "margin_sink", *flags)
    out = {name: np.full([len(values) for values in grid.axes.values()], np.nan) for name in names}
    sizes = grid.of_parameter("N").astype(np.int64)
    outer = (*GRAM, "d", "kappa")
    for batch in batches(grid.profiles(), alone=grid.question.decay == "rank"):
        alpha, norms = heads_of([values for _, values in batch])
        length = batch[0][1]["L"]
        for outer_index, point in grid.points(outer):
            indices = dict(zip(grid.dims(outer), outer_index, strict=True))
            of_gram = indices | dict(zip(grid.dims(PROFILE), batch[0][0], strict=True))
            place = tuple(of_gram[name] for name in similarity.dims)
            if not similarity.feasible[place]:
                continue
            at_edge = {"L": length, "rho0": float(similarity.rho0[place])}
            gram = gram_at(grid, point | at_edge, alpha[0])
            choices = grid.question.choices(point["kappa"])
            bounds = envelopes(alpha, norms, gram, int(point["d"]), sizes, **choices)
            for head, (profile, _) in enumerate(batch):
                at_point = indices | dict(zip(grid.dims(PROFILE), profile, strict=True))
                index = tuple(slice(None) if name == "N" else at_point[name] for name in grid.axes)
                for name in names:
                    row = getattr(bounds, name)[head]
                    out[name][index] = row if "N" in grid.axes else row[0]
    return {
        name: (tuple(grid.axes), array == 1 if name in flags else array)
        for name, array in out.items()
    }
