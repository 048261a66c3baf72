"""Theorems about token selection in attention heads: stated, evaluated, simulated.

Source: "Geometric Analysis of Token Selection in Multi-Head Attention" (arXiv 2602.01893). Names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "Envelope",
    "InputError",
    "LagGram",
    "Validity",
    "envelope",
    "envelopes",
    "exponential",
    "find",
    "find_erratum",
    "offset_exponential",
    "project",
    "render",
    "render_erratum",
    "statement",
]

_HOME = {
    "Envelope": "theory.head.results",
    "InputError": "theory.errors",
    "LagGram": "theory.head.gram",
    "Validity": "theory.head.results",
    "envelope": "theory.evaluate.envelopes",
    "envelopes": "theory.evaluate.envelopes",
    "exponential": "theory.head.gram",
    "find": "theory.statements.catalogue",
    "find_erratum": "theory.statements.catalogue",
    "offset_exponential": "theory.head.gram",
    "project": "theory.head.projection",
    "render": "theory.statements.rendering",
    "render_erratum": "theory.statements.rendering",
    "statement": "theory.statements.catalogue",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
