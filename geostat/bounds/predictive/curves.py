"""Plug-in predictive curves: what Model G expects of each head at its fitted parameters, laid over
what was measured.

Edition `predicted` gives E P and E R of a head, approximately, from three ingredients: weights,
norms and cosines. From all three fitted it is what Assumptions 1-3 together say of the head; from
all three measured, what Model G says once the assumptions are taken out of it. Where the second
meets the measured curve and the first does not, the assumptions are at fault; where neither does,
so is Model G. Between them stand fitted weights with all else measured, which cost little: they
tell Assumption 3 from the other two. Source: arXiv 2602.01893, Assumptions 1-3, Definitions 1-2.
Imports theory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.bounds.by_document import FITTED_GRAMS, envelope_grid, measured_curves
from geostat.bounds.head import MEASURED, NEEDED, Groups, fitted_head, value_head
from geostat.bounds.predictive.check import DRAWS, Prediction, Profile, check, chosen_heads
from geostat.bounds.predictive.scores import mean_of_other_heads, with_replicates
from geostat.bounds.predictive.variables import dataset, numbers_of
from geostat.datasets.overlap import overlapped
from geostat.datasets.progress import Progress, part_of, tracked
from geostat.datasets.separability import STATISTICS
from geostat.datasets.tokens import layer_tokens, value_heads
from geostat.errors import InputError
from geostat.statistics.arrays import FloatArray
from geostat.statistics.t_test import critical_value
from theory.editions.predicted.predict import predict
from theory.editions.sharp.many_heads import in_threads
from theory.head.gram import as_matrix

BASELINES: Final = ("heads", "floor")
"""What a prediction must beat: the mean of the other heads at that N, and N/T, the Precision of
a ball that holds everything.
"""

ONLY_WEIGHTS: Final = "all but weights"
"""Norms and cosines measured, weights fitted; called as in `cost_of_assumptions`."""

POINTS: Final = 6
"""Sizes N by default; a head costs about 15 ms at each, for every fitted Gram and every
document.
"""

LARGEST: Final = 0.25
"""Largest N, in units of T: beyond it P is N/T whatever the head does, and a prediction takes
several times as long.
"""

PREDICTING: Final = 0.8
"""Share of the time that predicting takes; the rest is simulation."""


def predictive_curves(
    tree: xr.DataTree,
    *,
    grams: Sequence[str] = FITTED_GRAMS,
    points: int | None = POINTS,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Predict E P and E R of every head by N, score the predictions against the measured curves,
    and check some by simulation.

    Fitted weights, norms and Grams, and measured ones, are those of `cost_of_assumptions`: measured
    are each document's own weights, whose predictions are averaged over documents. Fitted
    ingredients are held in the jackknife, which resamples the measured curves (and the documents'
    own weights); so its errors leave out what the fits would do on other documents.

    `tree` holds the groups NEEDED; `points` is about how many log-spaced sizes N from 2 to T/4,
    None takes all measured ones there; each simulated head takes `draws`.

    Returns:
        /predictive, as in `geostat.bounds.predictive.variables`.

    Raises:
        InputError: if the run has no size 1 < N < T.
    """
    capture = tree["capture"].to_dataset()
    grid = predictive_grid(capture, points)
    by_document, sound, checked = _predicted_heads(
        tree, grams, grid, part_of(progress, 0.0, PREDICTING)
    )
    rest = part_of(progress, PREDICTING, 1.0)
    simulated = check(checked, grid, seed=seed, draws=draws, progress=rest)
    sources = (*grams, ONLY_WEIGHTS, MEASURED)
    predictions = _beside_measured(capture, grid, sources, by_document, sound)
    return predictions.assign(simulated).assign_attrs(draws=draws, seed=seed)


def predictive_grid(capture: xr.Dataset, points: int | None) -> np.ndarray:
    """Choose about `points` log-spaced sizes among the measured ones from 2 to T/4, or to T − 1
    where there are none.
    """
    n, tokens = capture["n"].values.astype(np.int64), int(capture["tokens"].values.max())
    for most in (LARGEST * tokens, tokens - 1):
        result = n[(n > 1) & (n <= most)]
        if result.size:
            return envelope_grid(result, points)
    raise InputError(
        f"the run holds N = {', '.join(map(str, n[:5]))}, expected some 1 < N < {tokens}. Capture"
        " it with --n default."
    )


def _predicted_heads(
    tree: xr.DataTree,
    grams: Sequence[str],
    grid: np.ndarray,
    progress: Progress | None,
) -> tuple[FloatArray, FloatArray, list[tuple[Profile, Prediction]]]:
    """Predict every head from every source, in each document where these differ.

    Returns:
        P and R, (statistic, document, source, layer, head, n), 1 where a prediction does not flag
        itself, the same without the statistic, and the predictions that are to be simulated.
    """
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture = groups["capture"]
    layers, heads, kv_heads, documents = (
        capture.sizes[name] for name in ("layer", "head", "kv_head", "document")
    )
    sources = len(grams) + 2  # only weights fitted; all measured
    by_document = np.full((len(STATISTICS), documents, sources, layers, heads, len(grid)), np.nan)
    sound = np.full(by_document.shape[1:], np.nan)
    wanted = {(layer, head): source for layer, head, source in chosen_heads(layers, heads, sources)}
    checked: list[tuple[Profile, Prediction]] = []
    each = list(np.ndindex(layers, kv_heads))
    predicted = overlapped(partial(_of_value_head, groups, grams, grid), each, at_once=1)
    for _, predictions in zip(tracked(each, progress), predicted, strict=True):
        for one, result in predictions:
            layer = one.layer
            of = slice(None) if one.document is None else one.document
            by_document[:, of, one.source, layer, one.head] = (
                result.values[:, None] if one.document is None else result.values
            )
            sound[of, one.source, layer, one.head] = result.reliable
            if wanted.get((layer, one.head)) == one.source and one.document in (
                None,
                len(checked) % documents,
            ):
                del wanted[layer, one.head]
                checked.append((one, result))
    return by_document, sound, checked


def _of_value_head(
    groups: Groups, grams: Sequence[str], grid: np.ndarray, of: tuple[int, int]
) -> list[tuple[Profile, Prediction]]:
    """Predict what `_profiles` lists of one layer's value head; their matrices, which simulation
    does not need, are let go.
    """
    profiles = _profiles(groups, grams, *of)
    results = in_threads(partial(_predicted, grid=grid), profiles)
    let_go = (replace(one, matrix=np.empty((0, 0))) for one in profiles)
    return list(zip(let_go, results, strict=True))


def _profiles(groups: Groups, grams: Sequence[str], layer: int, kv_head: int) -> list[Profile]:
    """List what is to be predicted for one kv_head; heads whose weights, and Grams whose
    parameters, could not be fitted are left out.
    """
    capture = groups["capture"]
    seen = layer_tokens(capture, layer)
    heads = np.flatnonzero(value_heads(capture) == kv_head)
    own = value_head(groups, layer, kv_head, heads)
    sink = 0 if seen.sink else None
    dimension = int(capture.attrs["dimension"])
    convention = "followup" if capture.attrs["convention"] == "followup" else "paper"
    of_heads = partial(
        _of_known_heads,
        heads,
        layer=layer,
        sink=sink,
        dimension=dimension,
        convention=convention,
    )
    profiles: list[Profile] = []
    for source, gram in enumerate(grams):
        fitted = fitted_head(groups, gram, layer, kv_head)
        if fitted is not None:
            matrix = as_matrix(fitted.gram, seen.tokens, sink=sink)
            profiles += of_heads(
                own.weight_model,
                source=source,
                document=None,
                norms=fitted.norms,
                gram=fitted.gram,
                matrix=matrix,
            )
    if own.gram is None:
        return profiles
    matrix = as_matrix(own.gram, seen.tokens, sink=sink)
    measured = partial(of_heads, norms=own.norms, gram=own.gram, matrix=matrix)
    profiles += measured(own.weight_model, source=len(grams), document=None)
    for document, rows in enumerate(own.weights):
        profiles += measured(rows, source=len(grams) + 1, document=document)
    return profiles


def _of_known_heads(
    heads: np.ndarray, rows: FloatArray, *, norms: FloatArray, **shared: Any
) -> list[Profile]:
    """List the profiles of the heads whose weights, `rows` (head, token), and norms are known; what
    they share is as in Profile.
    """
    if not np.isfinite(norms).all():
        return []
    return [
        Profile(head=head, alpha=alpha, norms=norms, **shared)
        for head, alpha in zip(heads.tolist(), rows, strict=True)
        if np.isfinite(alpha).all()
    ]


def _predicted(one: Profile, grid: np.ndarray) -> Prediction:
    """Predict P and R, NaN from N = T on."""
    values, reliable = np.full((len(STATISTICS), len(grid)), np.nan), np.full(len(grid), np.nan)
    below = grid < len(one.alpha)
    if below.any():
        result = predict(
            one.alpha,
            one.norms,
            one.matrix,
            one.dimension,
            grid[below],
            sink=one.sink,
            feasible=True,
            convention=one.convention,
        )
        values[:, below] = np.stack([getattr(result, name) for name in STATISTICS])
        reliable[below] = result.reliable
    return Prediction(values=values, reliable=reliable)


def _beside_measured(
    capture: xr.Dataset,
    grid: np.ndarray,
    sources: Sequence[str],
    by_document: FloatArray,
    sound: FloatArray,
) -> xr.Dataset:
    """Put the measured curves and the baselines beside the predictions, with a replicate without
    each document.
    """
    curves = measured_curves(capture, grid).transpose("document", "layer", "head", "n_envelope")
    documents, tokens = capture.sizes["document"], capture["tokens"].values[:, None, None]
    shape = (1 + documents, *by_document.shape[3:])
    critical = float(critical_value(documents - 1))
    flags = 1 - with_replicates(sound)[0]
    flagged = np.concatenate([flags, np.full((len(BASELINES), *flags.shape[1:]), np.nan)])
    shares = [
        float(row[np.isfinite(row)].mean()) if np.isfinite(row).any() else np.nan for row in flagged
    ]
    numbers: dict[str, Any] = {"flagged": flagged, "flagged_share": np.array(shares)}
    for at, name in enumerate(STATISTICS):
        each = curves[name].values
        made, measured = with_replicates(by_document[at]), with_replicates(each)
        known = (
            np.isfinite(made[0]).all(axis=0)
            & np.isfinite(measured[0])
            & (grid > 1)
            & (grid < tokens)
        )
        floor = np.broadcast_to(np.where(grid <= tokens, grid / tokens, np.nan), shape)
        plain = np.stack([mean_of_other_heads(measured, known), floor], axis=1)
        error = (
            each.std(axis=0, ddof=1) / np.sqrt(documents)
            if documents > 1
            else np.full(shape[1:], np.nan)
        )
        made = np.concatenate([made, plain], axis=1)
        numbers |= numbers_of(name, made, measured, error, known, critical)
    return dataset(capture, grid, (*sources, *BASELINES), numbers)
