"""Built-in texts: kinds of text that every CPython from 3.11 on ships, as strata of one corpus.

Nothing here depends on the machine or on installed packages, only on the version of Python. Licence
and `this` are not among the kinds: one text each, the second too short for a window. Modules that
some distributions leave out (idlelib, tkinter, test, …) are not used. Imports the standard library.
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
"""Modules whose docstrings are read."""

CODE: Final = """
calendar compileall copy csv dataclasses dis filecmp gettext graphlib inspect mimetypes
modulefinder pdb pickle pkgutil plistlib pprint pstats pyclbr reprlib runpy selectors shlex socket
socketserver subprocess tarfile tempfile threading tokenize trace weakref zipimport
"""
"""Modules whose source is read; others than those, so that no text stands in two documents."""

NESTED: Final = """
augassign compound context-managers dynamic-features exceptions id-classes in naming specialnames
typesseq-mutable
"""
"""Topics that hold, or stand in, other ones; without them no two share a paragraph."""

ROW: Final = 0x100
"""Code points of a table."""
ROWS: Final = range(0x00, 0x34)
"""Rows of the Basic Multilingual Plane whose characters have names of their own."""
LEAST_NAMED: Final = 128
"""Named characters of the shortest table."""


def _topics() -> dict[str, str]:
    """Topics of the language reference; a text that stands under two names ("else" is that of
    "if") is one document, under the first.
    """
    from pydoc_data.topics import topics

    first = {topics[name]: name for name in sorted(topics, reverse=True)}
    return {name: topics[name] for name in sorted(first.values())}


def _apart() -> dict[str, str]:
    """Topics without those of NESTED."""
    return {name: text for name, text in _topics().items() if name not in NESTED.split()}


def _source(module: str) -> str:
    """Source of a module of the standard library, which is not imported."""
    path = Path(sysconfig.get_path("stdlib")) / f"{module}.py"
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}), expected the standard library's source."
            " Use --text builtin:topics, or a text of your own."
        ) from error


def _docstrings() -> dict[str, str]:
    """Every docstring of a module, in the order of its source, each under the name of what it
    describes.
    """
    return {
        module: "\n\n".join(_described(ast.parse(_source(module)))) for module in DESCRIBED.split()
    }


def _described(tree: ast.Module) -> Iterator[str]:
    nodes = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        if text := ast.get_docstring(node):
            yield f"{node.name}\n{text}" if hasattr(node, "name") else text


def _code() -> dict[str, str]:
    """A module's source from its first class or function on, so without the text that heads it."""
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
    """Tables of characters, a row of the Basic Multilingual Plane each, with lines as in
    UnicodeData.txt: code point, name, category, decomposition.
    """
    out = {}
    for row in ROWS:
        characters = map(chr, range(row * ROW, (row + 1) * ROW))
        lines = [
            f"{ord(each):04X};{name};{unicodedata.category(each)};{unicodedata.decomposition(each)}"
            for each in characters
            if (name := unicodedata.name(each, ""))
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
"""Texts by name, by kind, in the order in which kinds take turns."""

NAMES: Final = ("builtin", *(f"builtin:{kind}" for kind in KINDS))
"""What `--text` calls them."""


def _documents(kind: str) -> Iterator[Document]:
    """Documents of one kind, in the order of their names' sha256."""
    texts = KINDS[kind]()
    for name in sorted(texts, key=lambda name: hashlib.sha256(name.encode()).digest()):
        yield Document(name=f"{kind}/{name}", text=texts[name], kind=kind)


def all_kinds() -> Corpus:
    """Return the corpus of all kinds, which take turns: of 8 documents each kind has two.

    Within a kind documents come in the order of the sha256 of their names, which has nothing to do
    with what they say and changes least between versions of Python.
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
    """Return the topics of Python's language reference, in the order of their names; the same for
    one version of Python.

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
    """Return the corpus that one of NAMES calls.

    Raises:
        InputError: there is no such kind.

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
