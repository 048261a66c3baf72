"""Hand-over: what other processes write on the same disk becomes the run, bit for bit."""

import os
import uuid
import zipfile
from pathlib import Path

import pytest
from support.damage import no_space
from support.places import contents
from support.raising import raising
from support.stores import MANY, PLAN, arrays, names, row

from empirical.errors import InputError, StoreError
from empirical.store.journal import Entry, Place, entry_of, file_of, place_beside
from empirical.store.layout import Encoder
from empirical.store.lock import alone
from empirical.store.shards import DOCUMENTS, drafted
from empirical.store.store import Store


def packed(documents: range) -> list[Entry]:
    """Documents as a worker packs them."""
    encoder = Encoder.planned(PLAN)
    rows = {index: row(f"document {index}") for index in documents}
    return [
        entry_of(own, encoder.chunks(own["name"], arrays(index))) for index, own in rows.items()
    ]


def of(path: Path, entries: list[Entry], room: int) -> Store:
    made = Store.create(path, provenance={}, plan=PLAN, documents=room)
    for entry in entries:
        made.append_entry(entry)
    return made


@pytest.fixture
def three(tmp_path) -> Store:
    return of(tmp_path / "run.zarr", packed(range(3)), 3)


def test_documents_and_shards_of_several_processes_equal_those_of_one(tmp_path, many, monkeypatch):
    entries = packed(range(MANY))
    shared = []

    def by_three(folder, documents):
        shared.append(documents)
        marks = [f".{uuid.uuid4()}", "", f".{uuid.uuid4()}"]
        shares = [slice(first, None, 3) for first in range(3)]
        drafted(folder, documents, shares[0], ".lost")  # by a worker that was given up
        return [
            draft
            for share, mark in zip(shares, marks, strict=True)
            for draft in drafted(folder, documents, share, mark)
        ]

    monkeypatch.chdir(tmp_path)  # a path that another process would read otherwise
    path = Path("handed.zarr")
    with place_beside(path) as place:
        assert place.shared()
        handed = [place.hand_over(entry) for entry in entries]
        place.hand_over(entries[3])  # the same work, done twice
        assert all(isinstance(entry.data, Path) for entry in handed)
        assert [entry.row for entry in handed] == [entry.row for entry in entries]
        made = of(path, handed[:1], MANY)
        made.drafting = by_three
        for entry in handed[1:]:
            made.append_entry(entry)
        assert len(names(place.folder)) == 2  # the sign, and what was done twice
    assert not place.folder.exists()
    assert shared == [range(DOCUMENTS)]
    with made.alone():  # takes away what a worker that was given up has left
        made.settle()
    assert contents(path.absolute()) == contents(many)


def test_a_worker_without_the_shared_disk_sends_its_document(tmp_path):
    (entry,) = packed(range(1))
    with place_beside(tmp_path / "run.zarr") as place:
        elsewhere = Place(place.folder, "the sign of another run")
        assert elsewhere.hand_over(entry) is entry
        assert Place(tmp_path / "nowhere", place.sign).hand_over(entry) is entry
        assert names(place.folder) == [place.sign]
    assert place.hand_over(entry) is entry  # the run has ended, and nothing is made anew
    assert not place.folder.exists()


def test_a_full_disk_is_one_line_and_leaves_no_part(tmp_path, monkeypatch):
    with place_beside(tmp_path / "run.zarr") as place:
        monkeypatch.setattr(os, "fsync", raising(no_space()))
        with pytest.raises(InputError, match="no space left on the disk"):
            place.hand_over(packed(range(1))[0])
        assert names(place.folder) == [place.sign]


def test_a_missing_document_is_named_and_does_not_count(tmp_path):
    path = tmp_path / "run.zarr"
    with place_beside(path) as place:
        first, second = (place.hand_over(entry) for entry in packed(range(2)))
        made = of(path, [first], 2)
        assert isinstance(second.data, Path)
        second.data.unlink()
        with pytest.raises(InputError, match=r"but it is missing\. Run the same command again"):
            made.append_entry(second)
    assert len(Store.open(path).documents) == 1


def test_a_document_changed_before_settling_is_found(three):
    file = file_of(three.path, 1)
    with zipfile.ZipFile(file) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    held["capture/weight"] = bytes([held["capture/weight"][0] ^ 1, *held["capture/weight"][1:]])
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in held.items():
            archive.writestr(name, data)
    before = contents(three.path)
    with pytest.raises(StoreError, match=r"1-\S+\.zip: damaged, .* is not what was written"):
        three.settle()
    assert contents(three.path) == before


def test_a_document_with_any_damage_is_named(three):
    file, before = file_of(three.path, 1), three.documents
    data, found = file.read_bytes(), 0
    for index in range(1, 500, 9):  # the directory stands at the end
        changed = bytearray(data)
        changed[-index] ^= 1 << index % 8
        file.write_bytes(changed)
        try:
            drafted(three.path, range(3), slice(0, 2))
        except StoreError as error:
            assert ".zip: damaged, because it " in str(error)  # noqa: PT017
            found += 1
    assert found > 10
    file.unlink()
    with pytest.raises(StoreError, match=r"1-\S+\.zip: damaged, because it is missing"):
        three.settle()
    file.write_bytes(data)
    three.settle()
    assert three.documents == before
    assert not list(three.path.rglob("*.partial"))


def test_drafts_of_abandoned_processes_are_removed(three):
    def lost(folder, documents):
        drafted(folder, documents, slice(0, 2), ".other")
        raise InputError("its disk is full")

    with pytest.raises(InputError, match="its disk is full"):
        three.settle(lost)
    assert list(three.path.rglob("*.other.partial"))
    three.settle()
    assert not list(three.path.rglob("*.partial"))


def test_leftovers_of_a_killed_command_are_removed(tmp_path):
    path = tmp_path / "run.zarr"
    killed = place_beside(path)
    place = killed.__enter__()
    place.hand_over(packed(range(1))[0])
    with alone(path):
        assert not place.folder.exists()
