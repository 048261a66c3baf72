"""Manifest of a run: a digest of every file, and of the manifest itself, to find and name files
that are changed, truncated or missing.

The root's zarr.json contains it: `layout` and `results`, a digest for each file of metadata,
coordinates and result groups; `rows`, the expected end of the file of document rows (which hold the
digests of their chunks); and a digest of the text itself. `pending` lists moves in progress. Their
drafts are ready next to the store, so the moves of a killed process can be finished (`finish`), but
only where they began: moves recorded in a run from elsewhere are never carried out. Imports the
bundle.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from empirical.caches import place_in_cache
from empirical.errors import InputError, StoreError
from empirical.store import bundle
from empirical.store.disk import reading, replace, sidecar_path, writing
from empirical.store.manifest_shape import shaped, shaped_node

ROOT: Final = "zarr.json"

PARTS: Final = frozenset({"rows", "captured", "layout", "results", "own_sha256"})
"""Required parts of a manifest."""

FRESH: Final = "`--fresh` (of `geostat run` or `geostat capture`)"
MEASURE_AGAIN: Final = (
    "Run `geostat doctor --repair` on the run, restore it from a copy, or measure again with"
    f" {FRESH}."
)
FIT_AGAIN: Final = (
    "The measurements are intact: run `geostat fit {path} --fresh`, then `geostat confront {path}`."
)
REMOVE: Final = "Restore it from a copy, or remove it and measure again."

UNFINISHED: Final = ".partial"
"""Suffix that zarr gives to incomplete files."""

DIGITS: Final = 16
"""Hexadecimal digits kept of the sha256 of a file or a row: 64 bits, enough against damage (not
forgery).
"""


def read_root(path: Path, *, damaged: bool = False) -> dict[str, Any]:
    """Read provenance and manifest of the run at `path`; `damaged`: even with a wrong digest.

    Raises:
        InputError: there is nothing, something other than a run, or a run that may not be read.
        StoreError: the manifest is damaged, or of an incompatible geostat version.
    """
    if not os.path.lexists(path):
        aside = sidecar_path(path, "old")
        where = f"Make one with `geostat run --out {path.parent}`."
        if os.path.lexists(aside):
            where = (
                f"The run that a stopped command was replacing is in {aside}: run that command"
                " again."
            )
        raise InputError(f"{path}: no such run. {where}")
    text, root = "", None  # if it is no JSON
    try:
        with reading(path):
            text = bundle.content(path, ROOT).decode("utf-8")
        root = bundle.parsed(text)
    except (FileNotFoundError, NotADirectoryError):
        root = {"zarr_format": None}
    except InputError:
        raise
    except ValueError:
        pass
    attributes = root.get("attributes") if isinstance(root, dict) else None
    manifest = attributes.get("manifest") if isinstance(attributes, dict) else None
    if isinstance(attributes, dict) and isinstance(manifest, dict):
        if damaged or (
            manifest.keys() >= PARTS
            and manifest["own_sha256"] == _digest_of_text(text)
            and shaped(manifest)
        ):
            return attributes
        if {"documents", "captured", "results"} <= manifest.keys():
            raise StoreError(
                f"{path}: was written by an older geostat ({attributes.get('geostat_version')}),"
                f" which stored one file per document and variable. Measure it again with {FRESH}."
            )
    elif (
        isinstance(root, dict)
        and "zarr_format" in root
        and manifest is None
        and not (path / "capture" / "zarr.json").exists()
    ):
        # With a captured group it is a run that lost its manifest.
        raise InputError(
            f"{path}: exists but is not a run of geostat. Name a run, or choose another --out."
        )
    raise StoreError(f"{path / ROOT}: the manifest is damaged. {REMOVE}")


def _digest_of_text(text: str) -> str | None:
    """Return the digest of a root's text without the one it states; None if it states not one."""
    # inside a string the quotes would be escaped, so nothing else matches
    without, count = re.subn(r'"own_sha256": "[0-9a-f]{64}"', '"own_sha256": ""', text)
    return hashlib.sha256(without.encode()).hexdigest() if count == 1 else None


def damaged(file: Path, why: str, remedy: str = MEASURE_AGAIN) -> StoreError:
    """Return the error that names a damaged file and the remedy."""
    return StoreError(f"{file}: damaged, because {why}. {remedy}")


Mark = tuple[int, int, int] | None


def mark_of(path: Path) -> Mark:
    """Return a mark that changes whenever the root's metadata is replaced; None without a root."""
    try:
        status = (path / ROOT).lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def under_way(path: Path) -> bool:
    """Return whether moves are recorded as in progress in the run at `path`."""
    try:
        return "pending" in read_root(path)["manifest"]
    except (InputError, StoreError):
        return False


def below(file: Path, folder: Path) -> str:
    """Return the name of a file below a folder, as in the manifest."""
    return file.relative_to(folder).as_posix()


def save(folder: Path, attributes: dict[str, Any]) -> None:
    """Write provenance and manifest atomically; for a complete run also consolidated metadata."""
    manifest = {name: part for name, part in attributes["manifest"].items() if name != "documents"}
    root: dict[str, Any] = {"node_type": "group", "zarr_format": 3}
    if "pending" not in manifest:
        with suppress(FileNotFoundError, StoreError):  # `check` reports damage
            # None: no array has a document axis
            room = next((shape[0] for _, shape in by_document(folder, manifest["layout"])), None)
            if manifest["rows"]["count"] == room:
                root["consolidated_metadata"] = _consolidated(
                    folder, (*manifest["captured"], *manifest["results"])
                )
    root["attributes"] = {**attributes, "manifest": manifest | {"own_sha256": ""}}
    text = json.dumps(root, sort_keys=True, allow_nan=False)  # indentation takes five times as long
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    replace(folder / ROOT, text.replace('"own_sha256": ""', f'"own_sha256": "{sha256}"'))


def _consolidated(folder: Path, groups: Sequence[str]) -> dict[str, Any]:
    """Return groups and arrays in zarr's consolidated form, which other readers look for."""
    form = {"kind": "inline", "must_understand": False}
    nodes = {}
    for group in sorted(groups):
        for file in files_below(folder / group):
            if file.name == ROOT:
                node = node_of(folder, below(file, folder))
                if node["node_type"] == "group":
                    node["consolidated_metadata"] = form | {"metadata": {}}
                nodes[below(file.parent, folder)] = node
    return form | {"metadata": nodes}


def node_of(folder: Path, name: str) -> dict[str, Any]:
    """Return zarr's metadata of a group or an array; a StoreError if geostat writes none such."""
    data = bundle.content(folder, name)
    with suppress(ValueError, RecursionError):
        if shaped_node(node := bundle.parsed(data)):
            return node
    raise StoreError(f"{folder / name}: is no metadata that geostat writes. {REMOVE}")


def by_document(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield path and shape of the arrays by document, in the order of a document's digest."""
    suffix = f"/{ROOT}"
    for name in sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix)):
        array = node_of(folder, name + suffix)
        dims = array.get("dimension_names", [])
        if array["node_type"] == "array" and dims[:1] == ["document"]:
            yield name, tuple(array["shape"])


def files_below(folder: Path, drafts: list[Path] | None = None) -> list[Path]:
    """Return all entries below a folder that are no folders, including links and pipes, except
    incomplete files, which are added to `drafts`.
    """
    found: list[str] = []
    waiting = [str(folder)] if folder.is_dir() and not folder.is_symlink() else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not entry.name.endswith(UNFINISHED):
                    found.append(entry.path)
                elif drafts is not None:
                    drafts.append(Path(entry.path))
    return [Path(file) for file in sorted(found, key=lambda file: file.split(os.sep))]


def digests(files: Iterable[Path], folder: Path) -> dict[str, str]:
    """Return a digest for each file, by its name below a folder."""
    return {(name := below(file, folder)): digest(folder, name) for file in files}


def digest(folder: Path, name: str) -> str:
    """Return the digest of a file below a folder, as in the manifest."""
    return bundle.sha256(folder, name)[:DIGITS]


def begin(path: Path, pending: dict[str, Any]) -> None:
    """Record in geostat's cache that moves begin here, in the run at `path`. If the cache cannot be
    written, nobody can finish them after a kill.
    """
    pending["token"] = uuid.uuid4().hex
    with suppress(OSError, InputError):
        place = _begun(pending)
        place.parent.mkdir(parents=True, exist_ok=True)
        replace(place, _digest_of(path, pending))


def forget(pending: Mapping[str, Any]) -> None:
    """Remove the record that moves began here."""
    with suppress(OSError, InputError):
        _begun(pending).unlink(missing_ok=True)


def can_finish(path: Path, pending: Mapping[str, Any]) -> bool:
    """Return whether exactly these moves began at this path, on this machine and for this user, and
    every file to be moved is ready or was moved. False for a copy of the run.
    """
    try:
        noted = _begun(pending).read_text(encoding="utf-8")
    except (OSError, ValueError, InputError):
        return False
    then, folders = pending["then"], (sidecar_path(path, "ready"), path)
    return noted == _digest_of(path, pending) and all(
        any(_is_whole(folder, name, then) for folder in folders) for name in pending["moves"]
    )


def _is_whole(folder: Path, name: str, then: Mapping[str, Any]) -> bool:
    """Return whether a file or a group below a folder has its future content."""
    with suppress(OSError, StoreError):
        files = then.get("results", {}).get(name)
        if files is not None:
            return digests(files_below(folder / name), folder) == files
        return digest(folder, name) == then.get("layout", {}).get(name)
    return False


def _begun(pending: Mapping[str, Any]) -> Path:
    return place_in_cache("moves") / str(pending.get("token"))


def _digest_of(path: Path, pending: Mapping[str, Any]) -> str:
    text = json.dumps([os.path.realpath(path), pending], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def finish(path: Path) -> None:
    """Move the ready files of `pending` into the store; for a holder of the lock, if possible."""
    attributes = read_root(path)
    manifest = attributes["manifest"]
    pending = manifest.pop("pending")
    ready = sidecar_path(path, "ready")
    with writing(path):
        for name in pending["drops"]:
            _remove(path, name)
        for name in pending["moves"]:
            if not (ready / name).exists():  # it was already moved
                continue
            if (ready / name).is_dir():
                _remove(path, name)
            os.replace(ready / name, path / name)
        manifest |= pending["then"]
        save(path, attributes)
        bundle.clear_away(ready)
    forget(pending)


def give_up(path: Path) -> bool:
    """Abandon pending moves of results; return whether there were any. Groups that they changed are
    then damaged. For a holder of the lock that computes results again. Moves that extend the arrays
    stay: measurements are never abandoned.
    """
    attributes = read_root(path)
    manifest = attributes["manifest"]
    pending = manifest.pop("pending", None)
    if pending is None or "layout" in pending["then"]:
        return False
    with writing(path):
        for name in pending["then"].get("results", {}).keys() - manifest["results"].keys():
            _remove(path, name)
        save(path, attributes)
        bundle.clear_away(sidecar_path(path, "ready"))
    return True


def _remove(path: Path, group: str) -> None:
    """Remove a group, or what is in its place: at once, so a part of it is never read there."""
    aside = sidecar_path(path, "removed")
    bundle.clear_away(aside)
    with suppress(FileNotFoundError):
        os.replace(path / group, aside)
    bundle.clear_away(aside)
