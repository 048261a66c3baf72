"""Verdicts on the command line: what they are held against, and what is required of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def judged_by(tolerances: Path | None, require: list[str] | None) -> tuple[Any, list[Any]]:
    """What the verdicts are held against, and what is required of them; read before any work is done."""
    from geostat.verdicts.claims import tolerances as read
    from geostat.verdicts.requirements import requirement

    return read(tolerances), [requirement(text) for text in require or ()]


def met(store: Path, required: list[Any]) -> list[str]:
    """Return a line for each requirement.

    Raises:
        Unmet: if one is not met.
    """
    from empirical.store.store import Store
    from geostat.verdicts.requirements import hold_to

    return hold_to(Store.open(store).tree(only=("verdicts",)), required)
