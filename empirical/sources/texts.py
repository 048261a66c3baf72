"""Sources of text: files, folders, .jsonl records, and data sets of the Hugging Face hub.

A source is read as a stream, from its start each time it is iterated. Imports the standard library,
and for hub data sets the libraries huggingface_hub and datasets (optional extra `hub`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from empirical.errors import InputError, boundary
from empirical.sources.paths import LARGEST, files_below, opened, path_of, read_whole, shown

TEXT_SUFFIXES = frozenset(
    {
        ".txt",
        ".text",
        ".md",
        ".markdown",
        ".rst",
        ".org",
        ".adoc",
        ".tex",
        ".html",
        ".htm",
        ".xml",
        ".csv",
        ".tsv",
        ".py",
    }
)
"""What counts as text in a folder, beside .jsonl. A file named by itself is read whatever its
suffix.
"""

MOST_NAMED = 3
"""How many paths a corpus name lists before it counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text, the sampling unit of a run."""

    name: str
    text: str
    kind: str = ""
    """What kind of text it is, among those that its corpus mixes."""
    token_ids: tuple[int, ...] | None = None
    """Its tokens, where these are what is given in place of a text."""
    masked: bool = False
    """Whether an attention mask came with them, which tells what is padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A named stream of documents that can be read again."""

    name: str
    read: Callable[[], Iterator[Document]]
    population: str = ""
    """What the documents are a sample of, in words."""
    strata: tuple[Corpus, ...] = ()
    """Kinds that take turns in giving a document, each a corpus; none where documents come in the
    order in which they are read.
    """

    def __iter__(self) -> Iterator[Document]:
        """Read the documents from the start."""
        return self.read()


def from_paths(paths: Sequence[str | Path], *, field: str = "text") -> Corpus:
    """Return the documents of files, folders (recursively, in the order of names) and .jsonl files
    (one a line), each file once. Those of one path are of one kind.

    field: which one of a .jsonl record holds the text.

    Raises:
        InputError: no path is given, or one is no file or folder. While reading: a file cannot be
            read, is not UTF-8, is binary or is empty, a record has no such field, or a folder holds
            no text.
    """
    if not paths:
        raise InputError(
            "No text was named, expected at least one file or folder. Use --text PATH."
        )
    roots = [path_of(path) for path in paths]
    for root in roots:
        if not root.exists():
            raise InputError(f"{shown(root)}: no such file or folder. Check --text.")
        if not (root.is_file() or root.is_dir()):
            raise InputError(
                f"{shown(root)}: is a pipe, a device or a socket, expected a file or folder. Write"
                " the text to a file first."
            )
    name = (
        ", ".join(map(shown, roots))
        if len(roots) <= MOST_NAMED
        else f"{shown(roots[0])} and {len(roots) - 1} more"
    )

    def read() -> Iterator[Document]:
        seen: set[Path] = set()
        for root in roots:
            with _readable(root):
                files = _files(root)
            for file in files:
                if file.resolve() in seen:
                    continue
                seen.add(file.resolve())
                with _readable(file):
                    documents = (
                        _records(file, field)
                        if file.suffix.lower() == ".jsonl"
                        else _whole(file, may_be_empty=file != root)
                    )
                    yield from (replace(document, kind=shown(root)) for document in documents)

    return Corpus(name=name, read=read, population="the user's own text")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say in one line of what cannot be read why."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{shown(path)}: cannot be read ({error.strerror}). Check its permissions, or leave it"
            " out."
        ) from error


def _files(root: Path) -> list[Path]:
    """Return the text files under a folder, or the file itself."""
    if not root.is_dir():
        return [root]
    known = TEXT_SUFFIXES | {".jsonl"}
    out = [file for file in files_below(root) if file.suffix.lower() in known]
    if not out:
        raise InputError(
            f"{shown(root)}: holds no text files ({', '.join(sorted(TEXT_SUFFIXES))}, .jsonl). Name"
            " the files, or another folder."
        )
    return sorted(out, key=lambda file: file.relative_to(root).as_posix())


def _whole(file: Path, *, may_be_empty: bool) -> Iterator[Document]:
    """Read a file as one document. Inside a folder an empty one is passed on, to be counted as
    too short.
    """
    text = _decoded(read_whole(file), file, 0)
    if not text.strip() and not may_be_empty:
        raise InputError(f"{shown(file)}: holds no text. Name another file.")
    yield Document(name=shown(file), text=text)


def _records(file: Path, field: str) -> Iterator[Document]:
    """Read a .jsonl file, one document a line, named by the line's number."""
    offset, empty = 0, True
    with opened(file, most=sys.maxsize) as lines:
        for number, line in enumerate(iter(lambda: lines.readline(LARGEST), b""), start=1):
            if len(line) == LARGEST:
                raise InputError(
                    f"{shown(file)}:{number}: has {LARGEST} bytes or more, expected one record a"
                    " line. Write it so."
                )
            text = _decoded(line, file, offset)
            offset += len(line)
            if text.strip():
                empty = False
                where = f"{shown(file)}:{number}"
                yield Document(name=where, text=_field(text, field, where))
    if empty:
        raise InputError(f"{shown(file)}: holds no records. Name another file.")


def _field(line: str, field: str, where: str) -> str:
    """Return one field of a JSON record."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else error
        raise InputError(f"{where}: is not JSON ({reason}). Write one object a line.") from error
    if not isinstance(record, dict):
        raise InputError(
            f"{where}: is a JSON {type(record).__name__}, expected an object with a field"
            f" {field!r}."
        )
    return text_of(record, field, where)


def text_of(record: Mapping[str, object], field: str, where: str) -> str:
    """Return a record's text, which must be there and be a string of whole characters."""
    if field not in record:
        raise InputError(
            f"{where}: has no field {field!r}, only {', '.join(map(str, record)) or 'none'}. Use"
            " --field."
        )
    text = record[field]
    if not isinstance(text, str):
        raise InputError(
            f"{where}: field {field!r} is of type {type(text).__name__}, expected text. Use"
            " --field."
        )
    return whole_characters(text, f"{where}: field {field!r}")


def whole_characters(text: str, what: str) -> str:
    r"""Return a text; an InputError where it holds half of a character, which no file can hold.

    >>> whole_characters("a\ud800b", "names")
    Traceback (most recent call last):
    empirical.errors.InputError: names: character 1 is half of one (\ud800), expected whole ...
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what}: character {error.start} is half of one (\\u{ord(text[error.start]):04x}),"
            " expected whole characters. Mend it, or leave it out."
        ) from error
    return text


def _decoded(data: bytes, file: Path, offset: int) -> str:
    """Decode UTF-8, without the byte-order mark that may stand at a file's start; text has no
    NUL in it.
    """
    if b"\0" in data:
        nul = offset + data.index(b"\0")
        raise InputError(
            f"{shown(file)}: byte {nul} is NUL, so it is no text in UTF-8. Convert the file to"
            " UTF-8, or leave it out."
        )
    try:
        return data.decode("utf-8").removeprefix("\ufeff" if offset == 0 else "")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{shown(file)}: byte {offset + error.start} is not UTF-8. Convert the file to UTF-8,"
            " or leave it out."
        ) from error


def from_hub(dataset: str, *, split: str = "train", field: str = "text") -> Corpus:
    """Return the records of a Hugging Face data set, streamed from the commit it stands at now.

    dataset: id on the hub, with `:configuration` behind it where there are several; field: which
    one of a record holds the text.

    Raises:
        InputError: the library datasets is absent, the hub cannot be reached, or it knows no such
            data set, split or field.
    """
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "--dataset needs the library datasets, which is not installed. Get it with: pip install"
            " datasets"
        ) from error
    from huggingface_hub import HfApi

    name, _, configuration = dataset.partition(":")
    with boundary(
        f"{dataset}: cannot be opened",
        "expected a data set of the hub. Check --dataset, --split and the connection.",
    ):
        commit = HfApi().dataset_info(name, timeout=20).sha
        stream = datasets.load_dataset(
            name, configuration or None, split=split, streaming=True, revision=commit
        )

    def read() -> Iterator[Document]:
        records = iter(stream)
        for number in count():
            where = f"{name}:{number}"
            with boundary(
                f"{dataset}: record {number} cannot be read",
                "expected a record. Check the connection.",
            ):
                record = next(records, None)
            if record is None:
                return
            yield Document(name=where, text=text_of(record, field, where), kind=dataset)

    return Corpus(
        name=f"{dataset}@{commit} {split}",
        read=read,
        population="the first records of a data set that are long enough",
    )
