"""What observers give of layers on their device: geometry, null baselines, means over queries.

Source: arXiv 2602.01893, (1)-(8), (18)-(20). Imports the measurements on a device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from empirical.capture.together import Together
from empirical.measure.device import layer, nulls, queries


def geometry(layers: Together) -> list[dict[str, Any]]:
    """Return everything of /capture but principal components, of each layer."""
    shape = layers.shape
    measured = layer.measure_layer(
        layers.alpha,
        layers.values,
        shape.n,
        sink=layers.sink,
        convention=shape.convention,
        positions=shape.positions,
    )
    return layers.apart(measured)


def baselines(layers: Together) -> list[dict[str, Any]]:
    """Return everything of /null, drawn on the device, of each layer by its own seed."""
    n, seeds, convention = layers.shape.n, layers.seeds, layers.shape.convention
    if len(layers.rows) > 1:
        measured = queries.null_layer(
            layers.rows, layers.every, n, seeds=seeds, convention=convention
        )
    else:
        measured = nulls.measure_layer(
            layers.alpha, layers.values, n, seeds=seeds, convention=convention
        )
    return layers.apart(measured)


def query_means(layers: Together) -> list[dict[str, Any]]:
    """Return everything of /queries, of each layer."""
    positions = {"query_position": np.array([row.position for row in layers.rows], np.int32)}
    measured = queries.measure_layer(
        layers.rows, layers.every, layers.shape.n, convention=layers.shape.convention
    )
    return layers.apart(positions | measured)
