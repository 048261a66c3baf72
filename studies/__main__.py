"""Runner of the simulation studies, two at a time, the longest first; not of those in ALONE.

Run: python -m studies [--workers 2]

Each study runs in a separate process, like `python -m studies.NAME …`. Its output is printed when
it ends, with the command and the minutes. The exit code is 1 if a study failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final

STUDIES: Final = (
    "audit docs/studies/audit.md --workers 1",
    "weights --tokens 1025 --heads 200",
    "weights --tokens 257 --heads 500",
    "verdicts --claim weights --heads 150",
    "whole_runs",
    "queries",
    "intervals",
    "normaliser docs/studies/normaliser.md",
    "verdicts --claim bounds",
    "similarity",
    "shares",
    "verdicts --claim norms similarity",
    "verdicts --claim flat --heads 200",
    "search --every 30",
    "permuted",
    "norms",
    "by_rank",
    "table_1 docs/studies/table1.md",
)


ALONE: Final = ("third_model",)
"""Studies that take as long as all others together."""


def run(study: str) -> tuple[str, int]:
    """Run one study; return its heading with its output, and its exit code."""
    start, command = time.perf_counter(), ["-m", *f"studies.{study}".split()]
    ended = subprocess.run(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    minutes = (time.perf_counter() - start) / 60
    return f"== {' '.join(command[1:])} ({minutes:.1f} min)\n{ended.stdout}", ended.returncode


def main() -> None:
    """Run all studies and print their output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--workers", type=int, default=2, help="number of studies at a time")
    failed = 0
    with ThreadPoolExecutor(parser.parse_args().workers) as pool:
        for future in as_completed(pool.submit(run, study) for study in STUDIES):
            output, code = future.result()
            print(output, flush=True)
            failed += code != 0
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
