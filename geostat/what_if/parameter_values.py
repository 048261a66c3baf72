"""Values of a study's parameters in words: one, a list, a range, multiples, shares of L. Imports
numpy and the theory room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from geostat.errors import InputError, refuse_unknown
from theory.errors import InputError as TooMany
from theory.what_if.parameters import PARAMETERS

MOST_IN_RANGE: Final = 10_000
"""Values of one range, at most: more are finer than any figure or table shows."""
MOST_TOKENS: Final = 100_000_000
"""Tokens of a document in a study, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One `name=…` of a study. `values` are absolute, multiples of the parameter's base value
    where `relative`, shares of L where `in_lengths`.
    """

    name: str
    values: tuple[float, ...]
    relative: bool = False
    in_lengths: bool = False

    def of(self, base: Mapping[str, float | str]) -> np.ndarray:
        """Return the values: the multiples taken of the base value, the shares of L as text such
        as "0.5L".
        """
        if self.in_lengths:
            return np.array([f"{value!r}L" for value in self.values])
        values = np.array(self.values, dtype=np.float64)
        if self.relative:
            start = base.get(self.name, PARAMETERS[self.name].default)
            if start is None or isinstance(start, str):
                raise InputError(
                    f"{self.name}: has no base value to multiply. Give it with --set"
                    f" {self.name}=VALUE."
                )
            values = values * start
            values = np.unique(np.round(values)) if PARAMETERS[self.name].whole else values
        return values


def parse(text: str) -> Setting:
    """Read `name=value`, `name=v1,v2,…` or `name=from:to:count[:log]`; an x before the values
    multiplies the base value, as in beta=x2, and an L behind those of T1 and T2 makes them shares
    of L, as in T1=0.5L.

    Raises:
        InputError: for an unknown name, values that are no numbers, or more of them than memory
            holds.

    >>> parse("N=2:5:4").values
    (2.0, 3.0, 4.0, 5.0)
    """
    name, equals, rest = text.partition("=")
    name, rest = name.strip(), rest.strip()
    refuse_unknown(name, PARAMETERS, f"--set {text}: {name!r} is no parameter", verb="Use")
    in_lengths = PARAMETERS[name].share is not None and bool(re.search(r"L\s*(,|:|$)", rest))
    relative = rest.startswith("x")
    plain = re.sub(r"(^|[:,])\s*x", r"\1", rest) if relative else rest
    if in_lengths:
        plain = re.sub(r"L\s*(?=,|:|$)", "", plain)
        mixed = relative or any(
            part.strip()[-1:] not in ("L", "")
            for part in (rest.split(":")[:2] if ":" in rest else rest.split(","))
        )
        if mixed:
            raise InputError(
                f"--set {text}: some values are shares of L, expected all, as in {name}=0.3L,0.5L"
                f" or {name}=0.1L:0.5L:5. Add the L."
            )
    try:
        values: tuple[float, ...] = (
            _range(plain) if ":" in plain else tuple(float(part) for part in plain.split(","))
        )
    except TooMany:
        raise
    except (ValueError, OverflowError):
        values = ()
    if not equals or not values or not np.isfinite(values).all():
        raise InputError(
            f"--set {text}: expected {name}=VALUE, {name}=V1,V2,… or {name}=FROM:TO:COUNT[:log],"
            " all of them finite numbers."
        )
    if name == "L" and not relative and max(values) > MOST_TOKENS:
        raise InputError(
            f"--set {text}: expected at most {MOST_TOKENS:,} tokens, of which every weight is held."
            " Use a smaller L."
        )
    if ":" in plain and PARAMETERS[name].whole and not relative and not in_lengths:
        values = tuple(np.unique(np.round(values)).tolist())
    return Setting(name=name, values=values, relative=relative, in_lengths=in_lengths)


def _range(text: str) -> tuple[float, ...]:
    first, last, count, *spacing = text.split(":")
    start, stop, number = float(first), float(last), int(count)
    if (
        not np.isfinite([start, stop]).all()
        or spacing not in ([], ["log"])
        or number < 1
        or (spacing and not (start > 0 and stop > 0))
    ):
        raise ValueError(text)
    if number > MOST_IN_RANGE:
        raise TooMany(
            f"--set: a range of {number:,} values, expected at most {MOST_IN_RANGE:,}. Give a"
            " smaller COUNT."
        )
    return tuple((np.geomspace if spacing else np.linspace)(start, stop, number).tolist())
