"""Scoreboard: each claim of the paper that a run can speak to, confirmed, contradicted,
undetermined or not testable here, with the run's number beside the paper's.

Claims and the rules of their answers stand in `claims.toml`; a claim is answered by the function of
its name in `assumptions`, `experiments`, `sink` or `regimes`. Source: arXiv 2602.01893, abstract,
§3, §4, Figures 2-8, 10, 11. Imports tomllib and xarray.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import xarray as xr

from geostat.verdicts.scoreboard import assumptions, experiments, regimes, sink
from geostat.verdicts.scoreboard.finding import Finding

CLAIMS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("claims.toml").read_text(encoding="utf-8")
)
"""By key: claim, where, paper, rule."""


def scoreboard(tree: xr.DataTree) -> list[dict[str, str]]:
    """Return the claims in the order of the paper, each with key, claim, where, paper, rule,
    answer, here and why.

    `tree` is a run with /capture, the fits, /envelope, /verdicts, /summary, /sink, /heads and
    /separable.
    """
    rows = []
    for key, claim in CLAIMS.items():
        one = finding(key, tree)
        rows.append({"key": key, **claim, "answer": one.answer, "here": one.here, "why": one.why})
    return rows


def finding(key: str, tree: xr.DataTree) -> Finding:
    """Return the answer of a run to one claim."""
    rooms = (assumptions, experiments, sink, regimes)
    room = next(one for one in rooms if callable(getattr(one, key, None)))
    answered: Finding = getattr(room, key)(tree)
    return answered
