"""Process of a command: error messages, exit codes, standard streams and signals.

An error becomes one line on stderr and an exit code of `geostat.cli.app`. Streams may be closed,
broken, full, or lack a character in their encoding. SIGINT (Ctrl-C), SIGTERM (`kill`, a scheduler,
a container) and SIGHUP (a closed terminal) all raise KeyboardInterrupt, which runs the same
cleanup. Imports typer.
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
from empirical.sources.paths import shown
from geostat.errors import INPUT_ERRORS, InputError, UnmetRequirement, printable, shortened

NO_PATH = frozenset({errno.ENAMETOOLONG, errno.ELOOP})
"""Errors of an invalid path: the name is too long, or links form a loop."""

UsageError = cast("type[Exception]", typer.BadParameter.__base__)
"""Base class of typer's parsing errors; typer exports only some subclasses."""
STOPS = ("SIGINT", "SIGTERM", "SIGHUP")
_handled: list[int] = []
_received: list[int] = []


class ErrorReportingGroup(TyperGroup):
    """Command group that reports errors as one line and an exit code."""

    def make_context(
        self, info_name: str | None, args: list[str], *positional: Any, **kwargs: Any
    ) -> Any:
        """Parse options before the name of the command."""
        if not args:  # print the help
            return super().make_context(info_name, args, *positional, **kwargs)
        with _errors_reported():
            if "" in args:  # an empty path would name the current folder
                before = f" after {shown(args[args.index('') - 1])}" if args.index("") else ""
                raise InputError(
                    f"an empty word{before}, expected a value. Leave it out, or set the variable"
                    " that it came from."
                )
            return super().make_context(info_name, args, *positional, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _errors_reported():
            os.getcwd()  # raises if the folder was removed, where MKL would abort the process
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextmanager
def _errors_reported() -> Iterator[None]:
    """Print errors in the block as one line and exit."""
    try:
        yield
    except UsageError as error:
        _fail(_usage_message(error), 2)
    except (*INPUT_ERRORS, UnmetRequirement, StoreError) as error:
        _fail(
            str(error),
            3 if isinstance(error, UnmetRequirement) else 4 if isinstance(error, StoreError) else 2,
        )
    except KeyboardInterrupt as error:
        code = exit_code()
        _fail(
            str(error) or "interrupted. What was complete is kept: run the same command again.",
            code,
        )
    except BrokenPipeError:  # the reader closed the pipe
        sys.exit(141)
    except OSError as error:
        _fail(_os_error_message(error), 2)
    except MemoryError as error:
        seen = f" ({error})" if str(error) else ""
        _fail(
            f"this machine ran out of memory{seen}. What was complete is kept: free memory, or"
            " reduce --length or --batch, then run the same command again.",
            2,
        )
    except RecursionError:
        _fail("an input file is nested too deep. Check the input files.", 2)
    except (Exception, SystemExit, GeneratorExit):  # an internal error, or an intended exit
        raise
    except BaseException as error:  # a panic of a compiled library
        _fail(f"a library failed ({_first_line(error)}). Check the input files.", 2)


def _usage_message(error: Any) -> str:
    """Return the message for a command line that cannot be parsed, with a pointer to the help."""
    message = error.format_message().strip().rstrip(".")
    command = error.ctx.command_path if error.ctx else "geostat"
    takes_text = error.ctx is not None and any(
        parameter.name == "text" for parameter in error.ctx.command.params
    )
    repeat = " Repeat --text for each text." if takes_text and "extra argument" in message else ""
    end = "" if message.endswith(("?", "?)")) else "."
    return f"{message}{end}{repeat} See `{command} --help`."


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _os_error_message(error: OSError) -> str:
    name = error.filename or ("the working folder" if error.errno == errno.ENOENT else "the output")
    reason = error.strerror or _first_line(error)
    if error.errno in FULL:
        return f"{name}: cannot be written ({reason}). Free some space, or choose another --out."
    if error.errno in NO_PATH:
        return f"{shown(str(name))[:60]}…: is not a valid path ({reason}). Check the path."
    if error.errno == errno.EROFS:
        return f"{name}: cannot be written ({reason}). Choose another --out."
    if error.errno in DENIED:
        return f"{name}: cannot be opened ({reason}). Check its permissions, or name another."
    return (
        f"{name}: failed ({reason}). Check it and the limits of this machine, then run the same"
        " command again."
    )


def _fail(line: str, code: int) -> NoReturn:
    print_message(" ".join(line.split()))
    sys.exit(code)


def prepare_streams() -> None:
    """Make the standard streams usable and silence the logging of libraries.

    A closed stream becomes the null device; characters that a stream cannot encode are escaped.
    """
    for library in ("matplotlib", "asyncio"):  # missing fonts, failed background tasks
        logging.getLogger(library).setLevel(logging.CRITICAL)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        # In this order each stream gets its file descriptor back; otherwise the next opened file
        # would get it.
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open until exit
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_message(line: str) -> None:
    """Print a line on stderr without terminal control characters; ignore write errors."""
    with suppress(OSError):
        sys.stderr.write(f"geostat: {shortened(printable(line))}\n")
        sys.stderr.flush()


def flush_streams() -> None:
    """Flush the standard streams; redirect a broken stream, about which Python would complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def install_signal_handlers() -> None:
    """Raise KeyboardInterrupt at each signal of STOPS; ignored signals (nohup) stay ignored."""
    for number in (getattr(signal, name) for name in STOPS if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)
            _handled.append(number)


def exit_code() -> int:
    """Return 128 + the number of the first signal, as shells do, and ignore further signals."""
    for number in _handled:
        signal.signal(number, signal.SIG_IGN)
    if _handled:
        warnings.simplefilter("ignore")  # unfinished reads of zarr warn at exit
    return 128 + (_received[0] if _received else signal.SIGINT)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _received.append(number)
    raise KeyboardInterrupt
