"""Manifest of a run: a digest of every file, its own among them, so that what is flipped, cut or
missing is found and named.

The root's zarr.json holds it: `layout` and `results`, a digest for each file of metadata,
coordinates and result groups; `rows`, what the file of the documents' rows must end in (their
chunks' digests stand there); and a digest of the text itself.
`pending` lists moves that are under way: drafts lie ready beside the store, so a killed process's
moves can be finished (`finish`), where they began: what a run from elsewhere lists is never carried
out. Imports the bundle.
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
from empirical.store.disk import reading, replace, writing
from empirical.store.manifest_shape import shaped, shaped_node

ROOT: Final = "zarr.json"

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
    if not os.path.lexists(path):
        aside = beside(path, "old")
        where = (
            f" What a command was replacing when it was stopped lies in {aside}: run that"
            " command again."
            if os.path.lexists(aside)
            else ""
        )
        raise InputError(
            f"{path}: no such run.{where or f' Make one with `geostat run --out {path.parent}`.'}"
        )
    text, root = "", None  # what is no JSON
    try:
        with reading(path):
            text = bundle.content(path, ROOT).decode("utf-8")
        root = bundle.parsed(text)
    except (FileNotFoundError, NotADirectoryError):
        root = {"zarr_format": None}
    except ValueError as error:
        if isinstance(error, InputError):
            raise
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
    raise StoreError(f"{path / ROOT}: the manifest is damaged. {REMOVE}")


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
        status = (path / ROOT).lstat()
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
        with suppress(FileNotFoundError, StoreError):  # `check` reports damage
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
        if file.name == ROOT
    ]
    out = {below(file.parent, folder): node_of(folder, below(file, folder)) for file in files}
    for node in out.values():
        if node["node_type"] == "group":
            node["consolidated_metadata"] = {
                "kind": "inline",
                "must_understand": False,
                "metadata": {},
            }
    return {"kind": "inline", "must_understand": False, "metadata": out}


def node_of(folder: Path, name: str) -> dict[str, Any]:
    """Return zarr's metadata of a group or an array.

    Raises:
        FileNotFoundError: if it is not there.
        StoreError: if it is none that geostat writes.
    """
    data = bundle.content(folder, name)
    with suppress(ValueError):
        if shaped_node(node := bundle.parsed(data)):
            return node
    raise StoreError(f"{folder / name}: is no metadata that geostat writes. {REMOVE}")


def by_document(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Arrays with a chunk for each document, among those whose metadata is named: path below
    `folder`, and shape.
    """
    for name in sorted(names):
        if name.endswith("/zarr.json"):
            array = node_of(folder, name)
            if array["node_type"] == "array" and array.get("dimension_names", [])[:1] == [
                "document"
            ]:
                yield name.removesuffix("/zarr.json"), tuple(array["shape"])


def files_below(folder: Path, drafts: list[Path] | None = None) -> list[Path]:
    """Return everything below a folder that is none, links and pipes among it, but files that were
    not written whole, which are added to `drafts`; nothing where there is no folder.
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
    return [Path(one) for one in sorted(found, key=lambda one: one.split(os.sep))]


def layout(folder: Path, captured: Sequence[str]) -> dict[str, str]:
    """Return a digest for each file of the captured groups of a run without documents: metadata
    and coordinates.
    """
    return digests((file for group in captured for file in files_below(folder / group)), folder)


def digests(files: Iterable[Path], folder: Path) -> dict[str, str]:
    """Return a digest for each file, by its name below a folder."""
    return {(name := below(file, folder)): digest(folder, name) for file in files}


def digest(folder: Path, name: str) -> str:
    """Return the digest of a file below a folder, as the manifest has it."""
    return bundle.sha256(folder, name)[:DIGITS]


def begin(path: Path, pending: dict[str, Any]) -> None:
    """Note in geostat's own cache that moves begin here, in the run at `path`; where that cannot be
    written a kill leaves moves that nobody finishes.
    """
    pending["token"] = uuid.uuid4().hex
    with suppress(OSError, InputError):
        place = _begun(pending)
        place.parent.mkdir(parents=True, exist_ok=True)
        replace(place, _digest_of(path, pending))


def forget(pending: Mapping[str, Any]) -> None:
    """Take away the note that moves began here."""
    with suppress(OSError, InputError):
        _begun(pending).unlink(missing_ok=True)


def can_finish(path: Path, pending: Mapping[str, Any]) -> bool:
    """Whether these very moves began in this place, on this machine and for this user, and every
    file that is to be moved lies ready, or was moved: not so in a copy of the run.
    """
    try:
        noted = _begun(pending).read_text(encoding="utf-8")
    except (OSError, ValueError, InputError):
        return False
    return noted == _digest_of(path, pending) and all(
        any(_is_whole(folder, name, pending["then"]) for folder in (beside(path, "ready"), path))
        for name in pending["moves"]
    )


def _is_whole(folder: Path, name: str, then: Mapping[str, Any]) -> bool:
    """Whether a file or a group below a folder is what the run is to hold then."""
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
    """Carry out the moves that `pending` lists: what lies ready beside the store takes its place.
    For who holds the lock and knows that they can be finished.
    """
    attributes = read_root(path)
    manifest = attributes["manifest"]
    pending = manifest.pop("pending")
    ready = beside(path, "ready")
    with writing(path):
        for name in pending["drops"]:
            _remove(path, name)
        for name in pending["moves"]:
            if not (ready / name).exists():  # it was moved before
                continue
            if (ready / name).is_dir():
                _remove(path, name)
            os.replace(ready / name, path / name)
        manifest |= pending["then"]
        save(path, attributes)
        bundle.clear_away(ready)
    forget(pending)


def give_up(path: Path) -> bool:
    """Give up moves of results that are under way; whether there were any. What they have changed
    is damaged then. For who holds the lock, and makes results anew. Moves that make room for
    documents stay: what was measured is never given up.
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
        bundle.clear_away(beside(path, "ready"))
    return True


def _remove(path: Path, group: str) -> None:
    """Remove a group from the store: first from its place, so that no half of it is ever read
    there. A file or link in its place goes too.
    """
    aside = beside(path, "removed")
    bundle.clear_away(aside)
    with suppress(FileNotFoundError):
        os.replace(path / group, aside)
    bundle.clear_away(aside)
