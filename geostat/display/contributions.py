"""Contributions of one head a regime, token by token: their size, in the order in which tokens are
selected, and their cosine with the last token's value.

Source: arXiv 2602.01893, §4.2, Figure 10. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import xarray as xr

from geostat.datasets.tokens import most_tokens
from geostat.statistics.arrays import FloatArray

MOST_RANKS: Final = 32
"""Ranks that are drawn, spaced evenly on a logarithmic scale."""
NEEDED: Final = ("attention_weight", "value_norm", "cosine_to_last_value")
MARKED: Final = ("sink", "last")


def contributions(groups: Mapping[str, xr.Dataset]) -> xr.Dataset | None:
    """Return the contributions of each regime's typical head at the last query; None of a run
    without regimes.

    Rank is that by attention weight, 1 for the largest: the size N from which on a token is
    selected. Place is that by size of contribution.

    Returns:
        contribution and cosine (regime, document, rank), in units of the values and without; for
        the sink and for the last token x = sink, last: x_contribution, x_rank and x_place (regime,
        document). NaN of a regime without heads.
    """
    capture = groups["capture"]
    if "heads" not in groups or any(name not in capture for name in NEEDED):
        return None
    heads, tokens = groups["heads"], most_tokens(capture)
    rank = np.unique(np.geomspace(1, tokens, MOST_RANKS).round().astype(int))
    regimes = [str(name) for name in heads["regime"].values if name != "unclassified"]
    shape = (len(regimes), capture.sizes["document"])
    found = {name: np.full((*shape, rank.size), np.nan) for name in ("contribution", "cosine")}
    marks = {
        f"{one}_{what}": np.full(shape, np.nan)
        for one in MARKED
        for what in ("contribution", "rank", "place")
    }
    for row, regime in enumerate(regimes):
        at = heads.sel(regime=regime)
        layer, head = int(at["typical_layer"]), int(at["typical_head"])
        if layer >= 0:
            weight, size, cosine = (each[:, -tokens:] for each in _of_head(capture, layer, head))
            order = np.argsort(-weight, axis=1, kind="stable")
            for name, each in {"contribution": size, "cosine": cosine}.items():
                found[name][row] = np.take_along_axis(each, order, axis=1)[:, rank - 1]
            for one, index in zip(MARKED, (0, -1), strict=True):
                own = size[:, [index]], weight[:, [index]]
                marks[f"{one}_contribution"][row] = own[0][:, 0]
                marks[f"{one}_place"][row] = 1 + (size > own[0]).sum(axis=1)
                marks[f"{one}_rank"][row] = 1 + (weight > own[1]).sum(axis=1)
    return xr.Dataset(
        {name: (("regime", "document", "rank"), values) for name, values in found.items()}
        | {name: (("regime", "document"), values) for name, values in marks.items()},
        coords={"regime": regimes, "rank": rank},
        attrs={"tokens": tokens},
    )


def _of_head(
    capture: xr.Dataset, layer: int, head: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, sizes of contributions and cosines with the last value of one head, by index,
    (document, position).
    """
    label = int(capture["kv_head_of_head"].values[head])
    kv_head = int(np.flatnonzero(capture["kv_head"].values == label)[0])
    weight, norm, cosine = (
        capture[name]
        .isel({"layer": layer, dim: index})
        .transpose("document", "position")
        .values.astype(np.float64)
        for name, dim, index in zip(
            NEEDED, ("head", "kv_head", "kv_head"), (head, kv_head, kv_head), strict=True
        )
    )
    return weight, weight * norm, cosine
