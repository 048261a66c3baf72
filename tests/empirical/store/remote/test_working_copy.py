"""Working copies of a run at a URL: they are what stands there, all or nothing; what was changed
here and there is told, never lost.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from support.remote_runs import Broken, add, note, same
from support.stores import small_store

from empirical.errors import InputError, StoreError
from empirical.store import working_copy as copies
from empirical.store.lock import alone
from empirical.store.manifest import files_below
from empirical.store.remote.address import STAMP
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun
from empirical.store.working_copy import working_copy

Opens = Callable[[str], Path]


def test_of_what_another_machine_wrote_only_that_is_fetched(
    sent: Path, there: Path, on: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(on("elsewhere"), "elsewhere")
    assert Store.open(on("here")).attributes["told"] == "elsewhere"
    note(on("elsewhere"), "again")
    fetched: list[str] = []
    local = type(fsspec.filesystem("file"))
    get = local.get

    def counted(self: object, theirs: list[str], ours: list[str]) -> None:
        fetched.extend(theirs)
        get(self, theirs, ours)

    monkeypatch.setattr(local, "get", counted)
    assert Store.open(on("here")).attributes["told"] == "again"
    on("here")
    assert [Path(file).relative_to(there).as_posix() for file in fetched] == ["zarr.json"]
    assert same(sent, there)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_fetch_that_breaks_off_leaves_what_was_there(
    sent: Path, there: Path, on: Opens, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = on("elsewhere")
    note(sent, "here")
    before = {file: file.read_bytes() for file in files_below(other)}
    Broken(kept, ("get_file",), monkeypatch)
    if kept:
        add(sent)
    with pytest.raises(InputError, match=r"failed \(the network is gone\)"):
        on("elsewhere")
    monkeypatch.undo()
    assert before == {file: file.read_bytes() for file in files_below(other)}
    assert same(on("elsewhere"), there)


@pytest.mark.parametrize("step", range(6))
def test_a_fetch_that_is_stopped_while_it_is_put_in_place_is_made_again(
    sent: Path, there: Path, on: Opens, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on("elsewhere")
    note(sent, "here")
    left, replace = [step], os.replace

    def stopped(*paths: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        replace(*paths)

    monkeypatch.setattr(copies.os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        on("elsewhere")
    monkeypatch.undo()
    assert same(on("elsewhere"), there)
    assert Store.open(on("elsewhere")).attributes["told"] == "here"


def test_what_is_sent_while_it_is_fetched_is_fetched_again(
    sent: Path, there: Path, on: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = type(fsspec.filesystem("file"))
    get, fetches = local.get, []

    def meanwhile(self: object, *paths: list[str]) -> None:
        if not fetches:
            store = Store.open(sent)
            with store.alone():
                store.put({"norms": store.read("capture")})
        fetches.append(paths)
        get(self, *paths)

    monkeypatch.setattr(local, "get", meanwhile)
    assert same(on("elsewhere"), there)
    assert len(fetches) == 2


def test_a_copy_that_is_gone_or_damaged_does_no_harm_there(
    sent: Path, there: Path, on: Opens
) -> None:
    before = {file: file.read_bytes() for file in files_below(there)}
    shutil.rmtree(sent)  # what tells where it belongs is left
    assert same(on("here"), there)
    file = next(file for file in files_below(sent / "capture") if file.name == "zarr.json")
    file.unlink()
    store = StoredRun(sent, {})
    with pytest.raises(StoreError, match="damaged"), store.alone():
        Store.open(sent)
    assert before == {file: file.read_bytes() for file in files_below(there)}


def test_two_readers_of_one_machine_wait_for_each_other(
    sent: Path, there: Path, on: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = type(fsspec.filesystem("file"))
    get = local.get

    def slow(self: object, *paths: object) -> None:
        time.sleep(0.5)
        get(self, *paths)

    monkeypatch.setattr(local, "get", slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(on, ["elsewhere", "elsewhere"]))
    assert found[0] == found[1]
    assert same(found[0], there)


def test_a_run_that_was_put_there_otherwise_is_not_written_over(
    sent: Path, there: Path, on: Opens
) -> None:
    (there / STAMP).unlink()
    with pytest.raises(InputError, match="holds a run without"):
        on("elsewhere")
    with pytest.raises(InputError, match="holds a run without"):
        on("here")


def test_a_run_that_was_removed_there_is_told(sent: Path, there: Path, on: Opens) -> None:
    shutil.rmtree(there)
    with pytest.raises(InputError, match="no run stands there any more, but its working copy"):
        on("here")
    assert Store.open(sent).documents


def test_where_no_run_stands_yet_the_url_is_named(on: Opens, there: Path) -> None:
    with pytest.raises(InputError, match=rf"^file://{there}: no such run\. Make one with"):
        Store.open(on("here"))


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("nothing://bucket/run.zarr", r"nothing://bucket/run.zarr: is no address of a run"),
        ("file:///proc/version/run.zarr", r"file:///proc/version/run.zarr: failed \("),
    ],
)
def test_a_url_that_means_nothing_is_refused_in_a_line(tmp_path: Path, url: str, line: str) -> None:
    with pytest.raises(InputError, match=line) as refusal:
        working_copy(url, tmp_path)
    assert len(str(refusal.value).splitlines()) == 1


def test_where_neither_is_left_a_run_may_begin_anew(sent: Path, there: Path, on: Opens) -> None:
    shutil.rmtree(there)
    shutil.rmtree(sent)
    with alone(on("here")):
        small_store(sent)
    assert same(on("elsewhere"), there)


@pytest.mark.parametrize("name", ["../../evil", "a/../../evil"])
def test_a_name_that_leads_out_of_the_run_is_refused(
    sent: Path, there: Path, on: Opens, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = type(fsspec.filesystem("file"))
    find = local.find

    def found(self: object, base: str, **options: object) -> dict[str, object]:
        return {**find(self, base, **options), f"{base}/{name}": {"size": 4}}

    monkeypatch.setattr(local, "find", found)
    with pytest.raises(InputError, match=r"holds a file named .*evil.*, expected those of a run"):
        on("elsewhere")


@pytest.mark.parametrize("kind", ["pipe", "link", "link to nowhere"])
def test_what_is_no_file_at_a_url_is_not_fetched(
    sent: Path, there: Path, on: Opens, kind: str
) -> None:
    assert sent.exists()
    place = there / "norms" / "evil"
    place.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/etc/hostname" if kind == "link" else "/nowhere")
    with pytest.raises(InputError, match=r"holds .*evil.*, which is a link or no file"):
        on("elsewhere")


def test_a_url_that_cannot_be_reached_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no address of a run"):
        working_copy("nothing://bucket/run.zarr", tmp_path / "here")
    assert not (tmp_path / "here").exists()
