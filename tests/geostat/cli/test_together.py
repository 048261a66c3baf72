"""Concurrent commands on one run: a second writer is refused, a reader sees complete documents."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from support.commands import MAIN, ended, started
from support.places import contents
from support.spine import LENGTH, capturing, geostat, refused

from empirical.errors import InputError
from empirical.store.store import Store

pytestmark = pytest.mark.slow
READY = f"import sys; import geostat.runs.measurement; sys.stdin.readline(); {MAIN}"
"""Code that imports slow packages, then waits for a line."""
MANY = 60


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Write sixty texts."""
    file, chance = tmp_path / "texts.jsonl", np.random.default_rng(5)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    rows = [json.dumps({"text": "".join(chance.choice(letters, LENGTH))}) for _ in range(MANY)]
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def go(process: subprocess.Popen[str]) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_capture_has_one_writer_and_many_readers(
    tmp_path: Path, model_folder: Path, texts: Path
) -> None:
    command = [*capturing(model_folder, texts, tmp_path / "run", documents=MANY), "--quiet"]
    store, seen = tmp_path / "run" / "run.zarr", []
    with started(*command, code=READY) as first, started(*command, code=READY) as second:
        go(first)
        while first.poll() is None:
            try:
                run = Store.open(store)
            except InputError:  # not created yet
                time.sleep(0.02)
                continue
            if not seen:
                go(second)
            read = run.read("capture")
            assert np.isfinite(read["precision"].values).all()
            seen.append(read.sizes["document"])
        assert (first.returncode, first.stderr.read()) == (0, "")
        line = refused(ended(second))
    assert "another geostat command is writing there, expected no other. Wait until it" in line
    assert seen == sorted(seen)
    assert len(set(seen)) > 2
    alone = capturing(model_folder, texts, tmp_path / "alone", documents=MANY)
    assert geostat(*alone, "--quiet").code == 0
    assert contents(store) == contents(tmp_path / "alone" / "run.zarr")
