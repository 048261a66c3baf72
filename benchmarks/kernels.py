"""Time of each measurement kernel during the forward pass of the built-in model.

Each round runs the forward pass of one document plain, then with one kernel at each layer, which
reproduces the caches and threads of a capture. The script prints the median over rounds of (with /
plain − 1), in units of a plain forward pass and in seconds. `--layer` instead times the parts of
one layer of that shape with random values and no model, with the whole matrix of cosines and with
blocks of columns, in alternating rounds. Run: python -m benchmarks.kernels [--layer] [--rounds K]
[--tokens T]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from empirical.measure import layer as summaries
from empirical.measure import nulls, pairs
from empirical.measure.compiled import Task, spread
from empirical.measure.queries import Row
from empirical.measure.selection import Convention, default_n, separability
from empirical.sources.builtin import topics
from empirical.sources.models import LoadedModel, find
from empirical.sources.windows import windows
from empirical.tap.tap import TappedLayer, tap

OnLayer = Callable[[np.ndarray, np.ndarray, int], object]


def parts(tokens: int) -> dict[str, OnLayer]:
    """Return the timed functions of one layer's weights and values, by name."""
    grid, all_sizes = default_n(tokens), np.arange(1, tokens + 1)
    return {
        "tap alone": lambda alpha, values, layer: None,
        "separability, default n": lambda alpha, values, layer: separability(alpha, values, grid),
        "separability, every N": lambda alpha, values, layer: separability(
            alpha, values, all_sizes
        ),
        "everything of /capture, default n": lambda alpha, values, layer: summaries.measure_layer(
            alpha, values, grid, sink=True
        ),
        "everything of /capture, every N": lambda alpha, values, layer: summaries.measure_layer(
            alpha, values, all_sizes, sink=True
        ),
        "null baselines, default n": lambda alpha, values, layer: nulls.measure_layer(
            [Row(position=alpha.shape[1] - 1, first=0, alpha=alpha)],
            values,
            grid,
            seed=(0, 0, layer),
        ),
    }


def time_layer(tokens: int) -> dict[str, float]:
    """Return the seconds of each part of a layer of 9 heads and 3 kv_heads, d = 64."""
    random = np.random.default_rng(0)
    alpha = random.exponential(size=(9, tokens)).astype(np.float32)
    alpha /= alpha.sum(axis=1, keepdims=True)
    cosines = pairs.Pairs(
        random.normal(size=(3, tokens, 64)).astype(np.float32),
        sink=True,
        offset=0,
        bins=summaries.lag_bins(tokens),
        blocks=summaries.position_blocks(tokens),
    )
    heads = summaries.Curves(alpha, cosines, None, Convention.PAPER)
    seconds = dict.fromkeys(("products", "heads", "sums by lag"), 0.0)

    def timed(name: str, tasks: list[Task]) -> None:
        start = time.perf_counter()
        spread(tasks)
        seconds[name] += time.perf_counter() - start

    spread(cosines.normalise())
    for blocks in cosines.batches():
        timed("products", [task for block in blocks for task in cosines.fill(block)])
        timed("heads", [task for block in blocks for task in heads.add(block)])
        timed("sums by lag", [task for block in blocks for task in cosines.add(block)])
    return seconds | {"all": sum(seconds.values())}


def parts_of_a_layer(tokens: int, rounds: int) -> None:
    """Print the median seconds of each part, for the whole matrix and for blocks of columns."""
    layouts = {"whole": pairs.WHOLE, "in columns": pairs.CELLS}
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in layouts}
    for _ in range(rounds + 1):  # the first round compiles and warms the caches
        for name, cells in layouts.items():
            pairs.WHOLE = cells  # type: ignore[misc]
            taken[name].append(time_layer(tokens))
    print(f"{tokens} tokens, {torch.get_num_threads()} threads, median of {rounds} rounds, seconds")
    for name, rows in taken.items():
        medians = {part: np.median([row[part] for row in rows[1:]]) for part in rows[0]}
        print(
            f"{name:12s} " + ", ".join(f"{part} {median:.2f}" for part, median in medians.items())
        )


def time_plain(model: LoadedModel, ids: torch.Tensor) -> float:
    """Return the seconds of a plain forward of the decoder."""
    decoder = model.model.get_decoder()
    start = time.perf_counter()
    with torch.inference_mode():
        decoder(ids, use_cache=False)
    return time.perf_counter() - start


def time_with(model: LoadedModel, ids: torch.Tensor, on_layer: OnLayer) -> tuple[float, float]:
    """Return the seconds of a tapped forward pass, and of `on_layer` within it."""
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
    parser.add_argument("--layer", action="store_true")
    arguments = parser.parse_args()
    if arguments.layer:
        parts_of_a_layer(arguments.tokens, arguments.rounds)
        return
    model = find(None).load()
    ids = torch.as_tensor(
        windows(topics(), model.tokenizer, length=arguments.tokens, count=1).token_ids.astype(
            np.int64
        )
    )
    kernels = parts(arguments.tokens)
    for on_layer in kernels.values():  # compile and warm the caches
        time_with(model, ids, on_layer)
    plain: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in kernels}
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    for _ in range(arguments.rounds):
        for name, on_layer in kernels.items():
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
    for name in kernels:
        print(
            f"{name:36s} {np.median(seconds[name]):6.3f} s inside, {np.median(ratios[name]):+6.3f}"
            " of a forward"
        )


if __name__ == "__main__":
    main()
