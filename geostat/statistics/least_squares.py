"""Least squares by lmfit: how every model is fitted."""

from __future__ import annotations

from typing import Any

LMFIT_KEYWORDS: dict[str, Any] = {
    "method": "leastsq",
    "nan_policy": "raise",
    "fit_kws": {"xtol": 1e-14, "ftol": 1e-14},
}
"""How every lmfit Model is fitted: from the batched solver's optimum, never past a NaN."""
