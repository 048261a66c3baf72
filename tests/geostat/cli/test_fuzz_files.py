"""Fuzzing of input files: malformed files are refused in one line, without a traceback."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from support.fuzz import call, held, judged, numbers, timely
from support.fuzz_files import edited, gguf, jsonl, toml
from support.gguf_files import gguf_file
from support.spine import Finished

from empirical.errors import InputError, StoreError
from empirical.sources import checkpoints, texts
from empirical.store.manifest import digests
from empirical.store.store import Store
from geostat.runs import files
from geostat.runs.accessor import RunMethods
from reports.errors import InputError as ReportError


def refused_at_most(read: Callable[[], object]) -> None:
    """Check that reading ends in time, with at most one input error."""
    try:
        with timely():
            read()
    except (InputError, ReportError, StoreError) as error:
        print(error)  # the message can be printed


def check_bytes(
    file: Path, strategy: st.SearchStrategy[bytes], read: Callable[[Path], object], number: int
) -> None:
    """Check that reading a file of any drawn content is refused in one line, or succeeds."""

    def check(data: bytes) -> None:
        file.unlink(missing_ok=True)  # a reader may still map the previous file
        file.write_bytes(data)
        refused_at_most(lambda: read(file))

    held(strategy, check, number)


@numbers(40, 12_000)
def test_no_file_of_tolerances_ends_in_a_traceback(tmp_path: Path, number: int):
    def read(file: Path) -> None:
        judged(call("confront", str(tmp_path / "none"), "--tolerances", str(file)))

    check_bytes(tmp_path / "own.toml", toml(), read, number)


@numbers(100, 45_000)
def test_no_lines_of_json_end_in_a_traceback(tmp_path: Path, number: int):
    def read(file: Path) -> None:
        list(texts.from_paths([file]).read())

    check_bytes(tmp_path / "own.jsonl", jsonl(), read, number)


@numbers(60, 20_000)
def test_no_gguf_header_ends_in_a_traceback(tmp_path: Path, number: int):
    whole = gguf_file(tmp_path / "whole.gguf").read_bytes()
    check_bytes(tmp_path / "own.gguf", gguf(whole), checkpoints.gguf_tensors, number)


@pytest.fixture(scope="module")
def store(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run that the test may change."""
    return shutil.copytree(finished.store, tmp_path_factory.mktemp("metadata") / "run.zarr")


def signed(root: Any) -> str:
    """Return the text of a root with a valid digest, as geostat writes it."""
    attributes = root.get("attributes") if isinstance(root, dict) else None
    manifest = attributes.get("manifest") if isinstance(attributes, dict) else None
    if not isinstance(manifest, dict):
        return json.dumps(root)
    manifest["own_sha256"] = ""
    text = json.dumps(root, indent=1, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text.replace('"own_sha256": ""', f'"own_sha256": "{digest}"', 1)


def edited_manifest(root: Any) -> st.SearchStrategy[Any]:
    """Return a root with an edited manifest."""
    attributes = root["attributes"]
    return edited(attributes["manifest"]).map(
        lambda manifest: root | {"attributes": attributes | {"manifest": manifest}}
    )


def read_all(path: Path) -> None:
    run = Store.open(path)
    assert isinstance(run.documents, list)
    tree = run.tree(only=("summary", "verdicts"))
    str(RunMethods(tree))


@numbers(4, 400)
def test_no_edited_root_ends_in_a_traceback(store: Path, number: int):
    file = store / "zarr.json"
    sound = file.read_text(encoding="utf-8")
    whole = json.loads(sound)
    del whole["consolidated_metadata"]  # other readers use it

    def check(root: Any) -> None:
        for text in (json.dumps(root), signed(root)):
            file.write_text(text, encoding="utf-8")
            refused_at_most(lambda: read_all(store))

    try:
        held(st.one_of(edited(whole), edited_manifest(whole)), check, number)
    finally:
        file.write_text(sound, encoding="utf-8")


@numbers(2, 400)
def test_no_edited_array_ends_in_a_traceback(store: Path, number: int):
    root = store / "zarr.json"
    sound = root.read_text(encoding="utf-8")
    names = ["summary/zarr.json", "summary/precision_mean/zarr.json", "verdicts/zarr.json"]
    whole = {name: (store / name).read_text(encoding="utf-8") for name in names}

    def check(change: tuple[str, Any]) -> None:
        name, metadata = change
        (store / name).write_text(json.dumps(metadata), encoding="utf-8")
        root.write_text(sound, encoding="utf-8")
        with pytest.raises(StoreError, match="damaged, because it is not what was written"):
            Store.open(store)
        changed = json.loads(sound)
        group = changed["attributes"]["manifest"]["results"][name.partition("/")[0]]
        group[name] = digests([store / name], store)[name]
        root.write_text(signed(changed), encoding="utf-8")
        refused_at_most(lambda: read_all(store))
        (store / name).write_text(whole[name], encoding="utf-8")

    changes = st.sampled_from(names).flatmap(
        lambda name: (
            edited(json.loads(whole[name]))
            .filter(lambda node: json.dumps(node) != json.dumps(json.loads(whole[name])))
            .map(lambda node: (name, node))
        )
    )
    try:
        held(changes, check, number)
    finally:
        root.write_text(sound, encoding="utf-8")
        for name, text in whole.items():
            (store / name).write_text(text, encoding="utf-8")


@numbers(60, 6_000)
def test_no_record_of_a_run_ends_in_a_traceback(finished: Finished, tmp_path: Path, number: int):
    record = json.loads(finished.store.with_suffix(".json").read_text(encoding="utf-8"))
    file = tmp_path / "run.json"

    def check(known: Any) -> None:
        file.write_text(json.dumps(known), encoding="utf-8")
        place = tmp_path / "run.zarr"
        files.seconds_of(place)
        files.commands_of(place)
        with files.timed(place, "fit"), files.capture_session(place) as kept:
            kept.append(2)

    held(edited(record), check, number)
