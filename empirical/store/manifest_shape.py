"""Validation of a manifest, of document rows and of zarr metadata: a file edited by hand may state
its digest and still be invalid. Imports the bundle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from empirical.store.bundle import plain

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
