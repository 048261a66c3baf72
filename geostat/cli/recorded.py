"""Commands that made a run, as run.json has them, read back into their options. Imports typer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import typer
from typer.main import get_command

from geostat.cli import options
from geostat.cli.process import UsageError
from geostat.errors import InputError

KNOWN: Final = {
    "run": options.MEASURING | options.JUDGING,
    "capture": options.MEASURING,
    "ingest": options.INGESTING,
    "confront": options.CONFRONTING,
}
"""Options of the commands that measure or confront."""


def recorded(path: Path, stage: str) -> tuple[str, dict[str, Any]] | None:
    """Return the command that made a stage of the run at `path`: its name, and its options by the
    names of their parameters; None where none is recorded.

    Raises:
        InputError: if what is recorded is no command of this geostat.
    """
    from geostat.runs.files import words_of

    words = words_of(path, stage)
    if words is None or "--help" in words:
        return None
    read: list[tuple[str, dict[str, Any]]] = []
    app = typer.Typer(add_completion=False)
    for name, known in KNOWN.items():
        app.command(name)(options.taking(known)(_keeping(name, read)))
    try:
        get_command(app).main(args=words, prog_name="geostat", standalone_mode=False)
    except UsageError as error:
        seen = getattr(error, "message", "") or "no such command"
        raise InputError(
            f"{path.with_suffix('.json')}: tells of `geostat {' '.join(words)}`, which is no"
            f" command ({str(seen).rstrip('.')}). Mend it, or measure the run again with --fresh."
        ) from error
    return read[0] if read else None


def _keeping(name: str, read: list[tuple[str, dict[str, Any]]]) -> Callable[..., None]:
    """Return a command that keeps what it is given."""

    def keep(**given: Any) -> None:
        read.append((name, given))

    return keep
