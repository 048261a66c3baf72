"""Time the measurement of every layer beside the forward pass of the built-in model that it
interrupts.

Each round runs one document's forward plain, then with one more thing done at each layer, so that
caches and other threads are what they are in a capture. Printed: the median over rounds of (with /
plain − 1), the share of a plain forward; and the same in seconds. Run: python -m benchmarks.kernels
[--rounds K] [--tokens T]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from empirical.measure import layer as summaries
from empirical.measure import nulls
from empirical.measure.selection import separability
from empirical.measure.sizes import default_n
from empirical.sources.builtin_texts import topics
from empirical.sources.models import LoadedModel, find
from empirical.sources.windows import windows
from empirical.tap.tap import TappedLayer, tap

OnLayer = Callable[[np.ndarray, np.ndarray, int], object]


def parts(tokens: int) -> dict[str, OnLayer]:
    """What is timed: a name, and what is done with one layer's weights and values."""
    grid, every = default_n(tokens), np.arange(1, tokens + 1)
    return {
        "tap alone": lambda alpha, values, layer: None,
        "separability, default n": lambda alpha, values, layer: separability(alpha, values, grid),
        "separability, every N": lambda alpha, values, layer: separability(alpha, values, every),
        "everything of /capture, default n": lambda alpha, values, layer: summaries.measure_layer(
            alpha, values, grid, sink=True
        ),
        "everything of /capture, every N": lambda alpha, values, layer: summaries.measure_layer(
            alpha, values, every, sink=True
        ),
        "both draws of /null, default n": lambda alpha, values, layer: nulls.measure_layer(
            alpha, values, grid, seed=(0, 0, layer)
        ),
    }


def time_plain(model: LoadedModel, ids: torch.Tensor) -> float:
    """Return the seconds of a plain forward of the decoder."""
    decoder = model.model.get_decoder()
    start = time.perf_counter()
    with torch.inference_mode():
        decoder(ids, use_cache=False)
    return time.perf_counter() - start


def time_with(model: LoadedModel, ids: torch.Tensor, on_layer: OnLayer) -> tuple[float, float]:
    """Return the seconds of a tapped forward, and those of them that `on_layer` took."""
    inside = 0.0

    def measure(layer: TappedLayer) -> None:
        nonlocal inside
        start = time.perf_counter()
        on_layer(layer.alpha[0, 0].numpy(), layer.values[0].numpy(), layer.index)
        inside += time.perf_counter() - start

    start = time.perf_counter()
    tap(model.model, ids, measure)
    return time.perf_counter() - start, inside


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=1025)
    arguments = parser.parse_args()
    model = find(None).load()
    ids = torch.as_tensor(
        windows(topics(), model.tokenizer, length=arguments.tokens, count=1).token_ids.astype(
            np.int64
        )
    )
    what = parts(arguments.tokens)
    for on_layer in what.values():  # compile, and warm the caches
        time_with(model, ids, on_layer)
    plain: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in what}
    seconds: dict[str, list[float]] = {name: [] for name in what}
    for _ in range(arguments.rounds):
        for name, on_layer in what.items():
            before = time_plain(model, ids)
            total, inside = time_with(model, ids, on_layer)
            plain.append(before)
            ratios[name].append(total / before - 1)
            seconds[name].append(inside)
    print(
        f"{model.id}, {model.layers} layers, {arguments.tokens} tokens, {torch.get_num_threads()}"
        f" threads, {arguments.rounds} pairs"
    )
    print(f"{'plain forward':36s} {np.median(plain):6.3f} s")
    for name in what:
        print(
            f"{name:36s} {np.median(seconds[name]):6.3f} s inside, {np.median(ratios[name]):+6.3f}"
            " of a forward"
        )


if __name__ == "__main__":
    main()
