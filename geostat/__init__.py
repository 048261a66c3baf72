"""geostat: statistical modelling of the geometry of attention heads.

Measures the heads of a transformer, fits the assumptions of the geometric theory of token selection
(arXiv 2602.01893), evaluates its bounds and confronts the two. The heavy imports happen when a
function is first called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import empirical  # noqa: F401 - before torch, to whose threads it says how long to wait

if TYPE_CHECKING:
    from empirical.errors import StoreError
    from geostat.api import (
        capture,
        claims,
        compare,
        confront,
        depth_trend,
        documents,
        elasticities,
        fit,
        fit_head,
        from_tensors,
        head,
        open,
        pooled_fit,
        report,
        summary,
        whatif,
    )
    from geostat.errors import InputError
    from geostat.runs import plot
    from geostat.runs.ablation.api import ablate
    from geostat.runs.effective.api import effective
    from geostat.runs.normaliser.api import normaliser

__all__ = [
    "InputError",
    "StoreError",
    "ablate",
    "capture",
    "claims",
    "compare",
    "confront",
    "depth_trend",
    "documents",
    "effective",
    "elasticities",
    "fit",
    "fit_head",
    "from_tensors",
    "head",
    "normaliser",
    "open",
    "plot",
    "pooled_fit",
    "report",
    "summary",
    "whatif",
]


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the public names on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'geostat' has no attribute {name!r}")
    if name == "plot":
        return import_module("geostat.runs.plot")
    module = {
        "InputError": "geostat.errors",
        "StoreError": "empirical.errors",
        "ablate": "geostat.runs.ablation.api",
        "effective": "geostat.runs.effective.api",
        "normaliser": "geostat.runs.normaliser.api",
    }.get(name, "geostat.api")
    return getattr(import_module(module), name)
