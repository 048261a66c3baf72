"""The grid of a what-if study: its axes, what stands still, the profile of each point, and whether
memory holds it.

Source: arXiv 2602.01893, Assumptions 1-3. The Gram of each point is that of `theory.what_if.grams`.
Imports numpy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.head.attention_profile import many_weights
from theory.what_if.parameters import GRAM, PARAMETERS, PROFILE, Question

AT_ONCE: Final = 2**21
"""Weights of profiles laid out at once: 16 MB of float64 an array."""

MEMORY_SHARE: Final = 0.5
"""Share of the machine's free memory that a study may take; the rest is for figure and files."""

WORD: Final = 8
"""Bytes of a number."""

WORK: Final = 8
"""Arrays over all points beside those of the bounds, which are held twice while they are made."""

A_PROFILE: Final = 1500
"""Bytes of one profile's parameters."""

A_SELECTION: Final = 64
"""Bytes of what is kept of one profile's selection at one N."""

WITH_KAPPA: Final = ("printed", "repaired")
"""Editions with the constant κ in their tails."""

Profile = tuple[tuple[int, ...], dict[str, float]]
"""Some parameters of a point: its index along their axes, and their values by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """The axes of a study, everything else fixed; NaN stands for "follows from the others"."""

    axes: dict[str, FloatArray]
    fixed: dict[str, float]
    question: Question
    shares: frozenset[str]
    """Those of T1 and T2 whose values are shares of L."""

    @classmethod
    def of(cls, axes: Mapping[str, Any], fixed: Mapping[str, Any], question: Question) -> Grid:
        """Read what varies and what stands still."""
        for name in (*axes, *fixed):
            if name not in PARAMETERS:
                raise InputError(
                    f"{name}: no such parameter, expected one of {', '.join(PARAMETERS)}. Use one"
                    " of those."
                )
        twice = sorted(set(axes) & set(fixed))
        if twice:
            raise InputError(f"{twice[0]}: both varies and is fixed. Give it once.")
        fixed = _settled_by_gram(axes, fixed, question)
        read = {name: PARAMETERS[name].read(values) for name, values in axes.items()}
        rest = {
            name: np.nan if p.default is None else float(p.default)
            for name, p in PARAMETERS.items()
            if name not in read
        }
        rest |= {
            name: p.share
            for name, p in PARAMETERS.items()
            if p.share is not None and name not in read
        }
        shares = {name for name in rest if PARAMETERS[name].share is not None} - set(fixed)
        for name, value in fixed.items():
            values, share = PARAMETERS[name].read(value)
            if values.size != 1:
                raise InputError(
                    f"{name}: expected one value, as it stands still. Let it vary, or give one."
                )
            rest[name] = float(values[0])
            shares |= {name} if share else set()
        shares |= {name for name, (_, share) in read.items() if share}
        _refuse_without_effect(read, rest, question)
        if question.measured is not None:
            rest |= dict.fromkeys(GRAM, np.nan) | (
                {} if question.measured.rho0 is None else {"rho0": question.measured.rho0}
            )
        return cls(
            axes={name: values for name, (values, _) in read.items()},
            fixed=rest,
            question=question,
            shares=frozenset(shares),
        )

    def check(self) -> None:
        """Refuse N beyond T, and more points than memory holds."""
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

    def of_parameter(self, name: str) -> FloatArray:
        """All values that a parameter takes, 1-d."""
        return self.axes[name] if name in self.axes else np.array([self.fixed[name]])

    def along(self, name: str, dims: Sequence[str]) -> FloatArray:
        """The values of a parameter, shaped to broadcast over `dims`."""
        values = self.of_parameter(name)
        return (
            values.reshape([values.size if dim == name else 1 for dim in dims])
            if dims
            else values.reshape(())
        )

    def dims(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the axes that are among `names`, in the order of the study."""
        return tuple(name for name in self.axes if name in names)

    def points(self, names: Sequence[str]) -> Iterator[Profile]:
        """Every combination of the values of `names`: its index along their axes, and the
        values.
        """
        varying = self.dims(names)
        for index in product(*(range(len(self.axes[name])) for name in varying)):
            at = dict(zip(varying, index, strict=True))
            yield (
                index,
                {
                    name: float(self.axes[name][at[name]]) if name in at else self.fixed[name]
                    for name in names
                },
            )

    def profiles(self) -> list[Profile]:
        """Every profile: its index along the axes that profiles have, and its values, T₁ and T₂
        filled in.
        """
        return [
            (index, at | {name: float(np.round(at[name] * at["L"])) for name in self.shares})
            for index, at in self.points(PROFILE)
        ]

    def known(self) -> dict[str, float | str]:
        """What stands still and has a value, T₁ and T₂ as "0.5L" where they are shares of L."""
        return {
            name: f"{value:g}L" if name in self.shares else value
            for name, value in self.fixed.items()
            if np.isfinite(value)
        }


def _refuse_without_effect(
    varying: Mapping[str, Any], fixed: Mapping[str, float], question: Question
) -> None:
    """Raise where a parameter varies, or is fixed away from its default, of which the Gram or
    the edition makes no use.
    """
    for name, used, why, remedy in (
        (
            "c",
            question.decay != "exponential",
            "the exponential Gram has no offset",
            "--gram offset",
        ),
        (
            "stretch",
            question.decay in ("stretched", "measured"),
            f"the {question.decay} Gram is not stretched",
            "--gram stretched",
        ),
        (
            "kappa",
            question.edition in WITH_KAPPA,
            f"the {question.edition} edition has no such constant",
            "--edition printed or repaired",
        ),
    ):
        if not used and (name in varying or fixed[name] != PARAMETERS[name].default):
            raise InputError(
                f"{name} is set, but {why}, expected none given. Use {remedy}, or leave {name} out."
            )


def _settled_by_gram(
    axes: Mapping[str, Any], fixed: Mapping[str, Any], question: Question
) -> dict[str, Any]:
    """Return what is fixed, with the L of a measured Gram; refuse what such a Gram leaves no
    room for.
    """
    measured = question.measured
    if measured is None:
        return dict(fixed)
    given = [
        name
        for name in GRAM
        if name in axes or (name in fixed and not (name == "rho0" and fixed[name] == measured.rho0))
    ]
    if given:
        raise InputError(
            f"{given[0]} is set beside a measured Gram, expected none of {', '.join(GRAM)}. Leave"
            f" {given[0]} out, or name another gram."
        )
    length = float(measured.tokens - 1)
    if "L" in axes or fixed.get("L", length) != length:
        seen = (
            "L varies"
            if "L" in axes
            else (
                f"L = {fixed['L']:g}"
                if isinstance(fixed["L"], float | int)
                else f"L = {fixed['L']}"
            )
        )
        raise InputError(
            f"{seen}: expected {length:g}, as the measured Gram has {measured.tokens} tokens. Leave"
            " L out."
        )
    return dict(fixed) | {"L": length}


def heads_of(profiles: Sequence[Mapping[str, float]]) -> tuple[FloatArray, FloatArray]:
    """Return α and ‖v‖ of profiles of one length, each (profile, T)."""
    length = int(profiles[0]["L"])
    at = {name: np.array([profile[name] for profile in profiles]) for name in PROFILE}
    alpha = many_weights(
        length,
        {name: at[name] for name in ("p_sink", "p_base", "eta", "growth", "omega", "T1", "T2")},
    )
    norms = np.repeat(at["C"][:, None].astype(np.float64), alpha.shape[1], axis=1)
    norms[:, 0] *= at["lam"]
    return alpha, norms


def batches(profiles: list[Profile]) -> Iterator[list[Profile]]:
    """Yield profiles of one length, a few at a time."""
    by_length: dict[float, list[Profile]] = {}
    for item in profiles:
        by_length.setdefault(item[1]["L"], []).append(item)
    for length, group in by_length.items():
        size = max(1, int(AT_ONCE // (length + 1)))
        yield from (group[start : start + size] for start in range(0, len(group), size))


def refuse_beyond_memory(needed: float, what: str) -> None:
    """Raise where `needed` bytes are more than may be taken of the free memory.

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
    """Bytes of memory that are free (where the system does not tell: 4 GiB)."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return 4 * 2.0**30
