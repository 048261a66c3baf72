"""Hand-over: what other processes wrote on the same disk is taken into the run by its name, and the
shards that they write are those that one process writes, bit for bit.
"""

from __future__ import annotations

import errno
import os
import uuid
import zipfile
from pathlib import Path

import pytest
from support.places import contents
from support.stores import PLAN, arrays, names, row

from empirical.errors import InputError, StoreError
from empirical.store.handed import Place, place_beside
from empirical.store.journal import FOLDER, Entry, entry_of, file_of
from empirical.store.layout import Encoder
from empirical.store.lock import alone
from empirical.store.settling import Drafts, drafted
from empirical.store.shards import DOCUMENTS
from empirical.store.store import Store

MANY = DOCUMENTS + 9


def packed(documents: range) -> list[Entry]:
    """Documents as a worker packs them."""
    encoder = Encoder.planned(PLAN)
    found = []
    for index in documents:
        told = row(f"document {index}")
        found.append(entry_of(told, encoder.chunks(told["name"], arrays(index))))
    return found


def of(path: Path, entries: list[Entry], room: int) -> Store:
    made = Store.create(path, provenance={}, plan=PLAN, documents=room)
    for entry in entries:
        made.append_entry(entry)
    return made


def test_documents_and_shards_of_others_are_those_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = packed(range(MANY))
    wanted = of(tmp_path / "one.zarr", entries, MANY)
    wanted.settle()
    shared = []

    def by_three(folder: Path, documents: range) -> Drafts:
        shared.append(documents)
        shares = [slice(first, None, 3) for first in range(3)]
        marks = [f".{uuid.uuid4()}", "", f".{uuid.uuid4()}"]
        drafted(folder, documents, shares[0], ".lost")  # by a worker that was given up
        return [
            one
            for share, mark in zip(shares, marks, strict=True)
            for one in drafted(folder, documents, share, mark)
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
    assert contents(path.absolute()) == contents(wanted.path)


def test_who_does_not_share_the_disk_sends_what_it_made(tmp_path: Path) -> None:
    (entry,) = packed(range(1))
    with place_beside(tmp_path / "run.zarr") as place:
        elsewhere = Place(place.folder, "the sign of another run")
        assert elsewhere.hand_over(entry) is entry
        assert Place(tmp_path / "nowhere", place.sign).hand_over(entry) is entry
        before = names(place.folder)
    assert before == [place.sign]
    assert place.hand_over(entry) is entry  # the run has ended, and nothing is made anew
    assert not place.folder.exists()


def test_a_full_disk_is_one_line_and_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with place_beside(tmp_path / "run.zarr") as place:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(InputError, match="no space left on the disk"):
                place.hand_over(packed(range(1))[0])
        assert names(place.folder) == [place.sign]


def test_a_document_that_is_gone_is_named_and_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    with place_beside(path) as place:
        first, second = (place.hand_over(entry) for entry in packed(range(2)))
        made = of(path, [first], 2)
        assert isinstance(second.data, Path)
        second.data.unlink()
        with pytest.raises(InputError, match=r"and it is gone\. Run the same command again"):
            made.append_entry(second)
    assert len(Store.open(path).documents) == 1


def test_a_document_that_changes_before_it_is_settled_is_found_as_it_is_copied(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.zarr"
    made = of(path, packed(range(3)), 3)
    before, file = contents(path), file_of(path, 1)
    with zipfile.ZipFile(file) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    held["capture/weight"] = bytes([held["capture/weight"][0] ^ 1, *held["capture/weight"][1:]])
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in held.items():
            archive.writestr(name, data)
    with pytest.raises(StoreError, match=r"1-\S+\.zip: damaged, for it is not what was written"):
        made.settle()
    after = contents(path)
    assert {name: after[name] for name in before if name != f"{FOLDER}/{file.name}"} == {
        name: data for name, data in before.items() if name != f"{FOLDER}/{file.name}"
    }


def test_a_document_whose_file_is_damaged_anyhow_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    made = of(path, packed(range(3)), 3)
    file, before = file_of(path, 1), made.documents
    data, told = file.read_bytes(), 0
    for at in range(1, 500):  # the directory stands at the end
        changed = bytearray(data)
        changed[-at] ^= 1 << at % 8
        file.write_bytes(changed)
        try:
            drafted(path, range(3), slice(0, 2))
        except StoreError as error:
            assert ".zip: damaged, for it " in str(error)  # noqa: PT017
            told += 1
    assert told > 100
    file.unlink()
    with pytest.raises(StoreError, match=r"1-\S+\.zip: damaged, for it is missing"):
        made.settle()
    file.write_bytes(data)
    made.settle()
    assert made.documents == before
    assert not list(path.rglob("*.partial"))


def test_what_others_left_of_shards_goes_with_the_next_ones(tmp_path: Path) -> None:
    made = of(tmp_path / "run.zarr", packed(range(3)), 3)

    def lost(folder: Path, documents: range) -> Drafts:
        drafted(folder, documents, slice(0, 2), ".other")
        raise InputError("its disk is full")

    with pytest.raises(InputError, match="its disk is full"):
        made.settle(lost)
    assert list(made.path.rglob("*.other.partial"))
    made.settle()
    assert not list(made.path.rglob("*.partial"))


def test_what_a_killed_command_left_is_swept_away(tmp_path: Path) -> None:
    path = tmp_path / "run.zarr"
    killed = place_beside(path)
    place = killed.__enter__()
    place.hand_over(packed(range(1))[0])
    with alone(path):
        assert not place.folder.exists()
