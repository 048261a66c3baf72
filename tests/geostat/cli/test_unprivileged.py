"""A user without a home who may not write the packages, as in a container whose image root has
built. Real processes, with other rights.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT
from support.spine import LENGTH

NOBODY = 65534
LESSER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
"""Another user; one who may read every file in place of a second choice, for the interpreter may
lie in a home of root's.
"""
READING = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
ABSENT = "packages/absent"
"""A folder of `here` that is not there, and that none may make."""

KERNELS = """
import numpy as np
{first}
from theory.editions.sharp import sharp_kernels
none = np.empty(0)
print(sharp_kernels.pair_ratios(none, none, none, none, 1.0, (1.0, 1.0, 1.0), 0.0, none))
"""
ROOMS = """
import empirical.measure.head_kernels, geostat.fits.weights.identifiability.surrogate_kernels
print(empirical.measure.head_kernels.padded(5, 8))
rows, ones = np.ones((1, 3)), np.zeros(1)
geostat.fits.weights.identifiability.surrogate_kernels.whiten(rows, ones, ones, ones + 1, rows)
print(rows.sum())
"""


def _prefix() -> tuple[str, ...] | None:
    """What starts a process that may not write here; None where there is nothing of the kind."""
    if os.name != "posix":
        return None
    if os.getuid() != 0:
        return ()
    for prefix in (LESSER, (*LESSER, *READING)):
        if (
            shutil.which(prefix[0])
            and subprocess.run(
                [*prefix, sys.executable, "-c", "import torch"], capture_output=True
            ).returncode
            == 0
        ):
            return prefix
    return None


@pytest.fixture(scope="module")
def prefix() -> tuple[str, ...]:
    found = _prefix()
    if found is None:
        pytest.skip("as root this needs setpriv, and a system with users")
    return found


@pytest.fixture(scope="module")
def here(prefix: tuple[str, ...]) -> Iterator[Path]:
    """A folder that everyone may read: the packages, read only, and `open`, which everyone may
    write.
    """
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for room in ("geostat", "empirical", "theory", "reports"):
        shutil.copytree(
            ROOT / room, folder / "packages" / room, ignore=shutil.ignore_patterns("__pycache__")
        )
    for there, folders, files in os.walk(folder / "packages"):
        for name in (".", *folders, *files):
            path = Path(there, name)
            path.chmod(0o555 if path.is_dir() else 0o444)
    (folder / "open").mkdir()
    (folder / "open").chmod(0o1777)
    yield folder
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    shutil.rmtree(folder)


def call(
    prefix: tuple[str, ...], here: Path, *program: str, home: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "NUMBA_", "MPL", "HF_", "GEOSTAT_", "HOME"))
    }
    given = {
        **kept,
        **({} if home is None else {"HOME": str(here / home)}),
        "PYTHONPATH": str(here / "packages"),
        "TMPDIR": str(here / "open"),
        **more,
    }
    return subprocess.run(
        [*prefix, sys.executable, *program],
        cwd="/",
        env=given,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.parametrize("home", [None, ABSENT])
def test_kernels_are_compiled_and_kept_for_a_user_without_a_home(
    prefix: tuple[str, ...], here: Path, home: str | None
):
    if home is None and not prefix:
        pytest.skip("as oneself the home is known without HOME")
    done = call(prefix, here, "-c", KERNELS.format(first=ROOMS), home=home)
    assert (done.stdout.split(), done.stderr) == (["8", "3.0", "0"], "")
    own = here / "open" / f"geostat-{NOBODY if prefix else os.getuid()}"
    kept = {path.name.split("-")[0] for path in own.rglob("*.nbi")}
    assert {"head_kernels.padded", "surrogate_kernels.whiten", "sharp_kernels.pair_ratios"} <= kept


@pytest.mark.parametrize("first", ["", ROOMS], ids=["theory", "all"])
def test_kernels_are_compiled_where_nothing_can_be_kept(
    prefix: tuple[str, ...], here: Path, first: str
):
    own = here / "open" / f"geostat-{NOBODY if prefix else os.getuid()}"
    trap = f"import tempfile; tempfile.tempdir = {str(here / ABSENT)!r}{first}"
    before = sorted(own.rglob("*")) if own.exists() else []
    done = call(prefix, here, "-c", KERNELS.format(first=trap), home=ABSENT)
    assert (done.stdout.split()[-1], done.stderr) == ("0", "")
    assert (sorted(own.rglob("*")) if own.exists() else []) == before


AT_ONCE = """
import threading
timer = threading.Timer
threading.Timer = lambda seconds, *given: timer(0, *given)  # as on a machine that takes long
from geostat.cli.app import main
main()
"""


@pytest.mark.slow
def test_the_main_job_is_done_for_a_user_without_a_home(
    prefix: tuple[str, ...], here: Path, model_folder: Path, text_folder: Path
):
    for folder in (model_folder, text_folder):
        shutil.copytree(folder, here / folder.name, dirs_exist_ok=True)
        subprocess.run(
            ["chmod", "-R", "a+rX", here / folder.name], check=True
        )  # made for their own user alone
    given = [
        here / model_folder.name,
        "--text",
        here / text_folder.name,
        "--documents",
        3,
        "--length",
        LENGTH,
        "--out",
        here / "open/report",
    ]
    done = call(prefix, here, "-c", AT_ONCE, "run", *map(str, given), "--quiet", home=ABSENT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (here / "open/report/report.html").exists()
