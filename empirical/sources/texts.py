"""Text corpora: files, folders, .jsonl records, and Hugging Face data sets.

A corpus is a stream that starts anew at each iteration. Imports the standard library, and for hub
data sets huggingface_hub and datasets (optional extra `hub`).
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

TEXT_SUFFIXES = """
.txt .text .md .markdown .rst .org .adoc .tex .html .htm .xml .csv .tsv .py
"""
"""Suffixes, besides .jsonl, that count as text in a folder; a file named itself may have any."""

MOST_NAMED = 3
"""Number of paths that a corpus name lists; further paths are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text, the sampling unit of a run."""

    name: str
    text: str
    kind: str = ""
    """Kind of text, if the corpus mixes kinds."""
    token_ids: tuple[int, ...] | None = None
    """Token ids, if they are given instead of a text."""
    masked: bool = False
    """Whether an attention mask that marks padding came with the token ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A named stream of documents that can be read repeatedly."""

    name: str
    read: Callable[[], Iterator[Document]]
    population: str = ""
    """Description of the population that the documents are sampled from."""
    strata: tuple[Corpus, ...] = ()
    """Corpora of the kinds that take turns; empty if documents come in reading order."""

    def __iter__(self) -> Iterator[Document]:
        """Read the documents from the start."""
        return self.read()


def from_paths(paths: Sequence[str | Path], *, field: str = "text") -> Corpus:
    """Return the documents of files, folders (recursive, sorted by name) and .jsonl files (one per
    line, in a field), each file once. The documents of one path form one kind.

    Raises:
        InputError: no path is given, or a path is no file or folder. While reading: a file cannot
            be read, is not UTF-8, is binary or empty, a record lacks the field, or a folder holds
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
    name = ", ".join(map(shown, roots))
    if len(roots) > MOST_NAMED:
        name = f"{shown(roots[0])} and {len(roots) - 1} more"

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
                    if file.suffix.lower() == ".jsonl":
                        documents = _records(file, field)
                    else:
                        documents = _whole(file, may_be_empty=file != root)
                    yield from (replace(document, kind=shown(root)) for document in documents)

    return Corpus(name=name, read=read, population="the user's own text")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn an OSError into an InputError of one line."""
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
    suffixes = [*sorted(TEXT_SUFFIXES.split()), ".jsonl"]
    files = [file for file in files_below(root) if file.suffix.lower() in suffixes]
    if not files:
        raise InputError(
            f"{shown(root)}: holds no text files ({', '.join(suffixes)}). Name the files, or"
            " another folder."
        )
    return sorted(files, key=lambda file: file.relative_to(root).as_posix())


def _whole(file: Path, *, may_be_empty: bool) -> Iterator[Document]:
    """Read a file as one document; one in a folder may be empty and then counts as too short."""
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
                    f"{shown(file)}:{number}: has {LARGEST} bytes or more, expected one record per"
                    " line. Rewrite the file."
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
        raise InputError(f"{where}: is not JSON ({reason}). Write one object per line.") from error
    if not isinstance(record, dict):
        raise InputError(
            f"{where}: is a JSON {type(record).__name__}, expected an object with a field"
            f" {field!r}."
        )
    return text_of(record, field, where)


def text_of(record: Mapping[str, object], field: str, where: str) -> str:
    """Return a record's text; an InputError if it is missing or no string of whole characters."""
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
    r"""Return a text unchanged; an InputError if it holds half a character (a surrogate), which no
    file can store.

    >>> whole_characters("a\ud800b", "names")
    Traceback (most recent call last):
    empirical.errors.InputError: names: character 1 is half of one (\ud800), expected whole ...
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what}: character {error.start} is half of one (\\u{ord(text[error.start]):04x}),"
            " expected whole characters. Correct it, or leave it out."
        ) from error
    return text


def _decoded(data: bytes, file: Path, offset: int) -> str:
    """Decode UTF-8 without a byte-order mark at the start of a file; refuse NUL bytes."""
    if b"\0" in data:
        nul = offset + data.index(b"\0")
        raise InputError(
            f"{shown(file)}: byte {nul} is NUL, expected text in UTF-8. Convert the file to UTF-8,"
            " or leave it out."
        )
    try:
        return data.decode("utf-8").removeprefix("\ufeff" if offset == 0 else "")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{shown(file)}: byte {offset + error.start} is not UTF-8. Convert the file to UTF-8,"
            " or leave it out."
        ) from error


def from_hub(dataset: str, *, split: str = "train", field: str = "text") -> Corpus:
    """Return the records of a Hugging Face data set, streamed from its current commit.

    dataset: id on the hub, followed by `:configuration` if it has several. An InputError if the
    library datasets is missing, the hub cannot be reached, or it has no such data set or split.
    """
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "--dataset needs the library datasets, which is not installed. Get it with: pip"
            " install datasets"
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
