"""Cost of measuring a layer on a GPU relative to the plain forward pass, for a model of 7B shape.

    .venv/bin/python -m benchmarks.device [--kv-heads 8] [--rounds 7]

With CUDA: a Llama of 32 layers × 32 heads of 128 dimensions with random bfloat16 weights reads
1,025 tokens. The plain forward pass, the tap alone, and the tap with parts of the measurement
alternate. The script prints medians by CUDA events, the ratio to the plain forward pass, and the
share of an H100's bandwidth that the counted bytes reach.

Without CUDA: the script prints only counts, namely launches, FLOP and bytes of one layer by part,
and the minimum time of an H100. Bytes are all reads and writes of each operation, without caching.
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

from empirical.capture.layer_view import LAYERS as TOGETHER
from empirical.capture.layer_view import to_host
from empirical.measure.device import layer as on_device
from empirical.measure.device import nulls, queries
from empirical.measure.permutations import Permutations
from empirical.measure.queries import Row
from empirical.tap.tap import TappedLayer, tap

LAYERS, HEADS, DIMENSION, TOKENS, QUERIES = 32, 32, 128, 1025, 16
BANDWIDTH = 3.35e12
"""Bytes per second of an H100 (SXM), by its data sheet."""
HALF, SINGLE = 989e12, 67e12
"""FLOP per second of an H100's bfloat16 and float32 products, by its data sheet."""
ACHIEVED = 0.6
"""Assumed share of the bfloat16 peak in a plain forward pass of this size."""
LAUNCH = 4e-6
"""Approximate seconds that Python and torch need to launch one operation."""
Part = Callable[[torch.Tensor, torch.Tensor], dict]


def rows_of(alpha: torch.Tensor) -> list[Row]:
    """Return the last `QUERIES` queries of a window, with truncated weights of the last query."""
    tokens = alpha.shape[1]
    ends = range(tokens - QUERIES, tokens)
    return [Row(position=index, first=0, alpha=alpha[:, : index + 1]) for index in ends]


def parts(tokens: int) -> dict[str, Part]:
    """Return the parts of the measurement of a layer: functions of α, (head, token), and values,
    (kv_head, token, dimension).
    """
    geometry = partial(on_device.measure_layer, n=None, sink=True)
    all_sizes = np.arange(1, tokens + 1)
    sizes = [1, *range(2, 65), *np.geomspace(66, tokens - QUERIES, 96).astype(int).tolist()]

    def baselines(alpha: torch.Tensor, values: torch.Tensor) -> dict:
        # Fixed draws: meta tensors have no generator.
        row = Row(position=alpha.shape[1] - 1, first=0, alpha=alpha)
        draw = Permutations.draw(np.random.SeedSequence(0), *values.shape[:2])
        orders = [alpha.argsort(dim=-1)]
        return nulls.measure_drawn(
            [row], values, None, orders=orders, drawn=values, permutations=[draw]
        )

    return {
        "geometry": lambda alpha, values: geometry(alpha, values),
        "geometry, every N": lambda a, v: on_device.measure_layer(a, v, all_sizes, sink=True),
        "baselines": baselines,
        f"means over {QUERIES} queries": lambda a, v: queries.measure_layer(rows_of(a), v, sizes),
    }


@dataclass(slots=True)
class Cost:
    """Operations of one part on the device, per layer."""

    launches: int = 0
    flop: int = 0
    bytes: int = 0

    @property
    def least(self) -> float:
        """Return the minimum seconds on an H100: bytes at its bandwidth, products in float32."""
        return max(self.bytes / BANDWIDTH, self.flop / SINGLE)

    @property
    def launching(self) -> float:
        """Return the seconds in which Python launches the operations."""
        return self.launches * LAUNCH


class Counter(TorchDispatchMode):
    """Counter of operations, except views, and of the bytes that each reads and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = self.bytes = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = function(*args, **(kwargs or {}))
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        outputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        view = bool(outputs) and function.is_view
        if outputs and not view and "empty" not in function.overloadpacket.__name__:
            self.launches += 1
            tensors = {id(tensor): tensor for tensor in (*inputs, *outputs)}
            self.bytes += sum(map(stored_bytes, tensors.values()))
        return out


def stored_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements; expanded dimensions count once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return int(np.prod([n for n, step in sizes if step], dtype=np.int64)) * tensor.element_size()


def counted(part: Part, kv_heads: int, tokens: int) -> Cost:
    """Count the operations of a part per layer, over several layers together, on meta tensors (full
    size on any machine).
    """
    alpha = torch.empty(TOGETHER * HEADS, tokens, device="meta")
    values = torch.empty(TOGETHER * kv_heads, tokens, DIMENSION, device="meta")
    part(alpha, values)  # grids and bins are built once
    with Counter() as counter:
        part(alpha, values)
    with FlopCounterMode(display=False) as flop:
        part(alpha, values)
    totals = (counter.launches, flop.get_total_flops(), counter.bytes)
    return Cost(*(round(total / TOGETHER) for total in totals))


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


def random_model(kv_heads: int, tokens: int, device: str) -> LlamaModel:
    """Return the model with random weights, created on the device; on "meta" without values."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = LlamaModel(config(kv_heads, tokens)).eval()
    finally:
        torch.set_default_dtype(before)
    return model.requires_grad_(False)


def forward_flop(kv_heads: int, tokens: int) -> int:
    """Return the FLOP of the plain forward pass: two per weight and token, and attention's
    products.
    """
    weights = sum(
        parameter.numel()
        for name, parameter in random_model(kv_heads, tokens, "meta").named_parameters()
        if "embed" not in name
    )
    return 2 * weights * tokens + LAYERS * 4 * HEADS * DIMENSION * tokens**2 // 2


def table(costs: dict[str, Cost], flop: int) -> None:
    """Print the counts of one layer and the ratios to the forward pass."""
    plain = flop / (ACHIEVED * HALF)
    print(
        f"plain forward: {flop / 1e12:.1f} TFLOP, {1e3 * plain:.1f} ms at {ACHIEVED:.0%} of"
        f" {HALF / 1e12:.0f} TFLOP/s"
    )
    print(
        f"{'per layer':<24}{'launches':>9}{'GFLOP':>9}{'MB':>9}{'of forward':>12}{'µs, H100':>10}"
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
        f" the same with {1e6 * LAUNCH:.0f} µs per launch, without overlap with the forward pass"
    )


def on_cuda(kv_heads: int, tokens: int, rounds: int) -> None:
    """Time the forward pass, the tap, and the tap with each part, in rotated order."""
    model = random_model(kv_heads, tokens, "cuda")
    ids = torch.randint(3, 32000, (1, tokens))
    on_device_ids = ids.cuda()
    measured_parts = parts(tokens)

    def plain() -> None:
        with torch.no_grad():
            model(input_ids=on_device_ids, use_cache=False)

    def tapped(part: Part | None) -> None:
        results: list[torch.Tensor] = []
        alpha: list[torch.Tensor] = []
        values: list[torch.Tensor] = []

        def on_layer(layer: TappedLayer) -> None:
            if part is None:
                return
            alpha.append(layer.alpha[0, -1])
            values.append(layer.values[0])
            if len(alpha) == TOGETHER:
                arrays = part(torch.cat(alpha), torch.cat(values)).values()
                results.extend(array for array in arrays if isinstance(array, torch.Tensor))
                alpha.clear()
                values.clear()

        tap(model, ids, on_layer)
        if results:
            to_host(results)

    runs: dict[str, Callable[[], None]] = {"plain forward": plain, "tap": partial(tapped, None)}
    runs |= {name: partial(tapped, part) for name, part in measured_parts.items()}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(rounds + 2):  # two warm-up rounds
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
        if name in measured_parts and middle > tap_alone:
            moved = LAYERS * counted(measured_parts[name], kv_heads, tokens).bytes
            line += f"   {moved / (middle - tap_alone) / BANDWIDTH:4.0%} of 3.35 TB/s"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(
        f"{LAYERS} layers × {HEADS} heads ({options.kv_heads} KV heads) × {DIMENSION} dimensions,"
        f" {options.tokens} tokens, bfloat16"
    )
    if torch.cuda.is_available():
        on_cuda(options.kv_heads, options.tokens, options.rounds)
    else:
        print("no CUDA: operations are counted, nothing is timed")
    costs = {
        name: counted(part, options.kv_heads, options.tokens)
        for name, part in parts(options.tokens).items()
    }
    table(costs, forward_flop(options.kv_heads, options.tokens))


if __name__ == "__main__":
    main()
