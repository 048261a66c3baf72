"""Query means on any device, by torch: means over several queries of a document.

Source: arXiv 2602.01893, (1)-(5) and Assumption 3; the reference, with the definitions of the
means, is `measure.queries`. All heads of a layer are measured at once, one query after the other,
because each sees different tokens. Imports numpy for counts that are known in advance, and torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from empirical.measure.device import grids
from empirical.measure.device.selection import separability
from empirical.measure.queries import Row, alike, near_last
from empirical.measure.selection import Convention, Sizes
from empirical.schema import BY_QUERY, f_scores


@torch.no_grad()
def measure_layer(
    rows: Sequence[Row],
    values: Tensor,
    n: Any,
    *,
    convention: Convention = Convention.PAPER,
) -> dict[str, Tensor | np.ndarray]:
    """Measure every query of one document's layer, and average over queries; arguments and
    variables as of the reference. Counts do not depend on measurements and are NumPy arrays.
    """
    counted, queries = alike(rows), len(rows)
    rows = [rows[query] for query in counted]
    tokens = np.array([row.alpha.shape[1] for row in rows])
    measures = separability_by_query(rows, values, n, convention=convention)
    precision, recall = measures[:, 0], measures[:, 1]
    f_outer, f_inner = f_scores(precision, recall, convention)
    curves = {"precision": precision, "recall": recall, "f_outer": f_outer, "f_inner": f_inner}
    out: dict[str, Tensor | np.ndarray] = {
        name: mean_of_finite(curve) for name, curve in curves.items()
    }
    for name in BY_QUERY:
        out[f"{name}_sd"] = _sd(curves[name])
        out[f"{name}_by_query"] = _laid_out(curves[name], counted, queries)
    requested = Sizes(n, int(tokens.max())).requested
    out["counted"] = (tokens[:, None] >= requested).sum(axis=0, dtype=np.int32)
    first_weights = torch.stack([weights_of(row)[:, 0] for row in rows])
    sees_sink = rows[-1].first == 0
    out["sink_weight_sd"] = (
        _sd(first_weights) if sees_sink else torch.full_like(first_weights[0], torch.nan)
    )
    return out | _profiles([weights_of(row) for row in rows[near_last(tokens) :]])


def _laid_out(curves: Tensor, counted: Sequence[int], queries: int) -> Tensor:
    """Place curves of counted queries, (query, head, n), among all queries: (head, query, n)."""
    nothing = torch.full_like(curves[0], torch.nan)
    by_query = dict(zip(counted, curves, strict=True))
    return torch.stack([by_query.get(query, nothing) for query in range(queries)], dim=1)


def weights_of(row: Row) -> Tensor:
    """Return the weights of a query on the device, (head, token)."""
    assert isinstance(row.alpha, Tensor)
    return row.alpha


def separability_by_query(
    rows: Sequence[Row],
    values: Tensor,
    n: Any,
    *,
    convention: Convention,
    orders: Sequence[Tensor] | None = None,
) -> Tensor:
    """Return `MEASURES` of selections by `orders` or by weight, (query, measure, head, n)."""
    measured = []
    by_weight: list[Tensor | None] = [None] * len(rows)
    for row, order in zip(rows, orders or by_weight, strict=True):
        seen = values[:, row.first : row.position + 1]
        measured.append(separability(weights_of(row), seen, n, order, convention))
    return torch.stack(measured)


def _profiles(weights: Sequence[Tensor]) -> dict[str, Tensor | np.ndarray]:
    """Return the variables of `measure.queries._profiles`."""
    aligned = []
    for alpha in weights:
        start = alpha.shape[1] // 2
        gap = alpha.new_full((len(alpha), weights[-1].shape[1] - alpha.shape[1]), torch.nan)
        aligned.append(torch.cat([alpha[:, :start], gap, alpha[:, start:]], dim=1))
    both_ends = torch.stack(aligned)
    return {
        "attention_weight": mean_of_finite(both_ends),
        "log_attention_weight": mean_of_finite(
            both_ends.log()
        ),  # −∞, from a weight of 0, is excluded
        "weight_queries": np.array(len(weights), np.int32),
    }


def mean_of_finite(values: Tensor) -> Tensor:
    """Return the mean of finite entries over the first axis; NaN without any."""
    known = values.isfinite()
    total = values.masked_fill(~known, 0).sum(dim=0, dtype=grids.wide(values.device))
    return (total / known.sum(dim=0)).to(values.dtype)


def _sd(values: Tensor) -> Tensor:
    """Return the standard deviation of finite entries over the first axis; NaN below two."""
    known, full = values.isfinite(), values.to(grids.wide(values.device))
    count = known.sum(dim=0)
    mean = full.masked_fill(~known, 0).sum(dim=0) / count
    squares = (full - mean).masked_fill(~known, 0).square().sum(dim=0)
    sd = (squares / (count - 1)).sqrt()
    return sd.masked_fill(count < 2, torch.nan).to(values.dtype)
