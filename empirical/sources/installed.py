"""Kinds of text that come with CPython and with packages that geostat needs.

Together with the kinds of `builtin` they are ten: prose, mathematics, laws, manuals, code of two
languages and markup. They depend only on the versions of Python and of the packages. A file
that is absent gives no document, and a kind whose package is absent has none. Nothing is imported
from the packages.
"""

from __future__ import annotations

import ast
import io
import re
import sysconfig
import tokenize
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

COMMENTED: Final = """
_pydecimal _pyio _strptime datetime heapq locale ntpath os platform pydoc shutil sysconfig
webbrowser zipfile
"""
"""Standard-library modules whose comments are used; none is in `builtin.DESCRIBED` or `CODE`."""

MATHEMATICS: Final = {"mpmath": "calculus/*.py"}
"""Modules whose docstrings explain mathematics, by package (one that sympy needs)."""

HEADERS: Final = {"torch": "include/c10/core/*.h", "numpy": "_core/include/numpy/n*.h"}
"""C++ and C headers, by package."""

PAGES: Final = {"statsmodels": "datasets/scotland/src/*.html"}
"""Web pages, by package: official statistics of Scotland."""

DATASETS: Final = {"statsmodels": "datasets/*/data.py"}
"""Modules that describe a data set, by package."""
IN_A_DOCUMENT: Final = 8
"""Descriptions of data sets in one document; one alone is shorter than a window."""

DESCRIBED_PACKAGES: Final = """
fonttools lmfit matplotlib numpy pandas rich scipy statsmodels sympy threadpoolctl torch
transformers typer
"""
"""Packages whose description, as on the package index, is used."""

LICENCES: Final = {
    "Python": ("", "LICENSE.txt", ""),
    "Apache": ("transformers", "LICENSE", ""),
    "GPL": ("numpy", "LICENSE.txt", "GNU GENERAL PUBLIC LICENSE"),
}
"""Licences: distribution ("" for Python), file, and the words with which the text begins."""


def files_of(package: str, pattern: str) -> list[Path]:
    """Return the files of an installed package that match a pattern, sorted; none if absent."""
    spec = find_spec(package)
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    return sorted(path for folder in folders for path in Path(folder).glob(pattern))


def _files(patterns: dict[str, str]) -> dict[str, str]:
    """Return the content of files by package and path."""
    return {
        f"{package}/{path.stem}": path.read_text(encoding="utf-8", errors="replace")
        for package, pattern in patterns.items()
        for path in files_of(package, pattern)
    }


def described(tree: ast.Module) -> Iterator[str]:
    """Yield all docstrings of a module in source order, each under the name of its object."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        if text := ast.get_docstring(node):
            yield f"{node.name}\n{text}" if hasattr(node, "name") else text


def _mathematics() -> dict[str, str]:
    return {
        name: "\n\n".join(described(ast.parse(source)))
        for name, source in _files(MATHEMATICS).items()
    }


def _comments() -> dict[str, str]:
    """Return the comments of each module; those of adjacent lines form a paragraph."""
    folder, out = Path(sysconfig.get_path("stdlib")), {}
    for module in COMMENTED.split():
        path = folder / f"{module}.py"
        if path.is_file():
            out[module] = "\n".join(_of_source(path.read_text(encoding="utf-8")))
    return out


def _of_source(source: str) -> Iterator[str]:
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] > last + 1:
                yield ""
            yield token.string.lstrip("#:").strip()
            last = token.start[0]


def _datasets() -> dict[str, str]:
    """Return the descriptions of data sets, IN_A_DOCUMENT at a time."""
    texts = [
        "\n\n".join(
            node.value.value
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign | ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        for package, pattern in DATASETS.items()
        for path in files_of(package, pattern)
    ]
    return {
        f"{first + 1} to {first + IN_A_DOCUMENT}": "\n\n".join(texts[first : first + IN_A_DOCUMENT])
        for first in range(0, len(texts) - IN_A_DOCUMENT + 1, IN_A_DOCUMENT)
    }


def _readmes() -> dict[str, str]:
    """Return the description of each package, without the header of its metadata and comments."""
    out = {}
    for package in DESCRIBED_PACKAGES.split():
        with suppress(PackageNotFoundError):
            text = (distribution(package).read_text("METADATA") or "").partition("\n\n")[2]
            out[package] = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    return out


def _licences() -> dict[str, str]:
    """Return the licences, each from its first words on."""
    out = {}
    for name, (package, file, start) in LICENCES.items():
        paths = [] if package else [Path(sysconfig.get_path("stdlib")) / file]
        if package:
            with suppress(PackageNotFoundError):
                listed = distribution(package).files or ()
                paths = [Path(str(entry.locate())) for entry in listed if entry.name == file]
        for path in sorted(filter(Path.is_file, paths), key=lambda path: len(path.parts))[:1]:
            text = path.read_text(encoding="utf-8", errors="replace")
            out[name] = text[max(text.find(start), 0) :]
    return out


KINDS: Final[dict[str, Callable[[], dict[str, str]]]] = {
    "comments": _comments,
    "mathematics": _mathematics,
    "datasets": _datasets,
    "licences": _licences,
    "readmes": _readmes,
    "headers": partial(_files, HEADERS),
    "pages": partial(_files, PAGES),
}
"""Functions that return texts by name, by kind."""
