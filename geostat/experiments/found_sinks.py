"""Sinks by function beside the paper's sink at position 0: how often a short token draws much
attention, where it stands, and whether heads with one are more separable.

Source: arXiv 2602.01893, Assumption 1 and §4.1; what makes a sink by function:
`empirical.measure.sinks`. A case is one head in one document. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from empirical.measure.sinks import COMPRESSED, MUCH
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.tokens import value_heads
from geostat.datasets.variable import Variable, join, variables, words_along
from geostat.statistics.arrays import BoolArray, FloatArray, ratio
from geostat.statistics.jackknife import Estimate, document_mean
from geostat.statistics.losses import mean_of_known

CASES: Final = ("position 0 visible", "acts at position 0", "acts elsewhere", "none acts")
"""The paper's sink, and where the strongest sink by function stands."""
SIZE: Final = 8
"""Precision and Recall are given at the measured N nearest to it."""
LISTED: Final = 12
"""Tokens that are listed at most."""

_of_case = partial(Variable, dims=("case",), equation="Assumption 1")
_of_token = partial(Variable, dims=("sink_token",), equation="Assumption 1")
_ESTIMATED: Final = (
    _of_case("share", "share of a document's heads in this case", estimated=True),
    _of_case("sinks", "sinks by function of a head", symbol="|S|", estimated=True),
    _of_case(
        "weight", "weight of that token, mean over queries", symbol=r"\alpha_s", estimated=True
    ),
    _of_case(
        "norm_ratio",
        "norm of that token over the document's median content norm",
        symbol=r"\lambda_s",
        estimated=True,
    ),
    _of_case(
        "cosine",
        "mean cosine of that token with the other tokens",
        symbol=r"\overline{\cos(v_s,v_j)}",
        estimated=True,
    ),
    *(
        _of_case(
            statistic, f"{statistic} at the attribute n", symbol=LETTERS[statistic], estimated=True
        )
        for statistic in STATISTICS
    ),
)
HEADS: Final = _of_case("heads", "heads in this case in at least half of the documents")
TOKENS: Final = (
    _of_token("token_id", "token that is a head's strongest sink by function"),
    _of_token("token_text", "what it stands for; empty where the run does not tell"),
    _of_token("token_cases", "cases, heads times documents, in which it is"),
    _of_token("token_heads", "heads in which it is"),
    _of_token("token_documents", "documents in which it is"),
    _of_token("token_first", "smallest position at which it is", units="token"),
    _of_token("token_last", "largest position at which it is", units="token"),
    _of_token("token_weight", "its mean weight in these cases", symbol=r"\alpha_s"),
    _of_token(
        "token_norm_ratio",
        "its mean norm over the document's median content norm",
        symbol=r"\lambda_s",
    ),
)
FIRST: Final = Variable(
    "first_is_bos",
    "documents whose position 0 is the tokenizer's beginning-of-text token; -1: not known",
    equation="Assumption 1",
)
VARIABLES: Final = (*_ESTIMATED, HEADS, *TOKENS, FIRST)


def summarise_sinks(capture: xr.Dataset, sinks: xr.Dataset, attrs: Mapping[Any, Any]) -> xr.Dataset:
    """Set sinks by function beside position 0.

    Args:
        capture: /capture, what depends on the query averaged over queries.
        sinks: /sinks of the same run.
        attrs: the run's attributes: `model` with bos_token_id, `token_texts`.

    Returns:
        /sinks_found, as in VARIABLES: means over a document's cases, then over documents, with
        their document jackknife; the tokens that most often are the strongest sink, left out where
        /capture does not tell which tokens stand where.
    """
    position = sinks["sink_position"].values
    first = np.broadcast_to(capture["sink_visible"].values.astype(bool)[:, None], position.shape)
    inside = dict(zip(CASES, (first, position == 0, position > 0, position < 0), strict=True))
    n = int(capture["n"].values[np.abs(capture["n"].values - SIZE).argmin()])
    of_token = {
        "weight": sinks["sink_strongest_weight"],
        "norm_ratio": sinks["sink_norm_ratio"],
        "cosine": sinks["sink_cosine"],
    }
    of_head = {
        "sinks": sinks["sink_count"],
        **{statistic: capture[statistic].sel(n=n) for statistic in STATISTICS},
    }
    by_function = {name: data.values.astype(np.float64) for name, data in of_token.items()}
    anyhow = {name: data.values.astype(np.float64) for name, data in of_head.items()}
    at_first = position_0(capture)
    rows: list[dict[str, Estimate]] = []
    for case, cells in inside.items():
        values = anyhow | (at_first if case == CASES[0] else by_function)
        rows.append(
            {"share": _share(cells)} | {name: _mean(array, cells) for name, array in values.items()}
        )
    numbers: dict[str, Any] = {
        record.name: join([row[record.name] for row in rows], np.stack) for record in _ESTIMATED
    }
    numbers["heads"] = np.array(
        [int((cells.mean(axis=0) >= 0.5).sum()) for cells in inside.values()]
    )
    known = "token_id" in capture
    if known:
        numbers |= _tokens(capture, sinks, attrs.get("token_texts") or {})
    numbers["first_is_bos"] = np.array(_first_is_bos(capture, attrs.get("model")))
    records = [record for record in VARIABLES if known or record not in TOKENS]
    data = xr.Dataset(
        variables(records, numbers),
        coords={"case": words_along("case", CASES, "where the sink stands")},
    )
    data.attrs = {
        "long_name": "sinks by function beside position 0",
        "documents": capture.sizes["document"],
        "n": n,
        "compressed": COMPRESSED,
        "much": MUCH,
    }
    return data


def position_0(capture: xr.Dataset) -> dict[str, FloatArray]:
    """Return weight, norm ratio and mean cosine of the token at position 0 as of a sink by
    function, (document, layer, head); NaN where it is not seen.
    """
    group = value_heads(capture)
    norm = capture["value_norm"].values.astype(np.float64)
    seen = capture["sink_visible"].values.astype(bool)[:, None]
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
    return {name: np.where(seen, array, np.nan) for name, array in of_head.items()}


def _mean(values: FloatArray, cells: BoolArray) -> Estimate:
    """The mean over the cells of each document, then over the documents that have some."""
    known = cells & np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=(1, 2))
    return document_mean(ratio(total, known.sum(axis=(1, 2)).astype(np.float64)))


def _share(cells: BoolArray) -> Estimate:
    """The share of a document's heads, mean over documents, its limits cut at 0 and 1."""
    result = document_mean(cells.mean(axis=(1, 2)))
    return result.carried(lambda share: share.clip(0.0, 1.0), result.se, "share")


def _tokens(
    capture: xr.Dataset, sinks: xr.Dataset, texts: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """Of each token, by its id, how often it is a head's strongest sink by function, where, and
    how; the most frequent first.
    """
    position = sinks["sink_position"].values
    document, layer, head = np.nonzero(position >= 0)
    at = position[document, layer, head]
    ids = capture["token_id"].values[document, at]
    every, which, cases = np.unique(ids, return_inverse=True, return_counts=True)
    order = np.argsort(-cases, kind="stable")[:LISTED]
    words = dict(zip(texts.get("id", ()), texts.get("text", ()), strict=True))
    heads = layer * position.shape[2] + head
    weight = sinks["sink_strongest_weight"].values[document, layer, head].astype(np.float64)
    norm = sinks["sink_norm_ratio"].values[document, layer, head].astype(np.float64)
    own = [which == token for token in order]
    return {
        "token_id": every[order].astype(np.int64),
        "token_text": np.array([words.get(int(one), "") for one in every[order]], dtype=object),
        "token_cases": cases[order],
        "token_heads": np.array([len(np.unique(heads[of])) for of in own], dtype=np.int64),
        "token_documents": np.array([len(np.unique(document[of])) for of in own], dtype=np.int64),
        "token_first": np.array([at[of].min() for of in own], dtype=np.int64),
        "token_last": np.array([at[of].max() for of in own], dtype=np.int64),
        "token_weight": np.array([weight[of].mean() for of in own], dtype=np.float64),
        "token_norm_ratio": np.array([norm[of].mean() for of in own], dtype=np.float64),
    }


def _first_is_bos(capture: xr.Dataset, model: Any) -> int:
    """How many documents have the beginning-of-text token at position 0; -1 where the run does
    not tell of one, 0 where the tokenizer has none.
    """
    told = isinstance(model, Mapping) and "bos_token_id" in model
    if not told or "token_id" not in capture:
        return -1
    return int((capture["token_id"].values[:, 0] == model["bos_token_id"]).sum())
