"""Environment of a command: terminals, locales, home folders, threads and hostile names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.commands import MAIN, called
from support.spine import Finished, Said, capturing, geostat, refused

HOSTILE = "a\x1b[31m\u202eb<script>\\input{x}"


def test_an_unknown_matplotlib_backend_is_ignored():
    code = (
        "from geostat.cli import app; app.app = lambda: None; app.main()\nimport matplotlib.pyplot"
    )
    assert called(code=code, env={"MPLBACKEND": "nonsense"}) == Said(0, "", "")


def test_a_removed_working_folder_is_one_line(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = refused(called("doctor", code=f"import os; os.rmdir({str(gone)!r}); {MAIN}", cwd=gone))
    assert line.startswith("the working folder: failed (No such file or directory)")


NO_THREADS = f"""
from empirical.store.shards import RunFiles
get = RunFiles.get
async def refused(self, key, *more, **further):
    if key.count("/") > 1:  # metadata of the arrays, which zarr reads side by side
        raise RuntimeError("can't start new thread")
    return await get(self, key, *more, **further)
RunFiles.get = refused
{MAIN}
"""


def test_exhausted_threads_are_one_line(finished: Finished):
    result = called("fit", finished.store, code=NO_THREADS)
    assert result.code == 2
    lines = [line for line in result.stderr.splitlines() if "cannot be read here" not in line]
    assert lines == [], result.stderr


def test_control_characters_in_names_are_escaped(tmp_path: Path):
    line = refused(geostat("fit", tmp_path / HOSTILE))
    assert not set(line) & {"\x1b", "\u202e"}
    assert r"a\x1b[31m\u202eb<script>\input{x}" in line
    result = geostat("whatif", "--set", "N=2", "--out", tmp_path / "two\nlines\x1b")
    assert r"two\nlines\x1b" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"LC_ALL": "C"}, {"FORCE_COLOR": "1"}],
    ids=lambda env: next(iter(env)),
)
def test_output_has_no_escape_sequences(finished: Finished, tmp_path: Path, env: dict[str, str]):
    for words in (("doctor", finished.store), ("fit", tmp_path), ("confront", "--nothing")):
        result = called(*words, env=env)
        assert "\x1b" not in result.stdout + result.stderr
        assert "Traceback" not in result.stderr
        bad = words[0] != "doctor"
        assert (result.code, len(result.stderr.splitlines())) == (2 * bad, bad)


@pytest.mark.slow
def test_a_capture_needs_no_home_folder(model_folder: Path, text_folder: Path, tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    words = capturing(model_folder, text_folder, tmp_path / "out")
    cache = str(tmp_path / "none" / "cache")
    result = called(*words, env={"HOME": str(home), "XDG_CACHE_HOME": cache})
    assert result.code == 0, result.stderr
    assert (tmp_path / "out" / "run.zarr").is_dir()
    if os.geteuid():  # root can read and write everything
        assert list(home.iterdir()) == []
