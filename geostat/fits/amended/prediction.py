"""Separability predicted by the amended assumptions, scored against measured heads.

Every analysed query is drawn at its own weights (those kept at about 50 ranks, interpolated) and
its own functional sinks, with parameters of the head from the other documents. Rungs of comparison:
one curve for all heads; one cosine for all pairs, with the sink at position 0 and the head size as
dimension; the same with all functional sinks and repeated tokens; the amended assumptions, which
add the law of rank and the effective dimension; these with weights and sinks of another document
too, the weights by a law of rank; the same head measured on the other documents. All models have
the norms by octave. Source: geostat. Imports theory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from geostat.datasets.overlap import Progress
from geostat.datasets.separability import LETTERS, STATISTICS
from geostat.datasets.variable import sizes_along, variables, words_along
from geostat.errors import InputError
from geostat.fits.amended import weights
from geostat.fits.amended.fit import LOW, parameters
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import LEVEL, leave_one_out_mean
from geostat.statistics.losses import mean_over_documents
from theory.editions.sharp.sharp_law import in_threads
from theory.evaluate.fitted import RankParameters, fitted

OWN_WEIGHTS: Final = ("one cosine", "sinks and repeats", "amended")
"""Predictions by draws at the weights and sinks of the query."""
MODELS: Final = (*OWN_WEIGHTS, "weights by law")
"""Predictions by draws."""
RUNGS: Final = ("one curve", *MODELS, "same head")
"""Predictions, from the simplest."""
SMALLEST, LARGEST, POINTS = 2, 256, 23
"""Least and largest size N, and largest number of sizes."""
DRAWS: Final = 4
"""Draws of each query."""

_MEANS: Final = {
    "r2": ("share of the variance of {} between head means explained", "R^2"),
    "r2_documents": ("share of the variance of {} between heads and documents explained", "R^2_k"),
    "mae": ("mean absolute error of head means of {}", r"\overline{|e|}"),
    "bias": ("mean of predicted minus measured {}", r"\bar e"),
    "band": ("mean half width of the 95% predictive band of {} of a new document", r"h_{95}"),
    "covered": ("share of held-out documents' {} within that band", "-"),
}
_HEAD: Final = ("layer", "head", "n_fitted")
VARIABLES: Final = tuple(
    record
    for name in STATISTICS
    for record in (
        Quantity(name, f"measured {name}", symbol=LETTERS[name], dims=_HEAD),
        Quantity(
            f"{name}_fitted",
            f"{name} predicted by the amended assumptions",
            symbol=rf"\mathbb{{E}}{LETTERS[name]}",
            dims=_HEAD,
        ),
        *(
            Quantity(f"{name}_{part}", words.format(name), symbol=symbol, dims=("rung",))
            for part, (words, symbol) in _MEANS.items()
        ),
    )
)
"""Scores and curves."""
RECORDS: Final = (*VARIABLES, *weights.RECORDS)
"""Variables of /fitted."""


def fitted_separability(
    tree: xr.DataTree, *, draws: int = DRAWS, seed: int = 0, progress: Progress | None = None
) -> xr.Dataset:
    """Predict every head of a run from the other documents, and score the predictions.

    Returns /fitted: measured and predicted head means, and the scores of RUNGS over heads and N
    from 2 to 256.

    Raises:
        InputError: for a run without /ranks, with one document, or without a size in that range.
    """
    if "ranks" not in tree.children:
        raise InputError(
            "the run has no /ranks, expected weights and values by rank. Capture it again with this"
            " version of geostat."
        )
    ranks, capture = tree["ranks"].to_dataset(), tree["capture"].to_dataset()
    if ranks.sizes["document"] < 2:
        raise InputError(
            "the run has one document, expected at least 2: parameters come from the others."
            " Capture more with --documents."
        )
    n, by_query = _measured(tree)
    truth = mean_over_documents(np.moveaxis(by_query, -2, 0))
    predicted = np.full((len(MODELS), *truth.shape), np.nan)
    found, law = parameters(ranks), weights.fit_weights(ranks).logs
    layers, heads = ranks.sizes["layer"], ranks.sizes["head"]
    of_layer = partial(_of_head, ranks, capture, found, law, n, draws, seed)
    for layer in range(layers):
        cells = [(layer, head) for head in range(heads)]
        for (_, head), values in zip(cells, in_threads(of_layer, cells), strict=True):
            # means over the queries whose value is measured
            known = np.where(np.isfinite(by_query[:, :, layer, head]), values, np.nan)
            predicted[:, :, :, layer, head] = mean_over_documents(np.moveaxis(known, -2, 0))
        if progress is not None:
            progress((layer + 1) / layers)
    if not np.isfinite(predicted).any():
        raise InputError(
            "no head can be predicted by rank: expected at least 33 content tokens. Capture longer"
            " windows with --length."
        )
    scored = _scored(n, truth, predicted).assign_attrs(draws=draws, seed=seed)
    return xr.merge([scored, weights.compare_weights(ranks)], combine_attrs="override")


def _measured(tree: xr.DataTree) -> tuple[np.ndarray, FloatArray]:
    """Return sizes N, and measured P and R of each query: (statistic, document, layer, head, query,
    n).
    """
    queried = "queries" in tree.children
    data = tree["queries" if queried else "capture"].to_dataset()
    sizes = data["n"].values.astype(np.int64)
    inside = sizes[(sizes >= SMALLEST) & (sizes <= LARGEST)]
    if not inside.size:
        raise InputError(
            f"the run has no size N from {SMALLEST} to {LARGEST}. Capture it with --n default."
        )
    wanted = np.geomspace(SMALLEST, LARGEST, 4 * POINTS)
    places = np.unique(np.abs(inside[:, None] - wanted).argmin(axis=0))
    n = inside[places[np.unique(np.linspace(0, len(places) - 1, POINTS).round().astype(int))]]
    order = ("document", "layer", "head", "query", "n")
    of = "_by_query" if queried else ""
    curves = [data[f"{name}{of}"].sel(n=n) for name in STATISTICS]
    if not queried:
        curves = [curve.expand_dims("query") for curve in curves]
    return n, np.stack([curve.transpose(*order).values for curve in curves]).astype(np.float64)


OF_QUERY: Final = ("log_weight", "sink_log_weight", "content_tokens")
"""Variables of /ranks of a query, from which a `Row` is made."""
OF_HEAD: Final = (*OF_QUERY, "octave_repeats", "octave_tokens", "sink_first")


def _of_head(
    ranks: xr.Dataset,
    capture: xr.Dataset,
    found: dict[str, FloatArray],
    law: FloatArray,
    n: np.ndarray,
    draws: int,
    seed: int,
    cell: tuple[int, int],
) -> FloatArray:
    """Return P and R of one head: (model, statistic, document, query, n)."""
    layer, head = cell
    case, documents = layer * ranks.sizes["head"] + head, ranks.sizes["document"]
    kept, dimension = ranks["rank"].values, float(capture.attrs["dimension"])
    of_head = {name: ranks[name].values[:, layer, head] for name in OF_HEAD}
    shape = (len(MODELS), len(STATISTICS), documents, ranks.sizes["query"], len(n))
    values = np.full(shape, np.nan)
    for document, query in np.ndindex(documents, ranks.sizes["query"]):
        own = {name: array[1 + document, case] for name, array in found.items()}
        rows = {name: of_head[name][document, query] for name in OF_QUERY}
        row = Row.of(rows, kept, own, bool(of_head["sink_first"][document]))
        if row is None or not np.isfinite(own["coherence_limit"]) or not own["dimension"] > 0:
            continue
        draw = np.random.default_rng((seed, case, document, query))
        others = np.arange(documents) != document
        repeats = of_head["octave_repeats"][others].sum(axis=0)
        repeats = repeats / np.maximum(of_head["octave_tokens"][others].sum(axis=0), 1)[:, None]
        for index, model in enumerate(row.models(own, dimension, row.leaders(repeats, draw))):
            values[index, :, document, query] = _drawn(row, model, n, draws, draw)
        other = np.flatnonzero(others)[query % (documents - 1)]
        rows = {name: of_head[name][other, query] for name in OF_QUERY}
        rows["log_weight"] = law[other, case, query]
        row = Row.of(rows, kept, own, bool(of_head["sink_first"][other]))
        if row is not None:
            model = row.models(own, dimension, row.leaders(repeats, draw))[-1]
            values[-1, :, document, query] = _drawn(row, model, n, draws, draw)
    return values


def _drawn(
    row: Row, model: dict[str, Any], n: np.ndarray, draws: int, draw: np.random.Generator
) -> FloatArray:
    seed = int(draw.integers(2**31))
    found = fitted(row.alpha, row.norms, n=n, draws=draws, seed=seed, **model)
    return np.stack([getattr(found, name) for name in STATISTICS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One query of a head: its tokens by descending weight. Sinks beyond those whose weights are
    kept are left out.
    """

    alpha: FloatArray
    norms: FloatArray
    is_sink: BoolArray
    first: bool
    """Whether the token at position 0 is a functional sink; it is taken as the heaviest."""

    @classmethod
    def of(
        cls, rows: dict[str, Any], kept: np.ndarray, own: dict[str, Any], first: bool
    ) -> Row | None:
        """Return a query from its weights at the kept ranks; None without content tokens."""
        count, logs = int(rows["content_tokens"]), rows["log_weight"].astype(np.float64)
        if not count:
            return None
        known = np.isfinite(logs)
        at, rank = np.minimum(kept, count)[known], np.arange(1, count + 1)
        content = np.exp(np.interp(np.log(rank), np.log(at), logs[known]))
        sinks = rows["sink_log_weight"][np.isfinite(rows["sink_log_weight"])].astype(np.float64)
        alpha = np.concatenate([np.exp(sinks), content])
        square = own["square"][np.log2(rank).astype(int)]
        lengths = np.sqrt(np.where(np.isfinite(square), square, np.nanmean(own["square"])))
        short = own["class_norm_ratio"] if own["class_norm_ratio"] > 0 else 1.0
        level = np.sqrt((lengths**2).mean())
        norms = np.concatenate([np.full(len(sinks), short * level), lengths])
        order = np.argsort(-alpha, kind="stable")
        is_sink = np.arange(len(alpha)) < len(sinks)
        return cls(alpha=alpha[order], norms=norms[order], is_sink=is_sink[order], first=first)

    def leaders(self, repeats: FloatArray, draw: np.random.Generator) -> np.ndarray:
        """Draw for each token an equal one of larger weight, −1 for none; `repeats`: share of an
        octave's tokens with an equal token of higher rank, by the octave of the highest.
        """
        place = np.flatnonzero(~self.is_sink)  # of content, by rank
        rank = np.arange(1, len(place) + 1)
        octave = np.log2(rank).astype(int)
        cumulative = repeats.cumsum(axis=1)[octave]
        wanted = draw.random(len(rank))[:, None]
        above = (wanted >= cumulative).sum(axis=1)
        low = 2**above
        high = np.minimum(2 * low, rank)  # ranks low to high − 1
        has = (above < repeats.shape[1]) & (high > low)
        chosen = low + (draw.random(len(rank)) * np.maximum(high - low, 1)).astype(int)
        out = np.full(len(self.alpha), -1)
        out[place[has]] = place[chosen[has] - 1]
        while (again := (out >= 0) & (out[out] >= 0)).any():  # a leader has none of its own
            out[again] = out[out[again]]
        return out

    def models(
        self, own: dict[str, Any], dimension: float, leaders: np.ndarray
    ) -> list[dict[str, Any]]:
        """Return the arguments of `fitted` for each of MODELS; `dimension` is the head size."""
        first, limit, gamma = (
            float(own[f"coherence_{part}"]) for part in ("first", "limit", "exponent")
        )
        low = limit + (first - limit) * LOW**-gamma
        rho, repeat = _cosine(own), float(np.nan_to_num(own["repeat_cosine"]))
        flat = partial(RankParameters, first=low, limit=low, gamma=1.0, rho=rho)
        by_rank = RankParameters(
            first=first,
            limit=limit,
            gamma=gamma,
            rho=rho,
            dimension=float(own["dimension"]),
            repeat=repeat,
        )
        at_first = np.zeros_like(self.is_sink)
        at_first[np.flatnonzero(self.is_sink)[:1]] = self.first
        every = {"sinks": self.is_sink, "leaders": leaders}
        return [
            {"sinks": at_first, "parameters": flat(dimension=dimension)},
            {**every, "parameters": flat(dimension=dimension, repeat=repeat)},
            {**every, "parameters": by_rank},
        ]


def _cosine(own: dict[str, Any]) -> float:
    return float(np.clip(np.nan_to_num(own["class_cosine"]), -1.0, 1.0))


def _scored(n: np.ndarray, truth: FloatArray, predicted: FloatArray) -> xr.Dataset:
    """Return /fitted from measured P and R, (statistic, document, layer, head, n), and those of the
    models.
    """
    known = np.isfinite(truth) & np.isfinite(predicted).all(axis=0)
    truth = np.where(known, truth, np.nan)
    numbers: dict[str, Any] = {}
    for index, name in enumerate(STATISTICS):
        of = truth[index]
        model = np.where(known[index], predicted[:, index], np.nan)
        one_curve = np.where(known[index], _curve(of), np.nan)
        scores = [_scores(of, rung) for rung in (one_curve, *model)]
        others = leave_one_out_mean(of)  # its mean over documents is that of the head itself
        scores.append({"r2_documents": _explained(of, others)} | _band(of, others))
        for part in _MEANS:
            numbers[f"{name}_{part}"] = np.array([score.get(part, np.nan) for score in scores])
        numbers[name] = mean_over_documents(of)
        numbers[f"{name}_fitted"] = mean_over_documents(model[MODELS.index("amended")])
    return xr.Dataset(
        variables(VARIABLES, numbers),
        coords={
            "n_fitted": sizes_along("n_fitted", n),
            "rung": words_along("rung", RUNGS, "prediction"),
        },
        attrs={"long_name": "separability predicted by the amended assumptions"},
    )


def _scores(truth: FloatArray, predicted: FloatArray) -> dict[str, float]:
    """Return the scores of one prediction, both (document, layer, head, n)."""
    mean, expected = mean_over_documents(truth), mean_over_documents(predicted)
    error = expected - mean
    return {
        "r2": _explained(mean, expected),
        "r2_documents": _explained(truth, predicted),
        "mae": float(mean_over_documents(np.abs(error).ravel())),
        # rounded: the mean curve has none
        "bias": float(mean_over_documents(error.ravel()).round(12)) + 0.0,
    } | _band(truth, predicted)


def _band(truth: FloatArray, predicted: FloatArray) -> dict[str, float]:
    """Return the mean half width of the 95% predictive band of a new document, both (document,
    layer, head, n), and the share of held-out documents' values within it.

    The half width at N is the 95% quantile of |measured − predicted| over heads and the other
    documents; one for all heads.
    """
    error = np.abs(predicted - truth).reshape(len(truth), -1, truth.shape[-1])
    error = error[..., np.isfinite(error).any(axis=1).sum(axis=0) > 1]  # N with other documents
    if not error.size:
        return {"band": np.nan, "covered": np.nan}
    others = [np.delete(error, document, axis=0) for document in range(len(error))]
    half = np.array([np.nanquantile(of.reshape(-1, of.shape[-1]), LEVEL, axis=0) for of in others])
    covered = (error <= half[:, None]).sum() / np.isfinite(error).sum()
    return {"band": float(half.mean()), "covered": float(covered)}


def _explained(truth: FloatArray, predicted: FloatArray) -> float:
    """Return the share of variance explained, about the mean curve: (..., layer, head, n)."""
    spread = np.nansum((truth - _curve(truth)) ** 2)
    explained = 1 - np.nansum((predicted - truth) ** 2) / spread if spread > 0 else np.nan
    return float(np.round(explained, 12)) + 0.0  # the mean curve has none


def _curve(values: FloatArray) -> FloatArray:
    """Return the mean curve over all axes but the last."""
    return mean_over_documents(values.reshape(-1, values.shape[-1]))
