"""Commands and programs in processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from support.places import ROOT
from support.spine import Said

MAIN = "from geostat.cli.app import main; main()"
PATIENCE = 600.0
"""Seconds after which a process hangs."""
ENVIRONMENT = {"PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}", "PYTHONWARNINGS": ""}


def free_port() -> int:
    """Return a port of this machine where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def program(*words: object, code: str = MAIN) -> list[str]:
    """Return the arguments of a Python process, by default of the `geostat` command."""
    return [sys.executable, "-c", code, *map(str, words)]


def started(
    *words: object, code: str = MAIN, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start a process whose streams are pipes."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        program(*words, code=code),
        env=os.environ | ENVIRONMENT | (env or {}),
        text=True,
        **pipes | options,
    )


def ended(process: subprocess.Popen[str], patience: float | None = PATIENCE) -> Said:
    """Wait for a process."""
    stdout, stderr = process.communicate(timeout=patience)
    return Said(process.returncode, stdout, stderr)


def called(*words: object, patience: float | None = PATIENCE, **options: Any) -> Said:
    """Run a process to its end, without input."""
    return ended(started(*words, stdin=subprocess.DEVNULL, **options), patience)


def until(happened: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until a condition holds; the process, if one is given, must not end before."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, "the condition never held"
        assert process is None or process.poll() is None, "the process ended before"
        time.sleep(0.01)
