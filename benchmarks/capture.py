"""Cost of a capture relative to the plain forward pass: time and memory, on the built-in model.

    .venv/bin/python -m benchmarks.capture [--pairs 7] [--documents 8] [--length 1025]

Time: the decoder's plain fused forward pass over 8 documents and a capture of 8 documents (tap,
every variable, chunks, manifest) alternate in one process. One-time work (loading, compilation,
parity check, layout of the store) is done before. The script prints medians per document, the ratio
of medians, and the median ratio of pairs. Memory: the peak of a separate process for each.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import empirical  # noqa: F401  # isort: skip - before torch, as the command does

import numpy as np
import torch

from empirical.capture.capture import Progress, capture
from empirical.capture.observers import Baselines, Geometry
from empirical.measure.selection import default_n
from empirical.sources import builtin, models
from empirical.sources import windows as corpus

ONCE = 2
"""Documents before timing starts: the store is laid out after the second."""
KINDS = ("default n", "every n", "default n and baselines")


def observers(kind: str) -> list:
    return [Geometry(), Baselines()] if "baselines" in kind else [Geometry()]


def sizes(kind: str, length: int) -> np.ndarray:
    return np.arange(1, length + 1) if kind.startswith("every") else default_n(length)


def first(windows: corpus.Windows, count: int) -> corpus.Windows:
    """Return `count` copies of the first window under different names."""
    names = tuple(f"{index}" for index in range(count))
    return dataclasses.replace(
        windows,
        token_ids=np.repeat(windows.token_ids[:1], count, axis=0),
        names=names,
        sha256=windows.sha256[:1] * count,
        text_sha256=windows.text_sha256[:1] * count,
        kinds=windows.kinds[:1] * count,
    )


def forward(model: models.LoadedModel, ids: torch.Tensor) -> float:
    started = time.perf_counter()
    with torch.no_grad():
        model.model.get_decoder()(ids, use_cache=False)
    return time.perf_counter() - started


def timed(model: models.LoadedModel, windows: corpus.Windows, kind: str, folder: Path) -> float:
    """Return seconds per document of a capture into a new store, from the end of the second
    document (after parity check and layout of the store).
    """
    marks: dict[int, float] = {}

    def note(progress: Progress) -> None:
        marks.setdefault(progress.documents, time.perf_counter())

    path = folder / "run.zarr"
    capture(
        model,
        windows,
        path,
        observers=observers(kind),
        n=sizes(kind, windows.token_ids.shape[1]),
        on_progress=note,
    )
    seconds = time.perf_counter() - marks[ONCE]
    shutil.rmtree(path)
    return seconds / (len(windows.names) - ONCE)


def times(model: models.LoadedModel, windows: corpus.Windows, pairs: int, documents: int) -> None:
    ids = torch.as_tensor(windows.token_ids[:1].astype(np.int64))
    plain: list[float] = []
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:  # compiles before timing starts
            timed(model, first(windows, ONCE + 1), kind, Path(folder))
        for _ in range(pairs):
            plain.append(sum(forward(model, ids) for _ in range(documents)) / documents)
            for kind in KINDS:
                taken[kind].append(
                    timed(model, first(windows, ONCE + documents), kind, Path(folder))
                )
    base = statistics.median(plain)
    print(
        f"seconds per document of {ids.shape[1]} tokens, {torch.get_num_threads()} threads, {pairs}"
        f" alternating pairs of {documents} documents"
    )
    print(f"{'plain forward':<26}{base:7.3f} s")
    for kind in KINDS:
        ratios = [seconds / other for seconds, other in zip(taken[kind], plain, strict=True)]
        middle = statistics.median(taken[kind])
        print(
            f"{kind:<26}{middle:7.3f} s   ratio of medians {middle / base:5.2f}   median ratio"
            f" {statistics.median(ratios):5.2f}"
        )
    extra = [
        (with_them - without) / other
        for with_them, without, other in zip(taken[KINDS[2]], taken[KINDS[0]], plain, strict=True)
    ]
    print(f"baselines add {statistics.median(extra):.2f} of a forward pass (median of pairs)")


def peak_memory() -> int:
    """Return the peak memory of this process since `reset_peak`, in MB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def reset_peak() -> None:
    """Reset the recorded peak, to exclude the loading of the model."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def peak(what: str, length: int) -> None:
    """Run a forward pass or a capture in this process and print its peak memory in MB."""
    model = models.find(None).load()
    windows = corpus.windows(builtin.topics(), model.tokenizer, length=length, count=1)
    ids = torch.as_tensor(windows.token_ids.astype(np.int64))
    with tempfile.TemporaryDirectory() as folder:
        run = partial(
            capture, model, path=Path(folder) / "run.zarr", observers=[Geometry(), Baselines()]
        )
        if (
            what != "forward"
        ):  # the first document runs the parity check, which is not part of the peak
            run(windows=first(windows, 1), n=sizes(what, length))
        forward(model, ids)
        reset_peak()
        if what == "forward":
            forward(model, ids)
        else:
            run(windows=first(windows, 3), n=sizes(what, length))
    print(peak_memory())


def memory(length: int) -> None:
    result = {}
    for what in ("forward", "default n", "every n"):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.capture", "--peak", what, "--length", str(length)],
            capture_output=True,
            text=True,
            check=True,
        )
        result[what] = int(done.stdout.split()[-1])
    print(
        f"peak memory: forward {result['forward']} MB; capture"
        f" {result['default n'] - result['forward']:+} MB at the default n, ",
        end="",
    )
    print(f"{result['every n'] - result['forward']:+} MB at every n (baselines included)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--length", type=int, default=1025)
    parser.add_argument("--peak")
    options = parser.parse_args()
    if options.peak:
        peak(options.peak, options.length)
        return
    model = models.find(None).load()
    times(
        model,
        corpus.windows(builtin.topics(), model.tokenizer, length=options.length, count=1),
        options.pairs,
        options.documents,
    )
    memory(options.length)


if __name__ == "__main__":
    main()
