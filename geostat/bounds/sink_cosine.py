"""Effect of ρ₀, the sink's similarity, on the printed bounds of Recall, all else as it is: the link
that the theory predicts.

Source: arXiv 2602.01893, §4.1, (14), (15), (32)-(33); erratum 30. Imports theory's Grams.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from geostat.bounds.by_document import bounds_of_layer, fitted_heads
from geostat.bounds.head import FittedHead, document_weights
from geostat.datasets.overlap import overlapped
from geostat.datasets.tokens import layer_tokens
from geostat.statistics.arrays import FloatArray
from theory.head.gram import LagGram

BOUNDS = ("recall_lower", "recall_upper")


def change_with_sink_cosine(
    capture: xr.Dataset, norms: xr.Dataset, similarity: xr.Dataset, *, size: int, rise: float
) -> FloatArray:
    """Return by how much the printed bounds of Recall at N = `size` move, (lower or upper, layer,
    head), as ρ₀ alone goes from `rise`/2 below its fit to as much above.

    Each head has its fitted norms and exponential decay and each document's own weights; bounds are
    cut to [0, 1], as Figure 5 draws them, and averaged over documents. NaN of a head without fits
    or sink, or with no more than `size` tokens.
    """
    out = np.full((len(BOUNDS), capture.sizes["layer"], capture.sizes["head"]), np.nan)

    def change(
        fitted: tuple[int, int, np.ndarray, FittedHead],
    ) -> tuple[int, np.ndarray, FloatArray | float]:
        layer, _, group, model = fitted
        seen, gram = layer_tokens(capture, layer), model.gram
        if not seen.sink or seen.tokens <= size or not isinstance(gram, LagGram):
            return layer, group, np.nan
        weights = document_weights(capture, layer, group)
        ends = [
            bounds_of_layer(
                capture,
                layer,
                weights,
                model.norms,
                replace(gram, rho0=float(np.clip(gram.rho0 + step, -1, 1))),
                np.array([size]),
                editions=["printed"],
                names=BOUNDS,
            )[0].clip(0, 1)
            for step in (-rise / 2, rise / 2)
        ]
        return layer, group, (ends[1] - ends[0])[..., 0].mean(axis=1)

    each = fitted_heads(capture, norms, similarity, "exponential")
    for layer, group, moved in overlapped(change, each):
        out[:, layer, group] = moved
    return out
