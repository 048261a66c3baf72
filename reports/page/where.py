"""Layers in which a claim holds or fails, in words. Imports numpy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from reports.run import Run, column, words_of

VERBS: Final = {"fails": "Fails", "holds": "Holds"}
HEADS: Final = {"kv_head": "value heads", "head": "heads"}


def where_in_words(run: Run, key: str) -> str:
    """Say in which layers a claim fails, and in which it holds, in most heads; nothing where the
    run gives no such verdict.
    """
    claim = next((one for one in _claims(run) if one["key"] == key), None)
    if claim is None or run.verdicts is None:
        return ""
    codes = {word: code for code, word in words_of(run.verdicts).items()}
    answers, layers = column(run.verdicts, claim), run.verdicts["layer"].values
    parts = []
    for answer in ("fails", "holds"):
        most = 2 * (answers == codes[answer]).sum(axis=1) > answers.shape[1]
        if most.all():
            return f"{VERBS[answer]} in most {HEADS[claim['of']]} of every layer."
        if most.any():
            parts.append(
                f"{VERBS[answer]} in most {HEADS[claim['of']]} of {int(most.sum())} of {most.size}"
                f" layers: {spans(layers[most].tolist())}"
            )
    if not parts:
        return f"Settled in most {HEADS[claim['of']]} of no layer, neither way."
    return f"{'. '.join(parts)}."


SUMMED_UP: Final = {
    "norms.cv": "Value norms of nearly one length",
    "similarity.exponential": "Exponential decay of similarity",
    "weights.shape_position": "Four phases of the weights",
}
"""The claim that stands for each assumption."""


def lines_of_claims(run: Run) -> list[tuple[str, str]]:
    """Each assumption and in which layers it fails or holds."""
    said = [(words, where_in_words(run, key)) for key, words in SUMMED_UP.items()]
    return [(words, where) for words, where in said if where]


def spans(numbers: Sequence[int]) -> str:
    """Whole numbers in rising order, neighbours joined.

    >>> spans([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7, 8'
    """
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    parts: list[str] = []
    for group in np.split(np.asarray(numbers, dtype=int), breaks):
        parts += [f"{group[0]} to {group[-1]}"] if group.size > 2 else [str(one) for one in group]
    return ", ".join(parts)


def _claims(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if run.verdicts is not None:
        found = json.loads(str(run.verdicts.attrs["claims"]))
    return found
