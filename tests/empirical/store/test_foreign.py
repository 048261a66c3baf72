"""A run from somebody else, whatever is in it: opening it touches nothing, and ends in a run or in
one line.
"""

import os
import shutil
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
from empirical.store.disk import sidecar_path
from empirical.store.journal import FILE, FOLDER, enter, entries, entry_of
from empirical.store.layout import Encoder
from empirical.store.lock import alone
from empirical.store.manifest import read_root
from empirical.store.shards import DOCUMENTS
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> Path:
    """Two documents of three in shards, one in the journal, and a result."""
    store = small_store(tmp_path_factory.mktemp("theirs") / "run.zarr")
    store.put({"norms": NORMS})
    with store.alone():
        chunks = Encoder(store.path, ["capture"]).chunks("three", arrays(3))
        chain = store.attributes["manifest"]["rows"]["chain"]
        enter(store.path, 2, chain, entry_of(row("three"), chunks))
    return store.path


@pytest.fixture
def run(theirs, tmp_path) -> Path:
    return shutil.copytree(theirs, tmp_path / "from" / "run.zarr")


@pytest.fixture
def mine(tmp_path, monkeypatch) -> Path:
    """A folder of the reader's, with what could be lost or told; the cache is empty."""
    monkeypatch.setenv("GEOSTAT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "mine"
    (folder / "array" / "c").mkdir(parents=True)
    (folder / "secret.txt").write_text("a key")
    (folder / "array" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    return folder


def is_read(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expect that the run opens and that nothing is touched."""
    with untouched(tmp_path, monkeypatch):
        assert StoredRun.open(run).tree()["capture"].sizes["document"] == 3


SLOW = {
    f"{make} for {name}"
    for make in ("sparse", "bound", "folder")
    for name in ("zarr.json", FILE, FOLDER, "norms/C/c/0")
}
"""Of each kind of entry that no file is, two places are enough for every day."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else []) for kind in CRAFTED]
)
def test_a_crafted_run_is_refused_in_a_line_and_nothing_is_touched(
    kind, run, mine, tmp_path, monkeypatch
):
    CRAFTED[kind](run, mine)
    with untouched(tmp_path, monkeypatch), pytest.raises((StoreError, InputError)) as refusal:
        StoredRun.open(run).tree()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 2000


def test_results_that_would_fill_the_memory_are_not_read(run, monkeypatch):
    store = StoredRun.open(run)
    size = store.read("norms").nbytes
    monkeypatch.setattr(stored_run, "RESULTS", size - 1)
    with pytest.raises(StoreError, match=f"norms: its arrays are of {size} bytes, expected at"):
        store.read("norms")
    assert store.read("capture").nbytes > size


@pytest.mark.usefixtures("mine")
def test_hidden_system_files_are_ignored(run, tmp_path, monkeypatch):
    for name in ("norms/.DS_Store", "capture/weight/.nfs0001", f"{FOLDER}/._a.zip", ".DS_Store"):
        (run / name).write_text("of the system")
    is_read(run, tmp_path, monkeypatch)
    (run / FOLDER / "a.zip").write_text("of somebody")
    with pytest.raises(StoreError, match=r"journal/a.zip: does not belong to the run. Remove it.$"):
        StoredRun.open(run)


def test_an_empty_shard_costs_no_memory(run):
    """Of holes, with a table that says that they are one document."""
    table = np.full((DOCUMENTS, 2), -1, dtype="<i8")
    table[:2] = (0, 1 << 26), (1 << 26, 0)
    data = table.tobytes()
    with (run / CHUNK).open("wb") as file:
        file.truncate(1 << 26)
        file.seek(1 << 26)
        file.write(data + google_crc32c.value(data).to_bytes(4, "little"))
    tracemalloc.start()
    with pytest.raises(StoreError, match=CHUNK):
        StoredRun.open(run)
    assert tracemalloc.get_traced_memory()[1] < 1 << 25
    tracemalloc.stop()


def test_a_repair_of_a_journal_with_a_huge_index_ends(run, mine):
    CRAFTED["a far place in the journal"](run, mine)
    assert list(entries(run, read_root(run)["manifest"]["rows"])) == []


def test_a_repair_with_a_huge_number_of_documents_ends(run, mine):
    CRAFTED["documents without end"](run, mine)
    with pytest.raises(StoreError, match=r"zarr\.json"):
        read_root(run)


def test_a_folder_in_the_place_of_the_lock_is_named(run):
    sidecar_path(run, "lock").mkdir()
    with pytest.raises(InputError, match=r"\.lock: is no file, .* Remove it"), alone(run):
        pass


def test_a_folder_in_the_place_of_a_draft_is_removed(run):
    draft = run.with_name(".run.json.ab.draft")
    draft.mkdir()
    with alone(run):
        assert not draft.exists()


HIDDEN = ("lock", "draft", "ready", "removed", "old", "handed", "fetched", "repair", "origin")
MAKE: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda place, mine: place.symlink_to(mine),
    "pipe": lambda place, mine: os.mkfifo(place),
    "file": lambda place, mine: place.write_text("x"),
    "folder": lambda place, mine: (place / "x").mkdir(parents=True),
    "socket": lambda place, mine: bound(place),
}


@pytest.mark.parametrize(
    ("make", "name"),
    [
        pytest.param(make, name, marks=[] if index in (0, place) else pytest.mark.slow)
        for index, make in enumerate(MAKE)
        for place, name in enumerate(HIDDEN)
    ],
)
def test_hidden_entries_are_ignored_by_readers_and_do_not_block_writers(
    name, make, run, mine, tmp_path, monkeypatch
):
    MAKE[make](sidecar_path(run, name), mine)
    is_read(run, tmp_path, monkeypatch)
    refused = ""
    with untouched(mine, monkeypatch):
        try:
            Store.open(run).put({"norms": NORMS * 2})
        except InputError as error:
            refused = str(error)
    assert "\n" not in refused
    if not refused:
        assert float(StoredRun.open(run).read("norms")["C"][0]) == 2.0


def test_a_foreign_origin_file_sends_and_removes_nothing(run, mine, tmp_path, monkeypatch):
    sent_elsewhere(run, mine)
    is_read(run, tmp_path, monkeypatch)
    with untouched(mine, monkeypatch), alone(run):
        Store.open(run).put({"norms": NORMS * 2})


@pytest.mark.parametrize(
    "kind", ["a pickle codec", "a codec of a plugin", "a codec within", "version 2", "objects"]
)
def test_no_codec_but_geostats_own_reaches_zarr(kind, run, mine, monkeypatch):
    CRAFTED[kind](run, mine)
    reached: list[object] = []
    monkeypatch.setattr(zarr.registry, "get_codec_class", lambda *a, **k: reached.append(a))
    with pytest.raises(StoreError):
        StoredRun.open(run).tree()
    assert reached == []


@pytest.mark.parametrize(
    "kind", ["moves of others", "moves through a link", "a linked folder norms"]
)
def test_a_writer_leaves_a_crafted_run_unchanged(kind, run, mine, tmp_path, monkeypatch):
    CRAFTED[kind](run, mine)
    with untouched(mine, monkeypatch), pytest.raises((StoreError, InputError)):
        Store.open(run).put({"norms": NORMS * 2})
    with untouched(mine, monkeypatch), pytest.raises((StoreError, InputError)), alone(run):
        Store.open(run).append(row("four"), arrays(4))
    with untouched(mine, monkeypatch), suppress(StoreError, InputError):  # who gives its moves up
        Store.open(run, results=False).put({"norms": NORMS * 2})
