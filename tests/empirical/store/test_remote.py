"""A run at a URL and its working copies: one machine writes at a time, all or nothing; whatever
breaks off is resumed, and conflicting changes are named, never lost.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.faults import killed_at
from support.remote_runs import (
    CHANGING,
    LOCAL,
    add,
    before_each,
    broken_after,
    held,
    note,
    noted,
    same,
)
from support.stores import NORMS, arrays, row

from empirical.errors import InputError, StoreError
from empirical.store import remote
from empirical.store.journal import FOLDER, file_of
from empirical.store.lock import alone
from empirical.store.remote import Origin, called, send, send_all_next, url_of, working_copy
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun

Opens = Callable[[str], Path]
LOST = "the network is gone"


@pytest.fixture
def there(tmp_path) -> Path:
    """Where the run stands: a disk, as the file system of a URL."""
    return tmp_path / "far" / "run.zarr"


@pytest.fixture
def on(tmp_path, there) -> Iterator[Opens]:
    """Opens the working copy on a machine of that name, in the cache, where alone one may lie."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GEOSTAT_CACHE", str(tmp_path))
        yield lambda machine: working_copy(f"file://{there}", tmp_path / "runs" / machine)


@pytest.fixture
def sent(on, small) -> Path:
    """A working copy of two documents, which was sent."""
    path = on("here")
    with alone(path):
        shutil.copytree(small, path)
    return path


def resend(path: Path) -> None:
    """Hold a working copy and let it go, which sends what changed."""
    with alone(path):
        pass


@pytest.mark.parametrize(
    ("path", "url"),
    [
        (Path("s3://bucket/a/run.zarr"), "s3://bucket/a/run.zarr"),
        (Path("file:///tmp/run.zarr"), "file:///tmp/run.zarr"),
        ("s3://" + "a" * 300 + "/run.zarr", "s3://" + "a" * 300 + "/run.zarr"),
        (Path("/runs/run.zarr"), None),
        ("C:/runs/run.zarr", None),
        ("a:b/run.zarr", None),
    ],
)
def test_urls_are_distinguished_from_paths(path, url):
    assert url_of(path) == url


def test_a_folder_that_looks_like_a_url_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s3:/bucket/run.zarr").mkdir(parents=True)
    assert url_of("s3://bucket/run.zarr") is None


@pytest.mark.parametrize("path", ["/dev/null/run.zarr", "a" * 300 + "/run.zarr", "/dev/null"])
def test_a_path_without_an_origin_is_no_working_copy(path):
    assert called(Path(path)) == path


def test_each_document_is_sent_at_once_and_seen_by_earlier_readers(sent, there, on):
    on("elsewhere")
    store = Store.open(sent)
    with store.alone():
        store.append(row("three"), arrays(3))
        assert file_of(there, 2).is_file()
        assert len(Store.open(other := on("elsewhere")).documents) == 3
    assert same(sent, there)
    assert same(other, there)
    assert called(other) == called(sent) == f"file://{there}"


def test_one_machine_writes_at_a_time_from_its_first_step_to_its_last(sent, there, on):
    other = Store.open(on("elsewhere"))
    writing = pytest.raises(InputError, match="is being written from")
    with Store.open(sent).alone(), writing, other.alone():
        pytest.fail("two write")
    note(sent, "here")
    with pytest.raises(InputError, match="was just changed from elsewhere"), other.alone():
        pytest.fail("what was fetched is not what stands there")
    note(on("elsewhere"), "elsewhere")
    assert noted(on("here")) == "elsewhere"
    assert not (there / remote.WRITER).exists()


def test_conflicting_changes_are_reported_and_both_kept(sent, there, on):
    other = on("elsewhere")
    Store.open(sent).note(text="here")  # by none that holds the run: as where a send failed
    (there / remote.WRITER).unlink(missing_ok=True)
    note(other, "elsewhere")
    with pytest.raises(InputError, match="was changed from elsewhere, and its working"):
        on("here")
    assert [noted(sent), noted(on("elsewhere"))] == ["here", "elsewhere"]


@pytest.mark.parametrize(
    "calls",
    [pytest.param(n, marks=[] if n in (0, 2, 6, 12, 13) else pytest.mark.slow) for n in range(14)],
)
def test_an_interrupted_send_is_resumed_by_its_machine_and_awaited_by_others(
    sent, there, on, calls, monkeypatch
):
    """So many of the calls that change something there are answered, then it fails."""
    on("elsewhere")
    broken_after(calls, CHANGING, monkeypatch)
    if calls == 13:  # the name of the writer alone is left there
        add(sent)
    else:
        with pytest.raises(InputError, match=rf"failed \({LOST}\)"):
            add(sent)
    monkeypatch.undo()
    monkeypatch.setattr(remote, "PATIENCE", 0.1)
    if (there / remote.STAMP).read_text().startswith(remote.UNDER_WAY):
        line = rf"is being written from .*:{sent}, expected no other\..*remove it and measure again"
        with pytest.raises(InputError, match=line):
            on("elsewhere")
    else:
        assert len(Store.open(on("elsewhere")).documents) in (2, 3)
    if len(Store.open(on("here")).documents) == 2:  # nothing was written, for none could be told
        add(sent)
    resend(on("here"))
    assert same(sent, there)
    assert len(Store.open(on("elsewhere")).documents) == 3
    assert same(on("elsewhere"), there)


def test_an_interrupted_sender_stays_marked(sent, there, monkeypatch):
    broken_after(0, ("put_file",), monkeypatch)  # the mark could be removed
    with pytest.raises(InputError, match=LOST):
        add(sent)
    assert str(sent) in (there / remote.WRITER).read_text()


def test_dropped_results_are_removed_at_the_url(sent, there, on):
    store = Store.open(sent)
    with store.alone():
        store.put({"norms": NORMS})
    other = on("elsewhere")
    norms = [run / "norms" / "zarr.json" for run in (there, other)]
    assert all(file.exists() for file in norms)
    with store.alone():
        store.put({}, drops=["norms"])
    assert Store.open(on("elsewhere")).results == []
    assert not any(file.exists() for file in norms)


def test_a_machine_that_lost_the_run_sends_nothing(sent, there, on):
    other = on("elsewhere")

    def asleep():
        with Store.open(sent).alone():
            (there / remote.WRITER).unlink()  # for this machine was thought to be gone
            note(other, "elsewhere")
            Store.open(sent).note(text="here")

    with pytest.raises(InputError, match="is being written from"):
        asleep()
    assert noted(on("elsewhere")) == "elsewhere"
    assert same(other, there)


def test_all_is_sent_again_and_nothing_else_left_on_request(sent, there):
    (there / "capture/zarr.json").write_bytes(b"damaged")
    (there / FOLDER).mkdir(exist_ok=True)
    file_of(there, 7).write_bytes(b"of another run")
    resend(sent)
    assert not same(sent, there)
    send_all_next(sent)
    resend(sent)
    assert same(sent, there)


def test_a_damaged_origin_is_reported(sent):
    (sent.parent / f".{sent.name}.origin").write_text("{")
    with pytest.raises(InputError, match="is damaged, expected the origin of the run next to it"):
        send(sent)


@pytest.mark.parametrize("again", [False, True])
def test_a_send_without_its_final_record_is_recognised(sent, there, on, again, monkeypatch):
    # the record is saved before a send and after it
    assert killed_at(2, lambda: note(sent, "once"), [(Origin, "save")])
    if again:  # the next send is killed before it begins there
        broken_after(1, CHANGING, monkeypatch)
        with pytest.raises(InputError, match=LOST):
            note(on("here"), "twice")
        monkeypatch.undo()
    note(on("here"), "thrice")
    assert noted(on("elsewhere")) == "thrice"
    assert same(sent, there)


def test_existing_files_are_not_mixed_with_a_run(there, on):
    (there / FOLDER).mkdir(parents=True)
    file_of(there, 1).write_bytes(b"of another run")
    with pytest.raises(InputError, match="holds files that are no run"), alone(on("here")):
        pytest.fail("it is written to")
    assert not (there / remote.WRITER).exists()


def test_the_mark_of_another_machine_stays(sent, there):
    mark = there / remote.WRITER
    with alone(sent):
        mark.write_text("another machine")  # which took the run while this one slept
    assert mark.read_text() == "another machine"


def test_two_that_write_an_origin_at_once_each_write_a_whole_one(sent):
    known = remote.origin_of(sent)
    assert known is not None
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(known.save, [sent] * 100))
    assert remote.origin_of(sent) == known


def test_only_changed_files_are_fetched(sent, there, on, monkeypatch):
    note(on("elsewhere"), "elsewhere")
    assert noted(on("here")) == "elsewhere"
    note(on("elsewhere"), "again")
    fetched: list[str] = []
    before_each("get", lambda theirs, ours: fetched.extend(theirs), monkeypatch)
    assert noted(on("here")) == "again"
    on("here")
    assert [Path(file).relative_to(there).as_posix() for file in fetched] == ["zarr.json"]
    assert same(sent, there)


@pytest.mark.parametrize("calls", [0, 1])
def test_an_interrupted_fetch_leaves_the_old_copy(sent, there, on, calls, monkeypatch):
    other = on("elsewhere")
    note(sent, "here")
    before = held(other)
    broken_after(calls, ("get_file",), monkeypatch)
    if calls:
        add(sent)
    with pytest.raises(InputError, match=rf"failed \({LOST}\)"):
        on("elsewhere")
    monkeypatch.undo()
    assert held(other) == before
    assert same(on("elsewhere"), there)


@pytest.mark.parametrize("step", [1, 4])
def test_a_fetch_killed_during_replacement_is_repeated(sent, there, on, step):
    on("elsewhere")
    note(sent, "here")
    assert killed_at(step, lambda: on("elsewhere"), [(os, "replace")])
    assert same(on("elsewhere"), there)
    assert noted(on("elsewhere")) == "here"


def test_a_fetch_during_a_send_is_repeated(sent, there, on, monkeypatch):
    fetches = []

    def meanwhile(*paths):
        if not fetches:
            store = Store.open(sent)
            with store.alone():
                store.put({"norms": NORMS})
        fetches.append(paths)

    before_each("get", meanwhile, monkeypatch)
    assert same(on("elsewhere"), there)
    assert len(fetches) == 2


def test_a_missing_or_damaged_copy_does_not_harm_the_run(sent, there, on):
    before = held(there)
    shutil.rmtree(sent)  # what tells where it belongs is left
    assert same(on("here"), there)
    (sent / "capture/zarr.json").unlink()
    store = StoredRun(sent, {})
    with pytest.raises(StoreError, match="damaged"), store.alone():
        Store.open(sent)
    assert held(there) == before


def test_two_readers_of_one_machine_wait_for_each_other(sent, there, on, monkeypatch):
    before_each("get", lambda *paths: time.sleep(0.5), monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(on, ["elsewhere", "elsewhere"])
    assert one == other
    assert same(one, there)


def test_a_missing_run_is_reported_by_its_url(on, there):
    with pytest.raises(InputError, match=rf"^file://{there}: no such run\. Make one with"):
        Store.open(on("here"))


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("nothing://bucket/run.zarr", "nothing://bucket/run.zarr: is no address of a run"),
        ("file:///proc/version/run.zarr", r"file:///proc/version/run.zarr: failed \("),
    ],
)
def test_an_invalid_url_is_refused_in_one_line_and_leaves_no_folder(tmp_path, url, line):
    with pytest.raises(InputError, match=line) as refusal:
        working_copy(url, tmp_path / "here")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "here").exists()


def test_a_run_may_start_again_without_either_copy(sent, there, on, small):
    shutil.rmtree(there)
    shutil.rmtree(sent)
    with alone(on("here")):
        shutil.copytree(small, sent)
    assert same(on("elsewhere"), there)


@pytest.mark.usefixtures("sent")
@pytest.mark.parametrize("name", ["../../evil", "a/../../evil"])
def test_a_name_that_leads_out_of_the_run_is_refused(on, name, monkeypatch):
    find = LOCAL.find

    def found(self, base, **options):
        return {**find(self, base, **options), f"{base}/{name}": {"size": 4}}

    monkeypatch.setattr(LOCAL, "find", found)
    with pytest.raises(InputError, match=r"holds a file named .*evil.*, expected files of a run"):
        on("elsewhere")


IRREGULAR = "holds 'norms/evil', which is a link or no file"


@pytest.mark.parametrize(
    ("harm", "machine", "line"),
    [
        (lambda there: (there / remote.STAMP).unlink(), "here", "holds a run without"),
        (lambda there: (there / remote.STAMP).unlink(), "elsewhere", "holds a run without"),
        (shutil.rmtree, "here", "no longer holds a run, but its working copy"),
        (lambda there: os.mkfifo(there / "norms/evil"), "elsewhere", IRREGULAR),
        (lambda there: (there / "norms/evil").symlink_to("/etc/hostname"), "elsewhere", IRREGULAR),
        (lambda there: (there / "norms/evil").symlink_to("/nowhere"), "elsewhere", IRREGULAR),
    ],
)
def test_what_is_no_run_of_this_machine_is_neither_fetched_nor_overwritten(
    sent, there, on, harm, machine, line
):
    (there / "norms").mkdir()
    harm(there)
    with pytest.raises(InputError, match=line):
        on(machine)
    assert len(Store.open(sent).documents) == 2
