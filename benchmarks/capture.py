"""What a capture costs beside the plain forward: time and memory, on the built-in model.

    .venv/bin/python -m benchmarks.capture [--pairs 7] [--length 1025]

Time: the decoder's plain fused forward of a few documents and the capture of as many more (tap, every variable, store, manifest) take turns in one process;
what is done once a run (parity check, compilation) is over before. Printed, a document: medians, the ratio of medians, and the median ratio of pairs.
Memory: the peak of a process of its own for each.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from empirical import corpus, models, texts
from empirical.capture import capture
from empirical.observers import Baselines, Geometry
from empirical.selection import default_n

TOGETHER = 4
"""Documents a turn: opening the store is done once a run, not once a document."""
KINDS = ("default n", "every n", "default n and baselines")


def observers(kind: str) -> list:
    return [Geometry(), Baselines()] if "baselines" in kind else [Geometry()]


def sizes(kind: str, length: int) -> np.ndarray:
    return np.arange(1, length + 1) if kind.startswith("every") else default_n(length)


def first(windows: corpus.Windows, count: int) -> corpus.Windows:
    """The first `count` windows, the same document over and over under names of its own."""
    names = tuple(f"{index}" for index in range(count))
    return dataclasses.replace(
        windows,
        token_ids=np.repeat(windows.token_ids[:1], count, axis=0),
        names=names,
        document=np.arange(count),
        start=np.zeros(count, dtype=np.int64),
        sha256=windows.sha256[:1] * count,
        text_sha256=windows.text_sha256[:1] * count,
    )


def forward(model: models.LoadedModel, ids: torch.Tensor) -> float:
    started = time.perf_counter()
    with torch.no_grad():
        model.model.get_decoder()(ids, use_cache=False)
    return time.perf_counter() - started


def times(model: models.LoadedModel, windows: corpus.Windows, pairs: int) -> None:
    ids = torch.as_tensor(windows.token_ids[:1].astype(np.int64))
    length = ids.shape[1]
    with tempfile.TemporaryDirectory() as folder:
        done = dict.fromkeys(KINDS, 1)
        for kind in KINDS:  # parity, compilation and the first document are over before the clock starts
            capture(model, first(windows, 1), Path(folder) / f"{kind}.zarr", observers=observers(kind), n=sizes(kind, length))
        plain: list[float] = []
        taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(pairs):
            plain.append(sum(forward(model, ids) for _ in range(TOGETHER)) / TOGETHER)
            for kind in KINDS:
                done[kind] += TOGETHER
                more = first(windows, done[kind])
                started = time.perf_counter()
                capture(model, more, Path(folder) / f"{kind}.zarr", observers=observers(kind), n=sizes(kind, length))
                taken[kind].append((time.perf_counter() - started) / TOGETHER)
    base = statistics.median(plain)
    print(f"seconds a document of {length} tokens, {torch.get_num_threads()} threads, {pairs} pairs of {TOGETHER} documents taking turns")
    print(f"{'plain forward':<26}{base:7.3f} s")
    for kind in KINDS:
        ratios = [one / other for one, other in zip(taken[kind], plain, strict=True)]
        middle = statistics.median(taken[kind])
        print(f"{kind:<26}{middle:7.3f} s   ratio of medians {middle / base:5.2f}   median ratio {statistics.median(ratios):5.2f}")
    extra = (statistics.median(taken[KINDS[2]]) - statistics.median(taken[KINDS[0]])) / base
    print(f"baselines cost {extra:.2f} of a forward more")


def highest() -> int:
    """Most memory this process has held since `forget`, in MB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def forget() -> None:
    """Start the high-water mark afresh, so that loading the model does not hide what follows."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def peak(what: str, length: int) -> None:
    """Run one thing in this process and print the most memory it held, in MB."""
    model = models.load(None)
    windows = corpus.windows(texts.builtin(), model.tokenizer, length=length, count=1)
    ids = torch.as_tensor(windows.token_ids.astype(np.int64))
    with tempfile.TemporaryDirectory() as folder:
        run = partial(capture, model, path=Path(folder) / "run.zarr", observers=[Geometry(), Baselines()])
        if what != "forward":  # parity, whose eager weights are no part of a capture, is over with the first document
            run(windows=first(windows, 1), n=sizes(what, length))
        forward(model, ids)
        forget()
        if what == "forward":
            forward(model, ids)
        else:
            run(windows=first(windows, 3), n=sizes(what, length))
    print(highest())


def memory(length: int) -> None:
    found = {}
    for what in ("forward", "default n", "every n"):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.capture", "--peak", what, "--length", str(length)],
            capture_output=True,
            text=True,
            check=True,
        )
        found[what] = int(done.stdout.split()[-1])
    print(f"peak memory: forward {found['forward']} MB; capture {found['default n'] - found['forward']:+} MB at the default n, ", end="")
    print(f"{found['every n'] - found['forward']:+} MB at every n (baselines included)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--length", type=int, default=1025)
    parser.add_argument("--peak")
    given = parser.parse_args()
    if given.peak:
        peak(given.peak, given.length)
        return
    model = models.load(None)
    times(model, corpus.windows(texts.builtin(), model.tokenizer, length=given.length, count=1), given.pairs)
    memory(given.length)


if __name__ == "__main__":
    main()
