"""What the command refuses becomes one line on stderr and an exit code. Imports typer.

2 bad input, 3 a required verdict not met, 4 a damaged store, 130 interrupted (143 by SIGTERM, 129
by SIGHUP), 141 nobody reads the output any more.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import typer
from typer.core import TyperGroup

from empirical.errors import DENIED, FULL, StoreError
from empirical.errors import InputError as MeasurementError
from empirical.sources.paths import shown
from geostat.cli.process import exit_code, say
from geostat.errors import InputError, Unmet
from reports.errors import InputError as ReportError
from theory.errors import InputError as TheoryError

NO_PATH = frozenset({errno.ENAMETOOLONG, errno.ELOOP})
"""A path that no file can have: a name too long, or links that lead to themselves."""

UsageError = cast("type[Exception]", typer.BadParameter.__base__)
"""What a command line that cannot be parsed raises; typer exports only some of its kinds."""


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
        if error.errno not in FULL | DENIED | NO_PATH:
            raise
        _fail(_refused_by_disk(error), 2)


def _usage(error: Any) -> str:
    """What a command line that cannot be parsed is told, and where it is told what can."""
    message = error.format_message().strip().rstrip(".")
    command = error.ctx.command_path if error.ctx else "geostat"
    takes_text = error.ctx is not None and any(
        parameter.name == "text" for parameter in error.ctx.command.params
    )
    repeat = " Repeat --text for each text." if takes_text and "extra argument" in message else ""
    return f"{message}.{repeat} See `{command} --help`."


def _refused_by_disk(error: OSError) -> str:
    name = error.filename or "the output"
    if error.errno in FULL:
        return (
            f"{name}: cannot be written ({error.strerror}). Free some space, or choose another"
            " --out."
        )
    if error.errno in NO_PATH:
        return (
            f"{shown(str(name))[:60]}…: is no path the disk can hold ({error.strerror}). Check the"
            " path."
        )
    if error.errno == errno.EROFS:
        return f"{name}: cannot be written ({error.strerror}). Choose another --out."
    return f"{name}: cannot be opened ({error.strerror}). Check its permissions, or name another."


def _fail(line: str, code: int) -> NoReturn:
    say(" ".join(line.split()))
    sys.exit(code)
