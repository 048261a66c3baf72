"""What-if studies: the bounds over a grid of parameters, and the parameter at which a bound reaches a target.

Source: arXiv 2602.01893, eq. (8), (12)-(17) with Assumptions 1-3 as generators. A point whose Gram no vectors have is masked, never
evaluated (erratum 9). The lower bounds of the printed edition are evaluated in one broadcast; everything else by `theory.evaluate`,
once for each Gram. Imports numpy; the rest of the theory room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from theory.arrays import FloatArray
from theory.what_if.grid import Grid, Similarity, batches, heads_of
from theory.what_if.parameters import GRAM, LOWER, PROFILE, Question
from theory.what_if.printed_grid import printed_lower


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """Bounds over a grid. `values` holds, by name, the dimensions an array depends on and the array; NaN where infeasible or N > T.

    Names: the bounds asked for (all dimensions), `feasible`, `projected` and `projection_distance` where asked for, `reliable` of
    `conditional` (no average left out) and `predicted` (it trusts itself), and of the printed edition `margin` and `margin_sink` (units a²).
    fixed: what stood still, T1 and T2 as "0.5L" where they are shares of L. shares: which of the parameters are.
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
        return np.broadcast_to(array.reshape([len(v) if a in dims else 1 for a, v in self.axes.items()]), self.shape)


def study(
    axes: Mapping[str, Sequence[float | str] | FloatArray],
    fixed: Mapping[str, float | str] | None = None,
    question: Question | None = None,
) -> Study:
    """Evaluate bounds at every point of a grid.

    Args:
        axes: values of each parameter that varies, by name (`PARAMETERS`); those of T1 and T2 may be shares of L, as in "0.5L".
        fixed: values of others; those not named have their default.
        question: what to evaluate; by default the printed lower bounds under the exponential Gram.

    Raises:
        InputError: for an unknown parameter, a value that is none, a profile that is none, or more points than memory holds.

    Example:
        >>> found = study({"N": [2, 4], "beta": [0.5, 1.0]}, {"L": 64})
        >>> found.shape, sorted(found.values)[:2]
        ((2, 2), ['f_inner_lower', 'f_outer_lower'])
    """
    question = question or Question()
    grid = Grid.of(axes, fixed or {}, question)
    grid.check()
    lower = set(question.bounds) <= set(LOWER)
    quick = lower and question.edition == "printed" and question.delta0 == "out" and question.measured is None
    similarity = grid.similarity()
    values: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"feasible": (similarity.dims, similarity.feasible)}
    if question.project:
        values["projected"] = (similarity.dims, similarity.projected)
        values["projection_distance"] = (similarity.dims, similarity.distance)
    values |= printed_lower(grid, similarity) if quick else _pointwise(grid, similarity)
    return Study(axes=grid.axes, fixed=grid.known(), question=question, shares=grid.shares, values=values)


def _pointwise(grid: Grid, similarity: Similarity) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Evaluate any edition by `theory.envelopes`: once for each Gram, length, d and κ, with all profiles of that length."""
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
            gram_at = tuple(known[name] for name in similarity.dims)
            if not similarity.feasible[gram_at]:
                continue
            gram = grid.gram(at | {"L": length, "rho0": float(similarity.rho0[gram_at])})
            bounds = envelopes(
                alpha, norms, gram, int(at["d"]), sizes, edition=grid.question.edition, kappa=at["kappa"],
                delta0=grid.question.delta0, sink_in_b=grid.question.sink_in_b, feasible=True,
            )  # fmt: skip
            for head, (profile, _) in enumerate(batch):
                position = where | dict(zip(grid.dims(PROFILE), profile, strict=True))
                index = tuple(slice(None) if name == "N" else position[name] for name in grid.axes)
                for name in names:
                    row = getattr(bounds, name)[head]
                    out[name][index] = row if "N" in grid.axes else row[0]
    return {name: (tuple(grid.axes), array == 1 if name in flags else array) for name, array in out.items()}
