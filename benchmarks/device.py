"""What measuring a layer on a device costs beside the plain forward, at the size of a 7B model.

    .venv/bin/python -m benchmarks.device [--kv-heads 8] [--rounds 7] [--compile]
    .venv/bin/python -m benchmarks.device --cpu

Where CUDA is: a Llama of 32 layers × 32 heads of 128 dimensions, random weights in bfloat16, made in
memory on the device, reads 1,025 tokens; the plain forward, the tap alone, and the tap with parts of
the measurement take turns. Printed: medians by CUDA events, the ratio to the plain forward, and the
share of the card's bandwidth that the counted bytes reach. Where there is none it says so, and
prints what is counted alone: operations, launches, FLOP and bytes of one layer, by part, and the
least time that an H100 would take for them. Bytes are those that each operation reads and writes as
it stands, without what caches spare.

With --cpu: torch on this machine's CPU beside the compiled loops, on one layer of the built-in
model, and how far the numbers are apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import empirical  # noqa: F401  # isort: skip - before torch, as the command does

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaModel

from empirical.capture.waiting import to_host
from empirical.measure.device import layer as on_device
from empirical.measure.device import nulls, queries
from empirical.measure.layer import measure_layer
from empirical.measure.queries import Row
from empirical.tap.tap import TappedLayer, tap

LAYERS, HEADS, DIMENSION, TOKENS, QUERIES = 32, 32, 128, 1025, 16
BANDWIDTH = 3.35e12
"""Bytes a second of an H100 (SXM), by its data sheet; of bfloat16 and of float32 products beside
it, FLOP a second.
"""
HALF, SINGLE = 989e12, 67e12
ACHIEVED = 0.6
"""Share of the bfloat16 peak that a plain forward of this size is taken to reach."""
Part = Callable[[torch.Tensor, torch.Tensor], dict]


def rows_of(alpha: torch.Tensor) -> list[Row]:
    """The last `QUERIES` queries of a window, all with the weights of the last, cut to fit."""
    tokens = alpha.shape[1]
    ends = range(tokens - QUERIES, tokens)
    return [Row(position=at, first=0, alpha=alpha[:, : at + 1]) for at in ends]


def parts(tokens: int, compile_it: bool) -> dict[str, Part]:
    """What is measured of a layer from α, (head, token), and values, (kv_head, token, dimension)."""
    geometry = partial(on_device.measure_layer, n=None, sink=True)
    if compile_it:
        geometry = torch.compile(geometry)
    every = np.arange(1, tokens + 1)
    sizes = [1, *range(2, 65), *np.geomspace(66, tokens - QUERIES, 96).astype(int).tolist()]

    def baselines(alpha: torch.Tensor, values: torch.Tensor) -> dict:
        # At given draws: tensors without numbers have no generator.
        return nulls.measure_drawn(alpha, values, None, orders=alpha.argsort(dim=-1), drawn=values)

    return {
        "geometry": lambda alpha, values: geometry(alpha, values),
        "geometry, every N": lambda a, v: on_device.measure_layer(a, v, every, sink=True),
        "baselines": baselines,
        f"means over {QUERIES} queries": lambda a, v: queries.measure_layer(rows_of(a), v, sizes),
    }


@dataclass(slots=True)
class Cost:
    """What a part asks of the device, a layer."""

    launches: int = 0
    flop: int = 0
    bytes: int = 0

    @property
    def seconds(self) -> float:
        """Least time on an H100: bytes at its bandwidth, products in float32."""
        return max(self.bytes / BANDWIDTH, self.flop / SINGLE)


class Counter(TorchDispatchMode):
    """Counts operations that do work, and the bytes that each reads and writes; a view does none."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        out = function(*args, **(kwargs or {}))
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        made = [one for one in tree_leaves(out) if isinstance(one, torch.Tensor)]
        view = bool(made) and function.is_view
        if made and not view and "empty" not in function.overloadpacket.__name__:
            self.launches += 1
            self.bytes += sum(map(held, {id(one): one for one in (*given, *made)}.values()))
        return out


def held(tensor: torch.Tensor) -> int:
    """Bytes that a tensor's elements take; those that an expanded one repeats count once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return int(np.prod([n for n, step in sizes if step], dtype=np.int64)) * tensor.element_size()


def counted(part: Part, kv_heads: int, tokens: int) -> Cost:
    """Count a part of one layer on tensors without numbers, so at full size on any machine."""
    alpha = torch.empty(HEADS, tokens, device="meta")
    values = torch.empty(kv_heads, tokens, DIMENSION, device="meta")
    part(alpha, values)  # grids and bins are laid out once
    with Counter() as counter:
        part(alpha, values)
    with FlopCounterMode(display=False) as flop:
        part(alpha, values)
    return Cost(counter.launches, flop.get_total_flops(), counter.bytes)


def config(kv_heads: int, tokens: int) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=HEADS * DIMENSION,
        intermediate_size=11008,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        vocab_size=32000,
        max_position_embeddings=max(tokens, 2048),
    )


def made(kv_heads: int, tokens: int, device: str) -> LlamaModel:
    """The model, random, on the device from the start; on "meta" without numbers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = LlamaModel(config(kv_heads, tokens)).eval()
    finally:
        torch.set_default_dtype(before)
    return model.requires_grad_(False)


def forward_flop(kv_heads: int, tokens: int) -> int:
    """FLOP of the plain forward: two a weight and token, and attention's two products."""
    weights = sum(
        one.numel() for name, one in made(kv_heads, tokens, "meta").named_parameters()
        if "embed" not in name
    )
    return 2 * weights * tokens + LAYERS * 4 * HEADS * DIMENSION * tokens**2 // 2


def table(costs: dict[str, Cost], flop: int) -> None:
    """Print the counts of one layer, and what they come to beside the forward."""
    plain = flop / (ACHIEVED * HALF)
    print(
        f"plain forward: {flop / 1e12:.1f} TFLOP, {1e3 * plain:.1f} ms at {ACHIEVED:.0%} of"
        f" {HALF / 1e12:.0f} TFLOP/s"
    )
    print(
        f"{'a layer':<24}{'launches':>9}{'GFLOP':>9}{'MB':>9}{'of forward':>12}{'µs, H100':>10}"
        f"{'ratio':>7}"
    )
    for name, cost in costs.items():
        share, ratio = LAYERS * cost.flop / flop, 1 + LAYERS * cost.seconds / plain
        print(
            f"{name:<24}{cost.launches:9d}{cost.flop / 1e9:9.2f}{cost.bytes / 1e6:9.0f}"
            f"{share:12.2%}{1e6 * cost.seconds:10.0f}{ratio:7.2f}"
        )
    print(
        "ratio: (forward + 32 layers of the part) / forward, if bytes went at 3.35 TB/s and nothing"
        " waited for a launch"
    )


def on_cuda(kv_heads: int, tokens: int, rounds: int, compile_it: bool) -> None:
    """Time the forward alone, the tap, and the tap with each part, in turns."""
    model = made(kv_heads, tokens, "cuda")
    ids = torch.randint(3, 32000, (1, tokens))
    there = ids.cuda()
    chosen = parts(tokens, compile_it)

    def plain() -> None:
        with torch.no_grad():
            model(input_ids=there, use_cache=False)

    def tapped(part: Part | None) -> None:
        kept: list[torch.Tensor] = []

        def on_layer(layer: TappedLayer) -> None:
            if part is not None:
                found = part(layer.alpha[0, -1], layer.values[0]).values()
                kept.extend(one for one in found if isinstance(one, torch.Tensor))

        tap(model, ids, on_layer)
        if kept:
            to_host(kept)

    runs: dict[str, Callable[[], None]] = {"plain forward": plain, "tap": partial(tapped, None)}
    runs |= {name: partial(tapped, part) for name, part in chosen.items()}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(rounds + 2):  # two to warm up
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            runs[name]()
            stop.record()
            torch.cuda.synchronize()
            if turn >= 2:
                taken[name].append(start.elapsed_time(stop) / 1e3)
    base = statistics.median(taken["plain forward"])
    tap_alone = statistics.median(taken["tap"])
    print(f"{torch.cuda.get_device_name()}, {rounds} rounds in rotated order")
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        line = f"{name:<24}{1e3 * middle:9.2f} ms   ratio {middle / base:5.2f}"
        if name in chosen and middle > tap_alone:
            moved = LAYERS * counted(chosen[name], kv_heads, tokens).bytes
            line += f"   {moved / (middle - tap_alone) / BANDWIDTH:4.0%} of 3.35 TB/s"
        print(line)


def on_cpu(tokens: int) -> None:
    """Time and compare both executions on one layer of the built-in model."""
    from empirical.sources import builtin_texts, models
    from empirical.sources import windows as corpus

    model = models.find(None).load()
    windows = corpus.windows(builtin_texts.topics(), model.tokenizer, length=tokens, count=1)
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    ids = torch.as_tensor(windows.token_ids.astype(np.int64))
    tap(model.model, ids, lambda layer: kept.append((layer.alpha[0, -1], layer.values[0])))
    middle = kept[len(kept) // 2]
    taken: dict[str, list[float]] = {"loops": [], "torch": []}
    for turn in range(8):
        for name in ("loops", "torch") if turn % 2 else ("torch", "loops"):
            measure: Any = measure_layer if name == "loops" else on_device.measure_layer
            started = time.perf_counter()
            measure(*middle, None, sink=True)
            if turn:  # the first compiles
                taken[name].append(time.perf_counter() - started)
    loops, other = (statistics.median(taken[name]) for name in ("loops", "torch"))
    print(
        f"one layer of {model.heads} heads, {tokens} tokens, default N, {torch.get_num_threads()}"
        f" threads: loops {1e3 * loops:.1f} ms, torch {1e3 * other:.1f} ms, ratio"
        f" {other / loops:.1f}"
    )
    apart: dict[str, float] = {}
    cells = differ = 0
    for alpha, values in kept:
        one = measure_layer(alpha, values, None, sink=True)
        two = {
            name: array.numpy()
            for name, array in on_device.measure_layer(alpha, values, None, sink=True).items()
        }
        for name, array in one.items():
            gap = np.abs(two[name].astype(float) - array) / (1 + np.abs(array))
            apart[name] = max(apart.get(name, 0.0), float(np.nanmax(gap, initial=0)))
        both = [(two[name] != one[name]) & ~np.isnan(one[name]) for name in ("precision", "recall")]
        cells, differ = cells + sum(map(np.size, both)), differ + sum(map(np.sum, both))
    print(f"of {cells} P and R of all layers {differ} differ, by at most", end=" ")
    print(f"{max(apart['precision'], apart['recall']):.2g}; others (|Δ|/(1 + |x|)) by at most:")
    for name, gap in sorted(apart.items(), key=lambda one: -one[1]):
        if name not in {"precision", "recall"}:
            print(f"    {name:<34}{gap:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="torch.compile the geometry")
    parser.add_argument("--cpu", action="store_true", help="torch beside the loops, on this CPU")
    given = parser.parse_args()
    if given.cpu:
        on_cpu(given.tokens)
        return
    print(
        f"{LAYERS} layers × {HEADS} heads ({given.kv_heads} value heads) × {DIMENSION} dimensions,"
        f" {given.tokens} tokens, bfloat16"
    )
    if torch.cuda.is_available():
        on_cuda(given.kv_heads, given.tokens, given.rounds, given.compile)
    else:
        print("no CUDA here: nothing is timed, operations are counted")
    costs = {
        name: counted(part, given.kv_heads, given.tokens)
        for name, part in parts(given.tokens, False).items()
    }
    table(costs, forward_flop(given.kv_heads, given.tokens))


if __name__ == "__main__":
    main()
