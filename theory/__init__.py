"""Theorems about token selection in attention heads: statements, evaluation and simulation.

Source: "Geometric Analysis of Token Selection in Multi-Head Attention" (arXiv 2602.01893). Names
are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    name: module
    for module, names in {
        "theory.errors": ("InputError",),
        "theory.evaluate.envelopes": ("envelope", "envelopes"),
        "theory.evaluate.fitted": ("RankParameters", "fitted"),
        "theory.head.projection": ("project",),
        "theory.head.results": ("Envelope", "Validity"),
        "theory.head.gram": ("LagGram", "exponential", "offset_exponential", "rank_coherence"),
        "theory.statements.catalogue": ("find", "find_erratum", "statement"),
        "theory.statements.rendering": ("render", "render_erratum"),
    }.items()
    for name in names
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
