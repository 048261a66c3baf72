"""Documents of a run: their rows, and the journal of those that are complete but not yet in shards.

`documents.jsonl` holds a line per document in shards, with a digest of itself and all earlier lines
(the *chain*). The first digest starts from the run's identity (`manifest["run"]`), a digest of its
provenance. The root's metadata holds the number of lines, their bytes and the last digest (the
*head*), so it does not grow with the documents. Lines that are truncated, changed, reordered or of
another run are found.

A shard can only be written whole. A document is therefore first written atomically to
`journal/INDEX-CHAIN.zip`, with its row and its chunks in the encoding of the shards, until
`empirical.store.shards` moves it. CHAIN is the digest that its row will have in
`documents.jsonl`. It exposes files of another run, another index or an older state. Files are
independent, so processes that share the disk may write them next to the run (`Place`), and the run
takes them over by name. Imports the manifest.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
import uuid
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from empirical.errors import InputError, StoreError
from empirical.store import bundle
from empirical.store.disk import DRAFT, flush_folder, reading, replace, sidecar_path, writing
from empirical.store.manifest import DIGITS, DOCUMENTS, damaged, shaped_row

FILE: Final = "capture/document/documents.jsonl"
"""Inside the array of document names, because zarr warns of unknown files elsewhere."""
FILE_BEFORE: Final = "documents.jsonl"
"""Its path up to schema version 3."""
FOLDER: Final = "capture/document/journal"
HANDED: Final = "handed"
"""Suffix of the folder next to the run in which other processes write documents for its journal."""
ROW: Final = "row.json"
"""Archive entry with the document's row; the other entries are chunks, named after their arrays."""

_DIGEST: Final = 64
"""Bytes of the archive's comment, which comes last: sha256 of everything before it."""

NAME: Final = re.compile(r"(0|[1-9][0-9]{0,17})-([0-9a-f]{16})\.zip")
"""A document's index in the run, and the digest of its row."""

_OF_DAMAGE: Final = (
    *(KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError),
    *(ValueError, EOFError, zlib.error),
)
"""Errors that zipfile raises for damaged files."""

REMEDY: Final = (
    "Run `geostat doctor --repair` on the run, or remove {folder} and run the same capture again,"
    " which measures those documents again."
)


def no_rows(run: str) -> dict[str, Any]:
    """Return the head of an empty file of rows, for a run of this identity."""
    return {"count": 0, "bytes": 0, "chain": run}


def identity_of(provenance: Mapping[str, Any]) -> str:
    """Return the identity of a run: a digest of its model, corpus and settings."""
    text = json.dumps(provenance, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def chained(body: str, chain: str) -> tuple[str, str, str]:
    """Return the start of a row's line, the rest, and the digest of it and all earlier ones."""
    chain = hashlib.sha256(f"{chain}{body}".encode()).hexdigest()[:DIGITS]
    return f'{{"chain": "{chain}", ', body.removeprefix("{"), chain


def link(chain: str, row: Mapping[str, Any]) -> str:
    """Return the digest of a row and all earlier rows, whose digest is `chain`."""
    return chained(json.dumps(row, sort_keys=True), chain)[2]


def lines_of(
    head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> tuple[bytes, dict[str, Any]]:
    """Return the lines of rows after those counted by `head`, and the new head."""
    lines, chain = [], head["chain"]
    for row in rows:
        start, end, chain = chained(json.dumps(row, sort_keys=True), chain)
        lines.append(f"{start}{end}\n".encode())
    written = b"".join(lines)
    count, size = head["count"] + len(lines), head["bytes"] + len(written)
    return written, {"count": count, "bytes": size, "chain": chain}


def append_rows(
    folder: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Write rows after those counted by `head`, over any leftovers; return the new head."""
    written, after = lines_of(head, rows)
    follow = getattr(os, "O_NOFOLLOW", 0)
    (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(folder / FILE, os.O_RDWR | os.O_CREAT | follow, 0o644), "r+b") as file:
        file.truncate(head["bytes"])
        file.seek(head["bytes"])
        file.write(written)
        file.flush()
        os.fsync(file.fileno())
    return after


def read_rows(
    folder: Path, head: Mapping[str, Any], *, more: bool, run: str = ""
) -> list[dict[str, Any]]:
    """Read the rows counted by `head`, of the run with this identity; a StoreError if they are not
    as written. With `more`, further rows of a killed process may follow.
    """
    older = not os.path.lexists(folder / FILE) and os.path.lexists(folder / FILE_BEFORE)
    name = FILE_BEFORE if older else FILE
    file, chain = folder / name, run
    rows: list[dict[str, Any]] = []
    size, number, longer = 0, 0, False
    with reading(file), suppress(FileNotFoundError), bundle.opened(folder, name) as opened:
        while size < head["bytes"] and (line := opened.readline(bundle.LINE)):
            size, number = size + len(line), number + 1
            try:
                body = "{" + line.decode("ascii").removesuffix("\n").partition(", ")[2]
                start, end, chain = chained(body, chain)
                rows.append(bundle.parsed(body))
                sound = f"{start}{end}\n".encode() == line and shaped_row(rows[-1])
            except ValueError:
                sound = False
            if not sound:
                raise damaged(file, f"line {number} is not what was written")
        longer = bool(opened.read(1))
    if (len(rows), size, chain) != (head["count"], head["bytes"], head["chain"]):
        raise damaged(file, f"it has {len(rows)} of {head['count']} lines")
    if longer and not more:
        raise damaged(file, "there is more in it than was written")
    return rows


def document_digest(chunks: Iterable[tuple[str, bytes]]) -> str:
    """Return the digest of a document: of name and digest of its encoded chunks, by array name."""
    total = hashlib.sha256()
    for name, digest in chunks:
        total.update(name.encode() + digest)
    return total.hexdigest()


def chunk_digest(chunk: bytes) -> bytes:
    """Return the digest of an encoded chunk."""
    return hashlib.sha256(chunk).digest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One packed document: its row, and the bytes of its file or the path of such a file."""

    row: Mapping[str, Any]
    data: bytes | Path


def entry_of(row: Mapping[str, Any], chunks: Mapping[str, bytes]) -> Entry:
    """Pack a document, and add its digest to its row."""
    digests = ((name, chunk_digest(chunk)) for name, chunk in sorted(chunks.items()))
    row = dict(row) | {"digest": document_digest(digests)}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(zipfile.ZipInfo(ROW), json.dumps(row, sort_keys=True))
        for name in sorted(chunks):
            archive.writestr(zipfile.ZipInfo(name), chunks[name])
        archive.comment = bytes(_DIGEST)
    # in place, because a document measured at every N takes tens of megabytes
    with written.getbuffer() as data:
        data[-_DIGEST:] = hashlib.sha256(data[:-_DIGEST]).hexdigest().encode()
    return Entry(row, written.getvalue())


def enter(folder: Path, index: int, chain: str, entry: Entry) -> None:
    """Write one document's file, or move it into place, atomically and flushed. It may replace an
    equal one. chain: the digest of the previous row.
    """
    place = folder / FOLDER / name_of(index, link(chain, entry.row))
    if not place.parent.exists():
        place.parent.mkdir(parents=True)
        flush_folder(place.parent.parent)
    try:
        if isinstance(entry.data, Path):
            if not entry.data.exists():
                raise InputError(
                    f"{entry.data}: a worker wrote a document there, but it is missing. Run the"
                    " same command again, which measures it again."
                )
            os.replace(entry.data, place)
            flush_folder(place.parent)
        else:
            replace(place, entry.data)
    except BaseException:  # a document reported as failed must not count
        place.unlink(missing_ok=True)
        raise


def name_of(index: int, chain: str) -> str:
    """Return the name of a document's file, from its index in the run and the digest of its row."""
    return f"{index}-{chain}.zip"


def listed(folder: Path) -> tuple[dict[int, str], list[str]]:
    """Return the documents' files by index, and other entries except drafts and hidden files of the
    system, which nothing reads; a StoreError if the journal is no folder.
    """
    found: dict[int, str] = {}
    others: list[str] = []
    place = folder / FOLDER
    if not os.path.lexists(place):
        return found, others
    if place.is_symlink() or not place.is_dir():
        raise damaged_file(place, "it is no folder")
    with reading(place):
        names = sorted(os.listdir(place))
    for name in names:
        match = NAME.fullmatch(name)
        if match and int(match[1]) < DOCUMENTS and int(match[1]) not in found:
            found[int(match[1])] = name
        elif not name.endswith(DRAFT) and not (
            name.startswith(".") and stat.S_ISREG((place / name).lstat().st_mode)
        ):
            others.append(name)
    return found, others


def file_of(folder: Path, index: int) -> Path:
    """Return the path of a document's file, which may be missing."""
    return folder / FOLDER / listed(folder)[0].get(index, f"{index}-….zip")


def entries(folder: Path, head: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield, for each document after those counted by `head`, up to the last existing one, the name
    of its file ("" if missing), and its row or the error that names the damage.
    """
    there, first, chain = listed(folder)[0], head["count"], head["chain"]
    for index in range(first, max([first - 1, *there]) + 1):
        name = there.get(index, "")
        try:
            yield name, row_of(folder, name or f"{index}-….zip", chain)
        except StoreError as error:
            yield name, error
        chain = chain_of(name)


def journal_rows(folder: Path, head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the documents after those counted by `head`, from the journal; a
    StoreError for a damaged or foreign file, or one that is missing before a later one.
    """
    for stranger in listed(folder)[1]:
        raise StoreError(f"{folder / FOLDER / stranger}: does not belong to the run. Remove it.")
    rows = []
    for _, row in entries(folder, head):
        if isinstance(row, StoreError):
            raise row
        rows.append(row)
    return rows


@contextmanager
def damage_named(file: Path, why: str) -> Iterator[None]:
    """Turn the errors that a damaged file of the journal causes into one that names it; `why` may
    quote the {error}.
    """
    try:
        yield
    except (InputError, StoreError):
        raise
    except FileNotFoundError as error:
        raise damaged_file(file, "it is missing") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise  # a disk error, not an offset before the file
        raise damaged_file(file, "it is cut") from error
    except _OF_DAMAGE as error:
        raise damaged_file(file, why.format(error=error)) from error


def row_of(folder: Path, name: str, before: str | None) -> dict[str, Any]:
    """Return the row of a document's file; a StoreError unless every byte matches its digest, and
    its name the digest of the row `before` it, if that is known (not None).
    """
    place = f"{FOLDER}/{name}"
    file = folder / place
    with (
        damage_named(file, "it is no document of a run"),
        reading(file),
        bundle.opened(folder, place) as opened,
    ):
        if not _is_whole(opened):
            raise damaged_file(file, "it is not what was written")
        with zipfile.ZipFile(opened) as archive:
            row = bundle.parsed(stored(archive, ROW, limit=bundle.LINE))
    if not shaped_row(row):
        raise damaged_file(file, "it is no document of a run")
    if before is not None and link(before, row) != chain_of(name):
        raise damaged_file(file, "it is of another run, or of another place in this one")
    return row


def stored(archive: zipfile.ZipFile, name: str, *, limit: int = bundle.MOST) -> bytes:
    """Return an uncompressed entry of a document's archive; else a KeyError or a ValueError."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > limit:
        raise ValueError(f"{name} is packed, or too large")
    return archive.read(info)


def _is_whole(file: BinaryIO) -> bool:
    """Return whether a file ends in the digest of its content; the file is rewound."""
    body = file.seek(0, os.SEEK_END) - _DIGEST
    file.seek(0)
    total = hashlib.sha256()
    for piece in bundle.pieces(file, body):
        total.update(piece)
    same = body >= 0 and file.read() == total.hexdigest().encode()
    file.seek(0)
    return same


def chain_of(name: str) -> str | None:
    """Return the digest in a file name."""
    match = NAME.fullmatch(name)
    return match[2] if match else None


def damaged_file(file: Path, why: str) -> StoreError:
    """Return the error that names a damaged file of the journal."""
    return damaged(file, why, REMEDY.format(folder=file.parent))


def clear(folder: Path, first: int) -> None:
    """Remove the files of settled documents (before `first`), drafts, and an empty folder."""
    place = folder / FOLDER
    there, _ = listed(folder)
    settled = [place / name for index, name in there.items() if index < first]
    for file in [*settled, *place.glob(f".*{DRAFT}")]:
        file.unlink()
    with suppress(OSError):  # it is missing or not empty
        place.rmdir()


@dataclass(frozen=True, slots=True)
class Place:
    """A folder where processes that share the disk may write; a marker file shows it."""

    folder: Path
    sign: str

    def shared(self) -> bool:
        """Return whether this process sees the folder, owns it and may write there."""
        try:
            owner = (self.folder / self.sign).stat().st_uid
        except OSError:
            return False
        mine = not hasattr(os, "geteuid") or owner == os.geteuid()
        return mine and os.access(self.folder, os.W_OK)

    def hand_over(self, entry: Entry) -> Entry:
        """Write a document to the folder, flushed, and return it by its path; unchanged if the disk
        is not shared. An InputError if the disk is full or fails.
        """
        if isinstance(entry.data, Path) or not self.shared():
            return entry
        # A unique name, in case the same document is measured twice.
        file = self.folder / f"{uuid.uuid4()}.zip"
        try:
            with writing(self.folder), open(file, "xb") as opened:
                opened.write(entry.data)
                opened.flush()
                os.fsync(opened.fileno())
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return Entry(entry.row, file)


@contextmanager
def place_beside(path: Path) -> Iterator[Place]:
    """Yield the folder for others' documents of the run at `path`, until the block ends."""
    place = Place(sidecar_path(path, HANDED).absolute(), str(uuid.uuid4()))
    with writing(path):
        shutil.rmtree(place.folder, ignore_errors=True)
        place.folder.mkdir(parents=True)
        (place.folder / place.sign).touch()
    try:
        yield place
    finally:
        shutil.rmtree(place.folder, ignore_errors=True)
