"""Folders of caches: geostat's own, and a place for those of others where the user has no home that
can be written.

A container often runs as a user without a home, out of packages that root installed. numba then
finds nowhere to keep what it compiled and refuses to compile at all. Such caches go to one folder
below the system's temporary one. It must be the user's alone: numba's cache holds pickles, which
run code when read. Imports the standard library.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from empirical.errors import InputError

PACKAGE = Path(__file__).parent


def cache_folder() -> Path:
    """Return the folder of geostat's own cache: $GEOSTAT_CACHE (an InputError if in no known
    home), or geostat/ in $XDG_CACHE_HOME or ~/.cache.
    """
    own = os.environ.get("GEOSTAT_CACHE")
    if not own:
        return _usual("XDG_CACHE_HOME", ".cache") / "geostat"
    try:
        return Path(own).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"GEOSTAT_CACHE is {own}: no such home is known. Set it to a folder by its full path."
        ) from error


def place_in_cache(name: str) -> Path:
    """Return where `name` lies in geostat's cache, or is to be made: in `own_folder()` where the
    usual cache cannot be written.
    """
    folder = cache_folder()
    if os.environ.get("GEOSTAT_CACHE") or os.path.exists(folder / name) or writable(folder):
        return folder / name
    return (own_folder() or folder) / name


def lend_caches() -> None:
    """Tell numba, matplotlib and the Hugging Face libraries to keep their caches in `own_folder()`,
    each where it has no other place.

    They are told through the environment, so it is to be done before they are imported, and goes
    for child processes too.
    """
    caches, settings = _usual("XDG_CACHE_HOME", ".cache"), _usual("XDG_CONFIG_HOME", ".config")
    hub = caches / "huggingface"
    placed = {
        "NUMBA_CACHE_DIR": writable(PACKAGE / "__pycache__") or writable(caches / "numba"),
        "MPLCONFIGDIR": writable(caches / "matplotlib") and writable(settings / "matplotlib"),
        "HF_HOME": (
            os.path.isdir(hub) or writable(hub)
        ),  # models in a folder that may only be read are still found there
    }
    lacking = [
        name for name, has_place in placed.items() if not has_place and not os.environ.get(name)
    ]
    if lacking and (own := own_folder()) is not None:
        os.environ.update({name: str(own / name.partition("_")[0].lower()) for name in lacking})


def own_folder() -> Path | None:
    """Return the folder geostat-UID under the system's temporary one, made unless it is there; None
    where it cannot be the user's alone.

    That is where no temporary file can be written, where another user made the folder or may write
    to it, and where others may put something else in its place.
    """
    if os.name != "posix":  # there temporary files are each user's own, and so is a home
        return None
    try:
        above = Path(tempfile.gettempdir())
        folder = above / f"geostat-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        held, around = folder.lstat(), above.stat()
    except OSError:
        return None
    others = stat.S_IRWXG | stat.S_IRWXO
    private = (
        stat.S_ISDIR(held.st_mode) and held.st_uid == os.getuid() and not held.st_mode & others
    )
    settled = around.st_uid in (0, os.getuid()) and (
        around.st_mode & stat.S_ISVTX or not around.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
    return folder if private and settled else None


def writable(folder: Path) -> bool:
    """Whether a folder can be written, or made; not below a home that is not known."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    except OSError:
        return False
    return (
        there.is_dir() and os.access(there, os.W_OK | os.X_OK) and not str(folder).startswith("~")
    )


def _usual(variable: str, below_home: str) -> Path:
    """The user's folder of a kind, which need not be there: the environment's, or the usual one
    in the home.
    """
    return Path(os.environ.get(variable) or os.path.expanduser(f"~/{below_home}"))
