"""Numbers that arXiv 2602.01893 and its companion papers report, each with its source.

The data are in `paper.toml`. Imports tomllib.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

_FILE: Final = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
REPORTED: Final[list[dict[str, Any]]] = [
    row | {"says": row["says"].format_map(row)} for row in _FILE["reported"]
]
"""Reported numbers: quantity, says, source, models, kind, beside, marks."""

_BY_QUANTITY = {row["quantity"]: row for row in REPORTED}
_MARKED = [row for row in REPORTED if "marks" in row]

CV_RANGE: Final[tuple[float, float]] = tuple(_BY_QUANTITY["CV of value norms"]["range"])
"""Range of most heads' coefficients of variation (§3.1, Figure 2)."""
MAE: Final[float] = _BY_QUANTITY["error of the exponential decay"]["mean"]
"""Mean absolute error of the exponential form, averaged over heads (Figure 3)."""
WORKING_SIZE: Final[int] = _BY_QUANTITY["where separability is best"]["range"][1]
"""Upper edge of the working range of N (§4)."""
CORRELATION_SIZES: Final[tuple[int, ...]] = tuple(
    mark["n"] for row in _MARKED for mark in row["marks"]
)
"""Sizes N at which the paper reports correlations of Recall with the sink's similarity (§4.1)."""
CORRELATIONS: Final = ", ".join(f"{row['says']} for {row['families']}" for row in _MARKED)
"""Reported correlations as text."""
EFFECTIVE: Final[dict[str, Any]] = _FILE["effective"]
"""Effective attention set sizes N* of arXiv 2609.37879, by mode."""
NORMALISER: Final[dict[str, Any]] = _FILE["normaliser"]
"""Separability and critical N of GPT-2 in arXiv 2508.17821."""
