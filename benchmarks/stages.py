"""Time of the stages after a capture, on a copy of a run: `.venv/bin/python -m benchmarks.stages
--run report`.

The script prints wall and CPU seconds. CPU seconds include all threads; use them on a shared
machine.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import empirical  # noqa: F401  # isort: skip - before numpy, as the command does

from empirical.store.store import Store
from geostat.runs import pipeline
from geostat.runs.console import Console


class Clock:
    """Console that prints the time of each stage when the next begins."""

    def __init__(self) -> None:
        self.name = "open"
        self.began = time.perf_counter(), time.process_time()

    def stage(self, name: str) -> None:
        """Start a stage and print the previous one."""
        now = time.perf_counter(), time.process_time()
        wall, processor = (late - early for late, early in zip(now, self.began, strict=True))
        print(f"{self.name:<28}{wall:8.1f} s{processor:8.1f} s of the processor", flush=True)
        self.name, self.began = name, now


def main() -> None:
    """Fit and confront a copy of the run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of a finished run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.zarr"
        shutil.copytree(options.run / "run.zarr", path)
        clock = Clock()
        store, console = Store.open(path), Console(stage=clock.stage)
        for stage in (pipeline.fit, pipeline.confront):
            stage(store, console=console)
            clock.stage("open")


if __name__ == "__main__":
    main()
