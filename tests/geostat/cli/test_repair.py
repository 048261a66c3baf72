"""`geostat doctor --repair`: byte-for-byte repair, and one line for an impossible one."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support.damage import KINDS, damaged, emptied, files, first_file, flipped, second_flipped
from support.places import contents
from support.spine import LENGTH, Finished, Said, capturing, geostat, refused

import geostat as gs
from empirical.store import lock, manifest, store
from empirical.store.journal import FILE as ROWS
from empirical.store.journal import file_of
from empirical.store.lock import alone
from empirical.store.store import Store

ABSENT = "mps" if torch.cuda.is_available() else "cuda"
"""A device that this machine lacks."""


@pytest.fixture
def run(tmp_path: Path, finished: Finished, model_folder: Path, text_folder: Path) -> Path:
    """Return a finished run of three documents with a recorded command."""
    out = tmp_path / "report"
    shutil.copytree(finished.store, out / "run.zarr")
    shutil.copyfile(finished.out / "run.json", out / "run.json")
    words = ["geostat", "run", model_folder, "--text", text_folder, "--documents", 3]
    command = shlex.join(map(str, [*words, "--length", LENGTH, "--out", out]))
    tell(out, {stage: command for stage in ("capture", "fit", "confront")})
    return out


@pytest.fixture(scope="module")
def harmed(
    tmp_path_factory: pytest.TempPathFactory, captured: Path, model_folder: Path, text_folder: Path
) -> Path:
    """Return a run with a damaged second document; tests change only its record."""
    out = shutil.copytree(captured.parent, tmp_path_factory.mktemp("harmed") / "report")
    words = ["geostat", *capturing(model_folder, text_folder, out)]
    tell(out, {"capture": shlex.join(map(str, words))})
    second_flipped(shard(out))
    return out


def tell(out: Path, commands: dict[str, str]) -> None:
    """Record commands in run.json."""
    known = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(known | {"commands": commands}))


def repaired(out: Path) -> Said:
    return geostat("doctor", out, "--repair")


def shard(out: Path, name: str = "recall") -> Path:
    """Return the first shard of an array."""
    return first_file(out / "run.zarr" / "capture" / name / "c" / "0")


def test_only_the_damaged_document_is_measured_again(run: Path, text_folder: Path) -> None:
    before = contents(run)
    second_flipped(shard(run))
    result = repaired(run)
    assert result.code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "repaired:",
        f"  {shard(run)}: restored",
        f"  document '{text_folder / 'text 1.txt'}': measured again",
    ]
    assert lines[-1].startswith(
        f"run: {run / 'run.zarr'} is sound: 3 documents; /amended, /control, /envelope"
    )
    assert "1/1 documents" in result.stderr
    assert contents(run) == before
    assert sorted(path.name for path in run.parent.iterdir()) == ["report"]
    assert "repaired:\n  nothing: no file was damaged\n" in repaired(run).stdout


@pytest.mark.slow
def test_pending_moves_of_another_machine_are_abandoned(run: Path) -> None:
    before = contents(run)
    path = run / "run.zarr"
    attributes = manifest.read_root(path)
    held = attributes["manifest"]["results"]
    then = {"results": {"norms": held["norms"], "made": {}}}
    moves = {"moves": ["norms", "made"], "drops": ["summary"]}
    attributes["manifest"]["pending"] = moves | {"then": then, "token": "0"}
    manifest.save(path, attributes)
    (path / "made").mkdir()  # already moved
    shutil.rmtree(path / "summary")  # already removed
    result = repaired(run)
    assert result.code == 0, result.stderr
    assert result.stdout.splitlines()[:3] == [
        "repaired:",
        f"  {path}: unfinished results of a stopped command: discarded",
        f"  {path / 'summary'}: computed again",
    ]
    assert contents(run) == before


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ("no command", 4, "damaged, and run.json names no command that measured it"),
        ("other words", 2, "which is not a command (No such option: --lenght)"),
        ("text gone", 2, "its model or text cannot be read again: "),
        ("another text", 2, "was measured with corpus.name = "),
        ("other options", 2, "was measured with seed = 0, this run has 5"),
        ("a device of workers", 2, "cannot be read again: --device"),
        ("damaged root", 4, "zarr.json: the manifest is damaged. Restore it from a copy"),
        ("written to", 2, "another geostat command is writing there"),
        ("no run named", 2, "--repair: was given without a run, expected one"),
    ],
)
def test_an_impossible_repair_is_one_line(
    harmed: Path, text_folder: Path, tmp_path: Path, change: str, code: int, says: str
) -> None:
    sound = json.loads((harmed / "run.json").read_text())["commands"]["capture"]
    changes = {
        "other words": sound.replace("--length", "--lenght"),
        "text gone": sound.replace(str(text_folder), str(tmp_path / "absent")),
        "another text": f"{sound} --text {shlex.quote(str(text_folder / 'text 4.txt'))}",
        "other options": f"{sound} --seed 5",
        "a device of workers": f"{sound} --cluster local:1 --device {ABSENT}",
    }
    named = [] if change == "no run named" else [harmed]
    tell(harmed, {} if change == "no command" else {"capture": changes.get(change, sound)})
    with ExitStack() as around:
        if change == "damaged root":
            around.enter_context(damaged(harmed / "run.zarr" / "zarr.json", flipped))
        if change == "written to":
            around.enter_context(alone(harmed / "run.zarr"))
        before = contents(harmed.parent)
        line = refused(geostat("doctor", *named, "--repair"), code=code)
        assert says in line
        assert contents(harmed.parent) == before
    tell(harmed, {"capture": sound})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_files_of_a_confronted_run_are_restored(run: Path, kind: Callable[[Path], None]) -> None:
    before = contents(run)
    every = [file for file in files(run / "run.zarr") if file.parent != run / "run.zarr"]
    chance = np.random.default_rng(KINDS.index(kind))
    for index in (0, *sorted(chance.choice(len(every), 12, replace=False))):
        file = every[index] if index else run / "run.zarr" / ROWS
        kind(file)
        assert repaired(run).code == 0, file
        assert contents(run) == before, file


def recorded(monkeypatch: pytest.MonkeyPatch, *words: Any) -> Said:
    """Call the command and record it in run.json."""
    with monkeypatch.context() as patched:
        patched.setattr("sys.argv", ["geostat", *map(str, words)])
        return geostat(*words)


@pytest.mark.slow
def test_results_are_recomputed_with_their_recorded_options(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tolerances = tmp_path / "own.toml"
    tolerances.write_text('[norms.cv]\nat_most = 0.5\nsource = "own"\n')
    options = ["--edition", "sharp", "--n", "all", "--no-swap", "--tolerances", tolerances]
    result = recorded(monkeypatch, "confront", run, *options, "--quiet")
    assert result.code == 0, result.stderr
    before = contents(run)
    for name in ("envelope", "verdicts", "summary"):
        emptied(run / "run.zarr" / name / "zarr.json")
    assert repaired(run).code == 0
    assert contents(run) == before
    known = json.loads((run / "run.json").read_text())["commands"]
    tell(run, {name: known[name] for name in known if name != "confront"})
    emptied(run / "run.zarr" / "verdicts" / "zarr.json")
    before = contents(run)
    line = geostat("doctor", run, "--repair").stderr.splitlines()[-1]
    assert "/verdicts differs from what was written, perhaps because of other options" in line
    assert "run `geostat fit" in line
    assert contents(run) == before


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
def test_a_capture_is_repaired_in_its_original_batches(
    tmp_path: Path, model_folder: Path, text_folder: Path, monkeypatch, batch: int
) -> None:
    texts, out = shutil.copytree(text_folder, tmp_path / "texts"), tmp_path / "own"
    capture = capturing(model_folder, texts, out, documents=5)
    result = recorded(monkeypatch, *capture, "--batch", batch)
    assert result.code == 0, result.stderr
    before = contents(out)
    second_flipped(shard(out))
    assert repaired(out).code == 0
    assert contents(out) == before
    second_flipped(shard(out))
    (texts / "text 1.txt").write_text("z" * 60)
    line = geostat("doctor", out, "--repair").stderr.splitlines()[-1]
    assert "text 1.txt', but this run reads" in line
    assert "with other tokens" in line


@pytest.mark.slow
def test_a_damaged_file_of_the_journal_is_named_and_measured_again(
    tmp_path: Path, captured: Path, model_folder: Path, text_folder: Path, monkeypatch
) -> None:
    with monkeypatch.context() as patched:  # like a capture killed before it settled
        for module in (store, lock):
            patched.setattr(module, "settle", lambda path, *given, **how: None)
        assert recorded(patched, *capturing(model_folder, text_folder, tmp_path)).code == 0
    file = file_of(tmp_path / "run.zarr", 1)
    emptied(file)
    line = refused(geostat("doctor", tmp_path), code=4)
    assert line.startswith(f"{file}: damaged, because it is ")
    assert "Run `geostat doctor --repair` on the run" in line
    result = repaired(tmp_path)
    assert result.code == 0, result.stderr
    assert result.stdout.count("measured again") == 1
    assert contents(tmp_path / "run.zarr") == contents(captured)


@pytest.mark.slow
def test_tensors_are_repaired_from_their_files_but_not_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(0)
    alpha = chance.random((3, 2, 4, 40), dtype=np.float32)
    alpha /= alpha.sum(-1, keepdims=True)
    values = chance.standard_normal((3, 2, 2, 40, 8), dtype=np.float32)
    np.savez(tmp_path / "tensors.npz", alpha=alpha, values=values)
    out = tmp_path / "ingested"
    words = ["ingest", tmp_path / "tensors.npz", "--n", "1,2,9", "--out", out]
    assert recorded(monkeypatch, *words).code == 0
    before = contents(out)
    second_flipped(shard(out))
    (out / "run.zarr" / ROWS).unlink()
    (out / "run.zarr" / "capture" / "lag" / "zarr.json").unlink()
    assert repaired(out).code == 0
    assert contents(out) == before
    gs.from_tensors(alpha, values, n="1,2,9", out=tmp_path / "held")
    second_flipped(shard(tmp_path / "held"))
    line = refused(repaired(tmp_path / "held"), code=4)
    assert "as for models or tensors in memory, so it cannot be repaired. Restore it" in line
    assert len(Store.open(out / "run.zarr").documents) == 3


def test_a_damaged_experiment_is_removed_with_a_message(two_documents: Store) -> None:
    run, results = two_documents.path.parent, xr.Dataset({"level": ("layer", [0.5])})
    two_documents.put({"effective": results, "norms": results})
    flipped(first_file(two_documents.path / "effective/level/c"), at=0)
    assert geostat("doctor", run, "--json").code == 4
    result = repaired(run)
    assert result.code == 0, result
    assert "effective: removed. Run the same `geostat effective` again" in result.stdout
    assert Store.open(two_documents.path).results == ["norms"]
