"""Commands that work on one run at one time: a second writer is refused in a line, a reader sees
whole documents.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.places import contents
from support.spine import LENGTH, capturing, geostat

from empirical.errors import InputError
from empirical.store.store import Store

pytestmark = pytest.mark.slow
PROGRAM = (
    sys.executable,
    "-c",
    (
        "import sys; import geostat.runs.measurement; from geostat.cli.app import main;"
        " sys.stdin.readline(); main()"
    ),
)
"""Imports what takes long, then waits for a line."""
MANY = 60


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Sixty texts."""
    file, chance = tmp_path / "texts.jsonl", np.random.default_rng(5)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    rows = [json.dumps({"text": "".join(chance.choice(letters, LENGTH))}) for _ in range(MANY)]
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def started(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": ""},
    )


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_capture_has_one_writer_and_as_many_readers_as_there_are(
    tmp_path: Path, model_folder: Path, texts: Path
) -> None:
    command = [*capturing(model_folder, texts, tmp_path / "run", documents=MANY), "--quiet"]
    store, seen = tmp_path / "run" / "run.zarr", []
    with started(*command) as first, started(*command) as second:
        go(first)
        while first.poll() is None:
            try:
                run = Store.open(store)
            except InputError:  # not there yet
                time.sleep(0.02)
                continue
            if not seen:
                go(second)
            read = run.read("capture")
            assert np.isfinite(read["precision"].values).all()
            seen.append(read.sizes["document"])
        assert first.stderr is not None
        assert (first.returncode, first.stderr.read()) == (0, "")
        said = second.communicate(timeout=600)
    assert (second.returncode, said[0]) == (2, "")
    assert said[1].count("\n") == 1
    assert "another geostat command is writing there, expected no other. Wait until it" in said[1]
    assert seen == sorted(seen)
    assert len(set(seen)) > 2
    alone = capturing(model_folder, texts, tmp_path / "alone", documents=MANY)
    assert geostat(*alone, "--quiet").code == 0
    assert contents(store) == contents(tmp_path / "alone" / "run.zarr")
