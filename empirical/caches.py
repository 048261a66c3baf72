"""Cache folders: geostat's cache, and a fallback for other libraries' caches if the user has no
writable home.

A container often runs as a user without a home, with packages that root installed. numba then has
no folder for compiled code and refuses to compile. Such caches go to a folder below the system's
temporary folder. That folder must be private to the user: numba's cache holds pickles, which run
code when read. Imports the standard library.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from empirical.errors import InputError

PACKAGE = Path(__file__).parent


def cache_folder() -> Path:
    """Return the folder of geostat's cache: $GEOSTAT_CACHE, or geostat/ in $XDG_CACHE_HOME or
    ~/.cache; an InputError if $GEOSTAT_CACHE names an unknown home.
    """
    folder = os.environ.get("GEOSTAT_CACHE")
    if not folder:
        return _usual("XDG_CACHE_HOME", ".cache") / "geostat"
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:
        raise InputError(
            f"GEOSTAT_CACHE is {folder}: no such home is known. Set it to a folder by its full"
            " path."
        ) from error


def place_in_cache(name: str) -> Path:
    """Return a path in geostat's cache; in `private_folder()` if that cannot be written."""
    folder = cache_folder()
    if os.environ.get("GEOSTAT_CACHE") or os.path.exists(folder / name) or writable(folder):
        return folder / name
    return (private_folder() or folder) / name


def redirect_caches() -> None:
    """Point the caches of numba, matplotlib and the Hugging Face libraries to `private_folder()`,
    each only if it has no other writable folder.

    These libraries read the environment when they are imported, so call this first. Child processes
    inherit the settings.
    """
    caches, settings = _usual("XDG_CACHE_HOME", ".cache"), _usual("XDG_CONFIG_HOME", ".config")
    hub = caches / "huggingface"
    has_place_by_name = {
        "NUMBA_CACHE_DIR": writable(PACKAGE / "__pycache__") or writable(caches / "numba"),
        "MPLCONFIGDIR": writable(caches / "matplotlib") and writable(settings / "matplotlib"),
        "HF_HOME": (
            os.path.isdir(hub) or writable(hub)
        ),  # models in a read-only folder can still be loaded
    }
    lacking = [
        name
        for name, has_place in has_place_by_name.items()
        if not has_place and not os.environ.get(name)
    ]
    if lacking and (fallback := private_folder()) is not None:
        os.environ.update(
            {name: str(fallback / name.partition("_")[0].lower()) for name in lacking}
        )


def private_folder() -> Path | None:
    """Return the folder geostat-UID in the system's temporary folder, created if missing; None if
    it is not private to the user.

    It is not private if temporary files cannot be written, if another user owns it or may write to
    it, or if others may replace it.
    """
    if os.name != "posix":  # on Windows, temporary folder and home are per user
        return None
    try:
        parent = Path(tempfile.gettempdir())
        folder = parent / f"geostat-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        folder_status, parent_status = folder.lstat(), parent.stat()
    except OSError:
        return None
    others = stat.S_IRWXG | stat.S_IRWXO
    private = (
        stat.S_ISDIR(folder_status.st_mode)
        and folder_status.st_uid == os.getuid()
        and not folder_status.st_mode & others
    )
    irreplaceable = parent_status.st_uid in (0, os.getuid()) and (
        parent_status.st_mode & stat.S_ISVTX
        or not parent_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
    return folder if private and irreplaceable else None


def writable(folder: Path) -> bool:
    """Return whether a folder can be written or created; False below an unknown home."""
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    except OSError:
        return False
    return (
        existing.is_dir()
        and os.access(existing, os.W_OK | os.X_OK)
        and not str(folder).startswith("~")
    )


def _usual(variable: str, below_home: str) -> Path:
    """Return the user's folder of a kind, from the environment, or the usual one in the home."""
    return Path(os.environ.get(variable) or os.path.expanduser(f"~/{below_home}"))
