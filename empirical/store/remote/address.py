"""A run at a URL: its files by fsspec's file systems, and two small files of marks. `.writer` names
the working copy that is written to, from the first step of a command to its last; `.stamp` names
what stands there, another one after each send. Imports fsspec on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from platform import node
from typing import TYPE_CHECKING, Any, Final

from empirical.errors import InputError
from empirical.store.remote.origin import UNDER_WAY, Origin

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

ROOT: Final = "zarr.json"
STAMP: Final = ".stamp"
"""What names the state of the run at the URL; while files are sent, `UNDER_WAY` and the sender."""
WRITER: Final = ".writer"
"""What names the working copy that is written to."""
MARKS: Final = frozenset({STAMP, WRITER})


@dataclass(frozen=True, slots=True)
class Remote:
    """A run at a URL: a file system, and the run's address in it."""

    system: AbstractFileSystem
    base: str

    @classmethod
    @contextmanager
    def of(cls, url: str, path: Path) -> Iterator[Remote]:
        """Give the run at `url`, of which `path` is the working copy; one line where it refuses."""
        try:
            from fsspec.core import url_to_fs

            system, base = url_to_fs(url)
            system.invalidate_cache()  # another machine may have written since
            if hasattr(system, "auto_mkdir"):
                system.auto_mkdir = True  # of a disk: its folders are made as they are needed
            yield cls(system, str(base).rstrip("/"))
        except InputError:
            raise
        except ImportError as error:
            raise InputError(
                f"{url}: cannot be reached without another package. {_first_line(error)}."
            ) from error
        except ValueError as error:
            raise InputError(
                f"{url}: is no address of a run ({_first_line(error)}), expected a folder, or a URL"
                " such as s3://BUCKET/run.zarr. Check it."
            ) from error
        except Exception as error:  # each file system has errors of its own
            raise InputError(
                f"{url}: failed ({_first_line(error)}). Check the address, the network and your"
                f" credentials, then run the same again: what is complete is kept in {path}."
            ) from error

    def at(self, name: str) -> str:
        """Return the address of a file, which may be the record beside the run."""
        if name.startswith("../"):
            return f"{self.base.rpartition('/')[0]}/{name[3:]}"
        return f"{self.base}/{name}"

    def take(self, origin: Origin, path: Path) -> None:
        """Say that the working copy at `path` is written to; refuse where another one is, or what
        stands there is not what was fetched.
        """
        stamp, writer = self.read(STAMP), self.read(WRITER)
        if writer is None or origin.token in writer:
            if stamp is None and self.names():
                raise InputError(
                    f"{origin.url}: holds files already, but no run that geostat sent, expected"
                    " nothing. Name another URL."
                )
            self.write(WRITER, f"{node()}:{path} {origin.token}")
            writer = self.read(WRITER)  # another one's, if it began in the same moment
        if writer is None or origin.token not in writer:
            raise busy(origin.url, writer or "", stamp)
        if not origin.ours(self.read(STAMP)):
            self.remove(WRITER)
            raise InputError(
                f"{origin.url}: was changed from elsewhere just now. Run the same command again."
            )

    def let_go(self, origin: Origin) -> None:
        """Say that the working copy is written to no more; where a send broke off its name stays,
        for others to see who goes on.
        """
        broken = (self.read(STAMP) or "").startswith(UNDER_WAY)
        if not broken and origin.token in (self.read(WRITER) or ""):
            self.remove(WRITER)

    def names(self) -> dict[str, Mapping[str, Any]]:
        """Return every file of the run but its record and marks: what the file system tells of it.

        Raises:
            InputError: if one could not lie in a folder of this machine.
        """
        told = {
            name[len(self.base) + 1 :]: info
            for name, info in self.system.find(self.base, detail=True).items()
        }
        for name, info in told.items():
            if {"", ".", ".."} & {*name.split("/")}:
                raise InputError(
                    f"{self.base}: holds a file named {name!r}, expected those of a run. Remove it."
                )
            if not is_file(info):
                raise InputError(
                    f"{self.base}: holds {name!r}, which is a link or no file, expected those of a"
                    " run. Remove it."
                )
        return {name: info for name, info in told.items() if name not in MARKS}

    def read(self, name: str) -> str | None:
        """Return the text of a small file; None where there is none."""
        try:
            return bytes(self.system.cat_file(self.at(name))).decode(errors="replace")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Write a small file."""
        self.system.pipe_file(self.at(name), text.encode())

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self.system.rm_file(self.at(name))


def is_file(info: Mapping[str, Any]) -> bool:
    """Whether a file system tells of a file, not of a link, a pipe or a device, as a disk may."""
    return info.get("type", "file") == "file" and not info.get("islink")


def busy(url: str, writer: str, stamp: str | None) -> InputError:
    """Another machine writes, or was stopped while it did."""
    where = writer.rpartition(" ")[0] or "another machine"
    remedy = (
        "what stands there is half of one state and half of the next: remove it and measure again"
        if (stamp or "").startswith(UNDER_WAY)
        else f"remove {url}/{WRITER}"
    )
    return InputError(
        f"{url}: is being written from {where}, expected no other. Wait until it ends, or run its"
        f" last command again there; where it is gone for good, {remedy}."
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
