"""The size and shape of the four rooms: lines, code and prose, arrows between sub-packages, floors,
the longest file and function.

Run: python -m benchmarks.rooms. An arrow is a pair of sub-packages of which one imports the other;
a file of its own in a room counts as one. A floor is a step of the longest chain of arrows. Lines
change with their width; Python tokens of the code and words of the prose do not. With --at COMMIT …
it counts the rooms as they were at these commits, in lines of one width. Imports grimp, which
import-linter brings, and runs ruff and git.
"""

import argparse
import ast
import inspect
import io
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import tokenize
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOMS = {"geostat": 50, "theory": 40, "reports": 30, "empirical": 16}
"""The most arrows that each may have."""
LONGEST_FILE, LONGEST_FUNCTION = 340, 60
"""Lines of a file and of a function, but of compiled kernels."""
WIDTH, INDENT = 140, 4
"""Columns to which `lines` sets code and prose, and the usual indent of prose."""
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
"""Tokens that are no code."""


@dataclass(frozen=True)
class Size:
    """Python tokens of code, and words of docstrings and comments."""

    tokens: int = 0
    words: int = 0

    def __str__(self) -> str:
        return f"{self.tokens:,} tokens of code, {self.words:,} words of prose"

    def __add__(self, other: "Size") -> "Size":
        return Size(self.tokens + other.tokens, self.words + other.words)


def size(source: str) -> Size:
    """Return the size of a file however its lines are broken: code is counted as `ast.unparse`
    writes it, without the brackets, commas and split strings that a narrow page needs.

    A docstring is any string that stands as a statement, of a constant too. From Python 3.12 on the
    parts of an f-string count one by one.

    >>> size("'three small words'; x = 1  # and two")
    Size(tokens=3, words=5)
    """
    tree = ast.parse(source)
    docstrings = []
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                docstrings.append(text)
                node.value = ast.Constant("")  # one token each, taken off again below
    code = [one for one in _tokens(ast.unparse(tree)) if one.type not in LAYOUT]
    comments = [one.string.lstrip("#") for one in _tokens(source) if one.type == tokenize.COMMENT]
    words = sum(len(text.split()) for text in docstrings + comments)
    return Size(len(code) - len(docstrings), words)


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(source).readline))


def lines(source: str) -> int:
    """Return how many lines a file has when code and prose are both as wide as WIDTH: code as ruff
    formats what `ast.unparse` writes, each paragraph of a docstring or comment filled.

    >>> lines("'three small words'; x = 1  # and two")
    3
    """
    tree = ast.parse(source)
    prose = 0
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                prose += sum(map(_filled, inspect.cleandoc(text).split("\n\n")))
                node.value = ast.Constant(...)  # one line each, taken off again below
                prose -= 1
    block: list[tokenize.TokenInfo] = []
    for one in (one for one in _tokens(source) if one.type == tokenize.COMMENT):
        if block and one.start[0] > block[-1].start[0] + 1:
            prose += _filled(" ".join(each.string for each in block))
            block = []
        block.append(one)
    prose += _filled(" ".join(each.string for each in block))
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(WIDTH), "-"],
        input=ast.unparse(tree),
        capture_output=True,
        text=True,
        check=True,
    )
    return len(formatted.stdout.splitlines()) + prose


def _filled(paragraph: str) -> int:
    """Lines of a paragraph, at least one; examples and lists keep theirs."""
    kept = [line for line in paragraph.splitlines() if line.startswith((" ", ">>>", "..."))]
    rest = " ".join(line for line in paragraph.splitlines() if line not in kept)
    return len(kept) + len(textwrap.wrap(rest, WIDTH - INDENT))


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


@dataclass(frozen=True)
class Room:
    """A room measured: arrows, and by file or function its lines."""

    sources: dict[str, str]
    arrows: set[tuple[str, str]]
    functions: dict[str, int]

    @property
    def lines(self) -> dict[str, int]:
        """Lines by file."""
        return {file: len(source.splitlines()) for file, source in self.sources.items()}

    def size(self) -> Size:
        """Code and prose of all files."""
        return sum((size(source) for source in self.sources.values()), Size())

    def long(self) -> dict[str, int]:
        """Files and functions that are longer than that, with their lines."""
        files = {name: count for name, count in self.lines.items() if count > LONGEST_FILE}
        return files | {
            name: count for name, count in self.functions.items() if count > LONGEST_FUNCTION
        }


def imports() -> grimp.ImportGraph:
    """Return what imports what in all rooms."""
    return grimp.build_graph(*ROOMS)


def measured(room: str, graph: grimp.ImportGraph) -> Room:
    """Measure a room."""
    arrows = {
        (part(name), part(other))
        for name in graph.modules
        if name.startswith(f"{room}.")
        for other in graph.find_modules_directly_imported_by(name)
        if other.startswith(f"{room}.")
    }
    sources = {
        str(file): file.read_text(encoding="utf-8") for file in sorted(Path(room).rglob("*.py"))
    }
    return Room(
        sources=sources,
        arrows={(above, under) for above, under in arrows if above != under},
        functions={
            f"{file}:{node.name}": node.end_lineno - node.lineno + 1
            for file, source in sources.items()
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
        },
    )


def at(commit: str) -> str:
    """Return the lines, code and prose of the rooms as a commit has them."""
    archive = subprocess.run(["git", "archive", commit, *ROOMS], capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
            packed.extractall(folder, filter="data")
        sources = [path.read_text(encoding="utf-8") for path in Path(folder).rglob("*.py")]
    return (
        f"{commit}: {sum(map(lines, sources)):,} lines {WIDTH} columns wide,"
        f" {sum(map(size, sources), Size())}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", metavar="COMMIT", nargs="+", default=[], help="count these instead")
    commits = parser.parse_args().at
    for commit in commits:
        print(at(commit), flush=True)
    if commits:
        return
    graph = imports()
    rooms = {name: measured(name, graph) for name in ROOMS}
    for name, room in rooms.items():
        print(
            f"{name}: {len(room.lines)} files, {sum(room.lines.values()):,} lines,"
            f" {len(room.arrows)} arrows (at most {ROOMS[name]}) on {floors(room.arrows)} floors"
        )
        print(f"  {room.size()}")
        long = sorted(room.long().items(), key=lambda one: one[1])
        print(
            f"  files over {LONGEST_FILE} lines, functions over {LONGEST_FUNCTION}:"
            f" {', '.join(f'{name} ({count})' for name, count in long) or 'none'}"
        )
    total = sum(sum(room.lines.values()) for room in rooms.values())
    print(f"all rooms: {total:,} lines, {sum((room.size() for room in rooms.values()), Size())}")


if __name__ == "__main__":
    main()
