"""Repair: what is damaged, and no more, is measured again; the run is then what it was, byte by
byte, also where the repair was killed on the way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.damage import KINDS, cut, damaged, emptied, files, flipped
from support.places import contents
from support.stores import NORMS, PLAN, arrays, chunks_changed, row

from empirical.errors import StoreError
from empirical.store.journal import file_of
from empirical.store.lock import alone
from empirical.store.repair import Measured, Repair
from empirical.store.rows import FILE as ROWS
from empirical.store.shards import DOCUMENTS, lengths
from empirical.store.store import Store

MANY = DOCUMENTS + 6


def of(path: Path, documents: Sequence[int], *, shift: int = 0) -> Store:
    """A settled store of these documents."""
    made = Store.create(path, provenance={}, plan=PLAN, documents=len(documents))
    for document in documents:
        made.append(row(f"document {document}"), arrays(document + shift))
    made.settle()
    return made


@dataclass
class Twin:
    """Measures documents again, in a store beside, and remembers which; `shift`: makes others."""

    folder: Path
    documents: int
    shift: int = 0
    asked: list[list[int]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        return [row(f"document {document}") for document in range(self.documents)]

    def measured(self, documents: Sequence[int]) -> Measured:
        self.asked.append(list(documents))
        path = self.folder / f"{hash((*documents, self.shift))}.zarr"
        made = (
            Store.open(path) if path.exists() else of(path, documents, shift=self.shift)
        )  # many a damage asks for the same
        made.extend(self.documents)
        return Measured(path, made.documents, {one: at for at, one in enumerate(documents)})


def repair(path: Path, documents: int, **how: Any) -> tuple[Twin, list[str]]:
    """Repair a run; what was measured, and what was told."""
    twin = Twin(path.with_name("twins"), documents, **how)
    with alone(path):
        return twin, Repair(path, twin).captured()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three documents and a result."""
    made = of(tmp_path_factory.mktemp("whole") / "run.zarr", range(3))
    made.put({"norms": NORMS})
    return made.path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More documents than a shard holds."""
    return of(tmp_path_factory.mktemp("many") / "run.zarr", range(MANY)).path


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    def copy(path: Path) -> Path:
        shutil.copytree(path, tmp_path / "run.zarr")
        return tmp_path / "run.zarr"

    return copy


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_file_that_is_damaged_is_put_back_byte_by_byte(
    whole: Path, kind: Callable[[Path], None]
) -> None:
    before = contents(whole)
    measured = [whole / ROWS, *files(whole / "capture")]
    assert len(measured) > 10
    for file in measured:
        with damaged(file, kind):
            twin, told = repair(whole, 3)
            assert contents(whole) == before, file
        assert any(str(file) in line for line in told), told
        if file.name == "zarr.json":
            assert twin.asked == [[0]], "any document tells the layout"
    root = whole / "zarr.json"
    with damaged(root, kind), pytest.raises(StoreError, match="the manifest is damaged"):
        repair(whole, 3)


def test_a_sound_run_is_left_alone(many: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in files(many)}
    twin, told = repair(many, MANY)
    assert (twin.asked, told) == ([], [])
    assert {file: file.stat().st_mtime_ns for file in files(many)} == before


@pytest.mark.parametrize(
    ("name", "harm", "costs"),
    [
        ("capture/weight/c/0/0/0", lambda file: flipped(file, at=0), [0]),
        ("capture/weight/c/1/0/0", lambda file: flipped(file, at=0), [DOCUMENTS]),
        ("capture/weight/c/0/0/0", lambda file: flipped(file, at=0.99), []),  # its table
        ("capture/weight/c/0/0/0", lambda file: _end(file, cut_in=5), [*range(5, DOCUMENTS)]),
        ("capture/count/c/1/0", emptied, [*range(DOCUMENTS, MANY)]),
        (
            "capture/count/c/0/0",
            lambda file: chunks_changed(file, lambda held: [held[1], *held[1:]], held=DOCUMENTS),
            [0],
        ),
        (ROWS, lambda file: flipped(file, at=0.3), []),
        (ROWS, cut, []),
    ],
)
def test_damage_costs_the_documents_that_it_hits(
    many: Path,
    copied: Callable[[Path], Path],
    name: str,
    harm: Callable[[Path], None],
    costs: list[int],
) -> None:
    path = copied(many)
    harm(path / name)
    twin, _ = repair(path, MANY)
    assert [one for asked in twin.asked for one in asked] == costs
    assert contents(path) == contents(many)


def _end(shard: Path, *, cut_in: int) -> None:
    """End a shard within one of its chunks."""
    held = lengths(shard.parent, shard.name)
    shard.write_bytes(shard.read_bytes()[: sum(held[:cut_in]) + 3])


def test_much_damage_at_once_is_mended_at_once(many: Path, copied: Callable[[Path], Path]) -> None:
    path = copied(many)
    flipped(path / "capture/weight/c/0/0/0", at=0)
    flipped(path / "capture/token_id/c/1/0", at=0)
    for name in (
        "capture/weight/zarr.json",
        "capture/layer/c/0",
        ROWS,
    ):
        (path / name).unlink()
    twin, told = repair(path, MANY)
    assert twin.asked == [[0], [0, DOCUMENTS]], "of one for the layout, then those that are hit"
    assert "document 'document 64': measured again" in told
    assert contents(path) == contents(many)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_damaged_file_of_the_journal_costs_one_document(
    tmp_path: Path, whole: Path, kind: Callable[[Path], None]
) -> None:
    made = Store.create(tmp_path / "run.zarr", provenance={}, plan=PLAN, documents=3)
    for document in range(3):
        made.append(row(f"document {document}"), arrays(document))
    kind(file_of(made.path, 1))
    twin, told = repair(made.path, 3)
    assert twin.asked == [[1]]
    assert told == ["document 'document 1': measured again"]
    Store.open(made.path).put({"norms": NORMS})
    assert contents(made.path) == contents(whole)


def test_what_does_not_belong_to_the_run_is_set_aside(
    whole: Path, copied: Callable[[Path], Path]
) -> None:
    path = copied(whole)
    strange = ("capture/stray", "capture/weight/c/9", "norms/C/mine")
    for name in strange:
        (path / name).write_text(name)
    lag = path / "capture" / "layer" / "c" / "0"
    lag.unlink()
    lag.mkdir()
    (lag / "within").write_text("a folder in a file's place")
    shutil.rmtree(path / "capture" / "count" / "c")
    (path / "capture" / "count" / "c").write_text("a file in a folder's place")
    repair(path, 3)
    assert contents(path) == contents(whole)
    aside = path.with_name("run.zarr.aside")
    assert {name: (aside / name).read_text() for name in strange} == {one: one for one in strange}
    assert (aside / "capture" / "layer" / "c" / "0" / "within").exists()
    assert (aside / "capture" / "count" / "c").read_text() == "a file in a folder's place"


@pytest.mark.parametrize("lost", ["capture/weight/c/0/0/0", ROWS])
def test_documents_that_come_out_otherwise_change_nothing(
    whole: Path, copied: Callable[[Path], Path], lost: str
) -> None:
    path = copied(whole)
    (path / lost).unlink()
    flipped(path / "capture/weight/c/0/0/0", at=0) if lost == ROWS else None
    before = contents(path)
    with pytest.raises(StoreError, match="measured again, it is not what was written"):
        repair(path, 3, shift=7)
    assert contents(path) == before


def faults(at: int) -> Iterator[tuple[object, str, Callable[..., Any]]]:
    """Steps on the disk, of which the `at`-th in all does not come back."""
    count = 0

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        def one(*arguments: Any, **keywords: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                raise SystemExit
            return step(*arguments, **keywords)

        return one

    for where, name in (
        (os, "replace"),
        (os, "fsync"),
        (os, "mkdir"),
        (Path, "unlink"),
        (Path, "rmdir"),
        (shutil, "copyfile"),
    ):
        yield where, name, counted(getattr(where, name))


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_a_repair_that_is_killed_anywhere_loses_nothing(
    tmp_path: Path, many: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    harmed = tmp_path / "harmed.zarr"
    shutil.copytree(many, harmed)
    flipped(harmed / "capture/weight/c/0/0/0", at=0)
    for name in ("capture/layer/c/0", "capture/count/c/1/0", ROWS):
        (harmed / name).unlink()
    sound = [
        file.relative_to(many)
        for file in files(many)
        if (harmed / file.relative_to(many)).exists() and "weight/c/0" not in str(file)
    ]
    repair(shutil.copytree(harmed, tmp_path / "first.zarr"), MANY)  # what is measured stands there
    at, killed, left = 0, True, set()
    while killed:
        at += stride
        path = tmp_path / f"{at}.zarr"
        shutil.copytree(harmed, path)
        with monkeypatch.context() as patched:
            for where, name, step in faults(at):
                patched.setattr(where, name, step)
            try:
                repair(path, MANY)
            except SystemExit:
                pass
            else:
                killed = False
        for name in sound:
            assert (path / name).read_bytes() == (many / name).read_bytes(), (at, name)
        left.add(sum(1 for file in files(many) if not (path / file.relative_to(many)).exists()))
        twin, _ = repair(path, MANY)
        assert {one for asked in twin.asked for one in asked} <= {0, *range(DOCUMENTS, MANY)}, (
            "no document was lost on the way"
        )
        assert contents(path) == contents(many), at
        shutil.rmtree(path)
    assert at > 15
    assert len(left) > 1, "some were killed with all of it to do, some with a part"
