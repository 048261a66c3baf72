"""Repair: what is damaged, and no more, is measured again; the run is then what it was, byte by
byte, also where the repair was killed on the way.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.damage import KINDS, cut, damaged, emptied, files, flipped
from support.faults import killed_at
from support.places import contents
from support.stores import MANY, NORMS, chunks_changed, row, store_of

from empirical.errors import StoreError
from empirical.store.journal import FILE as ROWS
from empirical.store.journal import file_of
from empirical.store.lock import alone
from empirical.store.repair import Measured, Repair
from empirical.store.shards import DOCUMENTS, lengths
from empirical.store.store import Store


def of(path: Path, documents: Sequence[int], *, shift: int = 0) -> Store:
    """A settled store of these documents."""
    made = store_of(path, documents, shift=shift)
    made.settle()
    return made


@dataclass
class Twin:
    """Measures documents again, in a store beside, and remembers which; `shift`: makes others."""

    folder: Path
    documents: int
    shift: int = 0
    requests: list[list[int]] = field(default_factory=list)

    def measured_again(self) -> list[int]:
        return [document for documents in self.requests for document in documents]

    def rows(self) -> list[dict[str, Any]]:
        return [row(f"document {document}") for document in range(self.documents)]

    def measured(self, documents: Sequence[int]) -> Measured:
        self.requests.append(list(documents))
        path = self.folder / f"{hash((*documents, self.shift))}.zarr"  # many ask for the same
        made = Store.open(path) if path.exists() else of(path, documents, shift=self.shift)
        made.extend(self.documents)
        places = {document: index for index, document in enumerate(documents)}
        return Measured(path, made.documents, places)


def repair(path: Path, documents: int, **how: Any) -> tuple[Twin, list[str]]:
    """Repair a run; return what was measured, and what was said."""
    twin = Twin(path.with_name("twins"), documents, **how)
    with alone(path):
        return twin, Repair(path, twin).captured()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Three documents and a result."""
    made = of(tmp_path_factory.mktemp("whole") / "run.zarr", range(3))
    made.put({"norms": NORMS})
    return made.path


@pytest.fixture
def copied(tmp_path) -> Callable[[Path], Path]:
    return lambda path: shutil.copytree(path, tmp_path / "run.zarr")


KINDS_OF_DAMAGE = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow if kind in (cut, emptied) else [])
        for kind in KINDS
    ],
    ids=lambda kind: kind.__name__,
)


@KINDS_OF_DAMAGE
def test_every_damaged_file_is_restored_byte_by_byte(whole, kind):
    before = contents(whole)
    measured = [whole / ROWS, *files(whole / "capture")]
    assert len(measured) > 10
    for file in measured:
        with damaged(file, kind):
            twin, lines = repair(whole, 3)
            assert contents(whole) == before, file
        assert any(str(file) in line for line in lines), lines
        if file.name == "zarr.json":
            assert twin.requests == [[0]], "any document gives the layout"
    root = whole / "zarr.json"
    with damaged(root, kind), pytest.raises(StoreError, match="the manifest is damaged"):
        repair(whole, 3)


def test_an_intact_run_is_not_changed(many):
    before = {file: file.stat().st_mtime_ns for file in files(many)}
    twin, lines = repair(many, MANY)
    assert (twin.requests, lines) == ([], [])
    assert {file: file.stat().st_mtime_ns for file in files(many)} == before


def end_in_chunk(shard: Path, index: int) -> None:
    """End a shard within one of its chunks."""
    held = lengths(shard.parent, shard.name)
    shard.write_bytes(shard.read_bytes()[: sum(held[:index]) + 3])


def swap_first(shard: Path) -> None:
    """Put the second chunk in the place of the first."""
    chunks_changed(shard, lambda held: [held[1], *held[1:]], held=DOCUMENTS)


@pytest.mark.parametrize(
    ("name", "harm", "measured"),
    [
        ("capture/weight/c/0/0/0", lambda file: flipped(file, at=0), [0]),
        ("capture/weight/c/1/0/0", lambda file: flipped(file, at=0), [DOCUMENTS]),
        ("capture/weight/c/0/0/0", lambda file: flipped(file, at=0.99), []),  # its table
        ("capture/weight/c/0/0/0", lambda file: end_in_chunk(file, 61), [61, 62, 63]),
        ("capture/count/c/1/0", emptied, [*range(DOCUMENTS, MANY)]),
        ("capture/count/c/0/0", swap_first, [0]),
        (ROWS, cut, []),
    ],
)
def test_only_damaged_documents_are_measured_again(many, copied, name, harm, measured):
    path = copied(many)
    harm(path / name)
    twin, _ = repair(path, MANY)
    assert twin.measured_again() == measured
    assert contents(path) == contents(many)


def test_combined_damage_is_repaired(many, copied):
    path = copied(many)
    flipped(path / "capture/weight/c/0/0/0", at=0)
    flipped(path / "capture/token_id/c/1/0", at=0)
    for name in ("capture/weight/zarr.json", "capture/layer/c/0", ROWS):
        (path / name).unlink()
    twin, lines = repair(path, MANY)
    assert twin.requests == [[0], [0, DOCUMENTS]], "one for the layout, then those that are hit"
    assert "document 'document 64': measured again" in lines
    assert contents(path) == contents(many)


@KINDS_OF_DAMAGE
def test_a_damaged_journal_file_costs_one_document(tmp_path, whole, kind):
    made = store_of(tmp_path / "run.zarr", range(3))
    kind(file_of(made.path, 1))
    twin, lines = repair(made.path, 3)
    assert twin.requests == [[1]]
    assert lines == ["document 'document 1': measured again"]
    Store.open(made.path).put({"norms": NORMS})
    assert contents(made.path) == contents(whole)


def test_foreign_files_are_set_aside(whole, copied):
    path = copied(whole)
    strange = ("capture/stray", "capture/weight/c/9", "norms/C/mine")
    for name in strange:
        (path / name).write_text(name)
    layer, counts = path / "capture/layer/c/0", path / "capture/count/c"
    layer.unlink()
    layer.mkdir()
    (layer / "within").write_text("a folder in a file's place")
    shutil.rmtree(counts)
    counts.write_text("a file in a folder's place")
    repair(path, 3)
    assert contents(path) == contents(whole)
    aside = path.with_name("run.zarr.aside")
    assert {name: (aside / name).read_text() for name in strange} == {one: one for one in strange}
    assert (aside / "capture/layer/c/0/within").exists()
    assert (aside / "capture/count/c").read_text() == "a file in a folder's place"


@pytest.mark.parametrize("lost", ["capture/weight/c/0/0/0", ROWS])
def test_differing_new_measurements_change_nothing(whole, copied, lost):
    path = copied(whole)
    (path / lost).unlink()
    if lost == ROWS:
        flipped(path / "capture/weight/c/0/0/0", at=0)
    before = contents(path)
    with pytest.raises(StoreError, match="measured again, it differs from what was written"):
        repair(path, 3, shift=7)
    assert contents(path) == before


@pytest.mark.parametrize("stride", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_a_repair_that_is_killed_anywhere_loses_nothing(tmp_path, many, stride):
    lost = ("capture/layer/c/0", "capture/count/c/1/0", ROWS)
    harmed = shutil.copytree(many, tmp_path / "harmed.zarr")
    flipped(harmed / "capture/weight/c/0/0/0", at=0)
    for name in lost:
        (harmed / name).unlink()
    wanted = contents(many)
    sound = {name for name in contents(harmed) if not name.startswith("capture/weight/c/0")}
    repair(shutil.copytree(harmed, tmp_path / "first.zarr"), MANY)  # what is measured stands there
    step, killed, missing = 0, True, set()
    while killed:
        step += stride
        path = shutil.copytree(harmed, tmp_path / f"{step}.zarr")
        killed = killed_at(step, lambda: repair(path, MANY))  # noqa: B023
        left = contents(path)
        assert {name: left.get(name) for name in sound} == {name: wanted[name] for name in sound}
        missing.add(len(wanted.keys() - left.keys()))
        twin, _ = repair(path, MANY)
        assert {*twin.measured_again()} <= {0, *range(DOCUMENTS, MANY)}, "no document was lost"
        assert contents(path) == wanted, step
        shutil.rmtree(path)
    assert step > 15
    assert len(missing) > 1, "some were killed with all of it to do, some with a part"
