"""Grid of a what-if study: axes, fixed parameters, profile and Gram of each point, feasibility, and
memory limits.

Source: arXiv 2602.01893, Assumptions 1-3; the feasible edge of ρ₀ is erratum 9. Imports numpy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from theory.arrays import BoolArray, FloatArray, selection_order
from theory.errors import InputError
from theory.head.attention_profile import many_weights
from theory.head.gram import Gram, LagGram, decaying, rank_coherence, rank_coherence_edge
from theory.head.results import UNDER_MODEL_G
from theory.what_if.parameters import (
    BY_LAG,
    BY_RANK,
    GRAM,
    PARAMETERS,
    PROFILE,
    SIMILARITY,
    Question,
)

AT_ONCE: Final = 2**21
"""Number of weights in memory at once: 16 MB of float64 per array."""

MEMORY_SHARE: Final = 0.5
"""Share of free memory that a study may use; the rest is for figures and files."""

WORD: Final = 8
"""Bytes of a float64."""

WORK: Final = 8
"""Number of work arrays over all points, in addition to two for each bound."""

MATRICES: Final = 4
"""Number of (T, T) arrays held while a Gram by rank is evaluated."""

A_PROFILE: Final = 1500
"""Bytes for the parameters of one profile."""

A_SELECTION: Final = 64
"""Bytes for the selection of one profile at one N."""

Profile = tuple[tuple[int, ...], dict[str, float]]
"""Parameters of a point: index along their axes, and values by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Axes and fixed parameters of a study; NaN means "follows from the others"."""

    axes: dict[str, FloatArray]
    fixed: dict[str, float]
    question: Question
    shares: frozenset[str]
    """Parameters among T1 and T2 given as shares of L."""

    @classmethod
    def of(cls, axes: Mapping[str, Any], fixed: Mapping[str, Any], question: Question) -> Grid:
        """Return the grid of the given axes and fixed values."""
        for name in (*axes, *fixed):
            if name not in PARAMETERS:
                raise InputError(
                    f"{name}: no such parameter, expected one of {', '.join(PARAMETERS)}. Use one"
                    " of those."
                )
        duplicated = sorted(set(axes) & set(fixed))
        if duplicated:
            raise InputError(f"{duplicated[0]}: both varies and is fixed. Give it once.")
        fixed = _settled_by_gram(axes, fixed, question)
        varying = {name: PARAMETERS[name].read(values) for name, values in axes.items()}
        constant = {name: PARAMETERS[name].unset() for name in PARAMETERS if name not in axes}
        for name, value in fixed.items():
            constant[name] = PARAMETERS[name].read(value)
            if constant[name][0].size != 1:
                raise InputError(
                    f"{name}: expected one value for a fixed parameter. Give one value, or let it"
                    " vary."
                )
        fixed_values = {name: float(values[0]) for name, (values, _) in constant.items()}
        _refuse_without_effect(varying, fixed_values, question)
        fixed_values |= dict.fromkeys(BY_LAG if question.decay == "rank" else BY_RANK, np.nan)
        if question.measured is not None:
            rho0 = question.measured.rho0
            fixed_values |= dict.fromkeys(GRAM, np.nan) | ({} if rho0 is None else {"rho0": rho0})
        return cls(
            axes={name: values for name, (values, _) in varying.items()},
            fixed=fixed_values,
            question=question,
            shares=frozenset(name for name, (_, share) in (varying | constant).items() if share),
        )

    def check(self) -> None:
        """Refuse N beyond T, and more points than memory allows."""
        if self.of_parameter("N").max() > self.of_parameter("L").min() + 1:
            raise InputError(
                f"N = {self.of_parameter('N').max():g} at L = {self.of_parameter('L').min():g}:"
                " expected N from 1 to T = L + 1. Use a smaller N or a larger L."
            )
        points, profiles = (
            float(np.prod([len(self.axes[name]) for name in self.dims(names)]))
            for names in (tuple(self.axes), PROFILE)
        )
        needed = points * WORD * (2 * len(self.question.bounds) + WORK) + profiles * (
            A_PROFILE + A_SELECTION * self.of_parameter("N").size
        )
        refuse_beyond_memory(needed, f"{points:,.0f} points")
        if self.question.decay == "rank":
            tokens = self.of_parameter("L").max() + 1
            needed = MATRICES * WORD * tokens**2
            refuse_beyond_memory(needed, f"the cosines by rank of {tokens:,.0f} tokens")

    def of_parameter(self, name: str) -> FloatArray:
        """Return all values of a parameter, 1-d."""
        return self.axes[name] if name in self.axes else np.array([self.fixed[name]])

    def dims(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the axes among `names`, in the order of the study."""
        return tuple(name for name in self.axes if name in names)

    def points(self, names: Sequence[str]) -> Iterator[Profile]:
        """Yield every combination of the values of `names`: index along their axes, and values."""
        varying = self.dims(names)
        for index in product(*(range(len(self.axes[name])) for name in varying)):
            moved = {
                name: float(self.axes[name][position])
                for name, position in zip(varying, index, strict=True)
            }
            yield (
                index,
                {name: moved[name] if name in moved else self.fixed[name] for name in names},
            )

    def profiles(self) -> list[Profile]:
        """Return every profile: index along its axes, and values with T₁ and T₂ filled in."""
        profiles = []
        for index, point in self.points(PROFILE):
            shares = {name: float(np.round(point[name] * point["L"])) for name in self.shares}
            profiles.append((index, point | shares))
        return profiles

    def known(self) -> dict[str, float | str]:
        """Return the fixed parameters with a value; T₁ and T₂ as "0.5L" if they are shares of L."""
        return {
            name: f"{value:g}L" if name in self.shares else value
            for name, value in self.fixed.items()
            if np.isfinite(value)
        }


def _refuse_without_effect(
    varying: Mapping[str, Any], fixed: Mapping[str, float], question: Question
) -> None:
    """Raise if a parameter that Gram or edition do not use varies or differs from its default."""
    unused = {
        name: (
            f"the {question.decay} Gram has no such parameter",
            "--gram " + next(form for form, names in SIMILARITY.items() if name in names),
        )
        for name in GRAM
        if name not in SIMILARITY.get(question.decay, GRAM)
    }
    if question.edition in UNDER_MODEL_G:
        why = f"the {question.edition} edition has no such constant"
        unused["kappa"] = why, "--edition printed or repaired"
    for name, (why, remedy) in unused.items():
        if name in varying or fixed[name] != PARAMETERS[name].default:
            raise InputError(
                f"{name} is set, but {why}, expected none given. Use {remedy}, or leave {name} out."
            )


def _settled_by_gram(
    axes: Mapping[str, Any], fixed: Mapping[str, Any], question: Question
) -> dict[str, Any]:
    """Return the fixed parameters with the L of a measured Gram, which determines its others."""
    measured = question.measured
    if measured is None:
        return dict(fixed)
    conflicting = [
        name
        for name in GRAM
        if name in axes or (name in fixed and not (name == "rho0" and fixed[name] == measured.rho0))
    ]
    if conflicting:
        raise InputError(
            f"{conflicting[0]} is set beside a measured Gram, expected none of {', '.join(GRAM)}."
            f" Leave {conflicting[0]} out, or name another gram."
        )
    length = float(measured.tokens - 1)
    if "L" in axes or fixed.get("L", length) != length:
        given = fixed.get("L")
        shown = f"{given:g}" if isinstance(given, float | int) else given
        length_given = "L varies" if "L" in axes else f"L = {shown}"
        raise InputError(
            f"{length_given}: expected {length:g}, as the measured Gram has {measured.tokens}"
            " tokens. Leave L out."
        )
    return dict(fixed) | {"L": length}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Similarity:
    """Feasibility and ρ₀ of the Grams of a study, over the axes `dims`."""

    dims: tuple[str, ...]
    feasible: BoolArray
    projected: BoolArray
    rho0: FloatArray
    distance: FloatArray
    """|Δρ₀|, or the projection distance of a measured Gram."""


def over_axes(array: np.ndarray, dims: Sequence[str], axes: Mapping[str, FloatArray]) -> np.ndarray:
    """Return an array with dims among `axes`, shaped to broadcast over all axes."""
    return array.reshape([len(values) if axis in dims else 1 for axis, values in axes.items()])


def similarity_of(grid: Grid) -> Similarity:
    """Return feasibility and ρ₀ of each Gram, over the axes on which they depend."""
    measured = grid.question.measured
    if measured is not None:
        return Similarity(
            dims=(),
            feasible=np.array(True),
            projected=np.array(measured.kind != "none"),
            rho0=np.array(np.nan),
            distance=np.array(measured.distance),
        )
    dims = grid.dims((*GRAM, "L"))
    shape = [len(grid.axes[name]) for name in dims]
    edge, rho0 = np.empty(shape), np.empty(shape)
    edges: dict[tuple[float, ...], float] = {}
    for index, point in grid.points((*GRAM, "L")):
        key = tuple(value for name, value in point.items() if name != "rho0")
        if key not in edges:
            edges[key] = _edge(grid, point)
        edge[index], rho0[index] = edges[key], point["rho0"]
    within = np.abs(rho0) <= edge * (1 + 1e-12)  # NaN edge: infeasible
    projected = ~within & np.isfinite(edge) & grid.question.project
    projected_rho0 = np.where(projected, np.copysign(edge, rho0), rho0)
    return Similarity(
        dims=dims,
        feasible=within | projected,
        projected=projected,
        rho0=projected_rho0,
        distance=np.abs(projected_rho0 - rho0),
    )


def _edge(grid: Grid, point: Mapping[str, float]) -> float:
    """Return the largest feasible |ρ₀| of a parametric Gram; NaN if it is infeasible without a
    sink.
    """
    if grid.question.decay == "rank":
        return rank_coherence_edge(
            point["c1"], point["cinf"], point["gamma"], content=int(point["L"])
        )
    return _lag_gram(grid, point).edge(int(point["L"]))


def gram_at(grid: Grid, point: Mapping[str, float], alpha: FloatArray) -> Gram:
    """Return the Gram of one point; with rank coherence it depends on the weights α, (T,)."""
    if grid.question.measured is not None:
        return grid.question.measured.gram
    if grid.question.decay != "rank":
        return _lag_gram(grid, point)
    place = np.concatenate([[0], 1 + np.argsort(selection_order(alpha[1:]))])
    by_rank = rank_coherence(
        point["c1"], point["cinf"], point["gamma"], point["rho0"], tokens=len(alpha)
    )
    return by_rank[np.ix_(place, place)]


def _lag_gram(grid: Grid, point: Mapping[str, float]) -> LagGram:
    """Return the parametric Gram of one point."""
    form = grid.question.decay
    decay: Any = "exponential" if form == "offset" else form
    return decaying(
        decay,
        point["beta"],
        int(point["L"]) + 1,
        rho0=point["rho0"],
        offset=point["c"],
        stretch=point["stretch"],
    )


def heads_of(profiles: Sequence[Mapping[str, float]]) -> tuple[FloatArray, FloatArray]:
    """Return α and ‖v‖ of profiles of one length, each (profile, T)."""
    length = int(profiles[0]["L"])
    columns = {name: np.array([profile[name] for profile in profiles]) for name in PROFILE}
    of_norms = ("L", "lam", "C")
    alpha = many_weights(
        length, {name: values for name, values in columns.items() if name not in of_norms}
    )
    norms = np.repeat(columns["C"][:, None].astype(np.float64), alpha.shape[1], axis=1)
    norms[:, 0] *= columns["lam"]
    return alpha, norms


def batches(profiles: list[Profile], *, alone: bool = False) -> Iterator[list[Profile]]:
    """Yield batches of profiles of equal length, of one profile each if `alone`."""
    by_length: dict[float, list[Profile]] = {}
    for item in profiles:
        by_length.setdefault(item[1]["L"], []).append(item)
    for length, group in by_length.items():
        size = 1 if alone else max(1, int(AT_ONCE // (length + 1)))
        yield from (group[start : start + size] for start in range(0, len(group), size))


def refuse_beyond_memory(needed: float, what: str) -> None:
    """Raise if `needed` bytes exceed the permitted share of free memory.

    Example:
        >>> refuse_beyond_memory(8.0, "one number")
    """
    room = MEMORY_SHARE * free_memory()
    if needed > room:
        raise InputError(
            f"{what} need {needed / 2**30:,.1f} GiB, expected at most {room / 2**30:,.1f} GiB. Use"
            " fewer values."
        )


def free_memory() -> float:
    """Return the free memory in bytes (4 GiB if the system does not report it)."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return 4 * 2.0**30
