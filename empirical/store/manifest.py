"""Manifest of a run: a digest of every file, and of the manifest itself, to find and name files
that are changed, truncated or missing.

The root's zarr.json contains it: `layout` and `results`, a digest for each file of metadata,
coordinates and result groups; `rows`, the expected end of the file of document rows (which hold the
digests of their chunks); and a digest of the text itself. `pending` lists moves in progress. Their
drafts are ready next to the store, so the moves of a killed process can be finished (`finish`), but
only where they began: moves recorded in a run from elsewhere are never carried out.

A file edited by hand may state its digest and still be invalid, so the structure of manifest,
document rows and zarr metadata is validated. Imports the bundle.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from empirical.caches import place_in_cache
from empirical.errors import InputError, StoreError
from empirical.store import bundle
from empirical.store.bundle import plain
from empirical.store.disk import reading, replace, sidecar_path, writing

DOCUMENTS: Final = 1 << 20
"""Most documents of a run, which bounds every loop over them."""
CODECS: Final = frozenset({"bytes", "vlen-utf8", "blosc", "crc32c", "sharding_indexed"})
"""Codecs of a run's arrays; any other would run foreign code."""
TYPES: Final = frozenset(
    {"bool", "string", "float16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
_MOST: Final = 1 << 48
"""Most elements of an array."""


def _fits(value: Any, form: Any) -> bool:
    """Return whether a JSON value has a form: a type; a function that checks it; a list with the
    form of every item; or a dict with the form of some entries, where "name?" may be absent.
    """
    if isinstance(form, type):
        return isinstance(value, form)
    if isinstance(form, list):
        return isinstance(value, list) and all(_fits(item, form[0]) for item in value)
    if isinstance(form, dict):
        return isinstance(value, dict) and all(
            _fits(value[key], part) if (key := name.rstrip("?")) in value else name.endswith("?")
            for name, part in form.items()
        )
    return bool(form(value))


def _is(constant: Any) -> Callable[[Any], bool]:
    return lambda value: bool(value == constant)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_length(value: Any) -> bool:
    return _is_count(value) and value > 0


def _is_codec(codec: Any) -> bool:
    inner = {"codecs?": [_is_codec], "index_codecs?": [_is_codec]}
    return _fits(codec, {"name": str, "configuration?": inner}) and codec["name"] in CODECS


_ROW: Final = {"name": str, "digest": str}
_MANIFEST: Final = {
    "run?": str,
    "rows": {"count": _is_count, "bytes": _is_count, "chain": str},
    "captured": [plain],
    "pending?": {"moves": [plain], "drops": [plain], "then": dict},
}
_ARRAY: Final = {
    "node_type": _is("array"),
    "attributes?": dict,
    "shape": [_is_count],
    "data_type": lambda value: isinstance(value, str) and value in TYPES,
    "chunk_grid": {"name": _is("regular"), "configuration": {"chunk_shape": [_is_length]}},
    "chunk_key_encoding": {"name": _is("default"), "configuration?": {"separator?": _is("/")}},
    "codecs": [_is_codec],
    "dimension_names?": [str],
    "storage_transformers?": lambda value: not value,
}
_KEYS: Final = frozenset(
    {"zarr_format", "consolidated_metadata", "fill_value"} | {name.rstrip("?") for name in _ARRAY}
)


def shaped(manifest: dict[str, Any]) -> bool:
    """Return whether every part of a manifest has the form that geostat writes."""
    if not _fits(manifest, _MANIFEST) or manifest["rows"]["count"] > DOCUMENTS:
        return False
    captured, pending = manifest["captured"], manifest.get("pending", {"then": {}})
    return (
        pending["then"].keys() <= {"layout", "results"}
        and str(pending.get("token")).isalnum()
        and all(
            _is_layout(part.get("layout", {}), captured)
            and _are_results(part.get("results", {}), captured)
            for part in (manifest, pending["then"])
        )
    )


def shaped_row(row: Any) -> bool:
    """Return whether the row of a document has the form that geostat writes."""
    return _fits(row, _ROW)


def shaped_node(node: Any) -> bool:
    """Return whether zarr's metadata has format 3, and only geostat's codecs and dtypes."""
    if not _fits(node, {"zarr_format": _is(3)}) or not node.keys() <= _KEYS:
        return False
    if node.get("node_type") == "group":
        return isinstance(node.get("attributes", {}), dict)
    return (
        _fits(node, _ARRAY)
        and math.prod(node["shape"]) < _MOST
        and len(node.get("dimension_names", [])) == len(node["shape"])
        and len(node["chunk_grid"]["configuration"]["chunk_shape"]) == len(node["shape"])
    )


def _is_layout(value: Any, groups: list[str]) -> bool:
    """Check names of files below these groups, with their digests."""
    return (
        isinstance(value, dict)
        and _fits([*value], [plain])
        and _fits([*value.values()], [str])
        and all(name.startswith(tuple(f"{group}/" for group in groups)) for name in value)
    )


def _are_results(value: Any, captured: list[str]) -> bool:
    """Check result groups (not captured), each with its files and digests."""
    return (
        isinstance(value, dict)
        and _fits([*value], [plain])
        and not any("/" in group or group in captured for group in value)
        and all(_is_layout(files, [group]) for group, files in value.items())
    )


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
