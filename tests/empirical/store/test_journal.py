"""The journal: what is complete counts at once, is settled into the same bytes whenever that
happens, and what is damaged in it is named.
"""

import os
import shutil
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from support.damage import cut, damaged, flipped, no_space
from support.faults import killed_at
from support.places import contents
from support.raising import raising
from support.stores import MANY, NORMS, add, arrays, names, row, store_of, wide_store

from empirical.errors import InputError, StoreError
from empirical.store import journal
from empirical.store import shards as settling
from empirical.store.integrity import check, damages
from empirical.store.journal import file_of, link, read_rows
from empirical.store.layout import Encoder
from empirical.store.lock import alone
from empirical.store.manifest import mark_of, read_root
from empirical.store.shards import DOCUMENTS, lengths, settle
from empirical.store.store import Store


@pytest.fixture
def under_way(tmp_path) -> Store:
    """Five documents of seven, two in shards and three in the journal."""
    made = store_of(tmp_path / "run.zarr", range(2), room=7)
    made.settle()
    add(made, range(2, 5))
    return made


def test_a_document_counts_before_it_is_settled_and_costs_one_file(under_way):
    path = under_way.path
    assert [name[0] for name in names(path / journal.FOLDER)] == ["2", "3", "4"]
    before, mark = contents(path), mark_of(path)
    whole = Store.open(path).read("capture")
    assert list(whole["document"].values) == [f"document {index}" for index in range(5)]
    for index in range(5):
        for name, value in arrays(index)["capture"].items():
            np.testing.assert_array_equal(whole[name][index].values, value)
    add(under_way, range(5, 6))
    after = contents(path)
    assert set(after) - set(before) == {f"{journal.FOLDER}/{file_of(path, 5).name}"}
    assert {name: after[name] for name in before} == before
    assert mark_of(path) == mark, "the root does not change"
    under_way.settle()
    assert not (path / journal.FOLDER).exists()
    xr.testing.assert_identical(Store.open(path).read("capture").isel(document=range(5)), whole)


def test_documents_added_in_several_sessions_equal_one_session(tmp_path, many):
    made = store_of(tmp_path / "run.zarr", range(DOCUMENTS))
    made.settle()
    for end in (DOCUMENTS + 1, MANY):
        made = Store.open(made.path)
        with made.alone():
            made.extend(end)
            add(made, range(len(made.documents), end))
            made.settle()
    assert contents(made.path) == contents(many)


def test_a_store_has_few_files_and_a_root_that_does_not_grow(tmp_path, many):
    small = store_of(tmp_path / "run.zarr", range(1))
    small.settle()
    shards = 4 * (-(-MANY // DOCUMENTS) - 1)  # of three variables and the names
    assert len(contents(many)) == len(contents(small.path)) + shards
    roots = [(path / "zarr.json").stat().st_size for path in (small.path, many)]
    assert abs(roots[0] - roots[1]) < 100
    assert lengths(many, "capture/weight/c/1/0/0")[0] > 0


def test_a_finished_run_is_plain_zarr(many):
    with warnings.catch_warnings(action="error"):
        weight = zarr.open_group(many, mode="r")["capture/weight"]
    assert isinstance(weight, zarr.Array)
    assert weight.chunks == (1, 2, 5), "one document is read alone"
    assert weight.shards == (DOCUMENTS, 2, 5)
    for index in (0, DOCUMENTS, MANY - 1):
        np.testing.assert_array_equal(weight[index], arrays(index)["capture"]["weight"])


def test_a_run_of_more_documents_than_a_shard_opens_before_the_last_are_settled(tmp_path, waiting):
    made = Store.open(shutil.copytree(waiting.path, tmp_path / "run.zarr"))
    assert len(made.documents) == MANY
    with made.alone():
        made.extend(MANY + 1)
        add(made, [MANY])
    found = Store.open(made.path)
    assert len(found.documents) == found.read("capture").sizes["document"] == MANY + 1


@pytest.mark.slow
def test_a_process_killed_while_settling_loses_nothing(tmp_path, many):
    start = store_of(tmp_path / "start.zarr", range(MANY - 1))
    start.extend(MANY)
    add(start, range(MANY - 1, MANY))
    steps = [(os, "replace"), (os, "fsync"), (Path, "unlink"), (Path, "rmdir")]
    step, killed = 0, True
    while killed:
        step += 4
        path = tmp_path / f"{step}.zarr"
        shutil.copytree(start.path, path)
        killed = killed_at(step, lambda: settle(path), steps)  # noqa: B023
        found = Store.open(path)
        assert len(found.documents) == found.read("capture").sizes["document"] == MANY
        with found.alone():
            pass
        assert contents(path) == contents(many), step
    assert step > 20


@pytest.mark.parametrize("kind", [cut, Path.unlink], ids=lambda kind: kind.__name__)
def test_a_damaged_document_is_named_and_measured_again(under_way, kind):
    path = under_way.path
    add(under_way, range(5, 7))
    wanted = store_of(path.with_name("wanted.zarr"), range(7))
    wanted.settle()
    file = file_of(path, 3)
    remedy = f"remove {file.parent} and run the same capture again"
    with damaged(file, kind):
        before = contents(path)
        with pytest.raises(StoreError, match=rf"3-\S+\.zip: damaged, because it is .*{remedy}"):
            Store.open(path)
        with alone(path):  # a writer changes nothing in it either
            pass
        assert contents(path) == before
    shutil.rmtree(file.parent)
    found = Store.open(path)
    assert len(found.documents) == 2
    add(found, range(2, 7))
    found.settle()
    assert contents(path) == contents(wanted.path)


def test_every_byte_of_a_document_counts(under_way):
    file = file_of(under_way.path, 3)
    size = file.stat().st_size
    for index in range(0, size, 11):
        with (
            damaged(file, lambda one, at=index / (size - 1): flipped(one, at=at)),
            pytest.raises(StoreError, match=r"3-\S+\.zip: damaged, .* is not what was written"),
        ):
            Store.open(under_way.path)


def test_documents_may_be_written_by_others_in_any_order(tmp_path):
    wanted = store_of(tmp_path / "wanted.zarr", range(9))
    made = store_of(tmp_path / "run.zarr", range(1), room=9)
    encoder = Encoder(made.path, ["capture"])
    chains = [link(made.attributes["manifest"]["rows"]["chain"], made.documents[0])]
    for own in wanted.documents[1:]:
        chains.append(link(chains[-1], own))
    for index in reversed(range(1, 9)):
        chunks = encoder.chunks(f"document {index}", arrays(index))
        entry = journal.entry_of(row(f"document {index}"), chunks)
        for _ in range(1 + index % 2):  # a task may run twice
            journal.enter(made.path, index, chains[index - 1], entry)
    for store in (Store.open(made.path), wanted):
        assert store.read("capture").sizes["document"] == 9
        store.settle()
    assert contents(made.path) == contents(wanted.path)


def test_a_read_during_settling_is_repeated(under_way, monkeypatch):
    reader, writer = Store.open(under_way.path), Store.open(under_way.path)
    read, calls = reader._read, []

    def interrupted(group):
        if not calls:
            calls.append(group)
            add(writer, range(5, 7))
            writer.settle()
        return read(group)

    monkeypatch.setattr(reader, "_read", interrupted)
    found = reader.read("capture")["token_id"][4]
    np.testing.assert_array_equal(found, arrays(4)["capture"]["token_id"])
    assert len(reader.documents) == 7


def test_a_disk_that_is_full_while_it_settles_loses_nothing(under_way, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(settling, "flush_all", raising(no_space()))
        with pytest.raises(InputError, match="no space left on the disk"):
            under_way.settle()
    assert Store.open(under_way.path).read("capture").sizes["document"] == 5
    under_way.put({"norms": NORMS})
    assert not (under_way.path / journal.FOLDER).exists()


def test_settling_holds_one_chunk_at_a_time(tmp_path):
    numbers = 100_000
    made = wide_store(tmp_path / "run.zarr", documents=12, numbers=numbers)
    tracemalloc.start()
    made.settle()
    assert tracemalloc.get_traced_memory()[1] < 5 * 4 * numbers
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("file", "at", "hit"),
    [
        ("capture/weight/c/0/0/0", 0.01, [0]),
        ("capture/weight/c/0/0/0", 0.5, [*range(1, DOCUMENTS - 1)]),
        ("capture/count/c/1/0", 0.9, []),  # its table
        ("capture/layer/c/0", 0.5, []),
    ],
)
def test_damage_to_one_chunk_names_its_document(many, file, at, hit):
    attributes = read_root(many)
    manifest = attributes["manifest"]
    rows = read_rows(many, manifest["rows"], more=False, run=manifest["run"])
    with damaged(many / file, lambda path: flipped(path, at=at)):
        (found,) = damages(many, attributes, rows, 0, results=True)
        with pytest.raises(StoreError, match=f"{file}: damaged"):
            check(many, attributes)
    named = [index for index, row in enumerate(rows) if repr(row["name"]) in str(found)]
    assert len(named) == bool(hit)
    assert {*named} <= {*hit}
