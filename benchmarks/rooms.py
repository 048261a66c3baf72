"""Size and structure of the four packages (rooms) and of the tests: files, lines, code and prose,
and imports between the sub-packages of a room.

Run: python -m benchmarks.rooms. An arrow is a pair of sub-packages of which one imports the other;
a single file in a room counts as a sub-package. A floor is a step of the longest chain of arrows.
Lines depend on their width; Python tokens of code and words of prose do not. `--at COMMIT …` counts
the rooms at these commits, in lines of equal width. Imports grimp, a dependency of import-linter,
and runs ruff and git.
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

ROOMS = ("geostat", "theory", "reports", "empirical")
WIDTH, INDENT = 140, 4
"""Width to which `lines` formats code and prose, and the usual indent of prose."""
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
"""Tokens that do not count as code."""


@dataclass(frozen=True)
class Size:
    """Python tokens of code, and words of docstrings and comments, of a file or folder."""

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
                node.value = ast.Constant("")  # one token each, subtracted below
    code = [token for token in _tokens(ast.unparse(tree)) if token.type not in LAYOUT]
    comments = [
        token.string.lstrip("#") for token in _tokens(source) if token.type == tokenize.COMMENT
    ]
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
                node.value = ast.Constant(...)  # one line each, subtracted below
                prose -= 1
    block: list[tokenize.TokenInfo] = []
    for comment in (token for token in _tokens(source) if token.type == tokenize.COMMENT):
        if block and comment.start[0] > block[-1].start[0] + 1:
            prose += _filled(" ".join(token.string for token in block))
            block = []
        block.append(comment)
    prose += _filled(" ".join(token.string for token in block))
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(WIDTH), "-"],
        input=ast.unparse(tree),
        capture_output=True,
        text=True,
        check=True,
    )
    return len(formatted.stdout.splitlines()) + prose


def _filled(paragraph: str) -> int:
    """Return the number of lines of a paragraph, at least one; examples and lists keep their
    lines.
    """
    fixed = [line for line in paragraph.splitlines() if line.startswith((" ", ">>>", "..."))]
    rest = " ".join(line for line in paragraph.splitlines() if line not in fixed)
    return len(fixed) + len(textwrap.wrap(rest, WIDTH - INDENT))


def floors(arrows: set[tuple[str, str]]) -> int:
    """Return the number of sub-packages on the longest chain of arrows."""
    below: dict[str, set[str]] = {}
    for above, under in arrows:
        below.setdefault(above, set()).add(under)

    def depth(name: str, visited: frozenset[str]) -> int:
        if name in visited:
            raise SystemExit(f"a circle through {name}")
        return 1 + max((depth(other, visited | {name}) for other in below.get(name, ())), default=0)

    return max((depth(name, frozenset()) for name in below), default=1)


def part(module: str) -> str:
    """Return the sub-package, or the single file, of a module."""
    return ".".join(module.split(".")[:2])


@dataclass(frozen=True)
class Room:
    """Size of a room: its files and arrows."""

    sources: list[str]
    arrows: set[tuple[str, str]]

    def __str__(self) -> str:
        lines_ = sum(len(source.splitlines()) for source in self.sources)
        return f"{len(self.sources)} files, {lines_:,} lines"

    def size(self) -> Size:
        """Return code and prose of all files."""
        return sum(map(size, self.sources), Size())


def imports() -> grimp.ImportGraph:
    """Return the import graph of all rooms."""
    return grimp.build_graph(*ROOMS)


def measured(room: str, graph: grimp.ImportGraph) -> Room:
    """Return the size of a room."""
    arrows = {
        (part(name), part(other))
        for name in graph.modules
        if name.startswith(f"{room}.")
        for other in graph.find_modules_directly_imported_by(name)
        if other.startswith(f"{room}.")
    }
    sources = [file.read_text(encoding="utf-8") for file in sorted(Path(room).rglob("*.py"))]
    return Room(sources, {(above, under) for above, under in arrows if above != under})


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
    """Measure the rooms and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--at", metavar="COMMIT", nargs="+", default=[], help="count these commits instead"
    )
    commits = parser.parse_args().at
    for commit in commits:
        print(at(commit), flush=True)
    if commits:
        return
    graph = imports()
    rooms = {name: measured(name, graph) for name in ROOMS}
    for name, room in rooms.items():
        print(f"{name}: {room}, {len(room.arrows)} arrows on {floors(room.arrows)} floors")
        print(f"  {room.size()}")
    total = Room([source for room in rooms.values() for source in room.sources], set())
    print(f"all rooms: {total}\n  {total.size()}")
    print(f"tests: {measured('tests', graph)}")


if __name__ == "__main__":
    main()
