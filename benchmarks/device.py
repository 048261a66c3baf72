"""What measuring a layer on a device costs beside the plain forward, at the size of a 7B model.

    .venv/bin/python -m benchmarks.device [--kv-heads 8] [--rounds 7]

Where CUDA is: a Llama of 32 layers × 32 heads of 128 dimensions, random weights in bfloat16, made
in memory on the device, reads 1,025 tokens; the plain forward, the tap alone, and the tap with
parts of the measurement take turns. Printed: medians by CUDA events, the ratio to the plain
forward, and the share of an H100's bandwidth that the counted bytes reach. Where there is none it
says so, and prints what is counted alone: launches, FLOP and bytes of one layer, by part, and the
least time that an H100 would take for them. Bytes are those that each operation reads and writes
as it stands, without what caches spare.
"""

from __future__ import annotations

import argparse
import statistics
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

from empirical.capture.together import LAYERS as TOGETHER
from empirical.capture.waiting import to_host
from empirical.measure.device import layer as on_device
from empirical.measure.device import nulls, queries
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
LAUNCH = 4e-6
"""Seconds that Python and torch take to launch one operation, roughly."""
Part = Callable[[torch.Tensor, torch.Tensor], dict]


def rows_of(alpha: torch.Tensor) -> list[Row]:
    """The last `QUERIES` queries of a window, all with the weights of the last, cut to fit."""
    tokens = alpha.shape[1]
    ends = range(tokens - QUERIES, tokens)
    return [Row(position=at, first=0, alpha=alpha[:, : at + 1]) for at in ends]


def parts(tokens: int) -> dict[str, Part]:
    """What is measured of a layer, of α, (head, token), and values, (kv_head, token, dimension)."""
    geometry = partial(on_device.measure_layer, n=None, sink=True)
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
    def least(self) -> float:
        """Least seconds on an H100: bytes at its bandwidth, products in float32."""
        return max(self.bytes / BANDWIDTH, self.flop / SINGLE)

    @property
    def launching(self) -> float:
        """Seconds in which Python launches what is asked."""
        return self.launches * LAUNCH


class Counter(TorchDispatchMode):
    """Counts operations that do work, and the bytes each reads and writes; a view does none."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = self.bytes = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
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
    """Count a part of one layer, measured together with others, on tensors without numbers, so at
    full size on any machine.
    """
    alpha = torch.empty(TOGETHER * HEADS, tokens, device="meta")
    values = torch.empty(TOGETHER * kv_heads, tokens, DIMENSION, device="meta")
    part(alpha, values)  # grids and bins are laid out once
    with Counter() as counter:
        part(alpha, values)
    with FlopCounterMode(display=False) as flop:
        part(alpha, values)
    asked = (counter.launches, flop.get_total_flops(), counter.bytes)
    return Cost(*(round(one / TOGETHER) for one in asked))


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
        one.numel()
        for name, one in made(kv_heads, tokens, "meta").named_parameters()
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
        f"{'ratio':>7}{'launched':>10}"
    )
    for name, cost in costs.items():
        share, ratio = LAYERS * cost.flop / flop, 1 + LAYERS * cost.least / plain
        launched = 1 + LAYERS * max(cost.least, cost.launching) / plain
        print(
            f"{name:<24}{cost.launches:9d}{cost.flop / 1e9:9.2f}{cost.bytes / 1e6:9.0f}"
            f"{share:12.2%}{1e6 * cost.least:10.0f}{ratio:7.2f}{launched:10.2f}"
        )
    print(
        f"ratio: (forward + {LAYERS} layers of the part) / forward, bytes at 3.35 TB/s; launched:"
        f" the same if each launch took {1e6 * LAUNCH:.0f} µs and hid nothing of the forward"
    )


def on_cuda(kv_heads: int, tokens: int, rounds: int) -> None:
    """Time the forward alone, the tap, and the tap with each part, in turns."""
    model = made(kv_heads, tokens, "cuda")
    ids = torch.randint(3, 32000, (1, tokens))
    there = ids.cuda()
    chosen = parts(tokens)

    def plain() -> None:
        with torch.no_grad():
            model(input_ids=there, use_cache=False)

    def tapped(part: Part | None) -> None:
        kept: list[torch.Tensor] = []
        alpha: list[torch.Tensor] = []
        values: list[torch.Tensor] = []

        def on_layer(layer: TappedLayer) -> None:
            if part is None:
                return
            alpha.append(layer.alpha[0, -1])
            values.append(layer.values[0])
            if len(alpha) == TOGETHER:
                found = part(torch.cat(alpha), torch.cat(values)).values()
                kept.extend(one for one in found if isinstance(one, torch.Tensor))
                alpha.clear()
                values.clear()

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    print(
        f"{LAYERS} layers × {HEADS} heads ({given.kv_heads} value heads) × {DIMENSION} dimensions,"
        f" {given.tokens} tokens, bfloat16"
    )
    if torch.cuda.is_available():
        on_cuda(given.kv_heads, given.tokens, given.rounds)
    else:
        print("no CUDA here: nothing is timed, operations are counted")
    costs = {
        name: counted(part, given.kv_heads, given.tokens)
        for name, part in parts(given.tokens).items()
    }
    table(costs, forward_flop(given.kv_heads, given.tokens))


if __name__ == "__main__":
    main()
