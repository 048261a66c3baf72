"""A run at a URL: its working copies on several machines hold what stands there, whatever is
interrupted; what was changed apart is told, never lost.
"""

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest
from support.stores import arrays, row, small_store

from empirical.errors import InputError, StoreError
from empirical.store import working_copy as copies
from empirical.store.lock import alone
from empirical.store.manifest import files_below
from empirical.store.mirror import (
    MARKS,
    STAMP,
    UNDER_WAY,
    WRITER,
    called,
    send,
    send_all_next,
    url_of,
)
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun
from empirical.store.working_copy import working_copy

Opens = Callable[[str], Path]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Where the run stands: a disk, as the file system of a URL."""
    return tmp_path / "far" / "run.zarr"


@pytest.fixture
def on(tmp_path: Path, there: Path) -> Opens:
    """The working copy on a machine of that name."""
    return lambda machine: working_copy(f"file://{there}", tmp_path / machine)


@pytest.fixture
def sent(on: Opens) -> Path:
    """A working copy of two documents, which was sent."""
    path = on("here")
    with alone(path):
        small_store(path)
    return path


def same(one: Path, other: Path) -> bool:
    """Whether two runs are equal, but for what marks the state of one at a URL."""
    found = [
        {file.relative_to(run): file.read_bytes() for file in files_below(run)}
        for run in (one, other)
    ]
    for run in found:
        for mark in MARKS:
            run.pop(Path(mark), None)
    return found[0] == found[1] != {}


@pytest.mark.parametrize(
    ("path", "url"),
    [
        (Path("s3://bucket/a/run.zarr"), "s3://bucket/a/run.zarr"),
        (Path("file:///tmp/run.zarr"), "file:///tmp/run.zarr"),
        ("gs://bucket/run.zarr", "gs://bucket/run.zarr"),
        (Path("runs/run.zarr"), None),
        (Path("/runs/run.zarr"), None),
        ("C:/runs/run.zarr", None),
        ("a:b/run.zarr", None),
    ],
)
def test_a_url_is_told_from_a_path(path: Path | str, url: str | None) -> None:
    assert url_of(path) == url


def test_a_folder_that_looks_like_a_url_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s3:/bucket/run.zarr").mkdir(parents=True)
    assert url_of("s3://bucket/run.zarr") is None


def test_what_is_written_here_stands_there_and_is_read_on_another_machine(
    sent: Path, there: Path, on: Opens
) -> None:
    assert same(sent, there)
    other = on("elsewhere")
    assert same(other, there)
    assert Store.open(other).documents == Store.open(sent).documents
    assert called(other) == called(sent) == f"file://{there}"


def add(path: Path) -> None:
    """A third document."""
    store = Store.open(path)
    with store.alone():
        store.append(row("three"), arrays(3))
        store.settle()


def note(path: Path, text: str) -> None:
    store = Store.open(path)
    with store.alone():
        store.note(told=text)


def test_each_document_stands_there_as_soon_as_it_counts_and_is_seen_by_who_read_before(
    sent: Path, there: Path, on: Opens
) -> None:
    on("elsewhere")
    store = Store.open(sent)
    with store.alone():
        store.append(row("three"), arrays(3))
        assert (there / "journal" / "2.zip").is_file()
        assert len(Store.open(on("elsewhere")).documents) == 3
    assert same(sent, there)


def test_one_machine_writes_at_a_time_from_its_first_step_to_its_last(
    sent: Path, there: Path, on: Opens
) -> None:
    other = Store.open(on("elsewhere"))
    with (
        Store.open(sent).alone(),
        pytest.raises(InputError, match="is being written from"),
        other.alone(),
    ):
        pytest.fail("two write")
    note(sent, "here")
    with pytest.raises(InputError, match="was changed from elsewhere just now"), other.alone():
        pytest.fail("what was fetched is not what stands there")
    note(on("elsewhere"), "elsewhere")
    assert Store.open(on("here")).attributes["told"] == "elsewhere"
    assert not (there / WRITER).exists()


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


def test_what_was_changed_here_and_there_is_told_and_both_are_kept(
    sent: Path, there: Path, on: Opens
) -> None:
    other = on("elsewhere")
    store = Store.open(sent)
    store.note(told="here")  # by none that holds the run: as where a send failed
    (there / WRITER).unlink(missing_ok=True)
    note(other, "elsewhere")
    with pytest.raises(InputError, match="was changed or removed from elsewhere, and its working"):
        on("here")
    assert Store.open(sent).attributes["told"] == "here"
    assert Store.open(on("elsewhere")).attributes["told"] == "elsewhere"


class Broken:
    """A file system that answers `kept` calls of some kinds, then fails."""

    def __init__(self, kept: int, names: tuple[str, ...], patch: pytest.MonkeyPatch) -> None:
        self.left = kept
        for name in names:
            self._break(name, patch)

    def _break(self, name: str, patch: pytest.MonkeyPatch) -> None:
        local = type(fsspec.filesystem("file"))
        whole = getattr(local, name)

        def call(system: object, *arguments: object, **named: object) -> object:
            self.left -= 1
            if self.left < 0:
                raise OSError("the network is gone")
            return whole(system, *arguments, **named)

        patch.setattr(local, name, call)


CHANGING = ("pipe_file", "put_file", "rm_file")


@pytest.mark.parametrize("kept", range(14))
def test_a_send_that_breaks_off_is_gone_on_with_by_its_machine_and_awaited_by_others(
    sent: Path, there: Path, on: Opens, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kept` of the calls that change something there are answered, then it fails."""
    on("elsewhere")
    Broken(kept, CHANGING, monkeypatch)
    if kept == 13:  # the name of the writer alone is left there
        add(sent)
    else:
        with pytest.raises(InputError, match=r"failed \(the network is gone\)"):
            add(sent)
    monkeypatch.undo()
    monkeypatch.setattr(copies, "PATIENCE", 0.1)
    if (there / STAMP).read_text().startswith(UNDER_WAY):
        with pytest.raises(InputError, match="is being written from another machine"):
            on("elsewhere")
    else:
        assert len(Store.open(on("elsewhere")).documents) in (2, 3)
    if len(Store.open(on("here")).documents) == 2:  # nothing was written, for none could be told
        add(sent)
    with Store.open(on("here")).alone():
        pass
    assert same(sent, there)
    assert len(Store.open(on("elsewhere")).documents) == 3
    assert same(on("elsewhere"), there)


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


@pytest.mark.parametrize("step", range(5))
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
    if step < 4:
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


def test_results_that_go_are_taken_away_there(sent: Path, there: Path, on: Opens) -> None:
    store, group = Store.open(sent), Store.open(sent).read("capture")
    with store.alone():
        store.put({"norms": group})
    assert (there / "norms" / "zarr.json").exists()
    other = on("elsewhere")
    with store.alone():
        store.put({}, drops=["norms"])
    assert not (there / "norms" / "zarr.json").exists()
    assert Store.open(on("elsewhere")).results == []
    assert not (other / "norms" / "zarr.json").exists()


def test_who_lost_the_run_to_another_machine_sends_nothing(
    sent: Path, there: Path, on: Opens
) -> None:
    other = on("elsewhere")

    def asleep() -> None:
        with Store.open(sent).alone():
            (there / WRITER).unlink()  # for this machine was thought to be gone
            note(other, "elsewhere")
            Store.open(sent).note(told="here")

    with pytest.raises(InputError, match="is being written from"):
        asleep()
    assert Store.open(on("elsewhere")).attributes["told"] == "elsewhere"
    assert same(other, there)


def test_a_run_that_was_put_there_otherwise_is_not_written_over(
    sent: Path, there: Path, on: Opens
) -> None:
    (there / STAMP).unlink()
    with pytest.raises(InputError, match="holds a run without"):
        on("elsewhere")
    with pytest.raises(InputError, match="holds a run without"):
        on("here")


def test_all_is_sent_again_on_request(sent: Path, there: Path) -> None:
    file = next(file for file in files_below(there / "capture") if file.name == "zarr.json")
    file.write_bytes(b"damaged")
    with alone(sent):
        pass
    assert not same(sent, there)
    send_all_next(sent)
    with alone(sent):
        pass
    assert same(sent, there)


def test_a_run_that_was_removed_there_is_told(sent: Path, there: Path, on: Opens) -> None:
    shutil.rmtree(there)
    with pytest.raises(InputError, match="was changed or removed from elsewhere"):
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


@pytest.mark.parametrize("path", ["/dev/null/run.zarr", "a" * 300 + "/run.zarr", "/dev/null"])
def test_what_cannot_hold_an_origin_is_no_working_copy(path: str) -> None:
    assert called(Path(path)) == path
    assert url_of(f"s3://{path}") == f"s3://{path.lstrip('/')}"


def test_a_damaged_origin_is_told(sent: Path) -> None:
    (sent.parent / f".{sent.name}.origin").write_text("{")
    with pytest.raises(InputError, match="is damaged, expected where the run beside it belongs"):
        send(sent)
