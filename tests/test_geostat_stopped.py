"""A capture that is stopped half-way, by Ctrl-C or worse: real processes, because a signal is what is tested."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from runs import contents
from spine import LENGTH, Said, geostat, refused

from empirical.store import Store

MANY = 12
"""Documents of a run that is stopped half-way."""


@pytest.fixture(scope="module")
def many_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("many") / "texts.jsonl"
    chance = np.random.default_rng(3)
    rows = [json.dumps({"text": "".join(chance.choice(list("abcdefghijklmnopqrstuvwxyz"), LENGTH))}) for _ in range(MANY)]
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def many(model_folder: Path, texts: Path, out: Path) -> list[str]:
    given = ["capture", model_folder, "--text", texts, "--documents", MANY, "--length", LENGTH, "--n", "1,2,9", "--out", out]
    return [str(argument) for argument in given]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, many_texts: Path) -> Path:
    out = tmp_path_factory.mktemp("uninterrupted")
    assert geostat(*many(model_folder, many_texts, out), "--quiet").code == 0
    return out / "run.zarr"


def kept(store: Path) -> int:
    """Documents in the manifest on disk."""
    try:
        return len(json.loads((store / "zarr.json").read_text(encoding="utf-8"))["attributes"]["manifest"]["documents"])
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_a_stopped_capture_keeps_its_documents_and_ends_like_one_that_was_not(
    tmp_path: Path, model_folder: Path, many_texts: Path, uninterrupted: Path, blow: signal.Signals
):
    store, command = tmp_path / "run.zarr", many(model_folder, many_texts, tmp_path)
    program = [sys.executable, "-c", "from geostat.cli import main; main()", *command]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONWARNINGS": ""}
    ) as process:
        until = time.monotonic() + 120
        while kept(store) < 2 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(blow)
        stdout, stderr = process.communicate(timeout=60)
    there = kept(store)
    assert 2 <= there < MANY
    if blow is signal.SIGINT:
        line = refused(Said(process.returncode, stdout, stderr), code=130)
        assert line == f"interrupted: {there} of {MANY} documents are kept in {store}. Run the same command again with --resume to go on."
    else:
        assert process.returncode == -signal.SIGKILL
    found = Store.open(store)
    found.verify()
    assert found.read("capture").sizes["document"] == there
    assert geostat(*command, "--resume", "--quiet") == Said(0, "", "")
    assert contents(store) == contents(uninterrupted)
