"""What-if panel: sharp bounds with one parameter changed, evaluated beforehand and packed for the
page.

Nothing is computed but the packing. Imports numpy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from reports.page.explorer.packing import Pack
from reports.run import Run

SCORES: Final = {"precision": "Precision", "recall": "Recall"}
NAMES: Final = {
    "beta": ("β", "decay of similarity, 1/token"),
    "c": ("c", "cosine at long distance"),
    "rho0": ("ρ₀", "cosine with the sink"),
    "lam": ("λ", "the sink’s length over the others’"),
    "d": ("d", "size of the value space"),
}
"""Symbol and words of each parameter; the page makes commands of their names, so no others are
shown.
"""


def what_if(run: Run, pack: Pack) -> dict[str, Any] | None:
    """Pack /sensitivity; None of a run that does not hold it, or where no layer has a head with a
    complete fit.
    """
    data = run.sensitivity
    if data is None or not (data["of_head"] >= 0).any():
        return None
    # every part of a run has the same sizes, and a part may see fewer tokens
    data = data.isel(
        n_envelope=np.flatnonzero(data["n_envelope"].values < run.tokens),
        parameter=[at for at, name in enumerate(data["parameter"].values) if str(name) in NAMES],
    )
    if not data.sizes["n_envelope"] or not data.sizes["parameter"]:
        return None
    for score in SCORES:
        sides = {
            f"what if {score} {side}": np.clip(
                data[f"{score}_{side}"].transpose(*DIMS).values, 0, 1
            )
            for side in ("lower", "upper")
        }
        measured = data[score].transpose("layer", "n_envelope").values
        pack.coarsely(sides | {f"what if {score}": measured})
    for name in ("value", "moved"):
        pack.exactly(f"what if {name}", data[name].transpose(*DIMS[:-1]).values)
    return {
        "of_head": data["of_head"].values.tolist(),
        "n": data["n_envelope"].values.tolist(),
        "steps": data["step"].values.tolist(),
        "parameters": [(str(name), *NAMES[str(name)]) for name in data["parameter"].values],
        "scores": list(SCORES.items()),
        "median_at": int(data.attrs["median_at"]),
        "document": _first_document(run),
    }


def _first_document(run: Run) -> str:
    """What the run calls its first document; empty where it does not tell."""
    rows = run.attrs.get("manifest", {}).get("documents", [])
    return str(rows[0].get("name") or "") if rows else ""


DIMS: Final = ("layer", "parameter", "step", "n_envelope")
"""Of bounds; a value of a parameter has all but the last."""
