"""Sphere picture of heads: each token's value vector, scaled to length 1, as a point on a sphere in
three dimensions.

Source: arXiv 2602.01893, §A.3, Figure 9. The cosines that a run keeps place every token: with the
last token's value v_L as the first axis and the part of the sink's value v_0 that stands at right
angles to it as the second, a token's first two coordinates follow from its cosines with both, and
the third is the length of all the rest, so that the sphere is a half one. Of heads that were named
at the capture their contributions' principal components are shown instead. Imports numpy, xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr

from geostat.statistics.arrays import FloatArray

MOST_PANELS: Final = 3
MOST_TOKENS: Final = 160
"""Points of a panel; of more tokens some are left out, evenly."""
COSINES: Final = ("sink_cosine", "cosine_to_last_value")


def sphere(groups: Mapping[str, xr.Dataset]) -> xr.Dataset | None:
    """Return points on the sphere for up to three heads, of the first document; None of a run that
    keeps neither cosines nor components, or whose layers do not see the sink.

    Returns:
        point (panel, token, axis), of length 1; held (panel), the share of the tokens' squared
        length along the axes that are drawn with a sign; coordinates position (token) and name
        (panel); attribute of: "components" of named heads, of which there are `named`, else
        "cosines".
    """
    capture = groups["capture"]
    position = np.unique(np.linspace(0, capture.sizes["position"] - 1, MOST_TOKENS).astype(int))
    named = _named(capture)
    if named:
        drawn = dict(list(named.items())[:MOST_PANELS])
        return _panels(drawn, position, "components").assign_attrs(named=len(named))
    if any(name not in capture for name in COSINES) or not capture["sink_visible"].values.all():
        return None
    by_name = {}
    for layer, kv_head in _chosen(groups["similarity"]["rho0"]):
        name = f"L{capture['layer'].values[layer]}, value head {capture['kv_head'].values[kv_head]}"
        first = capture.isel(document=0, layer=layer, kv_head=kv_head)
        by_name[name] = _from_cosines(*(first[cosine].values for cosine in COSINES))
    return _panels(by_name, position, "cosines") if by_name else None


def _panels(
    by_name: Mapping[str, tuple[FloatArray, float]], position: np.ndarray, of: str
) -> xr.Dataset:
    points = np.stack([points[position] for points, _ in by_name.values()])
    return xr.Dataset(
        {
            "point": (("panel", "token", "axis"), points),
            "held": ("panel", [held for _, held in by_name.values()]),
        },
        coords={"position": ("token", position), "name": ("panel", list(by_name))},
        attrs={"of": of},
    )


def _named(capture: xr.Dataset) -> dict[str, tuple[FloatArray, float]]:
    """Directions of the contributions of named heads along their first three principal axes."""
    if "principal_components" not in capture:
        return {}
    first = capture.isel(document=0)
    found: dict[str, tuple[FloatArray, float]] = {}
    for name in first["named_head"].values:
        points = first["principal_components"].sel(named_head=name).values.astype(np.float64)
        label = {"layer": int(str(name)[1:].partition("H")[0])}
        if np.isfinite(points).any() and label["layer"] in first["layer"].values:
            head = first.sel(label | {"head": int(str(name).partition("H")[2])})
            norm = head["value_norm"].sel(kv_head=head["kv_head_of_head"].values).values
            whole = np.nansum((head["attention_weight"].values * norm).astype(np.float64) ** 2)
            long = np.linalg.norm(points, axis=1)
            known = np.where(long > 0, long, np.nan)
            found[str(name)] = points / known[:, None], float(np.nansum(long**2) / whole)
    return found


def _chosen(rho0: xr.DataArray) -> list[tuple[int, int]]:
    """The value heads of the lowest, the median and the highest ρ₀, by index."""
    values = rho0.transpose("layer", "kv_head").values
    order = np.argsort(np.where(np.isfinite(values), values, np.inf), axis=None)
    order = order[: int(np.isfinite(values).sum())]
    places = dict.fromkeys((0, (len(order) - 1) // 2, len(order) - 1)) if len(order) else {}
    return [divmod(int(order[place]), values.shape[1]) for place in places]


def _from_cosines(sink: FloatArray, last: FloatArray) -> tuple[FloatArray, float]:
    """Points from the cosines with the sink's value and the last one, (token); and the mean share
    of the squared length in their plane, over the tokens between.

    >>> points, held = _from_cosines(np.array([1.0, 0.6, 0.0]), np.array([0.0, 0.0, 1.0]))
    >>> points.round(2).tolist(), round(held, 2)
    ([[0.0, 1.0, 0.0], [0.0, 0.6, 0.8], [1.0, 0.0, 0.0]], 0.36)
    """
    sink, first = sink.astype(np.float64), last.astype(np.float64)
    sink[0] = 1.0  # with itself, which the run does not keep
    between = first[0]  # of v_0 and v_L
    upright = np.sqrt(max(1.0 - between**2, 1e-12))
    second = (sink - between * first) / upright
    plane = first**2 + second**2
    rest = np.sqrt(np.clip(1.0 - plane, 0.0, None))  # rounding alone makes it negative
    points = np.stack([first, second, rest], axis=1)
    return points, float(np.mean(plane[1:-1])) if len(plane) > 2 else float("nan")
