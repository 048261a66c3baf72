"""Data of two figures: value vectors as points on a sphere, and contributions token by token.

Source: arXiv 2602.01893, §A.3, Figure 9; §4.2, Figure 10.

Sphere: the first axis is the value v_L of the last token; the second is the component of the sink's
value v_0 orthogonal to v_L. A token's cosines with both give its first two coordinates. The third
is the norm of the remainder, so all points lie on a half-sphere. Heads named at the capture show
the principal components of their contributions instead.

Contributions: their norm, in the order in which tokens are selected, and their cosine with the last
token's value. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import kv_head_of_head, most_tokens
from geostat.statistics.arrays import FloatArray

MOST_PANELS: Final = 3
MOST_TOKENS: Final = 160
"""Maximum number of points in a panel; longer documents are thinned evenly."""
COSINES: Final = ("sink_cosine", "cosine_to_last_value")


def sphere(groups: Mapping[str, xr.Dataset]) -> xr.Dataset | None:
    """Return points on the sphere for up to three heads, in the first document.

    Returns:
        point (panel, token, axis), unit vectors; held (panel), share of the tokens' squared norm
        along the signed axes; coordinates position (token) and name (panel). Attribute `of` is
        "components" (named heads; `named` is their number) or "cosines". None if the run stores
        neither cosines nor components, or a layer does not see the sink.
    """
    capture = groups["capture"]
    position = np.unique(np.linspace(0, capture.sizes["position"] - 1, MOST_TOKENS).astype(int))
    named = _named(capture)
    if named:
        by_name = dict(list(named.items())[:MOST_PANELS])
        return _panels(by_name, position, "components").assign_attrs(named=len(named))
    if any(name not in capture for name in COSINES) or not capture["sink_visible"].values.all():
        return None
    by_name = {}
    for layer, kv_head in _typical_heads(groups["similarity"]["rho0"]):
        name = f"L{capture['layer'].values[layer]}, KV head {capture['kv_head'].values[kv_head]}"
        selected = capture.isel(document=0, layer=layer, kv_head=kv_head)
        by_name[name] = _from_cosines(*(selected[cosine].values for cosine in COSINES))
    return _panels(by_name, position, "cosines") if by_name else None


def _panels(
    by_name: Mapping[str, tuple[FloatArray, float]], position: np.ndarray, of: str
) -> xr.Dataset:
    points = np.stack([points[position] for points, _ in by_name.values()])
    return xr.Dataset(
        {
            "point": (("panel", "token", "axis"), points),
            "held": ("panel", [share for _, share in by_name.values()]),
        },
        coords={"position": ("token", position), "name": ("panel", list(by_name))},
        attrs={"of": of},
    )


def _named(capture: xr.Dataset) -> dict[str, tuple[FloatArray, float]]:
    """Return directions of contributions along three principal axes, and their share of norm²."""
    if "principal_components" not in capture:
        return {}
    document = capture.isel(document=0)
    by_name: dict[str, tuple[FloatArray, float]] = {}
    for name in document["named_head"].values:
        points = document["principal_components"].sel(named_head=name).values.astype(np.float64)
        label = {"layer": int(str(name)[1:].partition("H")[0])}
        if np.isfinite(points).any() and label["layer"] in document["layer"].values:
            head = document.sel(label | {"head": int(str(name).partition("H")[2])})
            norm = head["value_norm"].sel(kv_head=head["kv_head_of_head"].values).values
            total = np.nansum((head["attention_weight"].values * norm).astype(np.float64) ** 2)
            length = np.linalg.norm(points, axis=1)
            positive = np.where(length > 0, length, np.nan)
            by_name[str(name)] = points / positive[:, None], float(np.nansum(length**2) / total)
    return by_name


def _typical_heads(rho0: xr.DataArray) -> list[tuple[int, int]]:
    """Return the indices of the KV heads with the lowest, median and highest ρ₀."""
    values = rho0.transpose("layer", "kv_head").values
    order = np.argsort(np.where(np.isfinite(values), values, np.inf), axis=None)
    order = order[: int(np.isfinite(values).sum())]
    ranks = dict.fromkeys((0, (len(order) - 1) // 2, len(order) - 1)) if len(order) else {}
    return [divmod(int(order[rank]), values.shape[1]) for rank in ranks]


def _from_cosines(sink: FloatArray, last: FloatArray) -> tuple[FloatArray, float]:
    """Return points from cosines with the sink's value and the last value, shape (token,).

    The second result is the mean share of squared norm in the plane of both values, over the tokens
    between them.

    >>> points, share = _from_cosines(np.array([1.0, 0.6, 0.0]), np.array([0.0, 0.0, 1.0]))
    >>> points.round(2).tolist(), round(share, 2)
    ([[0.0, 1.0, 0.0], [0.0, 0.6, 0.8], [1.0, 0.0, 0.0]], 0.36)
    """
    sink, first = sink.astype(np.float64), last.astype(np.float64)
    sink[0] = 1.0  # cosine of the sink with itself, which is not stored
    cosine = first[0]  # of v_0 and v_L
    sine = np.sqrt(max(1.0 - cosine**2, 1e-12))
    second = (sink - cosine * first) / sine
    plane = first**2 + second**2
    rest = np.sqrt(np.clip(1.0 - plane, 0.0, None))  # rounding can make it negative
    points = np.stack([first, second, rest], axis=1)
    return points, float(np.mean(plane[1:-1])) if len(plane) > 2 else float("nan")


MOST_RANKS: Final = 32
"""Maximum number of drawn ranks, evenly spaced on a logarithmic scale."""
NEEDED: Final = ("attention_weight", "value_norm", "cosine_to_last_value")
MARKED: Final = ("sink", "last")


def contributions(groups: Mapping[str, xr.Dataset]) -> xr.Dataset | None:
    """Return the contributions of each regime's typical head at the last query.

    Rank orders tokens by attention weight, from 1 for the largest: a token of rank N is selected
    from size N on. Place orders tokens by the norm of their contribution.

    Returns:
        contribution (units of the values) and cosine (unitless), (regime, document, rank); for
        x = sink and last: x_contribution, x_rank and x_place, (regime, document). NaN for a regime
        without heads. None if the run has no regimes.
    """
    capture = groups["capture"]
    if "heads" not in groups or any(name not in capture for name in NEEDED):
        return None
    heads, tokens = groups["heads"], most_tokens(capture)
    rank = np.unique(np.geomspace(1, tokens, MOST_RANKS).round().astype(int))
    regimes = [str(name) for name in heads["regime"].values if name != "unclassified"]
    shape = (len(regimes), capture.sizes["document"])
    by_rank = {name: np.full((*shape, rank.size), np.nan) for name in ("contribution", "cosine")}
    marks = {
        f"{token}_{quantity}": np.full(shape, np.nan)
        for token in MARKED
        for quantity in ("contribution", "rank", "place")
    }
    for row, regime in enumerate(regimes):
        selected = heads.sel(regime=regime)
        layer, head = int(selected["typical_layer"]), int(selected["typical_head"])
        if layer >= 0:
            indices = {"layer": layer, "head": head, "kv_head": kv_head_of_head(capture)[head]}
            weight, norm, cosine = (
                capture[name]
                .isel(indices, missing_dims="ignore")
                .transpose("document", "position")
                .values.astype(np.float64)[:, -tokens:]
                for name in NEEDED
            )
            size = weight * norm
            order = np.argsort(-weight, axis=1, kind="stable")
            for name, values in {"contribution": size, "cosine": cosine}.items():
                by_rank[name][row] = np.take_along_axis(values, order, axis=1)[:, rank - 1]
            for token, index in zip(MARKED, (0, -1), strict=True):
                marks[f"{token}_contribution"][row] = size[:, index]
                marks[f"{token}_place"][row] = 1 + (size > size[:, [index]]).sum(axis=1)
                marks[f"{token}_rank"][row] = 1 + (weight > weight[:, [index]]).sum(axis=1)
    return xr.Dataset(
        {name: (("regime", "document", "rank"), values) for name, values in by_rank.items()}
        | {name: (("regime", "document"), values) for name, values in marks.items()},
        coords={"regime": regimes, "rank": rank},
        attrs={"tokens": tokens},
    )
