"""What-if studies: the bounds over a grid of parameters, and the parameter at which a bound reaches
a target.

Source: arXiv 2602.01893, eq. (8), (12)-(17) with Assumptions 1-3 as generators. A point whose Gram
no vectors have is masked, never evaluated (erratum 9). The lower bounds of the printed edition are
evaluated in one broadcast; everything else by `theory.evaluate`, once for each Gram. Imports numpy;
the rest of the theory room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.head.ranked import Selections, selections
from theory.what_if.grams import Similarity, gram_at, similarity_of
from theory.what_if.grid import Grid, batches, heads_of
from theory.what_if.parameters import BOUNDS, GRAM, LOWER, PARAMETERS, PROFILE, Decay, Question


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """Bounds over a grid. `values` holds, by name, the dimensions an array depends on and the
    array; NaN where infeasible or N > T.

    Names: the bounds asked for (all dimensions), `feasible`, `projected` and `projection_distance`
    where asked for, `reliable` of `conditional` (no average left out) and `predicted` (it trusts
    itself), and of the printed edition `margin` and `margin_sink` (units a²). fixed: what stood
    still, T1 and T2 as "0.5L" where they are shares of L. shares: which of the parameters are.
    """

    axes: Mapping[str, FloatArray]
    fixed: Mapping[str, float | str]
    question: Question
    shares: frozenset[str]
    values: Mapping[str, tuple[tuple[str, ...], np.ndarray]] = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(len(values) for values in self.axes.values())

    def full(self, name: str) -> np.ndarray:
        """Return one array over all axes."""
        dims, array = self.values[name]
        return np.broadcast_to(
            array.reshape([len(v) if a in dims else 1 for a, v in self.axes.items()]), self.shape
        )


def study(
    axes: Mapping[str, Sequence[float | str] | FloatArray],
    fixed: Mapping[str, float | str] | None = None,
    question: Question | None = None,
) -> Study:
    """Evaluate bounds at every point of a grid.

    Args:
        axes: values of each parameter that varies, by name (`PARAMETERS`); those of T1 and T2 may
            be shares of L, as in "0.5L".
        fixed: values of others; those not named have their default.
        question: what to evaluate; by default the printed lower bounds under the exponential Gram.

    Raises:
        InputError: for an unknown parameter, a value that is none, a profile that is none, or more
            points than memory holds.

    Example:
        >>> found = study({"N": [2, 4], "beta": [0.5, 1.0]}, {"L": 64})
        >>> found.shape, sorted(found.values)[:2]
        ((2, 2), ['f_inner_lower', 'f_outer_lower'])
    """
    question = question or Question()
    grid = Grid.of(axes, fixed or {}, question)
    grid.check()
    lower = set(question.bounds) <= set(LOWER)
    quick = (
        lower
        and question.edition == "printed"
        and question.delta0 == "out"
        and question.measured is None
    )
    similarity = similarity_of(grid)
    values: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "feasible": (similarity.dims, similarity.feasible)
    }
    if question.project:
        values["projected"] = (similarity.dims, similarity.projected)
        values["projection_distance"] = (similarity.dims, similarity.distance)
    values |= _printed_lower(grid, similarity) if quick else _pointwise(grid, similarity)
    return Study(
        axes=grid.axes, fixed=grid.known(), question=question, shares=grid.shares, values=values
    )


def _printed_lower(
    grid: Grid, similarity: Similarity
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Evaluate eq. (12), (14) and the lower sides of (16), (17) in one broadcast over all axes."""
    selected, sizes_dims = _all_selections(grid)
    dims = tuple(grid.axes)

    def spread(array: np.ndarray) -> np.ndarray:
        return array.reshape([len(grid.axes[name]) if name in sizes_dims else 1 for name in dims])

    s = {name: spread(getattr(selected, name)) for name in Selections.__slots__}
    at = {name: grid.along(name, dims) for name in PARAMETERS} | {
        "rho0": similarity.spread("rho0", grid)
    }
    nearest = at["c"] + (1 - at["c"]) * _at_one(grid.question.decay, at["beta"], at["stretch"])
    # some content token inside and some outside are neighbours, so the largest cosine across is
    # that at lag 1, or the sink's
    across = np.where(s["content_out"], nearest, -np.inf)
    across = np.where(s["sink_in"], across, np.maximum(across, at["rho0"]))
    rho_out = np.where(s["content_in"] & np.isfinite(across), across, 0.0)
    # eq. (8), every point at once
    margin = s["a_min_in"] ** 2 - 2 * s["a_max_out"] * s["s_in"] * rho_out
    margin_sink = s["a_sink"] ** 2 - (s["s_in"] * rho_out) ** 2
    scale = s["a_max_in"] + s["a_max_out"] + s["s_in"]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, ratio_sink = (margin / scale) ** 2, (margin_sink / scale) ** 2
    allowed = similarity.spread("feasible", grid)
    whole = at["N"] == at["L"] + 1
    out = {
        name: np.where(whole, np.nan, array)
        for name, array in (("margin", margin), ("margin_sink", margin_sink))
    }
    out |= _lower_bounds(grid, at, ratio, ratio_sink, np.isnan(margin), scale)
    for name in grid.question.bounds:  # 1 where N = T, NaN where no vectors have the Gram
        out[name] = np.where(whole, 1.0, out[name]) if whole.any() else out[name]
        out[name] = out[name] if allowed.all() else np.where(allowed, out[name], np.nan)
    wanted = ("margin", "margin_sink", *grid.question.bounds)
    return {
        name: _own(array, grid, full=name in BOUNDS)
        for name, array in out.items()
        if name in wanted
    }


def _lower_bounds(
    grid: Grid,
    at: Mapping[str, FloatArray],
    ratio: FloatArray,
    ratio_sink: FloatArray,
    undefined: BoolArray,
    scale: FloatArray,
) -> dict[str, FloatArray]:
    """Return the printed lower bounds from (Δ/B)² and (Δ₀/B)²; a margin that print leaves
    undefined loses its term.
    """
    strength = -at["kappa"] * at["d"]
    outside = at["L"] - at["N"]
    if undefined.any():
        ratio = np.where(undefined, np.inf, ratio)
    loss, sink = np.asarray(np.exp(strength * ratio)), np.asarray(np.exp(strength * ratio_sink))
    loss *= outside
    sink *= outside / at["N"]
    loss = (
        loss + sink
        if loss.shape != np.broadcast_shapes(loss.shape, sink.shape)
        else np.add(loss, sink, out=loss)
    )
    if not (scale > 0).all():
        loss = np.where(scale > 0, loss, np.nan)
    out: dict[str, FloatArray] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        if {"precision_lower", "f_outer_lower"} & set(grid.question.bounds):
            out["precision_lower"] = 1 / (1 + loss)
        if "f_outer_lower" in grid.question.bounds:
            out["f_outer_lower"] = 2 * out["precision_lower"] / (1 + out["precision_lower"])
        if {"recall_lower", "f_inner_lower"} & set(grid.question.bounds):
            out["recall_lower"] = np.subtract(1, loss, out=loss)
        if "f_inner_lower" in grid.question.bounds:
            out["f_inner_lower"] = 2 * out["recall_lower"] / (1 + out["recall_lower"])
    return out


def _own(array: np.ndarray, grid: Grid, *, full: bool) -> tuple[tuple[str, ...], np.ndarray]:
    """Return an array with the axes it depends on, or with all of them."""
    if full:
        shape = tuple(len(values) for values in grid.axes.values())
        return tuple(grid.axes), (
            array if array.shape == shape else np.broadcast_to(array, shape).copy()
        )
    dims = tuple(
        name
        for name, size in zip(grid.axes, array.shape, strict=True)
        if size > 1 or len(grid.axes[name]) == 1
    )
    return dims, array.reshape([len(grid.axes[name]) for name in dims])


def _at_one(decay: Decay, beta: FloatArray, stretch: FloatArray) -> FloatArray:
    """Return the similarity at lag 1, before the offset."""
    if decay == "power":
        return np.asarray(2.0**-beta)
    return np.exp(-(beta**stretch)) if decay == "stretched" else np.exp(-beta)


def _all_selections(grid: Grid) -> tuple[Selections, tuple[str, ...]]:
    """Return the selections of every profile and N, arrays over the axes of profiles and N in
    the order of the study.
    """
    dims = grid.dims(PROFILE)
    sizes = grid.of_parameter("N").astype(np.int64)
    shape = [len(grid.axes[name]) for name in dims]
    arrays: dict[str, np.ndarray] = {}
    for batch in batches(grid.profiles()):
        alpha, norms = heads_of([values for _, values in batch])
        result = selections(alpha, norms, sizes, sink_in_b=grid.question.sink_in_b)
        where = tuple(np.array([index for index, _ in batch]).T) if dims else (slice(None),)
        for name in Selections.__slots__:
            part = np.broadcast_to(getattr(result, name), (len(batch), len(sizes)))
            room = arrays.setdefault(name, np.empty([*(shape or [1]), len(sizes)], part.dtype))
            room[where] = part
    names = (*dims, "N") if "N" in grid.axes else dims
    order = [names.index(name) for name in grid.axes if name in names]
    settled = {
        name: array.reshape([len(grid.axes[x]) for x in names]).transpose(order)
        for name, array in arrays.items()
    }
    return Selections(**settled), tuple(name for name in grid.axes if name in names)


def _pointwise(grid: Grid, similarity: Similarity) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Evaluate any edition by `theory.envelopes`: once for each Gram, length, d and κ, with all
    profiles of that length.
    """
    from theory.evaluate.envelopes import envelopes

    flags = ("reliable",) if grid.question.edition in ("conditional", "predicted") else ()
    names = (*grid.question.bounds, "margin", "margin_sink", *flags)
    out = {name: np.full([len(values) for values in grid.axes.values()], np.nan) for name in names}
    sizes = grid.of_parameter("N").astype(np.int64)
    outer = (*GRAM, "d", "kappa")
    for batch in batches(grid.profiles()):
        alpha, norms = heads_of([values for _, values in batch])
        length = batch[0][1]["L"]
        for outer_index, at in grid.points(outer):
            where = dict(zip(grid.dims(outer), outer_index, strict=True))
            known = where | dict(zip(grid.dims(PROFILE), batch[0][0], strict=True))
            place = tuple(known[name] for name in similarity.dims)
            if not similarity.feasible[place]:
                continue
            gram = gram_at(grid, at | {"L": length, "rho0": float(similarity.rho0[place])})
            choices = grid.question.choices(at["kappa"])
            bounds = envelopes(alpha, norms, gram, int(at["d"]), sizes, **choices)
            for head, (profile, _) in enumerate(batch):
                position = where | dict(zip(grid.dims(PROFILE), profile, strict=True))
                index = tuple(slice(None) if name == "N" else position[name] for name in grid.axes)
                for name in names:
                    row = getattr(bounds, name)[head]
                    out[name][index] = row if "N" in grid.axes else row[0]
    return {
        name: (tuple(grid.axes), array == 1 if name in flags else array)
        for name, array in out.items()
    }
