"""A user without a home folder or write access to the packages, as in a container."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import MAIN, PATIENCE, program
from support.places import ROOT
from support.spine import LENGTH, argv

NOBODY = 65534
LESSER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
"""Another user. It may read every file, because the interpreter may be in root's home."""
READING = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
ABSENT = "packages/absent"
"""A missing folder that cannot be created."""

KERNELS = """
import numpy as np
{first}
from theory.editions.sharp import sharp_kernels
none = np.empty(0)
print(sharp_kernels.pair_ratios(none, none, none, none, 1.0, (1.0, 1.0, 1.0), 0.0, none))
"""
ROOMS = """
import empirical.measure.head_kernels, geostat.fits.weights.surrogates
print(empirical.measure.head_kernels.padded(5, 8))
rows, ones = np.ones((1, 3)), np.zeros(1)
geostat.fits.weights.surrogates.whiten(rows, ones, ones, ones + 1, rows)
print(rows.sum())
"""


@pytest.fixture(scope="module")
def prefix() -> tuple[str, ...]:
    """Return a command prefix that drops write access."""
    if os.getuid() != 0:
        return ()
    for prefix in (LESSER, (*LESSER, *READING)):
        words = [*prefix, sys.executable, "-c", "import torch"]
        if shutil.which(prefix[0]) and not subprocess.run(words, capture_output=True).returncode:
            return prefix
    pytest.skip("as root this needs setpriv, and a system with users")


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
    prefix: tuple[str, ...], here: Path, code: str, *words: object, home: str | None
) -> subprocess.CompletedProcess[str]:
    personal = ("XDG_", "NUMBA_", "MPL", "HF_", "GEOSTAT_", "HOME")
    env = {name: value for name, value in os.environ.items() if not name.startswith(personal)}
    env |= {"PYTHONPATH": str(here / "packages"), "TMPDIR": str(here / "open")}
    env |= {} if home is None else {"HOME": str(here / home)}
    command = [*prefix, *program(*words, code=code)]
    return subprocess.run(
        command, cwd="/", env=env, capture_output=True, text=True, timeout=PATIENCE
    )


def kept(prefix: tuple[str, ...], here: Path) -> list[Path]:
    """Return the files in the user's folder of compiled kernels."""
    return sorted((here / "open" / f"geostat-{NOBODY if prefix else os.getuid()}").rglob("*"))


@pytest.mark.parametrize("home", [None, pytest.param(ABSENT, marks=pytest.mark.slow)])
def test_kernels_are_compiled_and_cached_for_a_user_without_a_home(
    prefix: tuple[str, ...], here: Path, home: str | None
):
    if home is None and not prefix:
        pytest.skip("as oneself the home is known without HOME")
    done = call(prefix, here, KERNELS.format(first=ROOMS), home=home)
    assert (done.stdout.split(), done.stderr) == (["8", "3.0", "0"], "")
    kernels = {path.name.split("-")[0] for path in kept(prefix, here) if path.suffix == ".nbi"}
    assert kernels >= {*("head_kernels.padded", "surrogates.whiten", "sharp_kernels.pair_ratios")}


@pytest.mark.parametrize(
    "first", ["", pytest.param(ROOMS, marks=pytest.mark.slow)], ids=["theory", "all"]
)
def test_kernels_are_compiled_without_a_cache_folder(
    prefix: tuple[str, ...], here: Path, first: str
):
    trap = (
        "import logging, tempfile; logging.getLogger('matplotlib').setLevel('CRITICAL')\n"
        f"tempfile.tempdir = {str(here / ABSENT)!r}{first}"
    )
    before = kept(prefix, here)
    done = call(prefix, here, KERNELS.format(first=trap), home=ABSENT)
    assert (done.stdout.split()[-1], done.stderr) == ("0", "")
    assert kept(prefix, here) == before


AT_ONCE = f"""
import threading
timer = threading.Timer
threading.Timer = lambda seconds, *given: timer(0, *given)  # as on a machine that takes long
{MAIN}
"""


@pytest.mark.slow
def test_run_works_for_a_user_without_a_home(
    prefix: tuple[str, ...], here: Path, model_folder: Path, text_folder: Path
):
    model, text = (
        shutil.copytree(folder, here / folder.name, dirs_exist_ok=True)
        for folder in (model_folder, text_folder)
    )
    subprocess.run(["chmod", "-R", "a+rX", model, text], check=True)  # private to their user
    out = here / "open" / "report"
    words = [model, "--text", text, *argv(f"--documents 3 --length {LENGTH} --quiet --out"), out]
    done = call(prefix, here, AT_ONCE, "run", *words, home=ABSENT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (out / "report.html").exists()
