"""Functional sinks, compared with the paper's sink at position 0: frequency, position, and
separability of heads with one.

A functional sink has a small value norm and a large attention weight at any position
(`empirical.measure.sinks`). Cells are heads by documents. Source: arXiv 2602.01893, Assumption 1
and §4.1. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.measure.sinks import COMPRESSED, MUCH
from empirical.schema import Quantity
from geostat.datasets.separability import STATISTICS
from geostat.datasets.table import quantities
from geostat.datasets.tokens import kv_head_of_head
from geostat.datasets.variable import Value, join_rows, variables, words_along
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.statistics.losses import mean_of_known

CASES: Final = ("position 0 visible", "acts at position 0", "acts elsewhere", "none acts")
"""The paper's sink, and positions of the strongest functional sink."""
SIZE: Final = 8
"""Precision and Recall are reported at the measured N nearest to this N."""
LISTED: Final = 12
"""Largest number of tokens in the list."""

OF_CASES: Final = quantities(
    r"""
    share | 1 | - | share of a document's heads in this case | estimated
    sinks | 1 | |S| | functional sinks of a head | estimated
    weight | 1 | \alpha_s | weight of the sink, mean over queries | estimated
    norm_ratio | 1 | \lambda_s | norm of the sink over the document's median content norm |
        estimated
    cosine | 1 | \overline{\cos(v_s,v_j)} | mean cosine of the sink with the other tokens |
        estimated
    precision | 1 | P | precision at the attribute n | estimated
    recall | 1 | R | recall at the attribute n | estimated
    heads | 1 | - | heads in this case in at least half of the documents
    """,
    dims=("case",),
    equation="Assumption 1",
)
TOKENS: Final = quantities(
    r"""
    token_id | 1 | - | id of a token that is the strongest functional sink of a head
    token_text | 1 | - | text of the token; empty if unknown
    token_cases | 1 | - | heads by documents in which the token is the strongest functional sink
    token_heads | 1 | - | heads in which the token is the strongest functional sink
    token_documents | 1 | - | documents in which the token is the strongest functional sink
    token_first | token | - | smallest position of the token as strongest functional sink
    token_last | token | - | largest position of the token as strongest functional sink
    token_weight | 1 | \alpha_s | mean weight of the token as strongest functional sink
    token_norm_ratio | 1 | \lambda_s | mean of its norm over the document's median content norm
    """,
    dims=("sink_token",),
    equation="Assumption 1",
)
FIRST: Final = Quantity(
    "first_is_bos",
    "documents with the beginning-of-text token at position 0; -1: unknown",
    equation="Assumption 1",
)
VARIABLES: Final = (*OF_CASES, *TOKENS, FIRST)


def summarise_sinks(capture: xr.Dataset, sinks: xr.Dataset, attrs: Mapping[Any, Any]) -> xr.Dataset:
    """Compare functional sinks with the sink at position 0.

    Args:
        capture: /capture, with variables that depend on the query averaged over queries.
        attrs: attributes of the run: `model` with bos_token_id, `token_texts`.

    Returns:
        /sinks_found with VARIABLES: means over the heads of a case within a document, then over
        documents, with document jackknife; and the tokens that most often are the strongest
        functional sink, if /capture has token ids.
    """
    position = sinks["sink_position"].values
    first = np.broadcast_to(capture["sink_visible"].values.astype(bool)[:, None], position.shape)
    inside = dict(zip(CASES, (first, position == 0, position > 0, position < 0), strict=True))
    n = int(capture["n"].values[np.abs(capture["n"].values - SIZE).argmin()])
    by_head = {
        "sinks": sinks["sink_count"],
        "weight": sinks["sink_strongest_weight"],
        "norm_ratio": sinks["sink_norm_ratio"],
        "cosine": sinks["sink_cosine"],
        **{statistic: capture[statistic].sel(n=n) for statistic in STATISTICS},
    }
    by_function = {name: data.values.astype(np.float64) for name, data in by_head.items()}
    at_first = by_function | position_0(capture)
    rows: list[dict[str, Value]] = []
    for case, cells in inside.items():
        values = at_first if case == CASES[0] else by_function
        means = {name: _mean_of_cells(array, cells) for name, array in values.items()}
        rows.append(
            {"share": _share(cells), "heads": np.array((cells.mean(axis=0) >= 0.5).sum()), **means}
        )
    numbers: dict[str, Any] = join_rows(rows)
    has_ids = "token_id" in capture
    if has_ids:
        numbers |= _tokens(capture, sinks, attrs.get("token_texts") or {})
    numbers["first_is_bos"] = np.array(_first_is_bos(capture, attrs.get("model")))
    records = [record for record in VARIABLES if has_ids or record not in TOKENS]
    coords = {"case": words_along("case", CASES, "position of the sink")}
    attrs = {
        "long_name": "functional sinks and the sink at position 0",
        "documents": capture.sizes["document"],
        "n": n,
        "compressed": COMPRESSED,
        "much": MUCH,
    }
    return xr.Dataset(variables(records, numbers), coords=coords, attrs=attrs)


def position_0(capture: xr.Dataset) -> dict[str, FloatArray]:
    """Return weight, norm ratio and mean cosine of the token at position 0, defined as for
    functional sinks, (document, layer, head); NaN where the token is not visible.
    """
    group = kv_head_of_head(capture)
    norm = capture["value_norm"].values.astype(np.float64)
    visible = capture["sink_visible"].values.astype(bool)[:, None]
    content = np.where(np.isfinite(norm), norm, np.nan)[..., 1:]
    known = np.isfinite(content).any(axis=-1)
    median = np.full(known.shape, np.nan)
    median[known] = np.nanmedian(content[known], axis=-1)
    cosine = mean_of_known(capture["sink_cosine"].values.astype(np.float64))
    weight = capture["attention_weight"].values[..., 0].astype(np.float64)
    of_head = {
        "weight": weight,
        "norm_ratio": ratio(norm[..., 0], median)[:, :, group],
        "cosine": cosine[:, :, group],
    }
    return {name: np.where(visible, array, np.nan) for name, array in of_head.items()}


def _mean_of_cells(values: FloatArray, cells: BoolArray) -> Estimate:
    """Return the mean over the cells of each document, then over documents with cells."""
    known = cells & np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=(1, 2))
    return document_mean(ratio(total, known.sum(axis=(1, 2)).astype(np.float64)))


def _share(cells: BoolArray) -> Estimate:
    """Return the mean over documents of the share of heads, with limits cut to [0, 1]."""
    share = document_mean(cells.mean(axis=(1, 2)))
    return share.carried(lambda value: value.clip(0.0, 1.0), share.se, "share")


def _tokens(
    capture: xr.Dataset, sinks: xr.Dataset, texts: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Return TOKENS of the strongest functional sinks, most frequent first."""
    position = sinks["sink_position"].values
    document, layer, head = np.nonzero(position >= 0)
    place = position[document, layer, head]
    ids = capture["token_id"].values[document, place]
    tokens, which, cases = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(-cases, kind="stable")[:LISTED]
    words = dict(zip(texts.get("id", ()), texts.get("text", ()), strict=True))
    heads = layer * position.shape[2] + head
    weight = sinks["sink_strongest_weight"].values[document, layer, head].astype(np.float64)
    norm = sinks["sink_norm_ratio"].values[document, layer, head].astype(np.float64)
    members = [which == token for token in order]

    def of_tokens(function: Callable[[Any], Any], values: Any, dtype: Any) -> NDArray[Any]:
        return np.array([function(values[cells]) for cells in members], dtype=dtype)

    return {
        "token_id": tokens[order].astype(np.int64),
        "token_text": np.array([words.get(int(token), "") for token in tokens[order]], object),
        "token_cases": cases[order],
        "token_heads": of_tokens(lambda of_token: np.unique(of_token).size, heads, np.int64),
        "token_documents": of_tokens(lambda of_token: np.unique(of_token).size, document, np.int64),
        "token_first": of_tokens(np.min, place, np.int64),
        "token_last": of_tokens(np.max, place, np.int64),
        "token_weight": of_tokens(np.mean, weight, np.float64),
        "token_norm_ratio": of_tokens(np.mean, norm, np.float64),
    }


def _first_is_bos(capture: xr.Dataset, model: Any) -> int:
    """Return the number of documents with the beginning-of-text token at position 0; -1 if
    unknown, 0 if the tokenizer has no such token.
    """
    known = isinstance(model, Mapping) and "bos_token_id" in model
    if not known or "token_id" not in capture:
        return -1
    return int((capture["token_id"].values[:, 0] == model["bos_token_id"]).sum())
