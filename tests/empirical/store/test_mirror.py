"""A run at a URL: its working copies on several machines hold what stands there, whatever is
interrupted; what was changed apart is told, never lost.
"""

from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
from support.stores import arrays, row, small_store

from empirical.errors import InputError, StoreError
from empirical.store import working_copy as copies
from empirical.store.lock import alone
from empirical.store.manifest import files_below
from empirical.store.mirror import SENDING, called, send, url_of
from empirical.store.store import Store
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
    found = [
        {file.relative_to(run): file.read_bytes() for file in files_below(run)}
        for run in (one, other)
    ]
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


def test_each_document_stands_there_as_soon_as_it_counts(sent: Path, there: Path) -> None:
    store = Store.open(sent)
    with store.alone():
        store.append(row("three"), arrays(3))
        assert (there / "journal" / "2.zip").is_file()
        assert not (there / SENDING).exists()
    assert same(sent, there)


def test_what_another_machine_wrote_is_taken_and_nothing_else_is_read(
    sent: Path, there: Path, on: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Store.open(on("elsewhere"))
    with other.alone():
        other.note(told="elsewhere")
    fetched: list[str] = []
    local = type(fsspec.filesystem("file"))
    get = local.get

    def counted(self: object, theirs: list[str], ours: list[str]) -> None:
        fetched.extend(theirs)
        get(self, theirs, ours)

    monkeypatch.setattr(local, "get", counted)
    on("elsewhere")
    assert fetched == []
    assert Store.open(on("here")).attributes["told"] == "elsewhere"
    assert same(sent, there)
    on("here")
    assert {Path(file).name for file in fetched} >= {"zarr.json"}
    with Store.open(on("here")).alone() as _:
        Store.open(sent).note(told="here")
    fetched.clear()
    on("elsewhere")
    assert [Path(file).relative_to(there).as_posix() for file in fetched] == ["zarr.json"]


def test_two_that_changed_it_apart_are_told_and_both_kept(
    sent: Path, there: Path, on: Opens
) -> None:
    other = Store.open(on("elsewhere"))
    ours = Store.open(sent)
    with other.alone():
        other.note(told="elsewhere")
    with pytest.raises(InputError, match="was changed or removed by others"), ours.alone():
        ours.note(told="here")
    assert Store.open(sent).attributes["told"] == "here"
    with pytest.raises(InputError, match="was changed or removed by others"):
        on("here")
    assert Store.open(on("elsewhere")).attributes["told"] == "elsewhere"
    assert same(other.path, there)


@pytest.mark.parametrize("kept", range(11))
def test_a_send_that_breaks_off_is_gone_on_with_by_its_machine_and_awaited_by_others(
    sent: Path, there: Path, on: Opens, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kept` of the eleven calls that change something there are answered, then it fails."""
    other = on("elsewhere")
    local = type(fsspec.filesystem("file"))
    left = [kept]

    def counted(name: str) -> None:
        whole = getattr(local, name)

        def call(self: object, *arguments: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise OSError("the network is gone")
            return whole(self, *arguments, **named)

        monkeypatch.setattr(local, name, call)

    for name in ("pipe_file", "put_file", "rm_file"):
        counted(name)
    store = Store.open(sent)

    def add() -> None:
        with store.alone():
            store.append(row("three"), arrays(3))
            store.settle()

    with pytest.raises(InputError, match=r"failed \(the network is gone\)"):
        add()
    monkeypatch.undo()
    monkeypatch.setattr(copies, "PATIENCE", 0.1)
    if (mark := there / SENDING).exists():
        with pytest.raises(InputError, match="is being written from"):
            on("elsewhere")
        told = mark.read_bytes()
        mark.unlink()  # as is done where the machine is gone for good
        left_there = Store.open(on("a third"))
        assert len(left_there.documents) >= 2
        assert left_there.read("capture").sizes["document"] == len(left_there.documents)
        mark.write_bytes(told)
    else:
        Store.open(on("elsewhere"))
    with Store.open(on("here")).alone():
        pass
    assert same(sent, there)
    assert len(Store.open(on("elsewhere")).documents) == 3
    assert same(other, there)


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


def test_damage_there_is_found_where_every_file_is_asked_for(
    sent: Path, there: Path, tmp_path: Path
) -> None:
    url = f"file://{there}"
    file = next(file for file in files_below(there / "capture") if file.name == "zarr.json")
    file.write_bytes(file.read_bytes() + b" ")
    Store.open(working_copy(url, tmp_path / "here"))  # nothing is fetched, nothing is damaged
    with pytest.raises(StoreError, match="damaged"):
        Store.open(working_copy(url, tmp_path / "here", anew=True))


def test_a_run_that_was_removed_there_is_told(sent: Path, there: Path, on: Opens) -> None:
    (there / "zarr.json").unlink()
    with pytest.raises(InputError, match="was changed or removed by others"):
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
