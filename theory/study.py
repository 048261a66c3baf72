"""What-if studies: the bounds over a grid of parameters, and the parameter at which a bound reaches a target.

Source: arXiv 2602.01893, eq. (8), (12)-(17) with Assumptions 1-3 as generators. A point whose Gram no vectors have is masked, never
evaluated (erratum 9). The lower bounds of the printed edition are evaluated in one broadcast; everything else by `theory.evaluate`,
once for each Gram. Imports numpy; the rest of the theory room.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, Literal, get_args

import numpy as np

from theory.arrays import BoolArray, FloatArray
from theory.errors import InputError
from theory.gram import LagGram, decaying
from theory.profiles import Selections, selections, weights
from theory.results import QUANTITIES, Edition

Decay = Literal["exponential", "offset", "stretched", "power"]

BOUNDS: Final = tuple(f"{quantity}_{side}" for quantity in QUANTITIES for side in ("lower", "upper"))
"""What a study can hold: bounds on E P(r_max), E R(r_min), E F(r_max), E F(r_min)."""

LOWER: Final = BOUNDS[::2]

AT_ONCE: Final = 2**21
"""Weights of profiles laid out at once: 16 MB of float64 an array."""

MEMORY_SHARE: Final = 0.5
"""Share of the machine's free memory that a study's results may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a study. `low` and `high` bound it; open where so marked. `default` None: follows from the others."""

    name: str
    meaning: str
    units: str
    symbol: str
    default: float | None
    low: float = 0.0
    high: float = np.inf
    open_low: bool = False
    whole: bool = False

    def check(self, values: FloatArray) -> None:
        """Raise where a value is no value of this parameter."""
        wrong = ~np.isfinite(values) | (values < self.low) | (values > self.high) | (self.open_low & (values == self.low))
        if self.whole:
            wrong |= values != np.round(values)
        if wrong.any():
            kind = "whole numbers" if self.whole else "finite numbers"
            start = f"above {self.low:g}" if self.open_low else f"from {self.low:g}"
            end = f" to {self.high:g}" if np.isfinite(self.high) else ""
            raise InputError(f"{self.name} = {values[wrong][0]:g}: expected {kind} {start}{end} ({self.meaning}). Change the values set.")


def _table(*parameters: Parameter) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters}


PARAMETERS: Final = _table(
    Parameter(name="N", meaning="selected tokens", units="tokens", symbol="N", default=8, low=1, whole=True),
    Parameter(name="L", meaning="last position; there are L + 1 tokens", units="tokens", symbol="L", default=1024, low=1, whole=True),
    Parameter(name="d", meaning="head size", units="1", symbol="d", default=64, low=1, whole=True),
    Parameter(name="kappa", meaning="constant of the printed tails", units="1", symbol=r"\kappa", default=0.125, open_low=True),
    Parameter(name="beta", meaning="decay of similarity", units="1/token", symbol=r"\beta", default=0.1, open_low=True),
    Parameter(name="rho0", meaning="cosine with the sink", units="1", symbol=r"\rho_0", default=0.05, low=-1, high=1),
    Parameter(name="c", meaning="similarity at long lag", units="1", symbol="c", default=0, low=-1, high=1),
    Parameter(name="stretch", meaning="exponent of the stretched exponential", units="1", symbol="s", default=1, open_low=True),
    Parameter(name="lam", meaning="sink's value norm over the others'", units="1", symbol=r"\lambda", default=0.25),
    Parameter(name="p_sink", meaning="weight of the sink", units="1", symbol=r"p_{\mathrm{sink}}", default=0.3, high=1),
    Parameter(
        name="p_base", meaning="weight of the plateau; without it the weights sum to 1", units="1", symbol=r"p_{\mathrm{base}}",
        default=None, open_low=True, high=1,
    ),
    Parameter(name="eta", meaning="strength of the oscillation, and rate of the growth", units="1", symbol=r"\eta", default=0.02, low=-np.inf),
    Parameter(name="growth", meaning="rate of the growth, where it is not η", units="1/token", symbol=r"\eta_g", default=None, low=-np.inf),
    Parameter(name="omega", meaning="frequency of the oscillation", units="rad/token", symbol=r"\omega", default=0.1, low=-np.inf),
    Parameter(name="T1", meaning="end of the plateau; half of L if not given", units="tokens", symbol="T_1", default=None, whole=True),
    Parameter(name="T2", meaning="start of the growth; 0.9 L if not given", units="tokens", symbol="T_2", default=None, whole=True),
    Parameter(name="C", meaning="value norm of the content tokens", units="value norm", symbol="C", default=1, open_low=True),
)  # fmt: skip
"""Every parameter by name, in the order of the tables. The defaults are an example, no head in particular."""

PROFILE: Final = ("L", "lam", "p_sink", "p_base", "eta", "growth", "omega", "T1", "T2", "C")
"""Parameters of norms and weights."""

GRAM: Final = ("beta", "rho0", "c", "stretch")
"""Parameters of similarity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of every point: edition, form of the Gram, bounds wanted, and the readings of the printed edition."""

    edition: Edition = "printed"
    decay: Decay = "exponential"
    bounds: tuple[str, ...] = LOWER
    delta0: Literal["out", "in"] = "out"
    sink_in_b: bool = True
    project: bool = False
    """Whether ρ₀ is moved to its edge where no vectors have it, and the point flagged `projected`, instead of masking the point."""

    def __post_init__(self) -> None:
        for name, seen, known in (
            ("edition", self.edition, get_args(Edition)),
            ("gram", self.decay, get_args(Decay)),
            ("delta0", self.delta0, ("out", "in")),
        ):
            if seen not in known:
                raise InputError(f"{name} is {seen!r}, expected one of {', '.join(known)}. Use one of those.")
        unknown = [bound for bound in self.bounds if bound not in BOUNDS]
        if unknown or not self.bounds:
            raise InputError(f"bounds are {self.bounds!r}, expected some of {', '.join(BOUNDS)}. Use one of those.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """Bounds over a grid. `values` holds, by name, the dimensions an array depends on and the array; NaN where infeasible or N > T.

    Names: the bounds asked for (all dimensions), `feasible`, `projected` where asked for, `reliable` of `conditional` (quadrature converged) and
    `predicted` (it trusts itself), and of the printed edition `margin` and `margin_sink` (units a²).
    """

    axes: Mapping[str, FloatArray]
    fixed: Mapping[str, float]
    question: Question
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
    axes: Mapping[str, Sequence[float] | FloatArray], fixed: Mapping[str, float] | None = None, question: Question | None = None
) -> Study:
    """Evaluate bounds at every point of a grid.

    Args:
        axes: values of each parameter that varies, by name (`PARAMETERS`).
        fixed: values of others; those not named have their default.
        question: what to evaluate; by default the printed lower bounds under the exponential Gram.

    Raises:
        InputError: for an unknown parameter, a value that is none, a profile that is none, or more points than memory holds.
    """
    question = question or Question()
    grid = _Grid.of(axes, fixed or {}, question)
    grid.check()
    quick = question.edition == "printed" and question.delta0 == "out" and not any(bound.endswith("upper") for bound in question.bounds)
    similarity = grid.similarity()
    values: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"feasible": (similarity.dims, similarity.feasible)}
    if question.project:
        values["projected"] = (similarity.dims, similarity.projected)
    values |= _broadcast(grid, similarity) if quick else _pointwise(grid, similarity)
    kept = {name: float(value) for name, value in grid.fixed.items() if np.isfinite(value)}
    return Study(axes={name: grid.axes[name] for name in grid.axes}, fixed=kept, question=question, values=values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Grid:
    """The axes of a study, everything else fixed; NaN stands for "follows from the others"."""

    axes: dict[str, FloatArray]
    fixed: dict[str, float]
    question: Question

    @classmethod
    def of(cls, axes: Mapping[str, Any], fixed: Mapping[str, float], question: Question) -> _Grid:
        for name in (*axes, *fixed):
            if name not in PARAMETERS:
                raise InputError(f"{name}: no such parameter, expected one of {', '.join(PARAMETERS)}. Use one of those.")
        twice = sorted(set(axes) & set(fixed))
        if twice:
            raise InputError(f"{twice[0]}: both varies and is fixed. Give it once.")
        arrays = {name: np.atleast_1d(np.asarray(values, dtype=np.float64)) for name, values in axes.items()}
        for name, values in arrays.items():
            if values.ndim != 1 or not values.size:
                raise InputError(f"{name}: expected one or more values. Give some.")
            PARAMETERS[name].check(values)
        rest = {name: (np.nan if p.default is None else float(p.default)) for name, p in PARAMETERS.items() if name not in arrays}
        for name, value in fixed.items():
            PARAMETERS[name].check(np.array([value], dtype=np.float64))
            rest[name] = float(value)
        if question.decay == "exponential" and (rest.get("c", 1.0) != 0 or "c" in arrays):
            raise InputError("c is set, but the exponential Gram has no offset. Use --gram offset, or leave c out.")
        return cls(axes=arrays, fixed=rest, question=question)

    def check(self) -> None:
        """Refuse N beyond T, and more points than memory holds."""
        if self.of_parameter("N").max() > self.of_parameter("L").min() + 1:
            raise InputError(
                f"N = {self.of_parameter('N').max():g} at L = {self.of_parameter('L').min():g}: expected N from 1 to T = L + 1. "
                "Use a smaller N or a larger L."
            )
        points = int(np.prod([len(values) for values in self.axes.values()], dtype=np.float64)) if self.axes else 1
        needed, free = 8 * points * (len(self.question.bounds) + 2), _free_memory()
        if needed > MEMORY_SHARE * free:
            raise InputError(
                f"{points:,} points need {needed / 2**30:.1f} GiB, expected at most {MEMORY_SHARE * free / 2**30:.1f} GiB. Use fewer values."
            )

    def of_parameter(self, name: str) -> FloatArray:
        """All values that a parameter takes, 1-d."""
        return self.axes[name] if name in self.axes else np.array([self.fixed[name]])

    def along(self, name: str, dims: Sequence[str]) -> FloatArray:
        """The values of a parameter, shaped to broadcast over `dims`."""
        values = self.of_parameter(name)
        return values.reshape([values.size if dim == name else 1 for dim in dims]) if dims else values.reshape(())

    def dims(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the axes that are among `names`, in the order of the study."""
        return tuple(name for name in self.axes if name in names)

    def points(self, names: Sequence[str]) -> Iterator[tuple[tuple[int, ...], dict[str, float]]]:
        """Every combination of the values of `names`: its place along their axes, and the values."""
        varying = self.dims(names)
        for place in product(*(range(len(self.axes[name])) for name in varying)):
            at = dict(zip(varying, place, strict=True))
            yield place, {name: float(self.axes[name][at[name]]) if name in at else self.fixed[name] for name in names}

    def similarity(self) -> _Similarity:
        """Which points have a Gram that vectors can have, and the ρ₀ of each, over the axes that they depend on."""
        dims = self.dims((*GRAM, "L"))
        shape = [len(self.axes[name]) for name in dims]
        edge, rho0 = np.empty(shape), np.empty(shape)
        edges: dict[tuple[float, ...], float] = {}
        for place, at in self.points((*GRAM, "L")):
            key = (at["beta"], at["c"], at["stretch"], at["L"])
            if key not in edges:
                edges[key] = self.gram(at).edge(int(at["L"]))
            edge[place], rho0[place] = edges[key], at["rho0"]
        within = np.abs(rho0) <= edge * (1 + 1e-12)  # an edge that is NaN lets nothing in
        if not self.question.project:
            return _Similarity(dims=dims, feasible=within, projected=np.zeros_like(within), rho0=rho0)
        moved = ~within & np.isfinite(edge)
        return _Similarity(dims=dims, feasible=within | moved, projected=moved, rho0=np.where(moved, np.copysign(edge, rho0), rho0))

    def gram(self, at: Mapping[str, float]) -> LagGram:
        """The Gram of one point."""
        decay = "exponential" if self.question.decay == "offset" else self.question.decay
        return decaying(decay, at["beta"], int(at["L"]) + 1, rho0=at["rho0"], offset=at["c"], stretch=at["stretch"])

    def profiles(self) -> tuple[tuple[str, ...], list[tuple[tuple[int, ...], dict[str, float]]]]:
        """Every profile: the axes they vary along, and place and values of each, T₁ and T₂ filled in."""
        found = []
        for place, at in self.points(PROFILE):
            filled = at | {
                "T1": np.round(0.5 * at["L"]) if np.isnan(at["T1"]) else at["T1"],
                "T2": np.round(0.9 * at["L"]) if np.isnan(at["T2"]) else at["T2"],
            }
            found.append((place, filled))
        return self.dims(PROFILE), found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Similarity:
    """The Grams of a study, over the axes `dims`."""

    dims: tuple[str, ...]
    feasible: BoolArray
    projected: BoolArray
    rho0: FloatArray

    def spread(self, name: str, grid: _Grid) -> np.ndarray:
        """Return one of the arrays, shaped to broadcast over all axes of the study."""
        return np.asarray(getattr(self, name)).reshape([len(values) if axis in self.dims else 1 for axis, values in grid.axes.items()])


def heads_of(profiles: Sequence[Mapping[str, float]]) -> tuple[FloatArray, FloatArray]:
    """Return α and ‖v‖ of profiles of one length, each (profile, T)."""
    length = int(profiles[0]["L"])
    at = {name: np.array([profile[name] for profile in profiles]) for name in PROFILE}
    alpha = weights(length, {name: at[name] for name in ("p_sink", "p_base", "eta", "growth", "omega", "T1", "T2")})
    norms = np.repeat(at["C"][:, None].astype(np.float64), alpha.shape[1], axis=1)
    norms[:, 0] *= at["lam"]
    return alpha, norms


def _batches(profiles: list[tuple[tuple[int, ...], dict[str, float]]]) -> Iterator[list[tuple[tuple[int, ...], dict[str, float]]]]:
    """Yield profiles of one length, a few at a time."""
    by_length: dict[float, list[tuple[tuple[int, ...], dict[str, float]]]] = {}
    for item in profiles:
        by_length.setdefault(item[1]["L"], []).append(item)
    for length, group in by_length.items():
        size = max(1, int(AT_ONCE // (length + 1)))
        yield from (group[start : start + size] for start in range(0, len(group), size))


def _broadcast(grid: _Grid, similarity: _Similarity) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Evaluate eq. (12), (14) and the lower sides of (16), (17) in one broadcast over all axes."""
    selected, sizes_dims = _all_selections(grid)
    dims = tuple(grid.axes)

    def spread(array: np.ndarray) -> np.ndarray:
        return array.reshape([len(grid.axes[name]) if name in sizes_dims else 1 for name in dims])

    s = {name: spread(getattr(selected, name)) for name in Selections.__slots__}
    at = {name: grid.along(name, dims) for name in PARAMETERS} | {"rho0": similarity.spread("rho0", grid)}
    nearest = at["c"] + (1 - at["c"]) * _at_one(grid.question.decay, at["beta"], at["stretch"])
    # some content token inside and some outside are neighbours, so the largest cosine across is that at lag 1, or the sink's
    across = np.where(s["content_out"], nearest, -np.inf)
    across = np.where(s["sink_in"], across, np.maximum(across, at["rho0"]))
    rho_out = np.where(s["content_in"] & np.isfinite(across), across, 0.0)
    margin = s["a_min_in"] ** 2 - 2 * s["a_max_out"] * s["s_in"] * rho_out
    margin_sink = s["a_sink"] ** 2 - (s["s_in"] * rho_out) ** 2
    scale = s["a_max_in"] + s["a_max_out"] + s["s_in"]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, ratio_sink = (margin / scale) ** 2, (margin_sink / scale) ** 2
    allowed = similarity.spread("feasible", grid)
    whole = at["N"] == at["L"] + 1
    found = {name: np.where(whole, np.nan, array) for name, array in (("margin", margin), ("margin_sink", margin_sink))}
    found |= _lower_bounds(grid, at, ratio, ratio_sink, np.isnan(margin), scale)
    for name in grid.question.bounds:
        found[name] = _masked(found[name], allowed, whole)
    return {
        name: _own(array, grid, full=name in BOUNDS)
        for name, array in found.items()
        if name in ("margin", "margin_sink", *grid.question.bounds)
    }


def _lower_bounds(
    grid: _Grid, at: Mapping[str, FloatArray], ratio: FloatArray, ratio_sink: FloatArray, undefined: BoolArray, scale: FloatArray
) -> dict[str, FloatArray]:
    """Return the printed lower bounds from (Δ/B)² and (Δ₀/B)²; a margin that print leaves undefined loses its term."""
    strength = -at["kappa"] * at["d"]
    outside = at["L"] - at["N"]
    if undefined.any():
        ratio = np.where(undefined, np.inf, ratio)
    loss, sink = np.asarray(np.exp(strength * ratio)), np.asarray(np.exp(strength * ratio_sink))
    loss *= outside
    sink *= outside / at["N"]
    loss = loss + sink if loss.shape != np.broadcast_shapes(loss.shape, sink.shape) else np.add(loss, sink, out=loss)
    if not (scale > 0).all():
        loss = np.where(scale > 0, loss, np.nan)
    found: dict[str, FloatArray] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        if {"precision_lower", "f_outer_lower"} & set(grid.question.bounds):
            found["precision_lower"] = 1 / (1 + loss)
        if "f_outer_lower" in grid.question.bounds:
            found["f_outer_lower"] = 2 * found["precision_lower"] / (1 + found["precision_lower"])
        if {"recall_lower", "f_inner_lower"} & set(grid.question.bounds):
            found["recall_lower"] = np.subtract(1, loss, out=loss)
        if "f_inner_lower" in grid.question.bounds:
            found["f_inner_lower"] = 2 * found["recall_lower"] / (1 + found["recall_lower"])
    return found


def _masked(array: FloatArray, allowed: BoolArray, whole: BoolArray) -> FloatArray:
    """Put 1 where N = T and NaN where no vectors have the Gram."""
    if whole.any():
        array = np.where(whole, 1.0, array)
    return array if allowed.all() else np.where(allowed, array, np.nan)


def _own(array: np.ndarray, grid: _Grid, *, full: bool) -> tuple[tuple[str, ...], np.ndarray]:
    """Return an array with the axes it depends on, or with all of them."""
    if full:
        shape = tuple(len(values) for values in grid.axes.values())
        return tuple(grid.axes), array if array.shape == shape else np.broadcast_to(array, shape).copy()
    dims = tuple(name for name, size in zip(grid.axes, array.shape, strict=True) if size > 1 or len(grid.axes[name]) == 1)
    return dims, array.reshape([len(grid.axes[name]) for name in dims])


def _at_one(decay: Decay, beta: FloatArray, stretch: FloatArray) -> FloatArray:
    """Return the similarity at lag 1, before the offset."""
    if decay == "power":
        return np.asarray(2.0**-beta)
    return np.exp(-(beta**stretch)) if decay == "stretched" else np.exp(-beta)


def _all_selections(grid: _Grid) -> tuple[Selections, tuple[str, ...]]:
    """Return the selections of every profile and N, arrays over the axes of profiles and N in the order of the study."""
    dims, profiles = grid.profiles()
    sizes = grid.of_parameter("N").astype(np.int64)
    shape = [len(grid.axes[name]) for name in dims]
    arrays: dict[str, np.ndarray] = {}
    for batch in _batches(profiles):
        alpha, norms = heads_of([values for _, values in batch])
        found = selections(alpha, norms, sizes, sink_in_b=grid.question.sink_in_b)
        where = tuple(np.array([place for place, _ in batch]).T) if dims else (slice(None),)
        for name in Selections.__slots__:
            part = np.broadcast_to(getattr(found, name), (len(batch), len(sizes)))
            room = arrays.setdefault(name, np.empty([*(shape or [1]), len(sizes)], part.dtype))
            room[where] = part
    names = (*dims, "N") if "N" in grid.axes else dims
    order = [names.index(name) for name in grid.axes if name in names]
    settled = {name: array.reshape([len(grid.axes[x]) for x in names]).transpose(order) for name, array in arrays.items()}
    return Selections(**settled), tuple(name for name in grid.axes if name in names)


def _pointwise(grid: _Grid, similarity: _Similarity) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Evaluate any edition by `theory.evaluate.envelopes`: once for each Gram, length, d and κ, with all profiles of that length."""
    from theory.evaluate import envelopes

    shape = tuple(len(values) for values in grid.axes.values())
    flags = ("reliable",) if grid.question.edition in ("conditional", "predicted") else ()
    names = (*grid.question.bounds, "margin", "margin_sink", *flags)
    found = {name: np.full(shape, np.nan) for name in names}
    sizes = grid.of_parameter("N").astype(np.int64)
    profile_dims, profiles = grid.profiles()
    outer = (*GRAM, "d", "kappa")
    for batch in _batches(profiles):
        alpha, norms = heads_of([values for _, values in batch])
        length = batch[0][1]["L"]
        for place, at in grid.points(outer):
            where = dict(zip(grid.dims(outer), place, strict=True))
            known = where | dict(zip(profile_dims, batch[0][0], strict=True))
            gram_at = tuple(known[name] for name in similarity.dims)
            if not similarity.feasible[gram_at]:
                continue
            gram = grid.gram(at | {"L": length, "rho0": float(similarity.rho0[gram_at])})
            bounds = envelopes(
                alpha, norms, gram, int(at["d"]), sizes, edition=grid.question.edition, kappa=at["kappa"],
                delta0=grid.question.delta0, sink_in_b=grid.question.sink_in_b, feasible=True,
            )  # fmt: skip
            for head, (profile, _) in enumerate(batch):
                position = where | dict(zip(profile_dims, profile, strict=True))
                index = tuple(slice(None) if name == "N" else position[name] for name in grid.axes)
                for name in names:
                    row = getattr(bounds, name)[head]
                    found[name][index] = row if "N" in grid.axes else row[0]
    return {name: (tuple(grid.axes), array == 1 if name in flags else array) for name, array in found.items()}


def _free_memory() -> float:
    """Bytes of memory that are free (where the system does not tell: 4 GiB)."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return 4 * 2.0**30
