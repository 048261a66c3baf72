"""Runs from somebody else: crafted content inside and next to a run, and a guard over everything
around it.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zarr
from support.damage import restated
from support.stores import PLAN, arrays, row

from empirical.store import stored_run
from empirical.store.disk import sidecar_path
from empirical.store.journal import FILE, FOLDER, chained, entry_of, file_of
from empirical.store.layout import Encoder
from empirical.store.store import Store

Craft = Callable[[Path, Path], object]
"""Makes something of a run; the second folder is the reader's own."""
CHUNK = "capture/weight/c/0/0/0"
SPARSE = 1 << 40


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return everything below a folder: kind, modification time, link target and bytes."""
    out: dict[str, tuple[object, ...]] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files, "."):
            place = Path(parent, name)
            stated = place.lstat()
            small = place.is_file() and not place.is_symlink() and stated.st_size < 1 << 24
            out[str(place)] = (
                *(stated.st_mode, stated.st_mtime_ns, stated.st_size),
                os.readlink(place) if place.is_symlink() else "",
                hashlib.sha256(place.read_bytes()).hexdigest() if small else "",
            )
    return out


@contextmanager
def untouched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, seconds: float = 20
) -> Iterator[None]:
    """Assert that inside the block nothing below a folder changes, no socket opens and nothing
    blocks.
    """

    def no_socket(*args: object, **keywords: object) -> None:
        pytest.fail("a socket was opened")

    def late(*args: object) -> None:
        pytest.fail("it waits")

    monkeypatch.setattr(stored_run, "PATIENCE", 0.05)
    before = state(folder)
    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "connect", no_socket)
        old = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
    assert state(folder) == before


def linked(name: str) -> Craft:
    """Replace an entry by a link to an equal file or folder outside the run."""

    def craft(run: Path, mine: Path) -> None:
        (run / name).rename(mine / "moved")
        (run / name).symlink_to(mine / "moved")

    return craft


def in_place(name: str, make: Callable[[Path], object]) -> Craft:
    """Put another kind of entry in the place of a file."""

    def craft(run: Path, mine: Path) -> None:
        place = file_of(run, 2) if name == FOLDER else run / name
        if place.is_dir():
            place.rename(mine / "moved")
        else:
            place.unlink(missing_ok=True)
        make(place)

    return craft


def sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(SPARSE)


def bound(place: Path) -> None:
    """Bind a socket by a short name; its path may have 107 bytes."""
    here = Path.cwd()
    os.chdir(place.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(place.name)
    finally:
        os.chdir(here)


def folder(place: Path) -> None:
    place.mkdir()


def edited(name: str, **parts: Any) -> Craft:
    """Change metadata of an array or a group, with correct digests."""

    def craft(run: Path, mine: Path) -> None:
        node = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps(node | parts))
        restated(run)

    return craft


def root(**parts: Any) -> Craft:
    """Change the manifest, which states its digest."""
    return lambda run, mine: restated(run, **parts)


def pending(**parts: Any) -> Craft:
    """Record moves of ready files that did not begin here."""

    def craft(run: Path, mine: Path) -> None:
        ready = sidecar_path(run, "ready")
        (ready / "norms").mkdir(parents=True)
        (ready / "norms" / "zarr.json").write_text("{}")
        stated = {"moves": ["norms"], "drops": [], "then": {}, "token": "a" * 32}
        restated(run, pending=stated | parts)

    return craft


def without_end(run: Path, mine: Path) -> None:
    """Write a number that has the form of JSON but is none."""
    node = json.loads((run / "norms/zarr.json").read_text())
    node["attributes"]["many"] = "@"
    (run / "norms/zarr.json").write_text(json.dumps(node).replace('"@"', "1e999"))
    restated(run)


def in_shards(run: Path, mine: Path) -> None:
    """Store only a part of a result; zarr would return fill values for the rest."""
    many = {"dtype": "f8", "dimension_names": ("many",), "compressors": None, "overwrite": True}
    made = zarr.create_array(run, name="norms/C", shape=(8,), chunks=(2,), shards=(8,), **many)
    made[:2] = 1.0
    restated(run)


def of_many_documents(run: Path, mine: Path) -> None:
    rows = json.loads((run / "zarr.json").read_text())["attributes"]["manifest"]["rows"]
    restated(run, rows=rows | {"count": 1 << 60})


def far_place_in_the_journal(run: Path, mine: Path) -> None:
    place = file_of(run, 2)
    place.rename(place.with_name("9" * 17 + place.name[1:]))


def in_a_circle(run: Path, mine: Path) -> None:
    run.rename(mine / "run.zarr")
    run.symlink_to(run)


def through_a_link(run: Path, mine: Path) -> None:
    """Record moves that lead out of the run, by a link inside it and by one next to it."""
    (run / "norms" / "out").symlink_to(mine)
    sidecar_path(run, "ready").symlink_to(mine)
    restated(
        run, pending={"moves": ["norms/out"], "drops": ["norms/out"], "then": {}, "token": "b"}
    )


def sent_elsewhere(run: Path, mine: Path) -> None:
    """Write an origin file that makes the run a working copy of one at a URL."""
    stated = {"url": f"file://{mine}/far/run.zarr", "token": "t", "stamp": None, "sending": None}
    files = {"../mine/secret.txt": [0, 0], "../../mine/secret.txt": [0, 0]}
    sidecar_path(run, "origin").write_text(json.dumps(stated | {"files": files, "whole": True}))


def version_2(run: Path, mine: Path) -> None:
    """Add a group of format 2 whose filter would unpickle."""
    for file in (run / "norms").rglob("zarr.json"):
        file.unlink()
    (run / "norms" / ".zgroup").write_text('{"zarr_format": 2}')
    filters = [{"id": "vlen-utf8"}, {"id": "pickle"}]
    array = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C"}
    array |= {"compressor": None, "fill_value": None, "filters": filters}
    (run / "norms" / "C" / ".zarray").write_text(json.dumps(array))
    (run / "norms" / "C" / ".zattrs").write_text('{"_ARRAY_DIMENSIONS": ["layer"]}')
    restated(run)


PICKLE = [{"name": "vlen-utf8"}, {"name": "numcodecs.pickle", "configuration": {"protocol": 4}}]
WEIGHT, C = "capture/weight/zarr.json", "norms/C/zarr.json"


def rows_of(text: str) -> Craft:
    """Write chained and counted rows of another shape."""

    def craft(run: Path, mine: Path) -> None:
        stated = json.loads((run / "zarr.json").read_text())["attributes"]["manifest"]
        start, end, chain = chained(text, stated["run"])
        line = f"{start}{end}\n".encode()
        (run / FILE).write_bytes(line)
        restated(run, rows={"count": 1, "bytes": len(line), "chain": chain})

    return craft


def entry(
    content: bytes | str, name: str = "row.json", compression: int = zipfile.ZIP_STORED
) -> Craft:
    """Write a journal file that states its digest: an archive of one file, or these bytes."""

    def craft(run: Path, mine: Path) -> None:
        file, body = file_of(run, 2), content
        if isinstance(body, str):
            with zipfile.ZipFile(file, "w", compression) as archive:
                archive.writestr(name, body)
                archive.comment = bytes(64)
            body = file.read_bytes()[:-64]
        file.write_bytes(body + hashlib.sha256(body).hexdigest().encode())

    return craft


def of_another_run(run: Path, mine: Path) -> None:
    """Put a document of a run with another provenance into the journal."""
    other = Store.create(mine / "run.zarr", provenance={"seed": 9}, plan=PLAN, documents=3)
    for index, name in enumerate(("one", "two, longer", "three"), start=1):
        other.append(row(name), arrays(index))
    file_of(run, 2).unlink()
    held = file_of(other.path, 2)
    held.rename(run / FOLDER / held.name)


def twice(run: Path, mine: Path) -> None:
    """Repeat the document as the next one."""
    file = file_of(run, 2)
    (file.parent / file.name.replace("2-", "3-")).write_bytes(file.read_bytes())


def an_old_one(run: Path, mine: Path) -> None:
    """Restore the document that another one replaced."""
    chunks = Encoder(run, ["capture"]).chunks("older", arrays(7))
    other = entry_of(row("older"), chunks)
    assert isinstance(other.data, bytes)
    file_of(run, 2).write_bytes(other.data)


CRAFTED: dict[str, Craft] = {
    "a number without end": without_end,
    "results in shards": in_shards,
    "documents without end": of_many_documents,
    "a far place in the journal": far_place_in_the_journal,
    "a link in a circle": in_a_circle,
    **{f"a link for {name}": linked(name) for name in ("zarr.json", FILE, CHUNK, FOLDER)},
    **{f"a linked folder {name}": linked(name) for name in ("norms", "capture", "norms/C")},
    "a linked layout": linked(WEIGHT),
    "a link to a folder in a group": lambda run, mine: (run / "norms/evil").symlink_to(
        mine / "array"
    ),
    "a link to a file in a group": lambda run, mine: (run / "norms/evil").symlink_to(
        mine / "secret.txt"
    ),
    "a link to nowhere": lambda run, mine: (run / "capture/evil").symlink_to(mine / "nothing"),
    "a link at the root": lambda run, mine: (run / "evil").symlink_to(mine),
    "a link in the journal": lambda run, mine: (run / FOLDER / "7-evil.zip").symlink_to(
        mine / "secret.txt"
    ),
    **{
        f"{make.__name__} for {name}": in_place(name, make)
        for make in (os.mkfifo, sparse, bound, folder)
        for name in ("zarr.json", FILE, CHUNK, FOLDER, "norms/C/c/0", WEIGHT)
    },
    "a pipe at the root": in_place("evil", os.mkfifo),
    "a pipe in a group": in_place("norms/evil", os.mkfifo),
    "a pipe for a group": in_place("norms", os.mkfifo),
    "moves of others": pending(),
    "drops of others": pending(drops=["capture"]),
    "moves of nobody": pending(token=None),
    "moves through a link": through_a_link,
    **{
        f"a name {name!r}": pending(moves=[name])
        for name in ("..", "../mine", "/etc/passwd", "a/../../mine", "a//b", ".hidden", "a\\b")
    },
    "a name of a number": pending(moves=[3]),
    "a name of two lines": pending(drops=["a\nb"]),
    "a layout elsewhere": root(layout={"../mine/secret.txt": "0" * 16}),
    "a layout of no group": root(layout={"other/zarr.json": "0" * 16}),
    "a result elsewhere": root(results={"norms": {"capture/zarr.json": "0" * 16}}),
    "captured is a text": root(captured="capture"),
    "rows without end": root(rows={"count": 10**30, "bytes": 10**30, "chain": "x"}),
    "rows below none": root(rows={"count": -1, "bytes": 0, "chain": ""}),
    "version 2": version_2,
    "format 2": edited(C, zarr_format=2),
    "a pickle codec": edited(C, codecs=PICKLE, data_type="string"),
    "a codec of a plugin": edited(C, codecs=[{"name": "bytes"}, {"name": "mine"}]),
    "a codec within": edited(
        WEIGHT, codecs=[{"name": "sharding_indexed", "configuration": {"codecs": PICKLE}}]
    ),
    "a codec that is a text": edited(C, codecs=["bytes"]),
    "objects": edited(C, data_type="object"),
    "a type of a plugin": edited(C, data_type={"name": "mine"}),
    "a shape without end": edited(C, shape=[10**18]),
    "a shape of texts": edited(C, shape=["2"]),
    "chunks of none": edited(
        C, chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0]}}
    ),
    "another grid": edited(C, chunk_grid={"name": "mine"}),
    "a transformer": edited(C, storage_transformers=[{"name": "mine"}]),
    "a larger shape, filled": edited(
        C, shape=[1 << 33], chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2]}}
    ),
    "dimensions of numbers": edited(WEIGHT, dimension_names=[1, 2, 3]),
    "no dimensions": edited(WEIGHT, dimension_names=None),
    "another key": edited("norms/zarr.json", x=None),
    "a row that is a list": rows_of('{"0": [1]}'),
    "a row without a digest": rows_of('{"name": "one"}'),
    "a row of a number": rows_of('{"name": 3, "digest": "x"}'),
    "a row of NaN": rows_of('{"name": "one", "digest": "x", "z": NaN}'),
    "a row nested without end": rows_of('{"name": ' + "[" * 50_000 + "]" * 50_000 + "}"),
    "a document of no file": entry(b"nothing"),
    "a document without a row": entry("{}", name="other"),
    "a document of a list": entry("[]"),
    "a document of a row of another shape": entry('{"name": 3}'),
    "a document of no JSON": entry("{"),
    "a document nested without end": entry("[" * 100_000),
    "a document of a number without end": entry('{"name": ' + "9" * 5000 + "}"),
    "a document that unpacks to far more": entry(" " * (1 << 27), compression=zipfile.ZIP_DEFLATED),
    "a document of another run": of_another_run,
    "a document twice": twice,
    "an old document": an_old_one,
}
