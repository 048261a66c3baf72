"""The store alone, without a model: files, folders and bytes of a run of many short documents, and
the seconds that writing, settling, checking and reading them take.

Arrays are those of the built-in model's shape and of what `geostat run` measures by default, filled
with random numbers; `--small` has 2 layers and short windows in place of that. Prints the peak of
memory that settling allocates, too.
"""

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from empirical.capture.layer_view import RunShape
from empirical.capture.observers import Baselines, Geometry, Sinks
from empirical.measure.convention import Convention
from empirical.measure.sizes import default_n
from empirical.store.layout import GroupPlan
from empirical.store.store import Store
from geostat.bounds.own_cosines import MeasuredEnvelope

Arrays = dict[str, dict[str, np.ndarray]]

ENDS = 64
"""Documents at the start and at the end of a run whose appending is compared."""


def plan(layers: int, heads: int, kv_heads: int, positions: int) -> dict[str, GroupPlan]:
    """What `geostat run` measures of a model of this shape."""
    shape = RunShape(
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        positions=positions,
        dimension=64,
        n=default_n(positions),
        convention=Convention.PAPER,
        seed=0,
        visible=(positions,) * layers,
    )
    observers = (Geometry(), Baselines(), MeasuredEnvelope(), Sinks())
    return {observer.group: observer.plan(shape) for observer in observers}


def arrays(groups: dict[str, GroupPlan]) -> Arrays:
    """Random numbers for one document."""
    rng = np.random.default_rng(0)
    return {
        group: {
            name: rng.standard_normal(held.shape(variable)).astype(variable.dtype)
            for name, variable in held.variables.items()
        }
        for group, held in groups.items()
    }


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds by the clock, and of the processor: the clock waits for the disk, and for others."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.2f} s ({self.processor:.2f} s of processor)"


def taken_by(act: Callable[[], object]) -> Taken:
    clock, processor = time.perf_counter(), time.process_time()
    act()
    return Taken(time.perf_counter() - clock, time.process_time() - processor)


def write(path: Path, groups: dict[str, GroupPlan], documents: int) -> None:
    """Write a run as a capture does, and print what that took."""
    values = arrays(groups)
    store = Store.create(path, provenance={}, plan=groups, documents=documents)
    taken = []
    for index in range(documents):
        row = {
            "name": f"document {index}",
            "kind": "random",
            "sha256": f"{index:064d}",
            "text_sha256": f"{index:064d}",
        }
        taken.append(taken_by(lambda: store.append(row, values)))  # noqa: B023
    tracemalloc.start()
    settled = taken_by(store.settle)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    clock, own = [one.clock for one in taken], [one.processor for one in taken]
    ends = [1e3 * float(np.median(part)) for part in (own[:ENDS], own[-ENDS:])]
    number = sum(a.nbytes for held in values.values() for a in held.values()) / 1e6
    print(f"{documents} documents of {sum(map(len, values.values()))} arrays, {number:.2f} MB each")
    print(
        f"append: {Taken(sum(clock), sum(own))}; median {ends[0]:.1f} ms of processor each of the"
        f" first {ENDS}, {ends[1]:.1f} of the last"
    )
    print(f"settle the rest: {settled}, at most {peak:.1f} MB allocated (traced, which slows it)")


def look(path: Path) -> None:
    """Print what lies on the disk, and what opening and reading it take."""
    there = list(path.rglob("*"))
    files = [file for file in there if file.is_file()]
    print(
        f"{len(files)} files in {len(there) - len(files)} folders,"
        f" {sum(file.stat().st_size for file in files) / 1e6:.0f} MB;"
        f" root {(path / 'zarr.json').stat().st_size:,} bytes"
    )
    print(f"open, every byte checked: {taken_by(lambda: Store.open(path))}")
    store = Store.open(path)
    print(f"read /capture: {taken_by(lambda: store.read('capture'))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=256)
    parser.add_argument("--positions", type=int, default=128)
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    shape = (2, 2, 1, 16) if asked.small else (30, 9, 3, asked.positions)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "run.zarr", plan(*shape), asked.documents)
        look(Path(folder) / "run.zarr")


if __name__ == "__main__":
    main()
