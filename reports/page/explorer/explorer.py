"""Explorer of heads: what a page needs to draw a map of all heads and the curves of one.

Charts are Vega-Lite's (`charts.json`); `explorer.js` fills them from the arrays packed here.
Nothing is computed but the packing. Imports numpy, xarray and vl-convert, which carries Vega's own
bundle.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from reports.page.explorer.packing import Pack
from reports.page.explorer.quantities import quantities
from reports.page.explorer.what_if import what_if
from reports.run import Run, column
from reports.tables.verdict_heads import tolerance
from reports.text.forms import SIMILARITY
from reports.text.latex import prose_html

SCORES: Final = {
    "precision": "Precision",
    "recall": "Recall",
    "f_outer": "F at the outer radius",
    "f_inner": "F at the inner radius",
}
LIMITS: Final = ("", "_lower", "_upper")
CURVES: Final = ("norm", "cosine", "weight", *SCORES)
NULLS: Final = ("random_selection", "random_directions")


@dataclass(frozen=True, slots=True)
class Explorer:
    """What the page holds: what there is to choose from, and the packed arrays."""

    catalogue: dict[str, Any]
    arrays: str


def explorer(run: Run) -> Explorer:
    """Pack the quantities, curves and verdicts of every head of a run."""
    pack = Pack()
    catalogue = _axes(run) | {
        "quantities": _quantities(run, pack),
        "claims": _claims(run, pack),
        "arrays": pack.directory,
    }
    _curves(run, pack)
    catalogue["what_if"] = what_if(run, pack)
    return Explorer(catalogue, pack.base64())


@cache
def vega_bundle() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from vl-convert: no page fetches anything."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _axes(run: Run) -> dict[str, Any]:
    """The heads, and what curves lie along."""
    capture, curves = run.capture, run.head_curves
    edges = capture.sizes["position"] - run.tokens
    return {
        "layers": capture["layer"].values.tolist(),
        "heads": capture["head"].values.tolist(),
        "kv_heads": capture["kv_head"].values.tolist(),
        "kv_head_of_head": run.capture["kv_head_of_head"].values.tolist(),
        "position": curves["position_mean"].values.tolist(),
        "lag": curves["lag_mean"].values.tolist(),
        "n": run.envelope["n_envelope"].values.tolist(),
        "forms": [(form, SIMILARITY.get(form, form)) for form in map(str, curves["form"].values)],
        "editions": [str(edition) for edition in run.envelope["edition"].values],
        "grams": [str(gram) for gram in run.envelope["gram"].values],
        "scores": list(_scores(run).items()),
        "nulls": [null for null in NULLS if f"precision_{null}" in curves],
        "first_position": edges,
        "documents": run.documents,
    }


def _scores(run: Run) -> dict[str, str]:
    """The scores that a run holds, with their words."""
    return {name: words for name, words in SCORES.items() if name in run.head_curves}


def _quantities(run: Run, pack: Pack) -> list[dict[str, Any]]:
    """Pack every quantity; scores, which have one value a head at each N, come first."""
    told: list[dict[str, Any]] = [
        {"key": name, "label": f"{words} at N", "unit": "", "of": "head", "curve": True}
        for name, words in _scores(run).items()
    ]
    for one in quantities(run):
        pack.exactly(one.key, one.values)
        for side, limit in zip(("lower", "upper"), one.limits or (), strict=False):
            pack.exactly(f"{one.key} {side}", limit)
        if one.ends is not None:
            pack.exactly(f"{one.key} end", one.ends)
        told.append(
            {
                "key": one.key,
                "label": one.label,
                "unit": one.unit,
                "of": one.of,
                "limits": one.limits is not None,
                "ends": one.ends is not None,
                "words": one.words,
            }
        )
    return told


def _claims(run: Run, pack: Pack) -> list[dict[str, Any]]:
    """Pack what each verdict rests on; none of a run without verdicts."""
    if run.verdicts is None:
        return []
    claims = json.loads(str(run.verdicts.attrs["claims"]))
    names = json.loads(str(run.verdicts.attrs.get("bounds", "{}")))
    for claim in claims:
        for name in ("estimate", "lower", "upper", "cell_bound", "cell_n"):
            pack.exactly(f"{claim['key']} {name}", column(run.verdicts, claim, name))
    return [
        {
            "key": claim["key"],
            "says": claim["says"],
            "html": str(prose_html(claim["says"])),
            "of": claim["of"],
            "tolerance": tolerance(claim),
            "unit": "" if claim["units"] == "1" else claim["units"],
            "bounds": names if claim["key"].startswith("bounds.") else None,
        }
        for claim in claims
    ]


def _curves(run: Run, pack: Pack) -> None:
    curves, envelope = run.head_curves, run.envelope
    for name in CURVES:
        ends = [end for end in LIMITS if f"{name}{end}" in curves]
        arrays = {f"{name}{end}": _ordered(curves[f"{name}{end}"]) for end in ends}
        if ends:
            pack.coarsely(arrays, logarithm=name == "weight")
        if f"{name}_fitted" in curves:
            fitted = {f"{name}_fitted": _ordered(curves[f"{name}_fitted"])}
            pack.coarsely(fitted, logarithm=name == "weight")
    for score in SCORES:
        for null in NULLS:
            if f"{score}_{null}" in curves:
                pack.coarsely({f"{score}_{null}": _ordered(curves[f"{score}_{null}"])})
        for side in ("lower", "upper"):
            if f"{score}_{side}" in envelope:
                bound = envelope[f"{score}_{side}"].clip(0, 1)
                if score == "f_inner":  # as printed it is void: erratum 18
                    void = [str(edition) == "printed" for edition in bound["edition"].values]
                    bound = bound.where(~xr.DataArray(np.array(void), dims="edition"))
                pack.coarsely({f"{score}_bound_{side}": _ordered(bound)})


def _ordered(values: xr.DataArray) -> NDArray[Any]:
    """Curves with layer and head before what they lie along, and choices before both."""
    last = [dim for dim in values.dims if dim in ("block", "lag_block", "n_envelope")]
    of = [dim for dim in ("layer", "head", "kv_head") if dim in values.dims]
    first = [dim for dim in values.dims if dim not in (*of, *last)]
    return np.asarray(values.transpose(*first, *of, *last).values)
