"""Built-in texts: kinds of text that every CPython from 3.11 on ships, as strata of one corpus.

The texts depend only on the version of Python, not on the machine or on installed packages. The
licence and `this` are excluded: one text each, the second too short for a window. Modules that some
distributions omit (idlelib, tkinter, test, …) are excluded. Imports the standard library.
"""

from __future__ import annotations

import ast
import hashlib
import platform
import sysconfig
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from empirical.errors import InputError
from empirical.sources.texts import Corpus, Document

DESCRIBED: Final = """
argparse ast base64 bdb cmd codecs configparser contextlib difflib doctest enum fractions ftplib
functools imaplib ipaddress mailbox optparse pickletools random smtplib statistics textwrap
traceback typing uuid
"""
"""Modules whose docstrings are used."""

CODE: Final = """
calendar compileall copy csv dataclasses dis filecmp gettext graphlib inspect mimetypes
modulefinder pdb pickle pkgutil plistlib pprint pstats pyclbr reprlib runpy selectors shlex socket
socketserver subprocess tarfile tempfile threading tokenize trace weakref zipimport
"""
"""Modules whose source is used; disjoint from DESCRIBED, so no text occurs in two documents."""

NESTED: Final = """
augassign compound context-managers dynamic-features exceptions id-classes in naming specialnames
typesseq-mutable
"""
"""Topics that contain others or are contained in one; without them no two share a paragraph."""

ROW: Final = 0x100
"""Code points of a table."""
ROWS: Final = range(0x00, 0x34)
"""Rows of the Basic Multilingual Plane whose characters have individual names."""
LEAST_NAMED: Final = 128
"""Fewest named characters of a table."""


def _topics() -> dict[str, str]:
    """Return the topics of the language reference; a text with several names has its first name."""
    from pydoc_data.topics import topics

    first = {topics[name]: name for name in sorted(topics, reverse=True)}
    return {name: topics[name] for name in sorted(first.values())}


def _apart() -> dict[str, str]:
    """Return the topics without those in NESTED."""
    return {name: text for name, text in _topics().items() if name not in NESTED.split()}


def _source(module: str) -> str:
    """Return the source of a standard-library module without importing it."""
    path = Path(sysconfig.get_path("stdlib")) / f"{module}.py"
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}), expected the standard library's source."
            " Use --text builtin:topics, or another text."
        ) from error


def _docstrings() -> dict[str, str]:
    """Return all docstrings of each module, in source order, each under the name of its object."""
    return {
        module: "\n\n".join(_described(ast.parse(_source(module)))) for module in DESCRIBED.split()
    }


def _described(tree: ast.Module) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        if text := ast.get_docstring(node):
            yield f"{node.name}\n{text}" if hasattr(node, "name") else text


def _code() -> dict[str, str]:
    """Return each module's source from its first class or function on, without the header."""
    out = {}
    for module in CODE.split():
        source = _source(module)
        first = next(
            min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            for node in ast.parse(source).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        )
        out[module] = "".join(source.splitlines(keepends=True)[first - 1 :])
    return out


def _tables() -> dict[str, str]:
    """Return a table per row of the Basic Multilingual Plane, with lines as in UnicodeData.txt."""
    out = {}
    for row in ROWS:
        characters = map(chr, range(row * ROW, (row + 1) * ROW))
        lines = [
            f"{ord(character):04X};{name};{unicodedata.category(character)};{unicodedata.decomposition(character)}"
            for character in characters
            if (name := unicodedata.name(character, ""))
        ]
        if len(lines) >= LEAST_NAMED:
            out[f"U+{row:02X}xx"] = "\n".join(lines) + "\n"
    return out


KINDS: Final[dict[str, Callable[[], dict[str, str]]]] = {
    "topics": _apart,
    "docstrings": _docstrings,
    "code": _code,
    "tables": _tables,
}
"""Functions that return texts by name, by kind; kinds take turns in this order."""

NAMES: Final = ("builtin", *(f"builtin:{kind}" for kind in KINDS))
"""Names of the built-in texts for `--text`."""


def _documents(kind: str) -> Iterator[Document]:
    """Yield the documents of one kind, sorted by the sha256 of their names."""
    texts = KINDS[kind]()
    for name in sorted(texts, key=lambda name: hashlib.sha256(name.encode()).digest()):
        yield Document(name=f"{kind}/{name}", text=texts[name], kind=kind)


def all_kinds() -> Corpus:
    """Return the corpus of all kinds, which take turns: of 8 documents each kind has two.

    Within a kind, documents are sorted by the sha256 of their names. This order is unrelated to
    their content and changes least between versions of Python.
    """
    return Corpus(
        name=f"texts of Python {platform.python_version()}",
        population=f"{len(KINDS)} kinds of CPython's own texts in turn: {', '.join(KINDS)}",
        strata=tuple(one_kind(kind) for kind in KINDS),
        read=lambda: (document for kind in KINDS for document in _documents(kind)),
    )


def one_kind(kind: str) -> Corpus:
    """Return the corpus of one kind."""
    return Corpus(
        name=f"{kind} of Python {platform.python_version()}",
        population=f"one kind of CPython's own texts: {kind}",
        read=partial(_documents, kind),
    )


def topics() -> Corpus:
    """Return the topics of Python's language reference, sorted by name.

    >>> next(iter(topics())).name
    'assert'
    """
    return Corpus(
        name=f"pydoc_data.topics of Python {platform.python_version()}",
        population="documents of one manual: topics of Python's language reference",
        read=lambda: (
            Document(name=name, text=text, kind="topics") for name, text in _topics().items()
        ),
    )


def named(name: str) -> Corpus:
    """Return the built-in corpus with one of NAMES; an InputError if there is no such kind.

    >>> named("builtin:topics").population
    "documents of one manual: topics of Python's language reference"
    """
    if name not in NAMES:
        raise InputError(
            f"--text {name}: no such built-in text, expected one of {', '.join(NAMES)}. Use one of"
            " those, or a file's whole path."
        )
    kind = name.partition(":")[2]
    return all_kinds() if not kind else topics() if kind == "topics" else one_kind(kind)
