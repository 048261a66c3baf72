"""Shape of a manifest: what each of its parts must be. Imports the standard library."""

from __future__ import annotations

from typing import Any


def shaped(manifest: dict[str, Any]) -> bool:
    """Say whether every part of a manifest is what geostat writes there: one that was edited by
    hand may state its digest and still be none.
    """

    def names(value: Any) -> bool:
        """Of files or groups below the store."""
        return all(
            isinstance(name, str) and name and not name.startswith("/") and ".." not in name
            for name in value
        )

    def digested(value: Any) -> bool:
        return isinstance(value, dict) and names(value) and all(map(_is_text, value.values()))

    head, captured, results = (manifest[one] for one in ("rows", "captured", "results"))
    pending = manifest.get("pending", {"moves": [], "drops": [], "then": {}})
    return (
        isinstance(head, dict)
        and all(isinstance(head.get(one), int) and head[one] >= 0 for one in ("count", "bytes"))
        and _is_text(head.get("chain"))
        and isinstance(captured, list)
        and names(captured)
        and digested(manifest["layout"])
        and isinstance(results, dict)
        and names(results)
        and all(map(digested, results.values()))
        and isinstance(pending, dict)
        and all(
            isinstance(pending.get(one), list) and names(pending[one]) for one in ("moves", "drops")
        )
        and isinstance(pending.get("then"), dict)
    )


def shaped_row(row: Any) -> bool:
    """Say whether the row of a document is what geostat writes."""
    return isinstance(row, dict) and _is_text(row.get("name")) and _is_text(row.get("digest"))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
