"""Wordings of refusals in the source: the text of every call that makes an error, with {} for
values.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOMS = ("geostat", "theory", "empirical", "reports")
MAKERS = {"boundary", "refusal", "damaged", "refuse", "damaged_file", "damage_named", "_damaged"}
"""Functions that make an error from the text of a call, besides the error classes."""


def wording(node: ast.expr) -> str:
    """Return the text of an expression, with {} for each value."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(map(wording, node.values))
        case ast.BinOp(op=ast.Add()):
            return wording(node.left) + wording(node.right)
        case ast.IfExp():
            return f"<{wording(node.body)}|{wording(node.orelse)}>"
        case ast.Call(func=ast.Attribute(attr="format" | "join")):
            return wording(node.func.value)
    return "{}"


def wordings(root: Path) -> Iterator[str]:
    """Yield the wording of every refusal in the four rooms, and of texts that functions return."""
    for path in sorted(path for room in ROOMS for path in (root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name.endswith("Error") or name in MAKERS:
                    yield " / ".join(map(wording, node.args))
            elif isinstance(node, ast.Return) and isinstance(node.value, ast.JoinedStr):
                yield wording(node.value)
