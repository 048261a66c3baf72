"""What a person sees: lines where there is no terminal, a bar that never touches stdout where
there is one, nothing when quiet.
"""

import io
import sys

import numba
import pytest

from empirical.capture.capture import Progress
from geostat.cli import progress as terminal
from geostat.cli.progress import rate, talk
from geostat.runs.console import QUIET, compilation_told


def progress(documents: int, layer: int = 0, *, tokens: float = 1500.0) -> Progress:
    return Progress(
        documents=documents,
        total=4,
        layer=layer,
        layers=2,
        tokens=tokens,
        tokens_left=900.0,
        seconds=3.0,
    )


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_rate_counts_documents_tokens_and_seconds_left():
    assert rate(progress(3)) == "3/4 documents · 500 tokens/s · 2 s left"
    assert rate(progress(0, tokens=0)) == "0/4 documents"


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]):
    console = talk(quiet=True)
    assert console is QUIET
    console.stage("capture")
    console.captured(progress(4))
    console.fraction("fit", 1.0)
    console.note("compile kernels")
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_there_is_a_line_a_stage_and_one_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    console = talk(quiet=False)
    console.stage("capture of [/INST] :smile:")
    for seconds, documents in ((1, 1), (9, 1), (11, 2), (12, 3), (13, 4)):
        now[0] = 100.0 + seconds
        console.captured(progress(documents))
    console.stage("fit weights")
    for seconds in (15, 30):
        now[0] = 100.0 + seconds
        console.fraction("fit weights", 0.25)
    console.fraction("fit weights", 1.0)  # told however soon it comes
    out, err = capsys.readouterr()
    assert out == ""
    tail = " · 500 tokens/s · 2 s left"
    assert err.splitlines() == [
        "geostat: capture of [/INST] :smile:",
        f"geostat: 2/4 documents{tail}",
        f"geostat: 4/4 documents{tail}",
        "geostat: fit weights",
        "geostat: fit weights 25%",
        "geostat: fit weights 100%",
    ]


def test_a_bar_leaves_stdout_alone_and_is_gone_when_its_stage_is_over(
    monkeypatch: pytest.MonkeyPatch,
):
    screen, stdout = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setenv("TERM", "xterm")
    console = talk(quiet=False)
    console.stage("capture")
    console.captured(progress(1, layer=1))
    assert sys.stdout is stdout
    assert sys.stderr is not screen  # an error goes above the bar
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
    shown = screen.getvalue()
    assert "geostat: capture" in shown
    assert "500 tokens/s" in shown
    assert "geostat: fit norms" in shown
    assert "geostat: compile kernels" in shown


def test_kernels_that_are_compiled_are_told_once_a_stage(capsys: pytest.CaptureFixture[str]):
    console = talk(quiet=False)
    with compilation_told(console):
        numba.njit(lambda x: x + 1)(1.0)
        numba.njit(lambda x: x + 2)(1.0)
    numba.njit(lambda x: x + 3)(1.0)
    assert capsys.readouterr().err.splitlines() == [
        "geostat: compile kernels, once on this machine; the time left leaves it out"
    ]
