"""A capture, fits and bounds on several processes: real workers, one of them killed, the command
killed or interrupted, workers of other versions. What is written is what one process writes, bit
for bit.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from support.kills import contents
from support.spine import Finished

LONG = 480
"""Tokens a window where something is killed: workers are at it for a while."""
PATIENCE = 600.0
"""Seconds until something is to have happened."""


def command(*words: object, **more: object) -> subprocess.Popen[str]:
    """Start the command, in a group of processes of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "geostat.cli.app", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **more,
    )


def ended(started: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Exit code, and the lines on stderr."""
    _, said = started.communicate(timeout=PATIENCE)
    return started.returncode, said.splitlines()


def descendants(process: int) -> list[int]:
    """Processes that another one started, workers among them."""
    psutil = pytest.importorskip("psutil")
    return [one.pid for one in psutil.Process(process).children(recursive=True)]


def workers(process: int) -> list[int]:
    """The processes that measure."""
    psutil = pytest.importorskip("psutil")
    found = []
    for one in psutil.Process(process).children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            found += [one.pid] if any("spawn_main" in word for word in one.cmdline()) else []
    return found


def until(happened: Callable[[], bool]) -> None:
    """Wait for something."""
    started = time.monotonic()
    while not happened():
        assert time.monotonic() - started < PATIENCE
        time.sleep(0.02)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve texts, long enough to be killed at."""
    import random

    folder = tmp_path_factory.mktemp("long texts")
    chance = random.Random(1)
    for index in range(12):
        letters = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=LONG))
        (folder / f"text {index:02d}.txt").write_text(letters, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def words(model_folder: Path, texts: Path) -> list[object]:
    """The words of a capture of all of them, without --out."""
    size = ["--documents", 12, "--length", LONG, "--batch", 2]
    return ["capture", model_folder, "--text", texts, *size, "--head", "L1H2"]


@pytest.fixture(scope="module")
def wanted(words: list[object], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process writes."""
    pytest.importorskip("distributed")
    out = tmp_path_factory.mktemp("serial")
    assert ended(command(*words, "--out", out, "--quiet")) == (0, [])
    return contents(out / "run.zarr")


def under_way(out: Path, documents: int = 2) -> bool:
    """Whether so many documents are complete."""
    return len(list((out / "run.zarr" / "capture/document/journal").glob("*.zip"))) >= documents


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_workers_write_what_one_process_writes(
    count: int, words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    code, said = ended(command(*words, "--out", tmp_path, "--cluster", f"local:{count}"))
    assert code == 0, said
    assert contents(tmp_path / "run.zarr") == wanted
    assert [line for line in said if not line.startswith("geostat: ")] == []


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost_or_doubled(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    run = command(*words, "--out", tmp_path, "--cluster", "local:2")
    until(lambda: under_way(tmp_path))
    before = workers(run.pid)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: run.poll() is not None or len(set(workers(run.pid)) - set(before)) > 0)
    assert run.poll() is None, "it ended before a worker was replaced"
    code, said = ended(run)
    assert code == 0, said
    assert contents(tmp_path / "run.zarr") == wanted
    # The interpreter itself tells of what the killed one could not tidy up.
    assert not [one for one in said if "Error" in one or "distributed" in one], said


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_no_workers_and_goes_on_with_the_next(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    psutil = pytest.importorskip("psutil")
    run = command(*words, "--out", tmp_path, "--cluster", "local:2")
    until(lambda: under_way(tmp_path))
    started = descendants(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    until(lambda: not any(map(psutil.pid_exists, started)))
    assert len(list((tmp_path / "run.zarr" / "capture/document/journal").glob("*.zip"))) < 12
    code, said = ended(command(*words, "--out", tmp_path, "--cluster", "local:1"))
    assert code == 0, said
    assert contents(tmp_path / "run.zarr") == wanted


@pytest.mark.slow
def test_ctrl_c_ends_all_and_one_process_goes_on(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    run = command(*words, "--out", tmp_path, "--cluster", "local:2", "--quiet")
    until(lambda: under_way(tmp_path))
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does, to all
    code, said = ended(run)
    assert code == 130
    assert len(said) == 1, said
    assert "of 12 documents are kept" in said[0]
    assert ended(command(*words, "--out", tmp_path, "--quiet")) == (0, [])
    assert contents(tmp_path / "run.zarr") == wanted


STAGES = (("fit",), ("confront", "--predict"))


@pytest.fixture(scope="module")
def concluded(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process makes of a finished run."""
    pytest.importorskip("distributed")
    run = shutil.copytree(finished.out, tmp_path_factory.mktemp("serial") / "run")
    for stage, *more in STAGES:
        assert ended(command(stage, run, *more, "--quiet")) == (0, [])
    return contents(run / "run.zarr")


@pytest.mark.slow
def test_fits_and_bounds_made_by_workers_are_those_of_one_process(
    finished: Finished, concluded: dict[str, bytes], tmp_path: Path
) -> None:
    run = shutil.copytree(finished.out, tmp_path / "run")
    for stage, *more in STAGES:
        code, said = ended(command(stage, run, *more, "--cluster", "local:2"))
        assert code == 0, said
        assert [line for line in said if not line.startswith("geostat: ")] == []
    assert contents(run / "run.zarr") == concluded


@pytest.mark.slow
def test_a_worker_killed_while_it_evaluates_bounds_is_replaced(
    finished: Finished, concluded: dict[str, bytes], tmp_path: Path
) -> None:
    run = shutil.copytree(finished.out, tmp_path / "run")
    assert ended(command("fit", run, "--quiet")) == (0, [])
    going = command("confront", run, "--predict", "--cluster", "local:1")
    until(lambda: len(workers(going.pid)) == 1)
    [before] = workers(going.pid)
    assert going.stderr is not None
    for line in going.stderr:
        if "predict curves" in line:
            break
    os.kill(before, signal.SIGKILL)
    until(lambda: going.poll() is not None or bool(set(workers(going.pid)) - {before}))
    assert going.poll() is None, "it ended before a worker was replaced"
    assert ended(going)[0] == 0
    assert contents(run / "run.zarr") == concluded


@contextmanager
def scheduler(*preload: Path | None) -> Iterator[str]:
    """A scheduler, and a worker for each entry, which runs a script as it starts; all are there."""
    pytest.importorskip("distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    dask += ["--host", "127.0.0.1", "--port", str(port)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard"]
    scripts = [["--preload", str(script)] if script else [] for script in preload]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as running:
        for words in (dask, *([*worker, "--nthreads", "1", *script] for script in scripts)):
            process = subprocess.Popen(words, **quiet)
            running.callback(process.wait)
            running.callback(process.terminate)
        there = f"Client({address!r}).wait_for_workers({len(preload)})"
        python = [sys.executable, "-c", f"from distributed import Client; {there}"]
        patient = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": f"{PATIENCE}s"}
        subprocess.run(python, env=patient, timeout=PATIENCE, check=True)
        yield address


@pytest.mark.slow
def test_workers_elsewhere_serve_a_command_and_a_client(
    words: list[object], wanted: dict[str, bytes], tmp_path: Path
) -> None:
    with scheduler(None, None) as address:
        code, said = ended(command(*words, "--out", tmp_path / "a", "--cluster", address))
        assert code == 0, said
        assert contents(tmp_path / "a" / "run.zarr") == wanted
        program = f"""
            import geostat as gs
            from distributed import Client
            from geostat.runs.settings import named_heads

            how = dict(count=12, length={LONG}, batch=2, heads=named_heads(["L1H2"]))
            with Client({address!r}) as client:
                gs.capture({str(words[1])!r}, documents={str(words[3])!r}, **how, client=client,
                    out={str(tmp_path / "b")!r})
                assert client.nthreads()
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
        assert contents(tmp_path / "b" / "run.zarr") == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            "identity.version = lambda name, of=identity.version:"
            " '1.0' if name == 'torch' else of(name)",
            "has torch 1.0, this run has",
        ),
        (
            "models.find = lambda *a, of=models.find, **k: of(*a, **{**k, 'dtype': 'bfloat16'})",
            "its model has dtype = ",
        ),
    ],
)
def test_workers_that_would_measure_other_numbers_are_refused(
    change: str, line: str, words: list[object], tmp_path: Path
) -> None:
    script = tmp_path / "changed.py"
    imports = "from empirical.capture import identity\nfrom empirical.sources import models\n"
    script.write_text(imports + change + "\n", encoding="utf-8")
    with scheduler(None, script) as address:
        code, said = ended(command(*words, "--out", tmp_path / "out", "--cluster", address))
    assert code == 2, said
    assert line in said[-1]
    assert [one for one in said if not one.startswith("geostat: ")] == []
