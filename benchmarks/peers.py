"""Comparison of geostat with other implementations of the same measurement, on one model in memory
and one document.

    .venv/bin/python -m benchmarks.peers [--rounds 7] [--length 1025] [--no-memory]
    .venv/bin/python -m benchmarks.peers --growth

The model has the built-in model's shape and random weights. Every implementation computes Precision
and Recall of every head at the last query, at the default N and at every N; geostat also computes
the rest of /capture. TransformerLens and nnsight cache only α's last row and v of each layer, and
use the same vectorised metric (torch, all heads and N of a layer at once; `ways`). They need a
separate environment with geostat's dependencies:

    python3 -m venv /tmp/peers
    /tmp/peers/bin/pip install -c constraints.txt torch transformer_lens nnsight
    /tmp/peers/bin/pip install -c constraints.txt numba xarray zarr gguf
    PYTHONPATH=. /tmp/peers/bin/python -m benchmarks.peers

Missing packages are skipped and reported. Implementations run in an order that rotates each round.
The script prints versions, median seconds per document, the ratio to the plain forward pass, and
the peak memory of a separate process. `--growth`: seconds and memory of the forward pass and of a
capture at 1,025 to 8,193 tokens, and the exponents between these lengths.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import empirical  # noqa: F401  # isort: skip - before torch, as the command does

import numpy as np
import torch

from benchmarks.capture import ONCE, first, peak_memory, reset_peak
from benchmarks.ways import (
    VOCABULARY,
    Layers,
    eager,
    measured,
    nnsight,
    random_model,
    transformer_lens,
)
from empirical.capture.capture import Progress, capture
from empirical.capture.observers import Baselines, Geometry
from empirical.capture.source import Tapped
from empirical.measure.selection import default_n, separability
from empirical.sources.models import LoadedModel, loaded
from empirical.sources.windows import Windows

PACKAGES = {"TransformerLens": "transformer_lens", "nnsight": "nnsight"}
LENGTHS = (1025, 2049, 4097, 8193)
Run = Callable[[], Any]


def one_window(length: int) -> Windows:
    """Return a document of random tokens."""
    ids = np.random.default_rng(0).integers(3, VOCABULARY, (1, length)).astype(np.int32)
    digest = ("0" * 64,)
    return Windows(
        token_ids=ids,
        names=("0",),
        sha256=digest,
        text_sha256=digest,
        skipped=0,
        corpus="random tokens",
        special_tokens="none",
    )


class Unchecked(Tapped):
    """Tap without the parity check, which runs once per run."""

    def check(self, *_: Any) -> dict[str, Any]:
        return {"checked": False}


def captured(
    model: LoadedModel, windows: Windows, observers: list, n: np.ndarray, documents: int = 1
) -> float:
    """Return seconds per document of a capture, after the layout of the store."""
    marks: dict[int, float] = {}

    def note(progress: Progress) -> None:
        marks.setdefault(progress.documents, time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        several = first(windows, ONCE + documents)
        capture(
            Unchecked(model),
            several,
            Path(folder) / "run.zarr",
            observers=observers,
            n=n,
            on_progress=note,
        )
    return (marks[ONCE + documents] - marks[ONCE]) / documents


def seconds(run: Run) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def contenders(length: int, names: list[str] | None = None) -> dict[str, Callable[[], float]]:
    """Return timed functions of one document, by name: all, or those in `names`."""
    model, windows = random_model(), one_window(length)
    ids, n = torch.as_tensor(windows.token_ids.astype(np.int64)), default_n(length)

    def forward() -> None:
        with torch.no_grad():
            model.model(ids, use_cache=False)

    def metric(
        layers: Callable[[torch.Tensor], Layers], sizes: np.ndarray, *, loop: bool = False
    ) -> float:
        return seconds(lambda: measured(layers(ids), sizes, loop=loop))

    model_of_geostat = loaded(
        model, None, id="random", revision=None, sha256=None, dtype="float32", device="cpu"
    )
    all_sizes = np.arange(1, length + 1)
    both = [Geometry(), Baselines()]
    out: dict[str, Callable[[], float]] = {
        "plain fused forward": lambda: seconds(forward),
        "geostat, default N": partial(captured, model_of_geostat, windows, [Geometry()], n),
        "geostat, every N": partial(captured, model_of_geostat, windows, [Geometry()], all_sizes),
        "geostat, default N, nulls": partial(captured, model_of_geostat, windows, both, n),
        "eager, vectorised": partial(metric, partial(eager, model), n),
        "eager, vectorised, every N": partial(metric, partial(eager, model), all_sizes),
        "eager, NumPy loop": partial(metric, partial(eager, model), n, loop=True),
    }
    for name, make in (("TransformerLens", transformer_lens), ("nnsight", nnsight)):
        both_of_it = {name: n, f"{name}, every N": all_sizes}
        selected = names is None or set(names) & set(both_of_it)
        if selected and importlib.util.find_spec(PACKAGES[name]):
            layers = make(random_model() if names is None else model)
            out |= {label: partial(metric, layers, part) for label, part in both_of_it.items()}
    return out


def agree(length: int) -> None:
    """Assert that all implementations agree with geostat's Precision and Recall, except at ties."""
    model, windows = random_model(), one_window(length)
    ids, n = torch.as_tensor(windows.token_ids.astype(np.int64)), default_n(length)
    taken: dict[str, Callable[[torch.Tensor], Layers]] = {"eager": partial(eager, model)}
    for name, make in (("TransformerLens", transformer_lens), ("nnsight", nnsight)):
        if importlib.util.find_spec(PACKAGES[name]):
            taken[name] = make(random_model())
    for name, layers in taken.items():
        arrays = layers(ids)
        found = measured(arrays, n)
        by_layer = [separability(a, v, n) for a, v in arrays]
        expected = np.stack(
            [
                np.stack([np.asarray(layer[key]) for layer in by_layer])
                for key in ("precision", "recall")
            ]
        )
        apart = np.abs(found - expected)
        print(f"{name}: P and R differ from geostat's in {(apart > 1e-6).mean():.2%} of the cells")
        assert (apart > 1e-6).mean() < 0.01, name


def memory(name: str, length: int) -> int:
    """Return the peak memory of a process that runs one implementation, in MB."""
    command = [sys.executable, "-m", "benchmarks.peers", "--peak", name, "--length", str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def compare(rounds: int, length: int, *, with_memory: bool) -> None:
    """Time all implementations in rotated order and print the table."""
    for package in ("torch", "transformers", *PACKAGES.values()):
        known = importlib.util.find_spec(package) is not None
        print(f"{package} {importlib.metadata.version(package) if known else 'missing: skipped'}")
    agree(257)
    runs = contenders(length)
    names, taken = list(runs), {name: [] for name in runs}  # type: ignore[var-annotated]
    for run in runs.values():
        run()  # compile and warm up
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            taken[name].append(runs[name]())
    del runs
    middle = {name: statistics.median(times) for name, times in taken.items()}
    base = names[0]
    print(f"{length} tokens, {torch.get_num_threads()} threads, median of {rounds} rounds")
    print("| | s a document | × forward | median of the rounds' ratios |\n|---|---|---|---|")
    for name in names:
        ratios = [seconds / other for seconds, other in zip(taken[name], taken[base], strict=True)]
        share = f"{middle[name] / middle[base]:.2f} | {statistics.median(ratios):.2f}"
        print(f"| {name} | {middle[name]:.2f} | {share} |", flush=True)
    if with_memory:
        peaks = [f"{name} {memory(name, length):,}" for name in names]
        print("peak memory, MB: " + ", ".join(peaks))


def growth() -> None:
    """Print seconds and memory by length, and the exponents of growth."""
    names = ("plain fused forward", "geostat, default N")
    measured_times: dict[str, list[float]] = {name: [] for name in names}
    print("| tokens | forward s | geostat s | ratio | forward MB | geostat MB |")
    print("|---|---|---|---|---|---|")
    for length in LENGTHS:
        runs = contenders(length, list(names))
        for name in names:
            runs[name]()
            measured_times[name].append(min(runs[name]() for _ in range(2)))
        del runs
        peaks = [memory(name, length) for name in names]
        plain, captured_seconds = (measured_times[name][-1] for name in names)
        times = f"{plain:.2f} | {captured_seconds:.2f} | {captured_seconds / plain:.2f}"
        print(f"| {length:,} | {times} | {peaks[0]} | {peaks[1]} |", flush=True)
    for name in names:
        slope = np.polyfit(np.log(LENGTHS), np.log(measured_times[name]), 1)[0]
        last = np.log(measured_times[name][-1] / measured_times[name][-2]) / np.log(
            LENGTHS[-1] / LENGTHS[-2]
        )
        print(f"{name}: seconds grow as length to the {slope:.2f}, {last:.2f} between the last two")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--length", type=int, default=1025)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--peak")
    options = parser.parse_args()
    if options.peak:
        run = contenders(options.length, [options.peak])[options.peak]
        reset_peak()
        run()
        print(peak_memory())
    elif options.growth:
        growth()
    else:
        compare(options.rounds, options.length, with_memory=not options.no_memory)


if __name__ == "__main__":
    main()
