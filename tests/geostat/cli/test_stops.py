"""A command that is stopped half-way, by Ctrl-C or worse: real processes, because a signal is
what is tested.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.places import contents
from support.spine import LENGTH, Finished, Said, capturing, geostat, refused

from empirical.store.integrity import check
from empirical.store.store import Store

PROGRAM = (
    sys.executable,
    "-c",
    (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " signal.signal(signal.SIGHUP, signal.SIG_DFL); from geostat.cli.app import main; main()"
    ),
)
"""Hears Ctrl-C and a terminal that closes, also where the tests run in the background, whose
processes inherit a deaf ear.
"""
MANY = 12
"""Documents of a run that is stopped half-way."""


@pytest.fixture(scope="module")
def many_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("many") / "texts.jsonl"
    chance = np.random.default_rng(3)
    rows = [
        json.dumps({"text": "".join(chance.choice(list("abcdefghijklmnopqrstuvwxyz"), LENGTH))})
        for _ in range(MANY)
    ]
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def many(model_folder: Path, texts: Path, out: Path) -> list[str]:
    given = capturing(model_folder, texts, out, documents=MANY)
    return [str(argument) for argument in given]


@pytest.fixture(scope="module")
def uninterrupted(
    tmp_path_factory: pytest.TempPathFactory, model_folder: Path, many_texts: Path
) -> Path:
    out = tmp_path_factory.mktemp("uninterrupted")
    assert geostat(*many(model_folder, many_texts, out), "--quiet").code == 0
    return out / "run.zarr"


def kept(store: Path) -> int:
    """Documents on disk: those in shards, and those of the journal."""
    try:
        root = json.loads((store / "zarr.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    settled = root["attributes"]["manifest"]["rows"]["count"]
    return settled + len(list((store / "capture/document/journal").glob("*.zip")))


@pytest.mark.parametrize(
    "blow",
    [
        pytest.param(signal.SIGINT, id="ctrl-c", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, id="kill", marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, id="hang up", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, id="kill -9", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_capture_keeps_its_documents_and_ends_like_one_that_was_not(
    tmp_path: Path, model_folder: Path, many_texts: Path, uninterrupted: Path, blow: signal.Signals
):
    store, command = tmp_path / "run.zarr", many(model_folder, many_texts, tmp_path)
    program = [*PROGRAM, *command]
    with subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": ""},
    ) as process:
        until = time.monotonic() + 600
        while kept(store) < 2 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(blow)
        stdout, stderr = process.communicate(timeout=600)
    there = kept(store)
    assert 2 <= there < MANY
    if blow is not signal.SIGKILL:
        line = refused(Said(process.returncode, stdout, stderr), code=128 + blow)
        assert (
            line
            == f"interrupted: {there} of {MANY} documents are kept in {store}. Run the same command"
            " again with --resume to go on."
        )
    else:
        assert process.returncode == -signal.SIGKILL
    found = Store.open(store)
    check(found.path, found.attributes)
    assert found.read("capture").sizes["document"] == there
    assert geostat(*command, "--resume", "--quiet") == Said(0, "", "")
    assert contents(store) == contents(uninterrupted)


@pytest.mark.parametrize(
    ("stage", "blows"),
    [
        ("report", [signal.SIGTERM]),
        pytest.param("confront", [signal.SIGTERM, signal.SIGTERM], marks=pytest.mark.slow),
        pytest.param("confront", [signal.SIGINT, signal.SIGINT], marks=pytest.mark.slow),
        pytest.param("confront", [signal.SIGHUP], marks=pytest.mark.slow),
    ],
)
def test_a_stopped_stage_says_so_in_a_line_and_can_be_done_again(
    tmp_path: Path, finished: Finished, stage: str, blows: list[signal.Signals]
):
    shutil.copytree(finished.out, tmp_path / "run")
    program = [*PROGRAM, stage, str(tmp_path / "run")]
    with subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": ""},
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"geostat: {stage}\n"
        for blow in blows:
            process.send_signal(blow)
            time.sleep(0.05)
        stdout, stderr = process.communicate(timeout=600)
    line = refused(Said(process.returncode, stdout, stderr), code=128 + blows[0])
    assert line == "interrupted. What was complete is kept: run the same command again."
    assert not [
        path for path in (tmp_path / "run").rglob(".*") if path.name.endswith(("lock", "draft"))
    ]
    if stage == "confront":
        assert geostat(stage, tmp_path / "run", "--quiet").code == 0


def test_a_command_under_nohup_does_not_hear_the_terminal_close():
    before, after = (
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)",
        "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)",
    )
    code = f"import signal; {before}; from geostat.cli import process; process.heed(); {after}"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "True\n"
    )
