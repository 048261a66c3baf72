"""The journal: what is complete counts at once, is settled into the same bytes whenever that
happens, and what is damaged in it is named.
"""

from __future__ import annotations

import errno
import os
import shutil
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from support.damage import KINDS, damaged, flipped
from support.places import contents
from support.stores import NORMS, PLAN, WORDS, arrays, names, row

from empirical.errors import InputError, StoreError
from empirical.schema import Variable
from empirical.store import journal, settling
from empirical.store.integrity import check, damages
from empirical.store.journal import file_of
from empirical.store.layout import Encoder, GroupPlan
from empirical.store.lock import alone
from empirical.store.manifest import mark_of, read_root
from empirical.store.rows import link, read_rows
from empirical.store.settling import settle
from empirical.store.shards import DOCUMENTS, lengths
from empirical.store.store import Store

MANY = DOCUMENTS + 9


def of(path: Path, documents: int, *, room: int | None = None) -> Store:
    """A store of so many documents, the last ones in the journal."""
    made = Store.create(path, provenance={}, plan=PLAN, documents=room or documents)
    add(made, range(documents))
    return made


def add(store: Store, documents: range) -> None:
    for index in documents:
        store.append(row(f"document {index}"), arrays(index))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """More documents than a shard holds, settled."""
    made = of(tmp_path_factory.mktemp("many") / "run.zarr", MANY)
    made.settle()
    return made


@pytest.fixture
def under_way(tmp_path: Path) -> Store:
    """Five documents of seven, two in shards and three in the journal."""
    made = of(tmp_path / "run.zarr", 2, room=7)
    made.settle()
    add(made, range(2, 5))
    return made


def test_a_document_counts_before_it_is_settled_and_costs_one_file(under_way: Store) -> None:
    path = under_way.path
    assert [name[0] for name in names(path / journal.FOLDER)] == ["2", "3", "4"]
    before, mark = contents(path), mark_of(path)
    found = Store.open(path)
    assert [entry["name"] for entry in found.documents] == [f"document {at}" for at in range(5)]
    whole = found.read("capture")
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
    assert not (path / "capture/document/journal").exists()
    xr.testing.assert_identical(Store.open(path).read("capture").isel(document=range(5)), whole)


@pytest.mark.parametrize("goes", [(3, MANY), (DOCUMENTS, DOCUMENTS + 1, MANY)])
def test_documents_added_in_goes_end_like_those_of_one(
    tmp_path: Path, many: Store, goes: tuple[int, ...]
) -> None:
    made = of(tmp_path / "run.zarr", goes[0])
    made.settle()
    for go in goes[1:]:
        made = Store.open(made.path)
        with made.alone():
            made.extend(go)
            add(made, range(len(made.documents), go))
            made.settle()
    assert contents(made.path) == contents(many.path)


def test_a_store_has_few_files_and_a_root_that_does_not_grow(tmp_path: Path, many: Store) -> None:
    small = of(tmp_path / "run.zarr", 1)
    small.settle()
    shards = 4 * (-(-MANY // DOCUMENTS) - 1)  # of three variables and the names
    assert len(contents(many.path)) == len(contents(small.path)) + shards
    roots = [len((store.path / "zarr.json").read_bytes()) for store in (small, many)]
    assert abs(roots[0] - roots[1]) < 100
    assert lengths(many.path, "capture/weight/c/1/0/0")[0] > 0


def test_a_finished_run_is_plain_zarr(many: Store) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weight = zarr.open_group(many.path, mode="r")["capture/weight"]
        tree = xr.open_datatree(many.path, engine="zarr", mask_and_scale=False)
    assert isinstance(weight, zarr.Array)
    assert weight.chunks == (1, 2, 5), "one document is read alone"
    assert weight.shards == (DOCUMENTS, 2, 5)
    for index in (0, DOCUMENTS, MANY - 1):
        np.testing.assert_array_equal(weight[index], arrays(index)["capture"]["weight"])
    np.testing.assert_array_equal(
        tree["capture"]["weight"].values, many.read("capture")["weight"].values
    )


def test_a_run_of_more_documents_than_a_shard_opens_before_the_last_are_settled(
    tmp_path: Path,
) -> None:
    made = of(tmp_path / "run.zarr", DOCUMENTS + 2)
    assert Store.open(made.path).documents == made.documents
    with made.alone():
        made.extend(DOCUMENTS + 3)
        add(made, range(DOCUMENTS + 2, DOCUMENTS + 3))
    found = Store.open(made.path)
    assert len(found.documents) == DOCUMENTS + 3
    assert found.read("capture").sizes["document"] == DOCUMENTS + 3


@pytest.mark.slow
def test_a_process_killed_while_it_settles_ends_like_one_that_was_not(
    tmp_path: Path, many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {"replace": os.replace, "unlink": Path.unlink, "rmdir": Path.rmdir, "fsync": os.fsync}
    killed, at = True, 0
    start = of(tmp_path / "start.zarr", MANY - 1)
    start.extend(MANY)
    add(start, range(MANY - 1, MANY))
    while killed:
        at += 4
        path = tmp_path / f"{at}.zarr"
        for name, content in contents(start.path).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        count = 0

        def step(name: str) -> Callable[..., None]:
            def counted(*arguments: object, **keywords: object) -> None:
                nonlocal count
                count += 1
                if count == at:  # noqa: B023
                    raise SystemExit
                steps[name](*arguments, **keywords)

            return counted

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", step("replace"))
            patched.setattr(os, "fsync", step("fsync"))
            patched.setattr(Path, "unlink", step("unlink"))
            patched.setattr(Path, "rmdir", step("rmdir"))
            try:
                settle(path)
            except SystemExit:
                pass
            else:
                killed = False
        found = Store.open(path)
        assert len(found.documents) == MANY
        assert found.read("capture").sizes["document"] == MANY
        with found.alone():
            pass
        assert contents(path) == contents(many.path), at
    assert at > 20


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_damaged_document_is_named_and_measured_again(
    under_way: Store, kind: Callable[[Path], None]
) -> None:
    path = under_way.path
    add(under_way, range(5, 7))
    wanted = of(path.with_name("wanted.zarr"), 7)
    wanted.settle()
    file = file_of(path, 3)
    mend = f"remove {file.parent} and run the same capture again"
    with damaged(file, kind):
        before = contents(path)
        with pytest.raises(StoreError, match=rf"3-\S+\.zip: damaged, for it is .*{mend}"):
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


def test_every_byte_of_a_document_counts(under_way: Store) -> None:
    file = file_of(under_way.path, 3)
    for at in range(0, file.stat().st_size, 5):
        with (
            damaged(file, lambda one, at=at: flipped(one, at=at / (one.stat().st_size - 1))),
            pytest.raises(StoreError, match=r"3-\S+\.zip: damaged, for it is not what was written"),
        ):
            Store.open(under_way.path)


def test_documents_may_be_written_by_others_in_any_order(tmp_path: Path, many: Store) -> None:
    made = of(tmp_path / "run.zarr", 1, room=MANY)
    encoder = Encoder(made.path, ["capture"])
    chains = [link(made.attributes["manifest"]["rows"]["chain"], made.documents[0])]
    for told in Store.open(many.path).documents[1:]:
        chains.append(link(chains[-1], told))
    for index in reversed(range(1, MANY)):
        chunks = encoder.chunks(f"document {index}", arrays(index))
        entry = journal.entry_of(row(f"document {index}"), chunks)
        for _ in range(1 + index % 2):  # a task may run twice
            journal.enter(made.path, index, chains[index - 1], entry)
    found = Store.open(made.path)
    assert found.read("capture").sizes["document"] == MANY
    found.settle()
    assert contents(made.path) == contents(many.path)


def test_a_reader_beside_a_writer_that_settles_reads_again(
    under_way: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = Store.open(under_way.path), Store.open(under_way.path)
    read, calls = reader._read, []

    def interrupted(group: str) -> xr.Dataset:
        if not calls:
            calls.append(group)
            add(writer, range(5, 7))
            writer.settle()
        return read(group)

    monkeypatch.setattr(reader, "_read", interrupted)
    assert list(reader.read("capture")["token_id"][4].values) == list(
        arrays(4)["capture"]["token_id"]
    )
    assert len(reader.documents) == 7


def test_a_disk_that_is_full_while_it_settles_loses_nothing(
    under_way: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(settling, "flush_all", full)
        with pytest.raises(InputError, match="no space left on the disk"):
            under_way.settle()
    assert Store.open(under_way.path).read("capture").sizes["document"] == 5
    under_way.put({"norms": NORMS})
    assert not (under_way.path / "capture/document/journal").exists()


def test_settling_holds_one_chunk_at_a_time(tmp_path: Path) -> None:
    numbers = 100_000
    plan = {
        "capture": GroupPlan(
            variables={"big": Variable(dims=("position",), **WORDS)},
            coordinates={},
            sizes={"position": numbers},
        )
    }
    made = Store.create(tmp_path / "run.zarr", provenance={}, plan=plan, documents=40)
    for index in range(40):
        values = np.random.default_rng(index).standard_normal(numbers).astype(np.float32)
        made.append(row(str(index)), {"capture": {"big": values}})
    tracemalloc.start()
    made.settle()
    assert tracemalloc.get_traced_memory()[1] < 5 * 4 * numbers
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("file", "at", "hit"),
    [
        ("capture/weight/c/0/0/0", 0.01, [0]),
        ("capture/weight/c/0/0/0", 0.5, None),
        ("capture/count/c/1/0", 0.9, [*range(DOCUMENTS, MANY)]),
        ("capture/layer/c/0", 0.5, []),
    ],
)
def test_damage_says_which_documents_it_hits(
    many: Store, file: str, at: float, hit: list[int] | None
) -> None:
    attributes = read_root(many.path)
    manifest = attributes["manifest"]
    rows = read_rows(many.path, manifest["rows"], more=False, run=manifest["run"])
    with damaged(many.path / file, lambda path: flipped(path, at=at)):
        (found,) = damages(many.path, attributes, rows, 0, results=True)
        with pytest.raises(StoreError, match=f"{file}: damaged"):
            check(many.path, attributes)
    if hit is None:  # one in the middle of the shard
        (one,) = found.documents
        assert 0 < one < DOCUMENTS - 1
        assert repr(rows[one]["name"]) in str(found)
    else:
        assert list(found.documents) == hit
