"""Cost of many documents: seconds and peak memory of fits, bounds and page by number of documents,
and the increments per document.

    .venv/bin/python -m benchmarks.documents
    .venv/bin/python -m benchmarks.documents --documents 64,256,1024 --layers 1 --heads 4 --held 0
    .venv/bin/python -m benchmarks.documents --documents 10000 --layers 4 --heads 256 --kv-heads 8 \
        --tokens 16 --dimension 16 --n 1,2,3,4,6,8,12 --out /tmp/many

Tensors are synthetic: weights with a sink and large recent weights, values whose cosines decay with
the lag. Each stage runs in a separate process. Its peak is that of anonymous memory (RssAnon,
Linux, sampled every 5 ms), including libraries; the system can reclaim pages of mapped files.
`--held`: size in bytes from which a group is memory-mapped. `--entries`: array entries that are
processed together; a small value lets small runs reach the limit of large ones. `--out`: folder
that keeps the stores; documents already measured there are kept.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import geostat as gs
from empirical.store import stored_run
from geostat.statistics import arrays

STAGES: Final = ("fit", "confront", "report")
MEASURED: Final = """
import sys, threading, time
from empirical.store import stored_run
from geostat.cli.app import main
from geostat.statistics import arrays
arrays.ENTRIES = int(sys.argv.pop())
stored_run.HELD = int(sys.argv.pop())
sys.argv[:] = ["geostat", *sys.argv[1:], "--quiet"]
peak, over = 0, threading.Event()
def look():
    global peak
    while not over.wait(0.005):
        status = open("/proc/self/status", encoding="utf-8").read()
        peak = max(peak, int(status.split("RssAnon:")[1].split()[0]) / 1024)
looking = threading.Thread(target=look)
looking.start()
started = time.perf_counter()
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
finally:
    over.set()
    looking.join()
print(time.perf_counter() - started, peak)
"""
"""Program that runs one stage and prints its seconds and its peak memory in MB (Linux)."""


def layer(
    random: np.random.Generator, heads: int, kv_heads: int, tokens: int, dimension: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weights (head, token) and values (kv_head, token, dimension) of one layer."""
    logits = random.normal(size=(heads, tokens)) + 3 * np.exp(np.arange(1 - tokens, 1) / 8)
    logits[:, 0] += 4
    weights = np.exp(logits)
    values = random.normal(size=(kv_heads, tokens, dimension))
    for index in range(1, tokens):
        values[:, index] = 0.8 * values[:, index - 1] + 0.6 * values[:, index]
    values += 1
    values[:, 0] *= 0.2
    return (
        (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32),
        values.astype(np.float32),
    )


def documents(count: int, layers: int, *sizes: int) -> Iterator[Iterator[object]]:
    """Yield the tensors of `count` documents, layer by layer; a document is equal in every run."""
    for document in range(count):
        random = np.random.default_rng(document)
        yield (layer(random, *sizes) for _ in range(layers))


def stage(name: str, run: Path, *limits: int) -> tuple[float, float]:
    """Return seconds and peak memory in MB of one stage, with --held and --entries."""
    words = [sys.executable, "-c", MEASURED, name, str(run), *map(str, limits)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()[-2:]
    return float(seconds), float(peak)


def slope(counts: list[int], values: list[float]) -> float:
    """Return the increment per document between the two largest numbers of documents."""
    return (values[-1] - values[-2]) / (counts[-1] - counts[-2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="16,64,256")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument(
        "--kv-heads", type=int, help="KV heads per layer; default: a quarter of the heads"
    )
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--n", default="default", help="sizes N, in the format of geostat capture")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--held", type=int, default=stored_run.HELD)
    parser.add_argument("--entries", type=int, default=arrays.ENTRIES)
    options = parser.parse_args()
    counts = [int(text) for text in options.documents.split(",")]
    kv_heads = options.kv_heads or max(1, options.heads // 4)
    sizes = (options.heads, kv_heads, options.tokens, options.dimension)
    heads = options.layers * options.heads
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in STAGES}
    print(f"{heads} heads, {options.tokens} tokens\n")
    print("| documents | measured s | " + " | ".join(f"{name} s | MB" for name in STAGES) + " |")
    print("|---" * (2 + 2 * len(STAGES)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            out = (options.out or Path(folder)) / str(count)
            started = time.perf_counter()
            tensors = documents(count, options.layers, *sizes)
            gs.from_tensors(tensors, count=count, layers=options.layers, out=out, n=options.n)
            cells = [f"{time.perf_counter() - started:.1f}"]
            for name in STAGES:
                results[name].append(stage(name, out, options.held, options.entries))
                cells += [f"{results[name][-1][0]:.1f}", f"{results[name][-1][1]:.0f}"]
            print(f"| {count} | " + " | ".join(cells) + " |", flush=True)
    if len(counts) == 1:
        return
    print()
    for name in STAGES:
        seconds, peak = (
            slope(counts, [result[part] for result in results[name]]) / heads for part in (0, 1)
        )
        print(f"{name}: a document adds {1e3 * seconds:.2f} ms and {1e3 * peak:.2f} kB per head")


if __name__ == "__main__":
    main()
