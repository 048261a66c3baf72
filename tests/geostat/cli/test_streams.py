"""Standard streams that are closed, broken, full, or of an encoding that lacks a letter. Real
processes, for streams are theirs.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.spine import Finished

PROGRAM = (sys.executable, "-c", "from geostat.cli.app import main; main()")
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
POOR = {
    "C locale": C_LOCALE,
    "latin-1": {"PYTHONIOENCODING": "latin-1:strict"},
    "ascii": {"PYTHONIOENCODING": "ascii:strict"},
}


def call(
    *arguments: object, streams: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Call the command behind a shell's redirections, such as >&- for a closed stdout."""
    program = ["sh", "-c", f'exec "$@" {streams}', "sh", *PROGRAM, *map(str, arguments)]
    return subprocess.run(
        program,
        env={**os.environ, "PYTHONWARNINGS": "", **environment},
        capture_output=True,
        timeout=600,
    )


@pytest.mark.parametrize(
    "name", ["C locale", *(pytest.param(name, marks=pytest.mark.slow) for name in [*POOR][1:])]
)
def test_a_letter_that_the_output_lacks_is_written_as_its_code(name: str):
    done = call("theory", "--errata", **POOR[name])
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u201c" in done.stdout
    refused = call("theory", "Λ", **POOR[name])
    assert refused.returncode == 2
    assert refused.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_verdicts_are_told_in_a_poor_locale(finished: Finished, tmp_path: Path):
    shutil.copytree(finished.store, tmp_path / "run.zarr")
    done = call("confront", tmp_path, "--edition", "sharp", **C_LOCALE)
    assert done.returncode == 0
    elsewhere = call("confront", tmp_path, "--edition", "sharp")
    assert done.stdout == elsewhere.stdout.decode("utf-8").encode("ascii", "backslashreplace")
    assert [line.split(b" ")[0] for line in done.stderr.splitlines()] == [b"geostat:"] * len(
        done.stderr.splitlines()
    )


SAYING = [
    ("theory", "12"),
    ("--help",),
    *(
        pytest.param(words, marks=pytest.mark.slow)
        for words in (("theory",), ("doctor",), ("run", "--help"))
    ),
]
"""Commands that say something, by way of typer or not."""


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_as_good_as_none(streams: str):
    done = call("theory", "12", streams=streams)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (done.stdout == b"") == (">&-" in streams.split())


@pytest.mark.parametrize(
    "arguments",
    SAYING,
    ids=" ".join,
)
def test_a_reader_that_has_gone_ends_the_command_quietly(arguments: tuple[str, ...]):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*PROGRAM, *arguments], stdout=writing, stderr=subprocess.PIPE, timeout=600
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is a file of Linux")
@pytest.mark.parametrize(
    "arguments",
    SAYING,
    ids=" ".join,
)
def test_an_output_that_is_full_is_refused_in_a_line(arguments: tuple[str, ...]):
    done = call(*arguments, streams=">/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith(
        b"geostat: the output: cannot be written (No space left on device)."
    )
    assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full is a file of Linux")
def test_lines_that_cannot_be_written_stop_nothing(finished: Finished, tmp_path: Path):
    shutil.copytree(finished.out, tmp_path, dirs_exist_ok=True)
    done = call("confront", tmp_path, streams="2>/dev/full")
    assert (done.returncode, done.stderr) == (0, b"")
    assert call("doctor", tmp_path / "nothing", streams="2>/dev/full").returncode == 2
