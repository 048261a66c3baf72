"""Mirror of a run at a URL: what is written here stands there, one machine writes at a time, and
whatever breaks off is gone on with.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.remote_runs import CHANGING, Broken, add, note, same
from support.stores import arrays, row

from empirical.errors import InputError
from empirical.store import working_copy as copies
from empirical.store.journal import file_of
from empirical.store.lock import alone
from empirical.store.manifest import files_below
from empirical.store.remote import origin
from empirical.store.remote.address import STAMP, WRITER
from empirical.store.remote.mirror import send, send_all_next
from empirical.store.remote.origin import UNDER_WAY, called, url_of
from empirical.store.store import Store

Opens = Callable[[str], Path]


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


def test_each_document_stands_there_as_soon_as_it_counts_and_is_seen_by_who_read_before(
    sent: Path, there: Path, on: Opens
) -> None:
    on("elsewhere")
    store = Store.open(sent)
    with store.alone():
        store.append(row("three"), arrays(3))
        assert (file_of(there, 2)).is_file()
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


def test_what_was_changed_here_and_there_is_told_and_both_are_kept(
    sent: Path, there: Path, on: Opens
) -> None:
    other = on("elsewhere")
    store = Store.open(sent)
    store.note(told="here")  # by none that holds the run: as where a send failed
    (there / WRITER).unlink(missing_ok=True)
    note(other, "elsewhere")
    with pytest.raises(InputError, match="was changed from elsewhere, and its working"):
        on("here")
    assert Store.open(sent).attributes["told"] == "here"
    assert Store.open(on("elsewhere")).attributes["told"] == "elsewhere"


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
        with pytest.raises(
            InputError, match=rf"is being written from .*:{sent}, expected no other"
        ):
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


@pytest.mark.parametrize("path", ["/dev/null/run.zarr", "a" * 300 + "/run.zarr", "/dev/null"])
def test_what_cannot_hold_an_origin_is_no_working_copy(path: str) -> None:
    assert called(Path(path)) == path
    assert url_of(f"s3://{path}") == f"s3://{path.lstrip('/')}"


def test_a_damaged_origin_is_told(sent: Path) -> None:
    (sent.parent / f".{sent.name}.origin").write_text("{")
    with pytest.raises(InputError, match="is damaged, expected where the run beside it belongs"):
        send(sent)


@pytest.mark.parametrize("more", [False, True])
def test_a_send_of_which_only_the_last_note_is_missing_is_known_as_ours(
    sent: Path, there: Path, on: Opens, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, left = origin.Origin.save, [1]

    def killed(origin: origin.Origin, path: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        save(origin, path)

    monkeypatch.setattr(origin.Origin, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        note(sent, "once")
    monkeypatch.undo()
    if more:  # the next send is killed before it begins there
        Broken(1, CHANGING, monkeypatch)
        with pytest.raises(InputError, match="the network is gone"):
            note(on("here"), "twice")
        monkeypatch.undo()
    note(on("here"), "thrice")
    assert Store.open(on("elsewhere")).attributes["told"] == "thrice"
    assert same(sent, there)


def test_files_that_stand_there_already_are_not_mixed_with_a_run(there: Path, on: Opens) -> None:
    (there / "capture/document/journal").mkdir(parents=True)
    (file_of(there, 1)).write_bytes(b"of another run")
    with pytest.raises(InputError, match="holds files already, but no run"), alone(on("here")):
        pytest.fail("it is written to")
    assert not (there / WRITER).exists()


def test_a_send_of_all_takes_away_what_is_none_of_it(sent: Path, there: Path) -> None:
    (there / "capture/document/journal").mkdir(exist_ok=True)
    (file_of(there, 7)).write_bytes(b"of another run")
    send_all_next(sent)
    with alone(sent):
        pass
    assert same(sent, there)


def test_where_a_send_broke_off_who_must_go_on_is_named_with_what_else_there_is_to_do(
    sent: Path, there: Path, on: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    Broken(3, CHANGING, monkeypatch)
    with pytest.raises(InputError, match="the network is gone"):
        add(sent)
    monkeypatch.undo()
    monkeypatch.setattr(copies, "PATIENCE", 0.1)
    half = rf"is being written from .*:{sent}, expected no other\..*remove it and measure again"
    with pytest.raises(InputError, match=half):
        on("elsewhere")


def test_who_broke_off_a_send_keeps_its_name_there_though_the_network_is_back(
    sent: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Broken(0, ("put_file",), monkeypatch)
    with pytest.raises(InputError, match="the network is gone"):
        add(sent)
    assert str(sent) in (there / WRITER).read_text()


def test_the_name_of_another_machine_is_left_there(sent: Path, there: Path) -> None:
    with alone(sent):
        (there / WRITER).write_text("another machine")  # which took the run while this one slept
    assert (there / WRITER).read_text() == "another machine"


def test_two_that_write_an_origin_at_once_each_write_a_whole_one(sent: Path) -> None:
    known = origin.origin_of(sent)
    assert known is not None
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(known.save, [sent] * 200))
    assert origin.origin_of(sent) == known
