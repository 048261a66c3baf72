"""Plug-in predictive curves: P and R expected under Model G at fitted parameters, and measured
ones.

Edition `predicted` approximates E P and E R of a head from three ingredients: weights, norms and
cosines. With all three fitted, it is the joint prediction of Assumptions 1-3; with all three
measured, it is the prediction of Model G without the assumptions. If the latter matches the
measured curve and the former does not, the assumptions are wrong; if neither matches, Model G is
wrong too. A third source, fitted weights with all else measured, costs little and separates
Assumption 3 from the other two. Source: arXiv 2602.01893, Assumptions 1-3, Definitions 1-2. Imports
theory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.bounds.by_document import FITTED_GRAMS, log_spaced
from geostat.bounds.head import MEASURED, NEEDED, Groups, fitted_head, kv_head_of
from geostat.bounds.predictive.check import DRAWS, Prediction, Profile, check, chosen_heads
from geostat.bounds.predictive.variables import scored
from geostat.datasets.overlap import Progress, overlapped, part_of, tracked
from geostat.datasets.separability import STATISTICS
from geostat.datasets.tokens import kv_head_of_head, layer_tokens
from geostat.errors import InputError
from geostat.statistics.arrays import FloatArray
from theory.editions.predicted.predict import predict_head
from theory.editions.sharp.sharp_law import in_threads
from theory.head.gram import as_matrix
from theory.head.inputs import checked_input

ONLY_WEIGHTS: Final = "all but weights"
"""Norms and cosines measured, weights fitted; named as in `cost_of_assumptions`."""

POINTS: Final = 6
"""Default number of sizes N; each takes about 15 ms per head, fitted Gram and document."""

LARGEST: Final = 0.25
"""Largest N, in units of T.

Above it P is N/T for every head, and a prediction takes several times as long.
"""

PREDICTING: Final = 0.8
"""Share of the time for prediction; the rest is simulation."""


def predictive_curves(
    tree: xr.DataTree,
    *,
    grams: Sequence[str] = FITTED_GRAMS,
    points: int | None = POINTS,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Predict E P and E R of every head by N, score the predictions, and check some by simulation.

    Fitted and measured weights, norms and Grams are those of `cost_of_assumptions`. Measured
    weights are each document's, and their predictions are averaged over documents. The jackknife
    holds fitted ingredients fixed and resamples the measured curves (and the documents' weights);
    its errors do not include the variation of the fits.

    Args:
        tree: a run with the groups NEEDED.
        grams: fitted forms of similarity.
        points: approximate number of log-spaced sizes N from 2 to T/4; None takes all measured
            sizes.
        draws: draws per simulated head.

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
    predictions = scored(capture, grid, sources, by_document, sound)
    return predictions.assign(simulated).assign_attrs(draws=draws, seed=seed)


def predictive_grid(capture: xr.Dataset, points: int | None) -> np.ndarray:
    """Return about `points` log-spaced measured sizes from 2 to T/4.

    The range extends to T − 1 if there is none.
    """
    n, tokens = capture["n"].values.astype(np.int64), int(capture["tokens"].values.max())
    for largest in (LARGEST * tokens, tokens - 1):
        result = n[(n > 1) & (n <= largest)]
        if result.size:
            return log_spaced(result, points)
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
    """Predict every head from every source, per document where the source depends on it.

    Returns:
        P and R, (statistic, document, source, layer, head, n); 1 where a prediction is reliable,
        without the statistic axis; and the predictions to simulate.
    """
    groups = {name: tree[name].to_dataset() for name in NEEDED}
    capture = groups["capture"]
    layers, heads, kv_heads, documents = (
        capture.sizes[name] for name in ("layer", "head", "kv_head", "document")
    )
    sources = len(grams) + 2  # plus: only weights fitted, and all measured
    by_document = np.full((len(STATISTICS), documents, sources, layers, heads, len(grid)), np.nan)
    reliable = np.full(by_document.shape[1:], np.nan)
    to_check = {
        (layer, head): source for layer, head, source in chosen_heads(layers, heads, sources)
    }
    checked: list[tuple[Profile, Prediction]] = []
    kv_head_indices = list(np.ndindex(layers, kv_heads))
    predicted = overlapped(partial(_of_kv_head, groups, grams, grid), kv_head_indices, at_once=1)
    for _, predictions in zip(tracked(kv_head_indices, progress), predicted, strict=True):
        for profile, result in predictions:
            layer = profile.layer
            documents_of = slice(None) if profile.document is None else profile.document
            by_document[:, documents_of, profile.source, layer, profile.head] = (
                result.values[:, None] if profile.document is None else result.values
            )
            reliable[documents_of, profile.source, layer, profile.head] = result.reliable
            if to_check.get((layer, profile.head)) == profile.source and profile.document in (
                None,
                len(checked) % documents,
            ):
                del to_check[layer, profile.head]
                checked.append((profile, result))
    return by_document, reliable, checked


def _of_kv_head(
    groups: Groups, grams: Sequence[str], grid: np.ndarray, indices: tuple[int, int]
) -> list[tuple[Profile, Prediction]]:
    """Predict the `_profiles` of one KV head, which then drop their matrices."""
    profiles = _profiles(groups, grams, *indices)
    results = in_threads(partial(_predicted, grid=grid), profiles)
    without_matrix = (replace(profile, matrix=np.empty((0, 0))) for profile in profiles)
    return list(zip(without_matrix, results, strict=True))


def _profiles(groups: Groups, grams: Sequence[str], layer: int, kv_head: int) -> list[Profile]:
    """Return the inputs of all predictions of one KV head with fitted weights and Grams."""
    capture = groups["capture"]
    visible = layer_tokens(capture, layer)
    heads = np.flatnonzero(kv_head_of_head(capture) == kv_head)
    ingredients = kv_head_of(groups, layer, kv_head, heads)
    sink = 0 if visible.sink else None
    profiles: list[Profile] = []

    def add(rows: FloatArray, source: int, document: int | None = None, **shared: Any) -> None:
        """Add the heads with known weights and norms; `rows` are weights, (head, token)."""
        for head, alpha in zip(heads.tolist(), rows, strict=True):
            if np.isfinite(alpha).all() and np.isfinite(shared["norms"]).all():
                profile = Profile(
                    source=source,
                    layer=layer,
                    head=head,
                    document=document,
                    alpha=alpha,
                    sink=sink,
                    dimension=int(capture.attrs["dimension"]),
                    convention="followup" if capture.attrs["convention"] == "followup" else "paper",
                    **shared,
                )
                profiles.append(profile)

    shared: dict[str, Any]
    for source, gram in enumerate(grams):
        fitted = fitted_head(groups, gram, layer, kv_head)
        if fitted is not None:
            matrix = as_matrix(fitted.gram, visible.tokens, sink=sink)
            shared = {"norms": fitted.norms, "gram": fitted.gram, "matrix": matrix}
            add(ingredients.weight_model, source, **shared)
    if ingredients.gram is not None:
        matrix = as_matrix(ingredients.gram, visible.tokens, sink=sink)
        shared = {"norms": ingredients.norms, "gram": ingredients.gram, "matrix": matrix}
        add(ingredients.weight_model, len(grams), **shared)
        for document, weights in enumerate(ingredients.weights):
            add(weights, len(grams) + 1, document, **shared)
    return profiles


def _predicted(profile: Profile, grid: np.ndarray) -> Prediction:
    """Predict P and R of one profile; NaN for N ≥ T."""
    values, reliable = np.full((len(STATISTICS), len(grid)), np.nan), np.full(len(grid), np.nan)
    below = grid < len(profile.alpha)
    if below.any():
        head = checked_input(
            *(profile.alpha, profile.norms, profile.matrix, profile.dimension, grid[below]),
            sink=profile.sink,
            feasible=True,
        )
        result = predict_head(head, profile.convention)
        values[:, below] = np.stack([getattr(result, name) for name in STATISTICS])
        reliable[below] = result.reliable
    return Prediction(values=values, reliable=reliable)
