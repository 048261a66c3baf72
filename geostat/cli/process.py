"""The process of a command: what it refuses becomes one line on stderr and an exit code; standard
streams that are closed, broken, full, or of an encoding that lacks a letter; signals that stop it.

Exit codes are those of `geostat.cli.app`. Signals are Ctrl-C, SIGTERM (of `kill`, a scheduler, a
container's end) and SIGHUP (of a terminal that closes). All raise KeyboardInterrupt, so that what
Ctrl-C cleans up is cleaned up. Imports typer.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn, cast

import typer
from typer.core import TyperGroup

from empirical.errors import DENIED, FULL, StoreError
from empirical.errors import InputError as MeasurementError
from empirical.sources.paths import shown
from geostat.errors import InputError, Unmet, printable, shortened
from reports.errors import InputError as ReportError
from theory.errors import InputError as TheoryError

NO_PATH = frozenset({errno.ENAMETOOLONG, errno.ELOOP})
"""A path that no file can have: a name too long, or links that lead to themselves."""

UsageError = cast("type[Exception]", typer.BadParameter.__base__)
"""What a command line that cannot be parsed raises; typer exports only some of its kinds."""
STOPS = ("SIGINT", "SIGTERM", "SIGHUP")
_heeded: list[int] = []
_received: list[int] = []


class Guarded(TyperGroup):
    """Turns what the command line, or a command, refuses into one line and an exit code."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """Parse what stands before the command's name."""
        if not args:  # the help is shown
            return super().make_context(info_name, args, *more, **extra)
        with _reported():
            if "" in args:  # as a path it would name the current folder
                before = f" after {shown(args[args.index('') - 1])}" if args.index("") else ""
                raise InputError(
                    f"an empty word{before}, expected a value. Leave it out, or set the variable"
                    " that it came from."
                )
            return super().make_context(info_name, args, *more, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        with _reported():
            os.getcwd()  # in one that was removed Intel's MKL ends the process
            done = super().invoke(ctx)
            sys.stdout.flush()
            return done


@contextmanager
def _reported() -> Iterator[None]:
    """Tell of what is refused within, and exit."""
    try:
        yield
    except UsageError as error:
        _fail(_usage(error), 2)
    except (InputError, MeasurementError, TheoryError, ReportError, Unmet, StoreError) as error:
        _fail(
            str(error), 3 if isinstance(error, Unmet) else 4 if isinstance(error, StoreError) else 2
        )
    except KeyboardInterrupt as error:
        code = exit_code()
        _fail(
            str(error) or "interrupted. What was complete is kept: run the same command again.",
            code,
        )
    except BrokenPipeError:  # who reads has seen enough
        sys.exit(141)
    except OSError as error:
        _fail(_refused_by_disk(error), 2)
    except MemoryError as error:
        seen = f" ({error})" if str(error) else ""
        _fail(
            f"this machine ran out of memory{seen}. What was complete is kept: free memory, or ask"
            " for less at once (--length, --batch), then run the same command again.",
            2,
        )
    except RecursionError:
        _fail("something that was read is nested too deep. Check the files that were named.", 2)
    except (Exception, SystemExit, GeneratorExit):  # our own failure, or an intended exit
        raise
    except BaseException as error:  # a library of another language that stopped
        _fail(f"a library failed ({_first_line(error)}). Check the files that were named.", 2)


def _usage(error: Any) -> str:
    """What a command line that cannot be parsed is told, and where it is told what can."""
    message = error.format_message().strip().rstrip(".")
    command = error.ctx.command_path if error.ctx else "geostat"
    takes_text = error.ctx is not None and any(
        parameter.name == "text" for parameter in error.ctx.command.params
    )
    repeat = " Repeat --text for each text." if takes_text and "extra argument" in message else ""
    return f"{message}.{repeat} See `{command} --help`."


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _refused_by_disk(error: OSError) -> str:
    name = error.filename or ("the working folder" if error.errno == errno.ENOENT else "the output")
    reason = error.strerror or _first_line(error)
    if error.errno in FULL:
        return f"{name}: cannot be written ({reason}). Free some space, or choose another --out."
    if error.errno in NO_PATH:
        return f"{shown(str(name))[:60]}…: is no path the disk can hold ({reason}). Check the path."
    if error.errno == errno.EROFS:
        return f"{name}: cannot be written ({reason}). Choose another --out."
    if error.errno in DENIED:
        return f"{name}: cannot be opened ({reason}). Check its permissions, or name another."
    return (
        f"{name}: failed ({reason}). Check it and the limits of this machine, then run the same"
        " again."
    )


def _fail(line: str, code: int) -> NoReturn:
    say(" ".join(line.split()))
    sys.exit(code)


def prepare() -> None:
    """Make every stream one that can be used: a closed one is the null device, a letter that it
    cannot encode is written as its code. Libraries log nothing there.
    """
    for library in ("matplotlib", "asyncio"):  # fonts that are looked for, other tasks that failed
        logging.getLogger(library).setLevel(logging.CRITICAL)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if (
            stream is None
            # in this order each gets back its own number, which the next file that is opened would
            # get otherwise
        ):
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Write a line on stderr, at once, without what would move, colour or turn a terminal; one that
    cannot be written is not worth a stop.
    """
    with suppress(OSError):
        sys.stderr.write(f"geostat: {shortened(printable(line))}\n")
        sys.stderr.flush()


def settle() -> None:
    """Write what is left to write; where a stream takes no more it is dropped, of which Python
    would complain as it ends.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def heed() -> None:
    """Stop at each of these signals; one that is ignored, as under nohup, stays so."""
    for number in (getattr(signal, name) for name in STOPS if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)
            _heeded.append(number)


def exit_code() -> int:
    """Return 128 + the number of the first signal, as a shell gives it; while the command ends,
    which is now, further ones are ignored.
    """
    for number in _heeded:
        signal.signal(number, signal.SIG_IGN)
    if _heeded:
        warnings.simplefilter(
            "ignore"
        )  # that something was left half-done, such as a read of zarr's, is no news
    return 128 + (_received[0] if _received else signal.SIGINT)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _received.append(number)
    raise KeyboardInterrupt
