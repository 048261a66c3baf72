"""Progress: lines without a terminal, a bar on stderr with one, nothing with --quiet."""

import io
import sys

import numba
import pytest

from empirical.capture.capture import Progress
from geostat.cli import progress as terminal
from geostat.cli.progress import progress_console, rate
from geostat.runs.console import QUIET, compilation_reported


def progress(documents: int, layer: int = 0, *, tokens: float = 1500.0) -> Progress:
    sizes = {"total": 4, "layers": 2, "tokens": tokens, "tokens_left": 900.0, "seconds": 3.0}
    return Progress(documents=documents, layer=layer, **sizes)


class Terminal(io.StringIO):
    """Stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_rate_counts_documents_tokens_and_seconds_left():
    assert rate(progress(3)) == "3/4 documents · 500 tokens/s · 2 s left"
    assert rate(progress(0, tokens=0)) == "0/4 documents"


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]):
    console = progress_console(quiet=True)
    assert console is QUIET
    console.stage("capture")
    console.captured(progress(4))
    console.fraction("fit", 1.0)
    console.note("compile kernels")
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_each_stage_prints_a_line_and_progress_is_throttled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    console = progress_console(quiet=False)
    console.stage("capture of [/INST] :smile:")
    for seconds, documents in ((1, 1), (9, 1), (11, 2), (12, 3), (13, 4)):
        now[0] = 100.0 + seconds
        console.captured(progress(documents))
    console.stage("fit weights")
    for seconds in (15, 30):
        now[0] = 100.0 + seconds
        console.fraction("fit weights", 0.25)
    console.fraction("fit weights", 1.0)  # the last line is always printed
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.removeprefix("geostat: ") for line in err.splitlines()] == [
        "capture of [/INST] :smile:",
        "2/4 documents · 500 tokens/s · 2 s left",
        "4/4 documents · 500 tokens/s · 2 s left",
        "fit weights",
        "fit weights 25%",
        "fit weights 100%",
    ]


def test_a_bar_leaves_stdout_alone_and_ends_with_its_stage(monkeypatch: pytest.MonkeyPatch):
    screen, stdout = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setenv("TERM", "xterm")
    console = progress_console(quiet=False)
    console.stage("capture")
    console.captured(progress(1, layer=1))
    assert sys.stdout is stdout
    assert sys.stderr is not screen  # an error is printed above the bar
    console.captured(progress(4))
    assert sys.stderr is screen
    console.stage("fit norms")
    console.fraction("fit norms", 0.5)
    console.note("compile kernels")
    assert sys.stderr is not screen
    console.fraction("fit norms", 1.0)
    assert sys.stderr is screen
    print('{"run": 1}')
    assert stdout.getvalue() == '{"run": 1}\n'
    for text in ("geostat: capture", "500 tokens/s", "geostat: fit norms", "compile kernels"):
        assert text in screen.getvalue()


def test_compilation_is_reported_once_in_a_stage(capsys: pytest.CaptureFixture[str]):
    console = progress_console(quiet=False)
    with compilation_reported(console):
        numba.njit(lambda x: x + 1)(1.0)
        numba.njit(lambda x: x + 2)(1.0)
    numba.njit(lambda x: x + 3)(1.0)
    assert capsys.readouterr().err.splitlines() == [
        "geostat: compile kernels, once on this machine; the time left excludes it"
    ]
