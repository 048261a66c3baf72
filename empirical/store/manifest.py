"""Manifest of a run: a digest of every file, its own among them, so that what is flipped, cut or
missing is found and named.

The root's zarr.json holds it: `layout` and `results`, a digest for each file of metadata,
coordinates and result groups; `rows`, what the file of the documents' rows must end in (their
chunks' digests stand there); and a digest of the text itself.
`pending` lists moves that are under way: drafts lie ready beside the store, so a killed process's
moves can be finished (`finish`). Imports the standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from empirical.errors import InputError, StoreError
from empirical.store.disk import reading, replace, writing
from empirical.store.manifest_shape import shaped

PARTS: Final = frozenset({"rows", "captured", "layout", "results", "own_sha256"})
"""What every manifest holds."""

FRESH: Final = "`--fresh` (of `geostat run` or `geostat capture`)"
MEASURE_AGAIN: Final = (
    "Run `geostat doctor --repair` on the run, restore it from a copy, or measure again with"
    f" {FRESH}."
)
FIT_AGAIN: Final = (
    "What was measured is sound: run `geostat fit {path} --fresh`, then `geostat confront {path}`."
)
REMOVE: Final = "Restore it from a copy, or remove what stands there and measure again."

UNFINISHED: Final = ".partial"
"""How zarr names a file that it has not written whole."""

DIGITS: Final = 16
"""Hexadecimal digits that are kept of a file's sha256: 64 bits, for damage is no forgery."""


def beside(path: Path, what: str) -> Path:
    """A hidden file or folder that belongs to the store at `path` and lies beside it."""
    return path.with_name(f".{path.name}.{what}")


def read_root(path: Path, *, damaged: bool = False) -> dict[str, Any]:
    """Read the provenance and manifest of the run at `path`; with `damaged` also of one whose
    digest is wrong, for who throws it away.

    Raises:
        InputError: if nothing stands there, something that is no run of geostat, or what may not be
            read.
        StoreError: if the manifest is damaged, or of a geostat that laid out its stores otherwise.
    """
    if not path.exists():
        raise InputError(f"{path}: no such run. Make one with `geostat run --out {path.parent}`.")
    text, root = "", None  # what is no JSON
    try:
        with reading(path):
            text = (path / "zarr.json").read_bytes().decode("utf-8")
        root = json.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        root = {"zarr_format": None}
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, IsADirectoryError):
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
                f" which kept one file a document and variable. Measure it again with {FRESH}."
            )
    elif (
        isinstance(root, dict)
        and "zarr_format" in root
        and manifest is None
        and not (path / "capture" / "zarr.json").exists()
    ):
        # Where a captured group stands, a run lost its manifest.
        raise InputError(
            f"{path}: stands there but is not a run of geostat. Name a run, or choose another"
            " --out."
        )
    raise StoreError(f"{path / 'zarr.json'}: the manifest is damaged. {REMOVE}")


def _digest_of_text(text: str) -> str | None:
    """Return the digest that the text of a root must state: of itself, with that digest left
    out; None where it states none, or several.
    """
    without, count = _OWN.subn('"own_sha256": ""', text)
    return hashlib.sha256(without.encode()).hexdigest() if count == 1 else None


_OWN: Final = re.compile(r'"own_sha256": "[0-9a-f]{64}"')
"""Within a string the quotes would be escaped, so nothing else reads like this."""


Mark = tuple[int, int, int] | None


def mark_of(path: Path) -> Mark:
    """Return what changes whenever the root's metadata is replaced; None where there is none."""
    try:
        status = (path / "zarr.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def under_way(path: Path) -> bool:
    """Whether moves are recorded as under way in the run at `path`."""
    try:
        return "pending" in read_root(path)["manifest"]
    except (InputError, StoreError):
        return False


def below(file: Path, folder: Path) -> str:
    """Name of a file below a folder, as the manifest has it."""
    return file.relative_to(folder).as_posix()


def save(folder: Path, attributes: dict[str, Any]) -> None:
    """Write provenance and manifest in one step, in a complete run with the metadata of every
    group, which others' readers look for there.
    """
    manifest = {name: part for name, part in attributes["manifest"].items() if name != "documents"}
    root: dict[str, Any] = {"node_type": "group", "zarr_format": 3}
    if "pending" not in manifest:
        with suppress(
            FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError
        ):  # what is damaged is told by `check`
            room = next(
                (shape[0] for _, shape in by_document(folder, manifest["layout"])), None
            )  # None: no array tells of documents
            if manifest["rows"]["count"] == room:
                root["consolidated_metadata"] = _consolidated(
                    folder, (*manifest["captured"], *manifest["results"])
                )
    root["attributes"] = {**attributes, "manifest": manifest | {"own_sha256": ""}}
    text = json.dumps(root, sort_keys=True, allow_nan=False)  # indented takes five times as long
    own = hashlib.sha256(text.encode()).hexdigest()
    replace(folder / "zarr.json", text.replace('"own_sha256": ""', f'"own_sha256": "{own}"'))


def _consolidated(folder: Path, groups: Sequence[str]) -> dict[str, Any]:
    """Return the metadata of groups and their arrays as zarr consolidates it: by path; a group
    says of itself that it holds no other's.
    """
    files = [
        file
        for group in sorted(groups)
        for file in files_below(folder / group)
        if file.name == "zarr.json"
    ]
    out = {below(file.parent, folder): _json(file) for file in files}
    for node in out.values():
        if node["node_type"] == "group":
            node["consolidated_metadata"] = {
                "kind": "inline",
                "must_understand": False,
                "metadata": {},
            }
    return {"kind": "inline", "must_understand": False, "metadata": out}


def _json(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))


def by_document(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Arrays with a chunk for each document, among those whose metadata is named: path below
    `folder`, and shape.
    """
    for name in sorted(names):
        if name.endswith("/zarr.json"):
            array = _json(folder / name)
            if (array.get("dimension_names") or [None])[0] == "document":
                yield name.removesuffix("/zarr.json"), tuple(array["shape"])


def files_below(folder: Path) -> list[Path]:
    """Every file below a folder but those that were not written whole; none where there is no
    folder.
    """
    found, waiting = [], [str(folder)] if folder.is_dir() else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file() and not entry.name.endswith(UNFINISHED):
                    found.append(entry.path)
    return [Path(one) for one in sorted(found, key=lambda one: one.split(os.sep))]


def layout(folder: Path, captured: Sequence[str]) -> dict[str, str]:
    """Return a digest for each file of the captured groups of a run without documents: metadata
    and coordinates.
    """
    return digests((file for group in captured for file in files_below(folder / group)), folder)


def digests(files: Iterable[Path], folder: Path) -> dict[str, str]:
    """Return a digest for each file, by its name below a folder."""
    return {below(file, folder): digest(file) for file in files}


def digest(file: Path | str) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:DIGITS]


def finish(path: Path) -> None:
    """Finish the moves that a killed process began: what it had ready beside the store takes its
    place.
    """
    attributes = read_root(path)
    manifest = attributes["manifest"]
    pending = manifest.get("pending")
    if pending is None:
        return
    ready = beside(path, "ready")
    with writing(path):
        for name in pending["drops"]:
            _remove(path / name)
        for name in pending["moves"]:
            if (ready / name).exists():  # else it was moved before
                if (ready / name).is_dir():
                    _remove(path / name)
                os.replace(ready / name, path / name)
        manifest |= pending["then"]
        del manifest["pending"]
        save(path, attributes)
        shutil.rmtree(ready, ignore_errors=True)


def _remove(group: Path) -> None:
    """Remove a group from the store: first from its place, so that no half of it is ever read
    there. A file or link in its place goes too.
    """
    aside = beside(group.parent, "removed")
    shutil.rmtree(aside, ignore_errors=True)
    if group.is_symlink() or not group.is_dir():
        group.unlink(missing_ok=True)
    else:
        os.replace(group, aside)
        shutil.rmtree(aside, ignore_errors=True)
