"""Verdicts as conditions: what `--require` asks of a run, and whether it is met. Imports xarray."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import xarray as xr

from geostat.errors import InputError, Unmet, refuse_unknown
from geostat.verdicts.claims import CLAIMS, UNITS, refuse_withdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """That a claim has an answer in at least a share of all heads, those without an estimate
    included.
    """

    claim: str
    answer: str
    least: float

    def met(self, verdicts: xr.Dataset) -> tuple[bool, str]:
        """Whether it is met, and a line that says so.

        Raises:
            InputError: if the run holds no verdict on the claim.
        """
        given = [str(key) for key in verdicts["claim"].values]
        if self.claim not in given:
            raise InputError(
                f"--require {self.claim}: the run has no verdict on it, expected one of"
                f" {', '.join(given)}. Name one of those."
            )
        result, heads = share(verdicts, self.claim, self.answer)
        met = result >= self.least
        untested = heads - int(verdicts["tested"].sel(claim=self.claim).sum())
        of = f"{heads} heads" + f" ({untested} without an estimate)" * (untested > 0)
        return (
            met,
            (
                f"{self.claim} {self.answer} in {result:.1%} of {of}, {'as ' * met}required at"
                f" least {self.least:.1%}"
            ),
        )


def share(verdicts: xr.Dataset, claim: str, answer: str) -> tuple[float, int]:
    """Return the share of all heads with an answer, and how many heads there are: one without an
    estimate has none of the three.
    """
    unit = next(
        unit
        for unit in UNITS
        if f"claim_{unit}" in verdicts.coords and claim in verdicts[f"claim_{unit}"].values
    )
    heads = verdicts.sizes["layer"] * verdicts.sizes[unit]
    # Summed over parts, where layers see different numbers of tokens.
    return float(verdicts[answer].sel(claim=claim).sum()) / heads, heads


def requirement(text: str) -> Requirement:
    """Read what `--require` is given, such as "norms.cv holds 0.9".

    Raises:
        InputError: for anything else.

    >>> requirement("norms.cv holds 0.9")
    Requirement(claim='norms.cv', answer='holds', least=0.9)
    >>> requirement("norms.cv holds 90%").least
    0.9
    """
    match = re.fullmatch(r"\s*(\S+)\s+(holds|fails|undetermined)\s+(\d*\.?\d+)\s*(%?)\s*", text)
    keys = [claim.key for claim in CLAIMS]
    least = float("nan") if match is None else float(match[3]) / (100 if match[4] else 1)
    if match is None or not least <= 1:
        raise InputError(
            f"--require {text}: expected a claim, holds, fails or undetermined, and a share of"
            ' heads, as in "norms.cv holds 0.9" or "norms.cv holds 90%".'
        )
    refuse_withdrawn(f"--require {text}: {match[1]}", match[1])
    refuse_unknown(match[1], keys, f"--require {text}: {match[1]} is no claim", verb="Name")
    return Requirement(claim=match[1], answer=match[2], least=least)


def hold_to(tree: xr.DataTree, required: Sequence[Requirement]) -> list[str]:
    """Return a line for each requirement on the verdicts of a run.

    Raises:
        Unmet: naming those that are not met.
        InputError: if the run has no verdicts, or none on a claim.
    """
    if "verdicts" not in tree.children:
        raise InputError(
            "the run has no verdicts yet, expected /verdicts. Run `geostat confront` on it first."
        )
    out = [one.met(tree["verdicts"].to_dataset()) for one in required]
    unmet = [line for met, line in out if not met]
    if unmet:
        raise Unmet("; ".join(unmet) + ".")
    return [line for _, line in out]
