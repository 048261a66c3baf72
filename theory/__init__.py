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
    "Envelope": "theory.results",
    "InputError": "theory.errors",
    "LagGram": "theory.gram",
    "Validity": "theory.results",
    "envelope": "theory.evaluate",
    "envelopes": "theory.evaluate",
    "exponential": "theory.gram",
    "find": "theory.catalogue",
    "find_erratum": "theory.catalogue",
    "offset_exponential": "theory.gram",
    "project": "theory.gram",
    "render": "theory.catalogue",
    "render_erratum": "theory.catalogue",
    "statement": "theory.catalogue",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
