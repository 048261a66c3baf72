"""All simulation studies, two at a time, those that take longest first.

Run: python -m studies [--workers 2]

Each runs as a process of its own, as `python -m studies.NAME …` would. What it prints appears whole
when it ends, with the command and its minutes. Exit code 1 if one of them failed.
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
    "weights --tokens 1025 --heads 400",
    "weights --tokens 257 --heads 1000",
    "verdicts --claim bounds",
    "verdicts --claim weights --heads 200",
    "similarity",
    "intervals",
    "verdicts --claim norms similarity",
    "queries",
    "norms",
    "whole_runs",
)


def run(study: str) -> tuple[str, int]:
    """Run one study: its heading and output, and its exit code."""
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
    """Run them all and print what each says."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    ask.add_argument("--workers", type=int, default=2, help="how many run at a time")
    failed = 0
    with ThreadPoolExecutor(ask.parse_args().workers) as pool:
        for one in as_completed(pool.submit(run, study) for study in STUDIES):
            said, code = one.result()
            print(said, flush=True)
            failed += code != 0
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
