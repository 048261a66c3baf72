"""geostat: statistical modelling of the geometry of attention heads.

geostat measures the heads of a transformer, fits the assumptions of the geometric theory of token
selection (arXiv 2602.01893), evaluates the theory's bounds and compares them with the measurement.
Public names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import empirical  # noqa: F401 - sets the wait policy of torch's threads

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
        plan,
        pooled_fit,
        report,
        summary,
        whatif,
    )
    from geostat.errors import InputError
    from geostat.experiments.ablation.options import ablate
    from geostat.experiments.effective.options import effective
    from geostat.experiments.normaliser.options import normaliser
    from geostat.runs import plot

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
    "plan",
    "plot",
    "pooled_fit",
    "report",
    "summary",
    "whatif",
]


def __dir__() -> list[str]:
    """Return the public names, including those not imported yet."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'geostat' has no attribute {name!r}")
    from geostat.runs.experiments import EXPERIMENTS

    if name == "plot":
        return import_module("geostat.runs.plot")
    for experiment in EXPERIMENTS:
        if experiment.command == name:
            return getattr(experiment.module("options"), name)
    modules = {"InputError": "geostat.errors", "StoreError": "empirical.errors"}
    return getattr(import_module(modules.get(name, "geostat.api")), name)
