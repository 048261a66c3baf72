"""Shape of a manifest, of the row of a document and of zarr's metadata: what each part must be.
Imports the bundle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from empirical.store.bundle import plain

DOCUMENTS: Final = 1 << 20
"""Documents of a run at most: who looks through a run ends, whatever it says of their number."""


def shaped(manifest: dict[str, Any]) -> bool:
    """Say whether every part of a manifest is what geostat writes there: one that was edited by
    hand may state its digest and still be none.
    """
    head, captured, results = (manifest[one] for one in ("rows", "captured", "results"))
    pending = manifest.get("pending", {"moves": [], "drops": [], "then": {}, "token": "0"})
    return (
        _is_text(manifest.get("run", ""))
        and isinstance(head, dict)
        and all(_is_count(head.get(one)) for one in ("count", "bytes"))
        and head["count"] <= DOCUMENTS
        and _is_text(head.get("chain"))
        and _are_names(captured)
        and _is_layout(manifest["layout"], captured)
        and _are_results(results, captured)
        and isinstance(pending, dict)
        and all(_are_names(pending.get(one)) for one in ("moves", "drops"))
        and isinstance(then := pending.get("then"), dict)
        and then.keys() <= {"layout", "results"}
        and _is_layout(then.get("layout", {}), captured)
        and _are_results(then.get("results", {}), captured)
        and str(pending.get("token")).isalnum()
    )


def shaped_row(row: Any) -> bool:
    """Say whether the row of a document is what geostat writes."""
    return isinstance(row, dict) and _is_text(row.get("name")) and _is_text(row.get("digest"))


CODECS: Final = frozenset({"bytes", "vlen-utf8", "blosc", "crc32c", "sharding_indexed"})
"""What a run's arrays are packed by; any other would be code of somebody else's choice."""
TYPES: Final = frozenset(
    {"bool", "string", "float16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


_KEYS: Final = frozenset(
    {"zarr_format", "node_type", "attributes", "consolidated_metadata", "shape", "data_type"}
    | {"chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "dimension_names"}
    | {"storage_transformers"}
)


def shaped_node(node: Any) -> bool:
    """Say whether zarr's metadata of a group or an array is of format 3, and of the codecs and
    types that geostat uses.
    """
    if not isinstance(node, dict) or not node.keys() <= _KEYS or node.get("zarr_format") != 3:
        return False
    if node.get("node_type") == "group":
        return isinstance(node.get("attributes", {}), dict)
    grid: Any = node.get("chunk_grid")
    shape: Any = node.get("shape")
    return (
        node.get("node_type") == "array"
        and isinstance(node.get("attributes", {}), dict)
        and isinstance(node.get("data_type"), str)
        and node["data_type"] in TYPES
        and _is_shape(shape)
        and math.prod(shape) < _MOST
        and isinstance(dims := node.get("dimension_names", []), list)
        and len(dims) == len(shape)
        and all(map(_is_text, dims))
        and _is_named(grid, "regular", lambda told: _is_shape(told.get("chunk_shape"), least=1))
        and len(grid["configuration"]["chunk_shape"]) == len(shape)
        and _is_named(
            node.get("chunk_key_encoding"),
            "default",
            lambda told: told.get("separator", "/") == "/",
        )
        and _are_codecs(node.get("codecs"))
        and not node.get("storage_transformers")
    )


_MOST: Final = 1 << 48
"""Elements of an array at most."""


def _are_codecs(codecs: Any) -> bool:
    return isinstance(codecs, list) and all(
        isinstance(one, dict)
        and _is_text(one.get("name"))
        and one["name"] in CODECS
        and isinstance(told := one.get("configuration", {}), dict)
        and all(_are_codecs(told[name]) for name in ("codecs", "index_codecs") if name in told)
        for one in codecs
    )


def _is_named(value: Any, name: str, sound: Callable[[dict[str, Any]], bool]) -> bool:
    return (
        isinstance(value, dict)
        and value.get("name") == name
        and isinstance(told := value.get("configuration", {}), dict)
        and sound(told)
    )


def _is_shape(value: Any, *, least: int = 0) -> bool:
    return isinstance(value, list) and all(_is_count(one) and one >= least for one in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _are_names(value: Any) -> bool:
    """Of files or groups below the store."""
    return isinstance(value, list) and all(map(plain, value))


def _is_layout(value: Any, groups: list[str]) -> bool:
    """Of files below these groups, with their digests."""
    return (
        isinstance(value, dict)
        and all(map(plain, value))
        and all(map(_is_text, value.values()))
        and all(name.startswith(tuple(f"{group}/" for group in groups)) for name in value)
    )


def _are_results(value: Any, captured: list[str]) -> bool:
    """Of groups that were not captured, and of each its files with their digests."""
    return (
        isinstance(value, dict)
        and _are_names([*value])
        and not any("/" in group or group in captured for group in value)
        and all(_is_layout(files, [group]) for group, files in value.items())
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
