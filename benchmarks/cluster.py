"""Scaling of a capture with Dask workers, and cost of the process that writes the store, on the
built-in model.

    .venv/bin/python -m benchmarks.cluster [--rounds 3] [--documents 8] [--length 256]

All default measurements of `geostat run`. Models are loaded and kernels compiled before timing;
each worker, and the single process, has one thread. *Strong*: equal number of documents in total;
*weak*: equal number per worker. The script prints medians over alternating rounds and the ratio to
one worker.

The writer (`--writer` alone) handles documents of 1,024 tokens until the last shard is settled. It
packs a document, receives it packed, or finds it on a shared disk, on which two other processes
write the shards. The script also times measured envelopes on one thread; they always run on the
CPU.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import empirical  # noqa: F401  # isort: skip - before torch, as the command does

import torch

from benchmarks.capture import first
from empirical.capture.capture import capture
from empirical.capture.cluster.clustered import Clustered, clustered
from empirical.capture.layer_view import RunShape
from empirical.capture.measuring import Batch, Measuring
from empirical.capture.observers import (
    Baselines,
    Buffers,
    Geometry,
    Observer,
    QueryMeans,
    Ranks,
    Sinks,
)
from empirical.capture.source import Tapped
from empirical.measure.selection import Convention, default_n
from empirical.sources import builtin, models
from empirical.sources import windows as corpus
from empirical.store.journal import entry_of, place_beside
from empirical.store.layout import Encoder
from empirical.store.shards import DOCUMENTS, Drafts, drafted
from empirical.store.store import Store
from geostat.bounds.own_cosines import MeasuredEnvelope
from geostat.runs.options import CaptureOptions

OBSERVERS: Sequence[Observer] = [
    Geometry(),
    Baselines(),
    MeasuredEnvelope(),
    Sinks(),
    Ranks(),
    QueryMeans(),
]
WORKERS = (1, 2)
WHOLE = 1024
"""Tokens of the written document, the default of `geostat run`."""


def measured_by(
    source: models.LoadedModel | Clustered, windows: corpus.Windows, folder: Path
) -> float:
    """Return seconds of a capture from its first task until the last shard is settled, without the
    parity check.
    """
    marks: list[float] = []
    settings = CaptureOptions(length=windows.token_ids.shape[1])
    capture(
        source,
        windows,
        folder / "run.zarr",
        observers=OBSERVERS,
        n=default_n(settings.length),
        queries=settings.analysed,
        on_progress=lambda progress: marks.append(time.perf_counter()),
    )
    seconds = time.perf_counter() - marks[0]
    shutil.rmtree(folder / "run.zarr")
    return seconds


def scaling(
    model: models.LoadedModel, windows: corpus.Windows, documents: int, rounds: int
) -> None:
    taken: dict[tuple[str, int], list[float]] = {}
    per_worker = documents // max(WORKERS)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        sources: dict[int, models.LoadedModel | Clustered] = {0: model}
        for count in WORKERS:
            torch.set_num_threads(count)  # one thread per worker
            load = partial(models.load_named, None, device="cpu")
            sources[count] = opened.enter_context(clustered(f"local:{count}", load))
        torch.set_num_threads(1)
        for workers, source in sources.items():  # loads the model and the cached kernels
            measured_by(source, first(windows, 2 * max(workers, 1)), folder)
        for _ in range(rounds):
            for workers, source in sources.items():
                for kind, number in {
                    "strong": documents,
                    "weak": max(workers, 1) * per_worker,
                }.items():
                    seconds = measured_by(source, first(windows, number), folder)
                    taken.setdefault((kind, workers), []).append(seconds / number)
                    line = f"{kind}, {workers} workers, {number} documents: {seconds:.1f} s"
                    print(line, file=sys.stderr, flush=True)
    print("| | workers | seconds per document | throughput / that of one worker |")
    print("|---|---|---|---|")
    for (kind, workers), seconds_taken in sorted(taken.items()):
        label = f"{workers} workers" if workers else "one process, no cluster"
        base, median = statistics.median(taken[kind, 1]), statistics.median(seconds_taken)
        spread = f"{median:.2f} ({min(seconds_taken):.2f}-{max(seconds_taken):.2f})"
        print(f"| {kind} | {label} | {spread} | {base / median:.2f} |")


def writer(model: models.LoadedModel, windows: corpus.Windows) -> None:
    """Print the writer's time per document in each mode."""
    length = windows.token_ids.shape[1]
    queries = CaptureOptions(length=length).analysed
    source = Tapped(model)
    shape = RunShape(
        **source.sizes,
        positions=length,
        n=default_n(length),
        convention=Convention.PAPER,
        seed=0,
        queries=queries,
    )
    measuring = Measuring(observers=OBSERVERS, shape=shape, where="cpu")
    done = measuring.batch(source, Batch.of(windows, range(1)), None)  # type: ignore[arg-type]
    marks: list[float] = []
    plans = measuring.seeing(done.visible).plans()
    row, buffers = done.rows[0], done.contents[0]
    assert isinstance(buffers, Buffers)
    arrays = buffers.arrays
    bare = replace(measuring, observers=[MeasuredEnvelope()])
    for observers in (bare, replace(bare, observers=[])):  # kernels are compiled by now
        started = time.perf_counter()
        observers.batch(source, Batch.of(windows, range(1)), None)  # type: ignore[arg-type]
        marks.append(time.perf_counter() - started)
    print(f"measured envelopes: {marks[0] - marks[1]:.2f} s per document, one thread")
    entry = entry_of(row, Encoder.planned(plans).chunks(row["name"], arrays))
    assert isinstance(entry.data, bytes)
    megabytes = len(entry.data) / 1e6
    print(f"a document of {sum(map(len, arrays.values()))} arrays: {megabytes:.2f} MB")
    for mode in ("packs the document", "receives it packed", "finds it on a shared disk"):
        with tempfile.TemporaryDirectory() as folder, place_beside(Path(folder) / "run") as place:
            entries = [entry] * (2 * DOCUMENTS - 1)
            if mode == "finds it on a shared disk":
                entries = [place.hand_over(entry) for entry in entries]
            store = Store.create(
                Path(folder) / "run.zarr", provenance={}, plan=plans, documents=2 * DOCUMENTS
            )
            store.append_entry(entry)  # the store is laid out
            with ProcessPoolExecutor(2) as pool:
                if mode == "finds it on a shared disk":
                    store.drafting = partial(by_two, pool)
                clock, cpu = time.perf_counter(), time.process_time()
                for packed in entries:
                    if mode == "packs the document":
                        store.append(row, arrays)
                    else:
                        store.append_entry(packed)
                store.settle(store.drafting)
                wall_ms, cpu_ms = [
                    1e3 * (now - then) / len(entries)
                    for now, then in ((time.perf_counter(), clock), (time.process_time(), cpu))
                ]
        print(
            f"the writer {mode}: {wall_ms:.1f} ms per document, {cpu_ms:.1f} CPU ms;"
            f" {1e3 * megabytes / wall_ms:.0f} MB/s"
        )


def by_two(pool: Executor, folder: Path, documents: range) -> Drafts:
    """Write the shards in two other processes, like two workers."""
    shares = [slice(first, None, 2) for first in range(2)]
    tasks = [pool.submit(drafted, folder, documents, share, ".other") for share in shares]
    return [draft for task in tasks for draft in task.result()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--writer", action="store_true", help="time only the writer")
    parser.add_argument("--scaling", action="store_true", help="time only the workers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = models.find(None).load()
    cut = partial(corpus.windows, builtin.topics(), model.tokenizer, count=1)
    if not options.scaling:
        writer(model, cut(length=WHOLE))
    if not options.writer:
        scaling(model, cut(length=options.length), options.documents, options.rounds)


if __name__ == "__main__":
    main()
