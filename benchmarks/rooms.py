"""The size and shape of the four rooms: lines, arrows between sub-packages, floors, the longest
file and function.

Run: python -m benchmarks.rooms. An arrow is a pair of sub-packages of which one imports the other;
a file of its own in a room counts as one. A floor is a step of the longest chain of arrows. Imports
grimp, which import-linter brings.
"""

import ast
from pathlib import Path

import grimp

ROOMS = {"geostat": 50, "theory": 35, "reports": 30, "empirical": 15}
"""The most arrows that each may have."""


def floors(arrows: set[tuple[str, str]]) -> int:
    """Return the number of sub-packages on the longest chain of arrows."""
    below: dict[str, set[str]] = {}
    for above, under in arrows:
        below.setdefault(above, set()).add(under)

    def depth(name: str, seen: frozenset[str]) -> int:
        if name in seen:
            raise SystemExit(f"a circle through {name}")
        return 1 + max((depth(other, seen | {name}) for other in below.get(name, ())), default=0)

    return max((depth(name, frozenset()) for name in below), default=1)


def part(module: str) -> str:
    """Return the sub-package, or the file of its own, that a module belongs to."""
    return ".".join(module.split(".")[:2])


def main() -> None:
    """Measure and print."""
    graph = grimp.build_graph(*ROOMS)
    total = 0
    for room, most in ROOMS.items():
        modules = [name for name in graph.modules if name.startswith(f"{room}.")]
        arrows = {
            (part(name), part(other))
            for name in modules
            for other in graph.find_modules_directly_imported_by(name)
            if other.startswith(f"{room}.")
        }
        arrows = {(above, under) for above, under in arrows if above != under}
        files = sorted(Path(room).rglob("*.py"))
        lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
        functions = [
            (node.end_lineno - node.lineno + 1, f"{file}:{node.name}")
            for file in files
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
        ]
        long = sorted((count, str(file)) for file, count in lines.items() if count > 300)
        total += sum(lines.values())
        print(
            f"{room}: {len(files)} files, {sum(lines.values()):,} lines, {len(arrows)} arrows (at"
            f" most {most}) on {floors(arrows)} floors"
        )
        print(
            "  files over 300 lines:"
            f" {', '.join(f'{name} ({count})' for count, name in long) or 'none'}"
        )
        wide = ", ".join(f"{name} ({count})" for count, name in sorted(functions) if count > 60)
        print(f"  functions over 60 lines: {wide or 'none'}")
    print(f"all rooms: {total:,} lines")


if __name__ == "__main__":
    main()
