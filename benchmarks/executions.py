"""Torch beside the compiled loops, both on this machine's CPU, on layers of the built-in model:
time of one layer, and how far the numbers of all layers are apart.

    .venv/bin/python -m benchmarks.executions [--tokens 1025]

Medians of seven rounds in turn. On a CPU the loops are the ones to use; torch is for devices.
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
from empirical.sources import builtin_texts, models
from empirical.sources import windows as corpus
from empirical.tap.tap import tap

Layer = tuple[torch.Tensor, torch.Tensor]
"""α of the last query, (head, token), and values, (kv_head, token, dimension)."""


def layers(tokens: int) -> list[Layer]:
    model = models.find(None).load()
    windows = corpus.windows(builtin_texts.topics(), model.tokenizer, length=tokens, count=1)
    kept: list[Layer] = []
    ids = torch.as_tensor(windows.token_ids.astype(np.int64))
    tap(model.model, ids, lambda layer: kept.append((layer.alpha[0, -1], layer.values[0])))
    return kept


def times(layer: Layer) -> None:
    ways: dict[str, Any] = {"loops": measure_layer, "torch": on_device.measure_layer}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(8):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            started = time.perf_counter()
            ways[name](*layer, None, sink=True)
            if turn:  # the first compiles
                taken[name].append(time.perf_counter() - started)
    loops, other = (statistics.median(taken[name]) for name in ways)
    print(
        f"one layer of {len(layer[0])} heads, {layer[0].shape[1]} tokens, default N,"
        f" {torch.get_num_threads()} threads: loops {1e3 * loops:.1f} ms, torch"
        f" {1e3 * other:.1f} ms, ratio {other / loops:.1f}"
    )


def differences(kept: list[Layer]) -> None:
    apart: dict[str, float] = {}
    cells = differ = 0
    for layer in kept:
        one = measure_layer(*layer, None, sink=True)
        two = on_device.measure_layer(*layer, None, sink=True)
        for name, array in one.items():
            other = two[name].numpy()
            gap = np.abs(other.astype(float) - array) / (1 + np.abs(array))
            apart[name] = max(apart.get(name, 0.0), float(np.nanmax(gap, initial=0)))
            if name in {"precision", "recall"}:
                cells += array.size
                differ += int(np.sum((other != array) & ~np.isnan(array)))
    most = max(apart.pop("precision"), apart.pop("recall"))
    print(f"of {cells} P and R of {len(kept)} layers {differ} differ, by at most {most:.2g}")
    print("others, |Δ|/(1 + |x|) at most:")
    for name, gap in sorted(apart.items(), key=lambda each: -each[1]):
        print(f"    {name:<34}{gap:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1025)
    kept = layers(parser.parse_args().tokens)
    times(kept[len(kept) // 2])
    differences(kept)


if __name__ == "__main__":
    main()
