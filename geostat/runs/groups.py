"""Groups of a run: what each is called, which stage makes it, and what the next stage needs. Imports nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Stage = Literal["capture", "fit", "confront"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of a run. `needed`: the next stage cannot do without it."""

    name: str
    stage: Stage
    needed: bool = False


GROUPS: Final = (
    Group(name="capture", stage="capture", needed=True),
    Group(name="null", stage="capture"),
    Group(name="measured_envelope", stage="capture"),
    Group(name="norms", stage="fit", needed=True),
    Group(name="similarity", stage="fit", needed=True),
    Group(name="weights", stage="fit", needed=True),
    Group(name="pooled", stage="fit"),
    Group(name="envelope", stage="confront", needed=True),
    Group(name="ingredients", stage="confront"),
    Group(name="predictive", stage="confront"),
    Group(name="sink", stage="confront"),
    Group(name="heads", stage="confront"),
    Group(name="separable", stage="confront"),
    Group(name="verdicts", stage="confront"),
    Group(name="summary", stage="confront", needed=True),
)
"""Every group, in the order of making. What a stage makes is stale once an earlier stage is repeated, or the stage itself."""

FITTED: Final = tuple(group.name for group in GROUPS if group.stage == "fit")
ASSUMPTIONS: Final = tuple(group.name for group in GROUPS if group.stage == "fit" and group.needed)
"""The fits that bounds are evaluated from."""
CONFRONTED: Final = tuple(group.name for group in GROUPS if group.stage == "confront")
"""They rest on the fits: they go when fits or bounds are made anew, so that none outlives what it was made from."""


def maker(name: str) -> str:
    """Return the public function that makes a group.

    >>> maker("weights")
    'geostat.fit'
    """
    stage = next((group.stage for group in GROUPS if group.name == name), "capture")
    return "geostat.open or geostat.capture" if stage == "capture" else f"geostat.{stage}"
