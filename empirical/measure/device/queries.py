"""Several queries of a document, by torch on any device: means over them within the document.

Source: arXiv 2602.01893, (1)-(5) and Assumption 3; `measure.queries` is the reference, and says
what is averaged. All heads of a layer are measured at once, query after query, as each sees tokens
of its own. Imports numpy for counts that are known beforehand, torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from empirical.measure.convention import Convention
from empirical.measure.device import grids, nulls
from empirical.measure.device.selection import separability
from empirical.measure.queries import Row, alike, near_last
from empirical.measure.query_records import BY_QUERY
from empirical.measure.selection import MEASURES
from empirical.measure.sizes import Sizes


@torch.no_grad()
def measure_layer(
    rows: Sequence[Row],
    values: Tensor,
    n: Any,
    *,
    convention: Convention | str = Convention.PAPER,
    budget: int = grids.BYTES,
) -> dict[str, Tensor | np.ndarray]:
    """Measure every query of one document's layer, and average over queries.

    Args:
        rows: the analysed queries, their weights on the device of `values`.
        values: value states of all positions, (kv_head, position, dimension).
        n, convention, budget: as of `device.layer.measure_layer`.

    Returns:
        What `measure.queries.measure_layer` does; counts, which no measured number decides, are
        arrays.
    """
    convention = Convention(convention)
    at, queries = alike(rows), len(rows)
    rows = [rows[query] for query in at]
    tokens = np.array([row.alpha.shape[1] for row in rows])
    each = _separability(rows, values, n, convention, None, budget)
    precision, recall = each[:, 0], each[:, 1]
    f_outer, f_inner = _f_scores(precision, recall, convention)
    curves = {"precision": precision, "recall": recall, "f_outer": f_outer, "f_inner": f_inner}
    out: dict[str, Tensor | np.ndarray] = {name: _mean(one) for name, one in curves.items()}
    for name in BY_QUERY:
        out[f"{name}_sd"] = _sd(curves[name])
        out[f"{name}_by_query"] = _laid_out(curves[name], at, queries)
    asked = Sizes(n, int(tokens.max())).asked
    out["counted"] = (tokens[:, None] >= asked).sum(axis=0, dtype=np.int32)
    on_sink = torch.stack([_weights(row)[:, 0] for row in rows])
    out["sink_weight_sd"] = (
        _sd(on_sink) if rows[-1].first == 0 else torch.full_like(on_sink[0], torch.nan)
    )
    return out | _profiles([_weights(row) for row in rows[near_last(tokens) :]])


@torch.no_grad()
def null_layer(
    rows: Sequence[Row],
    values: Tensor,
    n: Any,
    *,
    seeds: Sequence[Sequence[int]],
    convention: Convention | str = Convention.PAPER,
    budget: int = grids.BYTES,
) -> dict[str, Tensor]:
    """Measure both null baselines of every query of one document's layer, or of several layers
    whose heads stand one behind the other, averaged over queries.

    Directions are drawn once for all queries, as they share values; an order for each.

    Args:
        rows, values, n, convention, budget: as of `measure_layer`.
        seeds: as of `device.nulls.measure_layer`.

    Returns:
        precision, recall, r_min, r_max, each (head, null, n), `null` as in `schema.NULLS`; NaN
        for N > T.
    """
    convention = Convention(convention)
    rows = [rows[query] for query in alike(rows)]
    directions: list[Tensor] = []
    lots: list[list[Tensor]] = [[] for _ in rows]
    for layer, seed in enumerate(seeds):
        source = nulls.generator(seed, values.device)
        directions.append(nulls.random_directions(values.chunk(len(seeds))[layer], source))
        for lot, row in zip(lots, rows, strict=True):
            lot.append(nulls.random_orders(_weights(row).chunk(len(seeds))[layer], source))
    drawn, orders = torch.cat(directions), [torch.cat(lot) for lot in lots]
    both = [
        _mean(_separability(rows, values, n, convention, orders, budget)),
        _mean(_separability(rows, drawn, n, convention, None, budget)),
    ]
    return dict(zip(MEASURES, torch.stack(both, dim=2).unbind(0), strict=True))


def _laid_out(curves: Tensor, at: Sequence[int], queries: int) -> Tensor:
    """Lay curves of the queries that are counted, (query, head, n), among all: (head, query, n)."""
    nothing = torch.full_like(curves[0], torch.nan)
    known = dict(zip(at, curves, strict=True))
    return torch.stack([known.get(query, nothing) for query in range(queries)], dim=1)


def _weights(row: Row) -> Tensor:
    assert isinstance(row.alpha, Tensor)
    return row.alpha


def _separability(
    rows: Sequence[Row],
    values: Tensor,
    n: Any,
    convention: Convention,
    orders: Sequence[Tensor] | None,
    budget: int,
) -> Tensor:
    """Return `MEASURES` of every query, (query, measure, head, n); of selections in `orders`,
    (head, token), or by weight.
    """
    with grids.full_products():
        return torch.stack(
            [
                separability(
                    _weights(row),
                    values[:, row.first : row.position + 1],
                    n,
                    order=None if orders is None else orders[query],
                    convention=convention,
                    budget=budget,
                )
                for query, row in enumerate(rows)
            ]
        )


def _f_scores(precision: Tensor, recall: Tensor, convention: Convention) -> tuple[Tensor, Tensor]:
    """Return F(r_max) and F(r_min), as `schema.f_scores` defines them."""
    if convention is not Convention.FOLLOWUP:
        return 2 * precision / (1 + precision), 2 * recall / (1 + recall)
    total = precision + recall
    both = torch.where(total > 0, 2 * precision * recall / total, total)
    return both, both


def _profiles(weights: Sequence[Tensor]) -> dict[str, Tensor | np.ndarray]:
    """Return the mean weight and the mean logarithm at each token of the last row, (head, token),
    rows laid over it from both ends; and how many there are.
    """
    tokens = weights[-1].shape[1]
    laid = torch.stack([_from_both_ends(alpha, tokens) for alpha in weights])
    return {
        "attention_weight": _mean(laid),
        "log_attention_weight": _mean(laid.log()),  # −∞ of a weight of 0 is not known
        "weight_queries": np.array(len(weights), np.int32),
    }


def _from_both_ends(alpha: Tensor, tokens: int) -> Tensor:
    """Lay a row's halves at the ends of as many tokens as the last row's or fewer, NaN between."""
    heads, own = alpha.shape
    start = own // 2
    gap = alpha.new_full((heads, tokens - own), torch.nan)
    return torch.cat([alpha[:, :start], gap, alpha[:, start:]], dim=1)


def _mean(values: Tensor) -> Tensor:
    """Return the mean over the first axis of what is known; NaN where nothing is."""
    known = values.isfinite()
    total = values.masked_fill(~known, 0).sum(dim=0, dtype=grids.wide(values.device))
    return (total / known.sum(dim=0)).to(values.dtype)


def _sd(values: Tensor) -> Tensor:
    """Return the standard deviation over the first axis of what is known; NaN below two."""
    known, full = values.isfinite(), values.to(grids.wide(values.device))
    count = known.sum(dim=0)
    mean = full.masked_fill(~known, 0).sum(dim=0) / count
    squares = (full - mean).masked_fill(~known, 0).square().sum(dim=0)
    sd = (squares / (count - 1)).sqrt()
    return sd.masked_fill(count < 2, torch.nan).to(values.dtype)
