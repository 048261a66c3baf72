"""Capture, fits and bounds on several processes, with real workers.

Workers or the command are killed or interrupted, or workers have other versions. The store equals
that of one process, bit for bit.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from support.commands import PATIENCE, called, ended, free_port, started, until
from support.kills import contents
from support.spine import Finished, Said

pytestmark = pytest.mark.slow
pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

LONG = 480
"""Tokens per window, long enough for a process to be killed within one."""
STAGES = (("fit",), ("confront", "--predict"))
begun = partial(started, start_new_session=True)
"""Start the command in a new process group."""


def finished_well(result: Said) -> bool:
    """Return whether a command ended without an error, and printed nothing that is not its own."""
    return result.code == 0 and all(
        line.startswith("geostat: ") for line in result.stderr.splitlines()
    )


def descendants(process: int, word: str = "") -> set[int]:
    """Return the descendants of a process whose command line contains a word."""
    result = set()
    for child in psutil.Process(process).children(recursive=True):
        with suppress(psutil.Error):  # it has just exited
            result |= {child.pid} if any(word in part for part in child.cmdline()) else set()
    return result


workers = partial(descendants, word="spawn_main")
"""Return the processes that measure."""


@pytest.fixture(scope="module")
def words(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Return the arguments of a capture of twelve texts, up to the value of --out."""
    texts, chance = tmp_path_factory.mktemp("long texts"), random.Random(1)
    for index in range(12):
        letters = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=LONG))
        (texts / f"text {index:02d}.txt").write_text(letters, encoding="utf-8")
    size = ["--documents", 12, "--length", LONG, "--batch", 2]
    return ["capture", model_folder, "--text", texts, *size, "--head", "L1H2", "--out"]


@pytest.fixture(scope="module")
def wanted(words: list[object], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the store that one process writes."""
    out = tmp_path_factory.mktemp("serial")
    assert called(*words, out, "--quiet") == Said(0, "", "")
    return contents(out / "run.zarr")


def documents(out: Path) -> int:
    """Return the number of documents in the journal."""
    return len(list((out / "run.zarr" / "capture/document/journal").glob("*.zip")))


def test_workers_and_one_process_write_equal_stores(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    result = called(*words, tmp_path, "--cluster", "local:2")
    assert finished_well(result), result
    assert contents(tmp_path / "run.zarr") == wanted


def test_a_killed_worker_is_replaced_without_lost_or_duplicate_documents(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    run = begun(*words, tmp_path, "--cluster", "local:2")
    until(lambda: documents(tmp_path) >= 2)
    before = workers(run.pid)
    os.kill(min(before), signal.SIGKILL)
    until(lambda: workers(run.pid) - before, run)
    result = ended(run)
    assert result.code == 0, result
    assert contents(tmp_path / "run.zarr") == wanted
    # The interpreter reports resources that the killed process leaked.
    assert "Error" not in result.stderr
    assert "distributed" not in result.stderr


def test_a_killed_command_leaves_no_workers_and_can_be_resumed(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    run = begun(*words, tmp_path, "--cluster", "local:2")
    until(lambda: documents(tmp_path) >= 2)
    children = descendants(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    until(lambda: not any(map(psutil.pid_exists, children)))
    assert documents(tmp_path) < 12
    result = called(*words, tmp_path, "--cluster", "local:1")
    assert result.code == 0, result
    assert contents(tmp_path / "run.zarr") == wanted


def test_ctrl_c_stops_all_workers_and_one_process_can_resume(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    run = begun(*words, tmp_path, "--cluster", "local:2", "--quiet")
    until(lambda: documents(tmp_path) >= 2)
    os.killpg(run.pid, signal.SIGINT)  # a terminal signals the whole group
    result = ended(run)
    assert (result.code, result.stderr.count("\n")) == (130, 1), result
    assert "of 12 documents are kept" in result.stderr
    assert called(*words, tmp_path, "--quiet") == Said(0, "", "")
    assert contents(tmp_path / "run.zarr") == wanted


@pytest.fixture(scope="module")
def concluded(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the results that one process computes for a finished run."""
    run = shutil.copytree(finished.out, tmp_path_factory.mktemp("serial") / "run")
    for stage, *options in STAGES:
        assert called(stage, run, *options, "--quiet") == Said(0, "", "")
    return contents(run / "run.zarr")


def test_workers_and_one_process_compute_equal_fits_and_bounds(
    finished: Finished, concluded: dict[str, bytes], tmp_path: Path
) -> None:
    run = shutil.copytree(finished.out, tmp_path / "run")
    for stage, *options in STAGES:
        result = called(stage, run, *options, "--cluster", "local:2")
        assert finished_well(result), result
    assert contents(run / "run.zarr") == concluded


def test_a_worker_killed_while_it_evaluates_bounds_is_replaced(
    finished: Finished, concluded: dict[str, bytes], tmp_path: Path
) -> None:
    run = shutil.copytree(finished.out, tmp_path / "run")
    assert called("fit", run, "--quiet") == Said(0, "", "")
    confront = begun("confront", run, "--predict", "--cluster", "local:1")
    until(lambda: len(workers(confront.pid)) == 1)
    before = workers(confront.pid)
    for line in confront.stderr:
        if "predict curves" in line:
            break
    os.kill(min(before), signal.SIGKILL)
    until(lambda: workers(confront.pid) - before, confront)
    assert ended(confront).code == 0
    assert contents(run / "run.zarr") == concluded


@contextmanager
def scheduler(*preload: Path | None) -> Iterator[str]:
    """Start a scheduler and a worker for each entry, which runs a script at startup."""
    port = str(free_port())
    address = f"tcp://127.0.0.1:{port}"
    python = [sys.executable, "-m"]
    dask = [*python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port]
    worker = [*python, "distributed.cli.dask_worker", address, "--nthreads", "1"]
    scripts = [["--preload", str(script)] if script else [] for script in preload]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as running:
        for words in (dask, *([*worker, *script] for script in scripts)):
            process = subprocess.Popen([*words, "--no-dashboard"], **quiet)
            running.callback(process.wait)
            running.callback(process.terminate)
        there = f"Client({address!r}).wait_for_workers({len(preload)})"
        patient = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": f"{PATIENCE}s"}
        assert called(code=f"from distributed import Client; {there}", env=patient).code == 0
        yield address


def test_remote_workers_serve_a_command_and_a_client(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    with scheduler(None, None) as address:
        result = called(*words, tmp_path / "a", "--cluster", address)
        assert result.code == 0, result
        assert contents(tmp_path / "a" / "run.zarr") == wanted
        program = f"""
            import geostat as gs
            from distributed import Client

            how = dict(count=12, length={LONG}, batch=2, heads=["L1H2"])
            with Client({address!r}) as client:
                gs.capture({str(words[1])!r}, documents={str(words[3])!r}, **how, client=client,
                    out={str(tmp_path / "b")!r})
                assert client.nthreads()
        """
        result = called(code=textwrap.dedent(program))
        assert result.code == 0, result
        assert contents(tmp_path / "b" / "run.zarr") == wanted


def test_workers_with_different_numerics_are_refused(words: list[object], tmp_path: Path) -> None:
    script = tmp_path / "changed.py"
    change = (
        "from empirical.sources import models\n"
        "models.find = lambda *a, of=models.find, **k: of(*a, **{**k, 'dtype': 'bfloat16'})\n"
    )
    script.write_text(change, encoding="utf-8")
    with scheduler(None, script) as address:
        result = called(*words, tmp_path / "out", "--cluster", address)
    assert result.code == 2, result
    *_, line = result.stderr.splitlines()
    assert "its model has dtype = " in line
    assert all(line.startswith("geostat: ") for line in result.stderr.splitlines())
