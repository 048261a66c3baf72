"""What a capture costs beside the plain forward: time and memory, on the built-in model.

    .venv/bin/python -m benchmarks.capture [--pairs 7] [--documents 8] [--length 1025]

Time: the decoder's plain fused forward of 8 documents and the capture of as many (tap, every
variable, chunks, manifest) take turns in one process; what is done once a run (loading,
compilation, parity check, layout of the store) is over before. Printed, a document: medians, the
ratio of medians, and the median ratio of pairs. Memory: the peak of a process of its own for each.
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
from empirical.measure.sizes import default_n
from empirical.sources import builtin_texts, models
from empirical.sources import windows as corpus

ONCE = 2
"""Documents before the clock starts: behind the second one the store is laid out."""
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
    """Seconds a document of a capture into a new store, once parity is checked and the store
    laid out: from the end of the second document on.
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
        for kind in KINDS:  # compilation is over before the clock starts
            timed(model, first(windows, ONCE + 1), kind, Path(folder))
        for _ in range(pairs):
            plain.append(sum(forward(model, ids) for _ in range(documents)) / documents)
            for kind in KINDS:
                taken[kind].append(
                    timed(model, first(windows, ONCE + documents), kind, Path(folder))
                )
    base = statistics.median(plain)
    print(
        f"seconds a document of {ids.shape[1]} tokens, {torch.get_num_threads()} threads, {pairs}"
        f" pairs of {documents} documents taking turns"
    )
    print(f"{'plain forward':<26}{base:7.3f} s")
    for kind in KINDS:
        ratios = [one / other for one, other in zip(taken[kind], plain, strict=True)]
        middle = statistics.median(taken[kind])
        print(
            f"{kind:<26}{middle:7.3f} s   ratio of medians {middle / base:5.2f}   median ratio"
            f" {statistics.median(ratios):5.2f}"
        )
    extra = [
        (with_them - without) / other
        for with_them, without, other in zip(taken[KINDS[2]], taken[KINDS[0]], plain, strict=True)
    ]
    print(f"baselines cost {statistics.median(extra):.2f} of a forward more (median of pairs)")


def highest() -> int:
    """Most memory this process has held since `forget`, in MB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def forget() -> None:
    """Start the high-water mark afresh, so that loading the model does not hide what follows."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def peak(what: str, length: int) -> None:
    """Run one thing in this process and print the most memory it held, in MB."""
    model = models.find(None).load()
    windows = corpus.windows(builtin_texts.topics(), model.tokenizer, length=length, count=1)
    ids = torch.as_tensor(windows.token_ids.astype(np.int64))
    with tempfile.TemporaryDirectory() as folder:
        run = partial(
            capture, model, path=Path(folder) / "run.zarr", observers=[Geometry(), Baselines()]
        )
        if (
            what != "forward"
        ):  # parity, whose eager weights are no part of a capture, is over with the first document
            run(windows=first(windows, 1), n=sizes(what, length))
        forward(model, ids)
        forget()
        if what == "forward":
            forward(model, ids)
        else:
            run(windows=first(windows, 3), n=sizes(what, length))
    print(highest())


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
    given = parser.parse_args()
    if given.peak:
        peak(given.peak, given.length)
        return
    model = models.find(None).load()
    times(
        model,
        corpus.windows(builtin_texts.topics(), model.tokenizer, length=given.length, count=1),
        given.pairs,
        given.documents,
    )
    memory(given.length)


if __name__ == "__main__":
    main()
