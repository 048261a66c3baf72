"""lmfit settings for all least-squares fits."""

from __future__ import annotations

from typing import Any

LMFIT_KEYWORDS: dict[str, Any] = {
    "method": "leastsq",
    "nan_policy": "raise",
    "fit_kws": {"xtol": 1e-14, "ftol": 1e-14},
}
"""Keywords of every lmfit `Model.fit`, which starts at the batched solver's optimum. NaN raises."""
