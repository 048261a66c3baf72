"""Closed, broken and full standard streams, and streams of a limited encoding, in real
processes.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.commands import ENVIRONMENT, PATIENCE, program
from support.spine import Finished

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


def call(
    *words: object, streams: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Call the command with shell redirections, such as >&- for a closed stdout."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *program(*words)],
        env=os.environ | ENVIRONMENT | environment,
        capture_output=True,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(C_LOCALE, id="C locale"),
        *(
            pytest.param({"PYTHONIOENCODING": f"{name}:strict"}, id=name, marks=pytest.mark.slow)
            for name in ("latin-1", "ascii")
        ),
    ],
)
def test_characters_outside_the_encoding_are_escaped(environment: dict[str, str]):
    done = call("theory", "--errata", **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u201c" in done.stdout
    refused = call("theory", "Λ", **environment)
    assert (refused.returncode, refused.stderr.count(b"\n")) == (2, 1)


@pytest.mark.slow
def test_verdicts_are_printed_in_the_c_locale(finished: Finished, tmp_path: Path):
    shutil.copytree(finished.store, tmp_path / "run.zarr")
    done = call("confront", tmp_path, "--edition", "sharp", **C_LOCALE)
    assert done.returncode == 0
    elsewhere = call("confront", tmp_path, "--edition", "sharp")
    assert done.stdout == elsewhere.stdout.decode("utf-8").encode("ascii", "backslashreplace")
    assert {line.split(b" ")[0] for line in done.stderr.splitlines()} == {b"geostat:"}


PRINTING = [
    ("theory", "12"),
    ("--help",),
    *(pytest.param(words, marks=pytest.mark.slow) for words in (("theory",), ("doctor",))),
    pytest.param(("run", "--help"), marks=pytest.mark.slow),
]
"""Commands that print, through typer or not."""


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_ignored(streams: str):
    done = call("--version", streams=streams)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (done.stdout == b"") == (">&-" in streams.split())


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_closed_pipe_ends_the_command_silently(words: tuple[str, ...]):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            program(*words), stdout=writing, stderr=subprocess.PIPE, timeout=PATIENCE
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@needs_full
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_full_output_device_is_one_line(words: tuple[str, ...]):
    done = call(*words, streams=">/dev/full")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert done.stderr.startswith(
        b"geostat: the output: cannot be written (No space left on device)."
    )


@needs_full
@pytest.mark.slow
def test_progress_lines_that_cannot_be_written_are_ignored(finished: Finished, tmp_path: Path):
    run = shutil.copytree(finished.out, tmp_path / "run")
    done = call("confront", run, streams="2>/dev/full")
    assert (done.returncode, done.stderr) == (0, b"")
    assert call("doctor", tmp_path / "nothing", streams="2>/dev/full").returncode == 2
