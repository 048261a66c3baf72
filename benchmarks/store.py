"""Cost of the store without a model: files, folders and bytes of a run of many short documents, and
the time of writing, settling, verifying and reading them.

Arrays have the shapes of the default measurements of the built-in model and hold random numbers;
`--small` uses 2 layers and short windows. The script also prints the peak memory allocated by
settling.
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
from empirical.capture.observers import Baselines, Geometry, Ranks, Sinks
from empirical.measure.selection import Convention, default_n
from empirical.store.layout import GroupPlan
from empirical.store.store import Store
from geostat.bounds.own_cosines import MeasuredEnvelope

Arrays = dict[str, dict[str, np.ndarray]]

ENDS = 64
"""Number of first and last documents whose append times are compared."""


def plan(layers: int, heads: int, kv_heads: int, positions: int) -> dict[str, GroupPlan]:
    """Return the arrays that `geostat run` measures for a model of this shape."""
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
    observers = (Geometry(), Baselines(), MeasuredEnvelope(), Sinks(), Ranks())
    return {observer.group: observer.plan(shape) for observer in observers}


def arrays(groups: dict[str, GroupPlan]) -> Arrays:
    """Return random arrays for one document."""
    rng = np.random.default_rng(0)
    return {
        group: {
            name: rng.standard_normal(group_plan.shape(variable)).astype(variable.dtype)
            for name, variable in group_plan.variables.items()
        }
        for group, group_plan in groups.items()
    }


@dataclass(frozen=True, slots=True)
class Taken:
    """Wall and CPU seconds; wall time includes waiting for the disk and other processes."""

    clock: float
    processor: float

    def __str__(self) -> str:
        return f"{self.clock:.2f} s ({self.processor:.2f} s of processor)"


def taken_by(act: Callable[[], object]) -> Taken:
    clock, processor = time.perf_counter(), time.process_time()
    act()
    return Taken(time.perf_counter() - clock, time.process_time() - processor)


def write(path: Path, groups: dict[str, GroupPlan], documents: int) -> None:
    """Write a run like a capture, and print its cost."""
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
    clock, cpu = [step.clock for step in taken], [step.processor for step in taken]
    ends = [1e3 * float(np.median(part)) for part in (cpu[:ENDS], cpu[-ENDS:])]
    number = sum(a.nbytes for arrays in values.values() for a in arrays.values()) / 1e6
    print(f"{documents} documents of {sum(map(len, values.values()))} arrays, {number:.2f} MB each")
    print(
        f"append: {Taken(sum(clock), sum(cpu))}; median {ends[0]:.1f} CPU ms for the"
        f" first {ENDS}, {ends[1]:.1f} of the last"
    )
    print(f"settle the rest: {settled}, at most {peak:.1f} MB allocated (traced, which slows it)")


def look(path: Path) -> None:
    """Print files and bytes on disk, and the time of opening and reading."""
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
    options = parser.parse_args()
    shape = (2, 2, 1, 16) if options.small else (30, 9, 3, options.positions)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "run.zarr", plan(*shape), options.documents)
        look(Path(folder) / "run.zarr")


if __name__ == "__main__":
    main()
