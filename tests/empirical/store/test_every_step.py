"""A disk that fails at any step of a store's life: one line, and given again it ends like one that
nothing befell.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT


def lived(work: Path, stride: int, error: int, *how: str) -> Any:
    """What `support.life` finds."""
    done = subprocess.run(
        [sys.executable, "-m", "support.life", str(work), str(error), str(stride), *how],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{ROOT}"},
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)  # `pytest -rP` shows it
    return json.loads(done.stdout)


WAYS = pytest.mark.parametrize(
    "way",
    [(errno.EIO,), (errno.ENOSPC,), (errno.ENOSPC, "lasting")],
    ids=["broken", "full", "full, lasting"],
)


@pytest.mark.slow
@WAYS
def test_a_step_that_fails_loses_nothing_whichever_it_is(tmp_path: Path, way: Any) -> None:
    seen = lived(tmp_path, 1, *way)
    assert sum(seen["codes"].values()) == seen["steps"] > 400
    assert seen["codes"]["2"] > 0.9 * seen["steps"], "few steps can be done without"
    assert seen["unlike"] == {}


def test_a_step_that_fails_is_one_line_and_loses_nothing(tmp_path: Path) -> None:
    seen = lived(tmp_path, 71, errno.ENOSPC, "lasting")
    assert seen["codes"]["2"] > 3
    assert seen["unlike"] == {}
