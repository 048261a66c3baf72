"""Where a command runs: terminals, locales, homes and interrupts, and names that a terminal or a
program would read as more than names.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.places import ROOT
from support.spine import Finished, capturing, geostat, refused

PROGRAM = (sys.executable, "-m", "geostat.cli.app")
HOSTILE = "a\x1b[31m\u202eb<script>\\input{x}"


def called(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Call the command in a process of its own, without a terminal."""
    return subprocess.run(
        [*PROGRAM, *map(str, words)],
        env=dict(os.environ) | more,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_a_backend_that_matplotlib_lacks_is_none_of_ours(finished: Finished, tmp_path: Path):
    words = ("figures", finished.out, "--only", "claims", "--format", "svg", "--out", tmp_path)
    said = called(*words, MPLBACKEND="nonsense")
    assert (said.returncode, said.stderr) == (0, "")


def test_a_working_folder_that_was_removed_is_one_line(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    program = f"import os; os.rmdir({str(gone)!r}); from geostat.cli.app import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", program, "doctor"],
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | {"PYTHONPATH": str(ROOT)},
    )
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("geostat: the working folder: failed (No such file or directory)")
    assert said.stderr.count("\n") == 1


NO_THREADS = """
from empirical.store.settling import RunFiles
get = RunFiles.get
async def refused(self, key, *more, **further):
    if key.count("/") > 1:  # metadata of the arrays, which zarr reads side by side
        raise RuntimeError("can't start new thread")
    return await get(self, key, *more, **further)
RunFiles.get = refused
from geostat.cli.app import main
main()
"""


def test_a_machine_that_has_no_threads_left_is_one_line(finished: Finished):
    said = subprocess.run(
        [sys.executable, "-c", NO_THREADS, "fit", finished.store],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | {"PYTHONPATH": str(ROOT)},
    )
    assert said.returncode == 2
    lines = [line for line in said.stderr.splitlines() if "cannot be read here" not in line]
    assert lines == [], said.stderr


def test_no_name_moves_or_colours_a_terminal(finished: Finished, tmp_path: Path):
    line = refused(geostat("fit", tmp_path / HOSTILE))
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert r"a\x1b[31m\u202eb<script>\input{x}" in line
    out = tmp_path / "two\nlines\x1b"
    said = geostat("tables", finished.store, "--only", "norms", "--format", "csv", "--out", out)
    assert said.stdout.splitlines()[0] == "tables:"
    assert r"two\nlines\x1b" in said.stdout
    assert "\x1b" not in said.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"LC_ALL": "C"}, {"FORCE_COLOR": "1"}],
    ids=lambda more: next(iter(more)),
)
def test_output_is_plain_wherever_it_goes(finished: Finished, tmp_path: Path, more):
    for words in (("doctor", finished.store), ("fit", tmp_path), ("confront", "--nothing")):
        said = called(*words, **more)
        assert "\x1b" not in said.stdout + said.stderr
        assert "Traceback" not in said.stderr
        assert said.returncode == (0 if words[0] == "doctor" else 2)
        assert len(said.stderr.splitlines()) == (0 if words[0] == "doctor" else 1)


@pytest.mark.slow
def test_a_capture_needs_no_home(model_folder: Path, text_folder: Path, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    words = capturing(model_folder, text_folder, tmp_path / "out")
    said = called(*words, HOME=str(home), XDG_CACHE_HOME=str(tmp_path / "none" / "cache"))
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "out" / "run.zarr").is_dir()
    if os.geteuid():  # nothing is closed to root
        assert list(home.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_changes_nothing(
    model_folder: Path, text_folder: Path, tmp_path: Path, first: signal.Signals
):
    words = [str(word) for word in capturing(model_folder, text_folder, tmp_path / "out")]
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " from geostat.cli.app import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("geostat: ")
    process.send_signal(first)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=600)
    assert process.returncode == 128 + first
    assert "Traceback" not in rest
    assert rest.splitlines()[-1].startswith("geostat: interrupted")
    assert geostat(*words, "--quiet").code == 0
