"""Fuzzing of the command: a call is tested by its exit code, its output and its files.

Command lines are drawn from the options of the real parser. Slow parts are replaced: a case tests
what is parsed and refused, not what is computed.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geostat.cli.app import app

COMMAND: Any = typer.main.get_command(app)
CODES = frozenset({0, 2, 3, 4, 130})
SECONDS = 300
"""Within which a case must end."""
STREAMS = ("/dev/null", "/dev/tty", "/proc")
WRITING = {"open": 0, "os.mkdir": 0, "os.rename": 1, "os.remove": 0, "os.rmdir": 0, "os.link": 1}
WRITING |= {"os.symlink": 1, "os.truncate": 0}
"""What Python audits that changes the disk, and which argument names the place."""


class Hang(BaseException):
    """A case took too long."""


@dataclass
class Watch:
    """Paths written during a call."""

    on: bool = False
    written: list[str] = field(default_factory=list)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or event not in WRITING:
            return
        place = arguments[WRITING[event]]
        if event == "open":
            mode, flags = arguments[1], arguments[2]
            changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if not changes and not (isinstance(mode, str) and set(mode) & set("wax+")):
                return
        if isinstance(place, (str, bytes, os.PathLike)):
            self.written.append(os.path.abspath(os.fsdecode(place)))


WATCH = Watch()
sys.addaudithook(WATCH)


@dataclass(frozen=True)
class Case:
    """Output and effects of a call."""

    words: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    written: tuple[str, ...]


@contextmanager
def timely(seconds: int = SECONDS) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def call(*words: str) -> Case:
    """Call the command in this process; an uncaught exception is code 1, with its traceback on
    stderr, as in a shell.
    """
    out, err = io.StringIO(), io.StringIO()
    WATCH.written.clear()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            with timely():
                WATCH.on = True
                COMMAND.main(args=list(words), prog_name="geostat")
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except Hang:
            code = -1
        except Exception:
            traceback.print_exc(file=err)
            code = 1
        finally:
            WATCH.on = False
    return Case(words, code, out.getvalue(), err.getvalue(), tuple(WATCH.written))


def numbers(few: int, many: int) -> Any:
    """Numbers of examples of the default and the slow suite."""
    return pytest.mark.parametrize(
        "number", [few, pytest.param(many, marks=pytest.mark.slow)], ids=["few", "many"]
    )


def held(strategy: st.SearchStrategy[Any], check: Callable[[Any], None], number: int) -> None:
    """Run a check on every example."""
    options: dict[str, Any] = {"database": None, "suppress_health_check": list(HealthCheck)}
    settings(max_examples=number, **options)(given(strategy)(check))()


STAGES = ("load the model", "read the text", "open the tensor files")
STAGES += ("capture", "fit", "confront", "report", "analyses")


def judged(case: Case, allowed: tuple[Path, ...] = ()) -> None:
    """Assert what every call promises: a known exit code, no traceback, one line on stderr for a
    refusal, and no files outside the named paths.
    """
    assert case.code in CODES, case
    assert "Traceback" not in case.stderr, case
    if case.code in (2, 4):
        lines = [line for line in case.stderr.splitlines() if not _talk(line)]
        assert len(lines) == 1, case
        assert lines[0].startswith("geostat: "), case
        assert lines[0].isprintable(), case
        assert len(lines[0]) > len("geostat: ") + 10, case
    beyond = [place for place in case.written if not _within(Path(place), allowed)]
    assert beyond == [], (case.words, beyond)


def _talk(line: str) -> bool:
    words = line.removeprefix("geostat: ")
    return any(words == stage or words.startswith(f"{stage} ") for stage in STAGES)


def _within(place: Path, allowed: tuple[Path, ...]) -> bool:
    """Return whether a path lies in a named folder, is a parent of one, or belongs to a store next
    to it.
    """
    if str(place).startswith(STREAMS) or "__pycache__" in place.parts:
        return True
    for one in allowed:
        if one == place or one in place.parents or place in one.parents:
            return True
        if place.parent == one.parent and place.name.startswith((f".{one.name}", one.stem)):
            return True
    return False


ODD = (
    *("-", "0", "-1", "1", "2", "3.5", "1e999", "nan", "inf", "9" * 30, "9" * 400, "9" * 5000),
    *("٣", "²", "½", "١٢", "１", "é\u202e", "\x1b[31m", "a\nb", "a\x85b", "\u2028", "\x07", "\t"),
    *("<script>", "\\input{x}", "%s", "{}", "{0}", "..", "../..", "/", ".", "~", "~nobody/x"),
    *("/dev/null", "nothing/here", "x" * 300, "\udce9", "*", "[a", "(", "a,b", ",", ",,", "a" * 70),
    *("1:2:3", "a=b", "=", "beta=", "N=1:2:3", "beta=0:1:0", "N=2:9:99999999", "d=1e400", "d=²"),
    *("N=0", "L=64", "d=64", "beta=0.1,1", "c=0.5", "rho0=2", "x1,x2", "beta=x1,x2", "N=٣"),
    *("L5H3", "L0H0", "L²H1", "L" + "9" * 5000 + "H0", "l1h1", "L99999999999999999999H0"),
    *("norms.cv holds 90%", "norms.cv holds ٩٠%", "norms.cv fails 0", "norms.cv holds 1e5"),
    *("norms.cv holds " + "9" * 5000, "norms.cv holds 0." + "0" * 400 + "1", "norms.cv holds .5%"),
    *("norms.cv\u2028holds 1", "\x1c holds 1", "x.y holds 0.5", "norms.cv holds ٣", "holds 1"),
    *("default", "all", "last", "last:3", "last:²", "spread:٣", "spread:0", "last:" + "9" * 30),
    *("1,2,4-8", "4-1", "1-", "-1", "²", "1-²", "٣-٤", "1-" + "9" * 20, "builtin", "builtin:x"),
    *("cpu", "cuda", "auto", "paper", "followup", "none", "float32", "int8", "printed", "sharp"),
    *("text", "latex", "json", "python", "pdf", "png,svg", "markdown", "3.25in", "8cm", "1e9in"),
    *("..in", "٣in", "3.25", "paper", "slides", "verdicts", "claims", "norms", "5,8", "²,³"),
    *("12", "theorem 1", "table 1", "table 2", "table ٣", "erratum 17", "erratum ²", "erratum 999"),
    *("precision_lower", "recall", "exponential", "offset", "measured", "sink", "x.npy", "x.csv"),
)
"""Values that were wrong once, or that a program may read as what they are not."""


SOUND: dict[str, tuple[str, ...]] = {
    "--require": ("norms.cv holds 90%", "weights.growth fails 0.5", "norms.cv undetermined 0"),
    "--tolerances": ("good.toml", "bad.toml", "bytes.txt", "notes", "empty.txt"),
    "--set": ("beta=0.05,1", "N=2:8:4", "d=64", "L=64", "rho0=0.1", "c=0:0.5:3", "beta=x1,x2"),
    "--n": ("default", "all", "1,2,4-8"),
    "--queries": ("last", "last:3", "spread:4", "default"),
    "--edition": ("printed", "sharp"),
    "--only": ("verdicts,norms", "claims", "5,8", "norms"),
    "--format": ("latex", "png,svg", "csv,json", "markdown"),
    "--width": ("3.25in", "8.5cm", "200pt"),
    "--style": ("paper", "slides"),
    "--columns": ("1", "2"),
    "--head": ("L0H1", "L1H3"),
    "--from": ("done",),
    "--gram": ("exponential", "offset", "x.csv", "x.npy"),
    "--bound": ("recall_lower", "precision_upper"),
    "--find": ("N", "beta", "d"),
    "--text": ("notes", "empty.txt", "bad.jsonl", "bytes.txt", "empty", "builtin"),
    "--documents": ("2", "5", "6"),
    "--length": ("40", "8"),
    "--dtype": ("float32", "bfloat16"),
    "--device": ("cpu", "auto"),
    "--convention": ("paper", "followup"),
    "--special-tokens": ("default", "none"),
    "--out": ("new", "new/run.zarr", "done", "empty.txt", "link", "new/deep/er"),
    "--as": ("text", "latex", "python", "json"),
    "--draws": ("2", "1000"),
    "--target": ("0.5", "1"),
}
"""Values that an option takes, or files that it finds."""
WORDS: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(("fit", "confront", "report", "tables", "figures"), (("done",),)),
    **dict.fromkeys(
        ("run", "capture"),
        (("model", "--text", "notes", "--length", "40", "--documents", "2"), ("bad.gguf",), ()),
    ),
    "compare": (("done", "done/run.zarr"), ("done", "nothing")),
    "doctor": (("done",), ()),
    "theory": (("12",), ("theorem", "1"), ("table", "1"), ()),
    "whatif": (("--set", "N=2,4", "--set", "beta=0.1,0.2"), ("--from", "done", "--set", "beta=x2")),
}
"""What stands before the options where a call is to get far."""


def anything() -> st.SearchStrategy[str]:
    """Return any text that an argument can be."""
    return st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))


@st.composite
def changed(draw: st.DrawFn, text: str) -> str:
    """Return a text with parts removed, doubled or inserted."""
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return (
        text[:start] + draw(st.one_of(st.just(""), st.sampled_from(ODD), anything())) + text[end:]
    )


@st.composite
def values(draw: st.DrawFn, option: str, places: tuple[str, ...]) -> str:
    """Return a value of an option: valid, nearly valid, odd, an existing name, or anything."""
    kind, sound = draw(st.integers(0, 9)), SOUND.get(option, ODD)
    if kind < 4:
        return draw(st.sampled_from(sound))
    if kind < 7:
        return draw(changed(draw(st.sampled_from(sound))))
    return draw(st.one_of(st.sampled_from(ODD), st.sampled_from(places), anything()))


def _parameters(command: Any) -> list[tuple[str, bool]]:
    """Return the names of a command's options, and whether they take a value."""
    options = [param for param in command.params if param.param_type_name == "option"]
    return [
        (name, not option.is_flag)
        for option in options
        for name in (*option.opts, *option.secondary_opts)
        if name != "--help"
    ]


COMMANDS: dict[str, list[tuple[str, bool]]] = {
    name: _parameters(command) for name, command in COMMAND.commands.items()
}
"""Options of every command, as its parser has them."""


@st.composite
def command_lines(draw: st.DrawFn, places: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line: mostly a command with some of its options, sometimes with those of
    another, without a value, or with random words.
    """
    name = draw(st.sampled_from(sorted(COMMANDS)) if draw(st.integers(0, 30)) else anything())
    own = COMMANDS.get(name, [])
    every = [one for options in COMMANDS.values() for one in options]
    words = list(draw(st.sampled_from(WORDS.get(name, ((),)))))
    if not draw(st.integers(0, 3)):
        words = draw(st.lists(values("", places), max_size=3))
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 20))
        option, takes = draw(st.sampled_from(own or every) if kind else st.sampled_from(every))
        value = draw(values(option, places))
        if kind == 1:
            words.append(f"{option}={value}")
        elif kind == 2:
            words.append(option)  # without its value
        elif kind == 3:
            words.append("--" + value)
        else:
            words += [option, value] if takes else [option]
    return (name, *words)


def outs(words: tuple[str, ...], here: Path) -> tuple[Path, ...]:
    """Return the paths that a command line may write to."""
    named = [word.partition("=")[2] if word.startswith("--out=") else word for word in words]
    paths = [here / name for name in ("report", "comparison", "whatif")]
    for word in named:
        try:
            paths.append(Path(os.path.abspath(here / Path(word).expanduser())))
        except (RuntimeError, ValueError):
            continue
    paths += [path / "run.zarr" for path in paths] + [
        path.with_suffix(".json") for path in paths if path.name
    ]
    return tuple(path for path in paths if path not in (Path("/"), here, here.parent))
