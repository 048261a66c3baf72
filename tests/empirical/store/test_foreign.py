"""A run from somebody else: whatever was put into it or beside it, opening it reads nothing else,
writes nothing, carries nothing out, does not wait, and ends in a run or in one line.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import zarr.registry
from support.foreign import CHUNK, CRAFTED, bound, sent_elsewhere, untouched
from support.stores import NORMS, arrays, row, small_store

from empirical.errors import InputError, StoreError
from empirical.store import stored_run
from empirical.store.journal import FOLDER, damaged_entries, enter, entry_of
from empirical.store.layout import Encoder
from empirical.store.lock import alone
from empirical.store.manifest import beside, read_root
from empirical.store.shards import DOCUMENTS
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two documents of three in shards, one in the journal, and a result."""
    store = small_store(tmp_path / "from" / "run.zarr")
    store.put({"norms": NORMS})
    with store.alone():
        manifest_ = store.attributes["manifest"]
        chunks = Encoder(store.path, ["capture"]).chunks("three", arrays(3))
        enter(store.path, 2, manifest_["rows"]["chain"], entry_of(row("three"), chunks))
    return store.path


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the reader's, with what could be lost or told; the cache is empty."""
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    (folder / "array" / "c").mkdir(parents=True)
    (folder / "secret.txt").write_text("a key")
    (folder / "array" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    return folder


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched(
    kind: str, run: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CRAFTED[kind](run, mine)
    with (
        untouched(tmp_path, monkeypatch),
        pytest.raises((StoreError, InputError)) as refusal,
    ):
        StoredRun.open(run).tree()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 2000


@pytest.mark.usefixtures("mine")
def test_the_run_as_it_was_made_opens(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with untouched(tmp_path, monkeypatch):
        tree = StoredRun.open(run).tree()
    assert tree["capture"].sizes["document"] == 3


def test_results_that_would_fill_the_memory_are_not_read(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoredRun.open(run)
    size = store.read("norms").nbytes
    monkeypatch.setattr(stored_run, "RESULTS", size - 1)
    with pytest.raises(
        StoreError, match=f"norms: its arrays are of {size} bytes, expected at most"
    ):
        store.read("norms")
    assert store.read("capture").nbytes > size


@pytest.mark.usefixtures("mine")
def test_hidden_files_that_systems_leave_are_nothing_of_the_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("norms/.DS_Store", "capture/weight/.nfs0001", f"{FOLDER}/._a.zip", ".DS_Store"):
        (run / name).write_text("of the system")
    with untouched(tmp_path, monkeypatch):
        assert StoredRun.open(run).tree()["capture"].sizes["document"] == 3
    (run / FOLDER / "a.zip").write_text("of somebody")
    with pytest.raises(StoreError, match=r"journal/a.zip: does not belong to the run. Remove it.$"):
        StoredRun.open(run)


def test_a_shard_of_nothing_is_no_burden(run: Path) -> None:
    """Of holes, with a table that says that they are one document."""
    table = np.full((DOCUMENTS, 2), -1, dtype="<i8")
    table[:2] = (0, 1 << 28), (1 << 28, 0)
    data = table.tobytes()
    with (run / CHUNK).open("wb") as file:
        file.truncate(1 << 28)
        file.seek(1 << 28)
        file.write(data + google_crc32c.value(data).to_bytes(4, "little"))
    tracemalloc.start()
    with pytest.raises(StoreError, match=CHUNK):
        StoredRun.open(run)
    assert tracemalloc.get_traced_memory()[1] < 1 << 25
    tracemalloc.stop()


def test_a_repair_of_a_journal_with_a_far_place_ends(run: Path, mine: Path) -> None:
    CRAFTED["a far place in the journal"](run, mine)
    assert damaged_entries(run, read_root(run)["manifest"]["rows"]) == ([], [])


def test_a_repair_of_documents_without_end_ends(run: Path, mine: Path) -> None:
    CRAFTED["documents without end"](run, mine)
    with pytest.raises(StoreError, match=r"zarr\.json"):
        read_root(run)


@pytest.mark.parametrize("what", ["lock", "draft of the record"])
def test_a_folder_under_a_hidden_name_is_named_or_removed(what: str, run: Path) -> None:
    if what == "lock":
        beside(run, "lock").mkdir()
        with pytest.raises(InputError, match=r"\.lock: is no file, .* Remove it"), alone(run):
            pass
        return
    draft = run.with_name(".run.json.ab.draft")
    draft.mkdir()
    with alone(run):
        assert not draft.exists()


SLOW = pytest.mark.slow
HIDDEN = ("lock", "draft", "ready", "removed", "old", "handed", "fetched", "repair", "origin")


@pytest.mark.parametrize(
    "make",
    ["link", "pipe", *(pytest.param(one, marks=SLOW) for one in ("file", "folder", "socket"))],
)
@pytest.mark.parametrize("name", HIDDEN)
def test_what_stands_under_a_hidden_name_is_nothing_to_a_reader_and_no_hang_to_a_writer(
    name: str, make: str, run: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = beside(run, name)
    makes: dict[str, Callable[[], object]] = {
        "file": lambda: place.write_text("x"),
        "link": lambda: place.symlink_to(mine),
        "pipe": lambda: os.mkfifo(place),
        "folder": lambda: (place / "x").mkdir(parents=True),
        "socket": lambda: bound(place),
    }
    makes[make]()
    with untouched(tmp_path, monkeypatch):
        assert StoredRun.open(run).tree()["capture"].sizes["document"] == 3
    with untouched(mine, monkeypatch):
        refused = ""
        try:
            Store.open(run).put({"norms": NORMS * 2})
        except InputError as error:
            refused = str(error)
    assert "\n" not in refused
    if not refused:
        assert float(StoredRun.open(run).read("norms")["C"][0]) == 2.0


def test_what_names_a_run_a_working_copy_sends_and_removes_nothing(
    run: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent_elsewhere(run, mine)
    with untouched(tmp_path, monkeypatch):
        StoredRun.open(run).tree()
    with untouched(mine, monkeypatch), alone(run):
        Store.open(run).put({"norms": NORMS * 2})


CODECS = ("a pickle codec", "a codec of a plugin", "a codec within", "version 2", "objects")


@pytest.mark.parametrize("kind", CODECS)
def test_no_codec_but_geostats_own_reaches_zarr(
    kind: str, run: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CRAFTED[kind](run, mine)
    reached: list[object] = []
    monkeypatch.setattr(zarr.registry, "get_codec_class", lambda *a, **k: reached.append(a))
    with pytest.raises(StoreError):
        StoredRun.open(run).tree()
    assert reached == []


@pytest.mark.parametrize(
    "kind", ["moves of others", "moves through a link", "a linked folder norms"]
)
def test_a_writer_leaves_a_crafted_run_as_it_is(
    kind: str, run: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CRAFTED[kind](run, mine)
    with untouched(mine, monkeypatch), pytest.raises((StoreError, InputError)):
        Store.open(run).put({"norms": NORMS * 2})
    with untouched(mine, monkeypatch), pytest.raises((StoreError, InputError)), alone(run):
        Store.open(run).append(row("four"), arrays(4))
    with untouched(mine, monkeypatch), suppress(StoreError, InputError):  # who gives its moves up
        Store.open(run, results=False).put({"norms": NORMS * 2})
