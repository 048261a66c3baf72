"""Comparison of the torch implementation with the compiled loops on this machine's CPU: time of one
layer, and differences over all layers of the built-in model.

    .venv/bin/python -m benchmarks.executions [--tokens 1025]

Medians of seven alternating rounds. A capture uses the loops on a CPU and torch on a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import empirical  # noqa: F401  # isort: skip - before torch, as the command does

import numpy as np
import torch

from empirical.measure.device import layer as on_device
from empirical.measure.layer import measure_layer
from empirical.sources import builtin, models
from empirical.sources import windows as corpus
from empirical.tap.tap import tap

Layer = tuple[torch.Tensor, torch.Tensor]
"""α of the last query, (head, token), and values, (kv_head, token, dimension)."""


def layers(tokens: int) -> list[Layer]:
    model = models.find(None).load()
    windows = corpus.windows(builtin.topics(), model.tokenizer, length=tokens, count=1)
    captured: list[Layer] = []
    ids = torch.as_tensor(windows.token_ids.astype(np.int64))
    tap(model.model, ids, lambda layer: captured.append((layer.alpha[0, -1], layer.values[0])))
    return captured


def times(layer: Layer) -> None:
    ways: dict[str, Any] = {"loops": measure_layer, "torch": on_device.measure_layer}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(8):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            started = time.perf_counter()
            ways[name](*layer, None, sink=True)
            if turn:  # the first round compiles
                taken[name].append(time.perf_counter() - started)
    loops, other = (statistics.median(taken[name]) for name in ways)
    print(
        f"one layer of {len(layer[0])} heads, {layer[0].shape[1]} tokens, default N,"
        f" {torch.get_num_threads()} threads: loops {1e3 * loops:.1f} ms, torch"
        f" {1e3 * other:.1f} ms, ratio {other / loops:.1f}"
    )


def differences(captured: list[Layer]) -> None:
    apart: dict[str, float] = {}
    cells = differ = 0
    for layer in captured:
        by_loops = measure_layer(*layer, None, sink=True)
        by_torch = on_device.measure_layer(*layer, None, sink=True)
        for name, array in by_loops.items():
            other = by_torch[name].numpy()
            gap = np.abs(other.astype(float) - array) / (1 + np.abs(array))
            apart[name] = max(apart.get(name, 0.0), float(np.nanmax(gap, initial=0)))
            if name in {"precision", "recall"}:
                cells += array.size
                differ += int(np.sum((other != array) & ~np.isnan(array)))
    most = max(apart.pop("precision"), apart.pop("recall"))
    print(
        f"{differ} of {cells} values of P and R of {len(captured)} layers differ, by at most"
        f" {most:.2g}"
    )
    print("others, |Δ|/(1 + |x|) at most:")
    for name, gap in sorted(apart.items(), key=lambda item: -item[1]):
        print(f"    {name:<34}{gap:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1025)
    captured = layers(parser.parse_args().tokens)
    times(captured[len(captured) // 2])
    differences(captured)


if __name__ == "__main__":
    main()
