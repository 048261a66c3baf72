"""Fuzzing of the files that commands read: what is wrong is refused in one line, never a
traceback.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fuzz import call, judged, timely
from support.fuzz_files import edited, gguf, jsonl, toml
from support.gguf_files import gguf_file
from support.spine import Finished

from empirical.errors import InputError, StoreError
from empirical.sources import checkpoints, texts
from empirical.store.manifest import digests
from empirical.store.store import Store
from geostat.runs import files
from geostat.runs.methods.accessor import RunMethods
from reports.errors import InputError as ReportError

FUZZING: dict[str, Any] = {
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


def cases(few: int, many: int) -> Any:
    """How many cases the default suite runs, and the slow one."""
    return pytest.mark.parametrize(
        "cases", [few, pytest.param(many, marks=pytest.mark.slow)], ids=["few", "many"]
    )


def held(strategy: st.SearchStrategy[Any], check: Callable[[Any], None], number: int) -> None:
    """Hold every example to what is checked."""
    settings(max_examples=number, **FUZZING)(given(strategy)(check))()


def refused_at_most(read: Callable[[], object]) -> None:
    """Reading ends in time, with at most one of the errors that a user can mend."""
    try:
        with timely():
            read()
    except (InputError, ReportError, StoreError) as error:
        print(error)  # that it can be said


@cases(100, 12_000)
def test_no_file_of_tolerances_ends_in_a_traceback(tmp_path: Path, cases: int):
    file = tmp_path / "own.toml"

    def check(data: bytes) -> None:
        file.write_bytes(data)
        judged(call("confront", str(tmp_path / "none"), "--tolerances", str(file)))

    held(toml(), check, cases)


@cases(100, 45_000)
def test_no_lines_of_json_end_in_a_traceback(tmp_path: Path, cases: int):
    file = tmp_path / "own.jsonl"

    def check(data: bytes) -> None:
        file.write_bytes(data)
        refused_at_most(lambda: list(texts.from_paths([file]).read()))

    held(jsonl(), check, cases)


@cases(60, 20_000)
def test_no_gguf_header_ends_in_a_traceback(tmp_path: Path, cases: int):
    whole = gguf_file(tmp_path / "whole.gguf").read_bytes()
    file = tmp_path / "own.gguf"

    def check(data: bytes) -> None:
        file.unlink(missing_ok=True)  # the reader may still map the last one
        file.write_bytes(data)
        refused_at_most(lambda: checkpoints.gguf_tensors(file))

    held(gguf(whole), check, cases)


@pytest.fixture(scope="module")
def store(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be changed."""
    folder = tmp_path_factory.mktemp("metadata")
    shutil.copytree(finished.store, folder / "run.zarr")
    return folder / "run.zarr"


def signed(root: Any) -> str:
    """A root's text that states its own digest, as if geostat had written it."""
    attributes = root.get("attributes") if isinstance(root, dict) else None
    manifest = attributes.get("manifest") if isinstance(attributes, dict) else None
    if not isinstance(manifest, dict):
        return json.dumps(root)
    manifest["own_sha256"] = ""
    text = json.dumps(root, indent=1, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text.replace('"own_sha256": ""', f'"own_sha256": "{digest}"', 1)


def edited_manifest(root: Any) -> st.SearchStrategy[Any]:
    """A root whose manifest alone was edited."""
    attributes = root["attributes"]
    return edited(attributes["manifest"]).map(
        lambda manifest: root | {"attributes": attributes | {"manifest": manifest}}
    )


def read_all(path: Path) -> None:
    run = Store.open(path)
    assert isinstance(run.documents, list)
    tree = run.tree(only=("summary", "verdicts"))
    str(RunMethods(tree))


@cases(6, 400)
def test_no_edited_root_ends_in_a_traceback(store: Path, cases: int):
    file = store / "zarr.json"
    sound = file.read_text(encoding="utf-8")
    whole = json.loads(sound)
    del whole["consolidated_metadata"]  # that is others' to read

    def check(root: Any) -> None:
        for text in (json.dumps(root), signed(root)):
            file.write_text(text, encoding="utf-8")
            refused_at_most(lambda: read_all(store))

    try:
        held(st.one_of(edited(whole), edited_manifest(whole)), check, cases)
    finally:
        file.write_text(sound, encoding="utf-8")


@cases(6, 400)
def test_no_edited_array_ends_in_a_traceback(store: Path, cases: int):
    root = store / "zarr.json"
    sound = root.read_text(encoding="utf-8")
    names = ["summary/zarr.json", "summary/precision_mean/zarr.json", "verdicts/zarr.json"]
    whole = {name: (store / name).read_text(encoding="utf-8") for name in names}

    def check(change: tuple[str, Any]) -> None:
        name, metadata = change
        (store / name).write_text(json.dumps(metadata), encoding="utf-8")
        root.write_text(sound, encoding="utf-8")
        with pytest.raises(StoreError, match="damaged, for it is not what was written"):
            Store.open(store)
        changed = json.loads(sound)
        group = changed["attributes"]["manifest"]["results"][name.partition("/")[0]]
        group[name] = digests([store / name], store)[name]
        root.write_text(signed(changed), encoding="utf-8")
        refused_at_most(lambda: read_all(store))
        (store / name).write_text(whole[name], encoding="utf-8")

    changes = st.one_of(
        *(
            edited(json.loads(text)).map(lambda data, name=name: (name, data))
            for name, text in whole.items()
        )
    ).filter(lambda change: json.dumps(change[1]) != json.dumps(json.loads(whole[change[0]])))
    try:
        held(changes, check, cases)
    finally:
        root.write_text(sound, encoding="utf-8")
        for name, text in whole.items():
            (store / name).write_text(text, encoding="utf-8")


@cases(60, 6_000)
def test_no_record_of_a_run_ends_in_a_traceback(finished: Finished, tmp_path: Path, cases: int):
    record = json.loads(finished.store.with_suffix(".json").read_text(encoding="utf-8"))
    file = tmp_path / "run.json"

    def check(known: Any) -> None:
        file.write_text(json.dumps(known), encoding="utf-8")
        place = tmp_path / "run.zarr"
        files.seconds_of(place)
        files.commands_of(place)
        with files.timed(place, "fit"), files.capture_session(place) as kept:
            kept.append(2)

    held(edited(record), check, cases)
