"""Claims of all topics, their tolerances, and requirements on their verdicts (`--require`).

A claim is a statement about one number of every head, its *effect*. It holds if the effect lies
within a tolerance that is set beforehand; a TOML file of the user replaces tolerances.
Source: arXiv 2602.01893, Assumptions 1-3, Theorems 1-2.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.sources.paths import read_whole
from geostat.errors import InputError, UnmetRequirement, refuse_unknown
from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import Side
from geostat.topics import bounds, norms, similarity, weights
from geostat.topics.records import Claim, Tolerance, unit_of

CLAIMS: Final[tuple[Claim, ...]] = tuple(
    claim for topic in (norms, similarity, weights, bounds) for claim in topic.CLAIMS
)
"""Every claim, in the order of the report."""

WITHDRAWN: Final[Mapping[str, str]] = {
    "bounds.sharp_measured": (
        "the scatter of a head's measured cosines enters twice, so values drawn from Model G,"
        " our random model, fail it as often as real heads"
    )
}
"""Withdrawn claims and the reason."""


def refuse_withdrawn(where: str, key: str, remedy: str = "Leave it out.") -> None:
    """Refuse a withdrawn claim.

    Raises:
        InputError: if `key` is withdrawn; `where` is where it was named.
    """
    if key in WITHDRAWN:
        raise InputError(f"{where} was withdrawn: {WITHDRAWN[key]}. {remedy}")


def within(effect: FloatArray, tolerance: float, side: Side) -> NDArray[np.bool_]:
    """Return where an effect lies within its tolerance, errors ignored; False for NaN."""
    if side == "at_least":
        return np.asarray(effect >= tolerance)
    return np.asarray((np.abs(effect) if side == "within" else effect) <= tolerance)


def replicates(tree: xr.DataTree, claim: Claim) -> FloatArray | None:
    """Return the leave-one-document-out values of a claim's effect, (document, layer, head); None
    for bounds and for runs that did not store them.
    """
    name = f"{claim.variable}_without"
    group = tree[claim.group].to_dataset()
    if claim.bounds or name not in group:
        return None
    return (
        group[name]
        .sel(claim.select)
        .transpose("document", "layer", claim.of)
        .values.astype(np.float64)
    )


LARGEST: Final = 2**20
"""Maximum size of a tolerance file, bytes."""


def read_tolerances(path: Path | None = None) -> dict[str, Tolerance]:
    """Return the tolerance of each claim, built-in or from a user's file.

    Args:
        path: a TOML file with one table for each changed claim: the side of the claim (at_most,
            at_least or within) and `source`.

    Raises:
        InputError: if the file cannot be read, or has an unknown or withdrawn claim, a wrong side,
            or an invalid value.

    >>> read_tolerances()["norms.cv"].value
    0.05
    """
    built_in = {claim.key: claim.tolerance for claim in CLAIMS}
    return built_in if path is None else built_in | _read(path)


def _read(path: Path) -> dict[str, Tolerance]:
    try:
        data = read_whole(path, most=LARGEST)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}), expected a TOML file of tolerances. Check"
            " the path."
        ) from None
    try:
        tables = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # ValueError also for integers too long
        reason = "nested too deep" if isinstance(error, RecursionError) else error
        raise InputError(
            f"{path}: is not valid TOML ({reason}), expected tables such as [norms.cv] with at_most"
            " = 0.05. Use that form, or start from a copy of docs/reference/tolerances.toml."
        ) from None
    known = {claim.key: claim for claim in CLAIMS}
    tolerances = {}
    for key, table in _flat(tables).items():
        refuse_withdrawn(f"{path}: [{key}]", key)
        refuse_unknown(key, known, f"{path}: [{key}] is not a claim", verb="Name")
        tolerances[key] = _tolerance(path, known[key], table)
    return tolerances


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables [a.b] as "a.b"; other entries keep their name, and are refused later."""
    flat: dict[str, Any] = {}
    for topic, entries in tables.items():
        if (
            isinstance(entries, dict)
            and entries
            and all(isinstance(entry, dict) for entry in entries.values())
        ):
            flat |= {f"{topic}.{name}": table for name, table in entries.items()}
        else:
            flat[topic] = entries
    return flat


def _tolerance(path: Path, claim: Claim, table: object) -> Tolerance:
    if not isinstance(table, dict):
        raise InputError(
            f"{path}: {claim.key} = {table!r}, expected a table [{claim.key}] with {claim.side} ="
            " NUMBER and source = TEXT. Use that form."
        )
    unknown = sorted(set(table) - {claim.side, "source"})
    if unknown or claim.side not in table:
        problem = f"has {unknown[0]!r}" if unknown else f"has no {claim.side!r}"
        raise InputError(
            f"{path}: [{claim.key}] {problem}, expected {claim.side} = NUMBER and source = TEXT."
            " Use that form."
        )
    value = table[claim.side]
    # Compare without converting to float: an integer may exceed the largest float.
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= sys.float_info.max
    ):
        too_large = isinstance(value, int) and abs(value) > sys.float_info.max
        shown = "an integer above the largest float" if too_large else repr(value)
        raise InputError(
            f"{path}: [{claim.key}] {claim.side} = {shown}, expected a number ≥ 0. Give one."
        )
    return Tolerance(float(value), str(table.get("source", "the user's file")))


def as_toml() -> str:
    """Return the built-in tolerances as a TOML file to copy and change.

    >>> print(as_toml().splitlines()[0])
    [norms.cv]
    """
    return "\n".join(
        f"[{claim.key}]\n{claim.side} = {claim.tolerance.value:.2f}\n"
        f"source = {json.dumps(claim.tolerance.source, ensure_ascii=False)}\n"
        for claim in CLAIMS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A claim must have a verdict in at least a share of all heads, with or without an estimate."""

    claim: str
    answer: str
    least: float

    def met(self, verdicts: xr.Dataset) -> tuple[bool, str]:
        """Return whether the requirement is met, and a line of text with the shares.

        Raises:
            InputError: if the run has no verdict on the claim.
        """
        claims = [str(key) for key in verdicts["claim"].values]
        if self.claim not in claims:
            raise InputError(
                f"--require {self.claim}: the run has no verdict on this claim, expected one of"
                f" {', '.join(claims)}. Name one of those."
            )
        result, total = share(verdicts, self.claim, self.answer)
        met = result >= self.least
        untested = total - int(verdicts["tested"].sel(claim=self.claim).sum())
        unit = "KV heads" if unit_of(self.claim) == "kv_head" else "heads"
        heads = f"{total} {unit}" + f" ({untested} without an estimate)" * (untested > 0)
        required = f"{'meeting the required' if met else 'required at least'} {self.least:.1%}"
        return met, f"{self.claim} {self.answer} in {result:.1%} of {heads}, {required}"


def share(verdicts: xr.Dataset, claim: str, answer: str) -> tuple[float, int]:
    """Return the share of all heads, estimated or not, with an answer, and their number."""
    heads = verdicts.sizes["layer"] * verdicts.sizes[unit_of(claim)]
    # The sum is over parts, if layers see different numbers of tokens.
    name = answer.replace(" ", "_")
    number = float(verdicts[name].sel(claim=claim).sum()) if name in verdicts else 0.0
    return number / heads, heads


def requirement(text: str) -> Requirement:
    """Parse a value of `--require`, such as "norms.cv holds 0.9".

    Raises:
        InputError: if the text has another form.

    >>> requirement("norms.cv holds 0.9")
    Requirement(claim='norms.cv', answer='holds', least=0.9)
    >>> requirement("norms.cv holds 90%").least
    0.9
    """
    match = re.fullmatch(
        r"\s*(\S+)\s+(holds trivially|holds|fails|undetermined)\s+(\d*\.?\d+)\s*(%?)\s*", text
    )
    keys = [claim.key for claim in CLAIMS]
    least = float("nan") if match is None else float(match[3]) / (100 if match[4] else 1)
    if match is None or not least <= 1:
        raise InputError(
            f"--require {text}: expected a claim, holds, holds trivially, fails or undetermined,"
            ' and a share of heads, as in "norms.cv holds 0.9" or "norms.cv holds 90%".'
        )
    refuse_withdrawn(f"--require {text}: {match[1]}", match[1])
    refuse_unknown(match[1], keys, f"--require {text}: {match[1]} is not a claim", verb="Name")
    return Requirement(claim=match[1], answer=match[2], least=least)


def enforce_requirements(tree: xr.DataTree, required: Sequence[Requirement]) -> list[str]:
    """Return a line for each requirement on the verdicts of a run.

    Raises:
        UnmetRequirement: naming those that are not met.
        InputError: if the run has no verdicts, or none on a claim.
    """
    if "verdicts" not in tree.children:
        raise InputError(
            "the run has no verdicts yet, expected /verdicts. Run `geostat confront` on it first."
        )
    results = [condition.met(tree["verdicts"].to_dataset()) for condition in required]
    unmet = [line for met, line in results if not met]
    if unmet:
        raise UnmetRequirement("; ".join(unmet) + ".")
    return [line for _, line in results]
