"""Fits, bounds and page of many documents: seconds and the peak of memory of each stage by the
number of documents, and what a document adds.

    .venv/bin/python -m benchmarks.documents
    .venv/bin/python -m benchmarks.documents --documents 64,256,1024 --layers 1 --heads 4 --held 0
    .venv/bin/python -m benchmarks.documents --documents 10000 --layers 4 --heads 256 --kv-heads 8 \
        --tokens 16 --dimension 16 --n 1,2,3,4,6,8,12 --out /tmp/many

Tensors are made up: weights with a sink and a recent past, values with a decay over lags, so that
fits have something to find. Each stage is a process of its own. Its peak is that of memory which no
file stands behind (RssAnon, Linux, looked at every 5 ms), libraries too: pages of mapped files are
the system's to take back. `--held`: bytes of a group from which it is mapped; `--entries`: of an
array that are looked at together, so that small runs reach the limit that large ones meet. `--out`:
where the stores stay; what is measured there is not measured again.
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
from empirical.store import mapped
from geostat.statistics import arrays

STAGES: Final = ("fit", "confront", "report")
MEASURED: Final = """
import sys, threading, time
from empirical.store import mapped
from geostat.cli.app import main
from geostat.statistics import arrays
arrays.ENTRIES = int(sys.argv.pop())
mapped.HELD = int(sys.argv.pop())
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
"""A stage in a process of its own: its seconds, and its peak in MB (Linux)."""


def layer(
    chance: np.random.Generator, heads: int, kv_heads: int, tokens: int, dimension: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights (head, token) and values (kv_head, token, dimension) of one layer of a document."""
    logits = chance.normal(size=(heads, tokens)) + 3 * np.exp(np.arange(1 - tokens, 1) / 8)
    logits[:, 0] += 4
    weights = np.exp(logits)
    values = chance.normal(size=(kv_heads, tokens, dimension))
    for at in range(1, tokens):
        values[:, at] = 0.8 * values[:, at - 1] + 0.6 * values[:, at]
    values += 1
    values[:, 0] *= 0.2
    return (
        (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32),
        values.astype(np.float32),
    )


def documents(count: int, layers: int, *sizes: int) -> Iterator[Iterator[object]]:
    """Tensors of so many documents, layer by layer; a document is the same in every run."""
    for document in range(count):
        chance = np.random.default_rng(document)
        yield (layer(chance, *sizes) for _ in range(layers))


def stage(name: str, run: Path, *limits: int) -> tuple[float, float]:
    """Seconds and peak in MB of one stage, with --held and --entries."""
    words = [sys.executable, "-c", MEASURED, name, str(run), *map(str, limits)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()[-2:]
    return float(seconds), float(peak)


def slope(counts: list[int], seen: list[float]) -> float:
    """What a document adds: the slope between the two largest numbers of documents."""
    return (seen[-1] - seen[-2]) / (counts[-1] - counts[-2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", default="16,64,256")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int, help="of a layer; a quarter of the heads")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--n", default="default", help="sizes N, as of geostat capture")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--held", type=int, default=mapped.HELD)
    parser.add_argument("--entries", type=int, default=arrays.ENTRIES)
    given = parser.parse_args()
    counts = [int(text) for text in given.documents.split(",")]
    kv_heads = given.kv_heads or max(1, given.heads // 4)
    sizes = (given.heads, kv_heads, given.tokens, given.dimension)
    heads = given.layers * given.heads
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in STAGES}
    print(f"{heads} heads, {given.tokens} tokens\n")
    print("| documents | measured s | " + " | ".join(f"{name} s | MB" for name in STAGES) + " |")
    print("|---" * (2 + 2 * len(STAGES)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            out = (given.out or Path(folder)) / str(count)
            started = time.perf_counter()
            made = documents(count, given.layers, *sizes)
            gs.from_tensors(made, count=count, layers=given.layers, out=out, n=given.n)
            cells = [f"{time.perf_counter() - started:.1f}"]
            for name in STAGES:
                seen[name].append(stage(name, out, given.held, given.entries))
                cells += [f"{seen[name][-1][0]:.1f}", f"{seen[name][-1][1]:.0f}"]
            print(f"| {count} | " + " | ".join(cells) + " |", flush=True)
    if len(counts) == 1:
        return
    print()
    for name in STAGES:
        seconds, peak = (
            slope(counts, [one[which] for one in seen[name]]) / heads for which in (0, 1)
        )
        print(f"{name}: a document adds {1e3 * seconds:.2f} ms and {1e3 * peak:.2f} kB a head")


if __name__ == "__main__":
    main()
