"""Commands stopped by Ctrl-C and other signals, in real processes."""

import json
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from support.commands import MAIN, called, ended, started, until
from support.places import contents
from support.spine import LENGTH, Finished, Said, capturing, geostat, refused

from empirical.store.integrity import check
from empirical.store.store import Store

FOREGROUND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    f" signal.signal(signal.SIGHUP, signal.SIG_DFL); {MAIN}"
)
"""Code that restores the handling of SIGINT and SIGHUP, which background processes ignore."""
MANY = 12
"""Number of documents of a run that is interrupted."""


@pytest.fixture(scope="module")
def many_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("many") / "texts.jsonl"
    chance, letters = np.random.default_rng(3), list("abcdefghijklmnopqrstuvwxyz")
    rows = [json.dumps({"text": "".join(chance.choice(letters, LENGTH))}) for _ in range(MANY)]
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def uninterrupted(
    tmp_path_factory: pytest.TempPathFactory, model_folder: Path, many_texts: Path
) -> Path:
    out = tmp_path_factory.mktemp("uninterrupted")
    command = capturing(model_folder, many_texts, out, documents=MANY)
    assert geostat(*command, "--quiet").code == 0
    return out / "run.zarr"


def kept(store: Path) -> int:
    """Return the number of documents on disk, in shards and in the journal."""
    try:
        root = json.loads((store / "zarr.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    settled = root["attributes"]["manifest"]["rows"]["count"]
    return settled + len(list((store / "capture/document/journal").glob("*.zip")))


@pytest.mark.slow
@pytest.mark.parametrize(
    "stop",
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
    ids=lambda stop: stop.name,
)
def test_a_stopped_capture_keeps_its_documents_and_resumes_to_an_equal_store(
    tmp_path: Path, model_folder: Path, many_texts: Path, uninterrupted: Path, stop: signal.Signals
):
    store = tmp_path / "run.zarr"
    command = capturing(model_folder, many_texts, tmp_path, documents=MANY)
    with started(*command, code=FOREGROUND) as process:
        until(lambda: kept(store) >= 2, process)
        process.send_signal(stop)
        result = ended(process)
    there = kept(store)
    assert 2 <= there < MANY
    if stop is signal.SIGKILL:
        assert result.code == -signal.SIGKILL
    else:
        assert (
            refused(result, code=128 + stop)
            == f"interrupted: {there} of {MANY} documents are kept in {store}. Run the same command"
            " again with --resume to go on."
        )
    run = Store.open(store)
    check(run.path, run.attributes)
    assert run.read("capture").sizes["document"] == there
    assert geostat(*command, "--resume", "--quiet") == Said(0, "", "")
    assert contents(store) == contents(uninterrupted)


@pytest.mark.parametrize(
    ("stage", "stops"),
    [
        ("report", [signal.SIGTERM]),
        pytest.param("confront", [signal.SIGTERM, signal.SIGTERM], marks=pytest.mark.slow),
        pytest.param("confront", [signal.SIGINT, signal.SIGINT], marks=pytest.mark.slow),
        pytest.param("confront", [signal.SIGHUP], marks=pytest.mark.slow),
    ],
)
def test_a_stopped_stage_is_one_line_and_can_be_repeated(
    tmp_path: Path, finished: Finished, stage: str, stops: list[signal.Signals]
):
    run = shutil.copytree(finished.out, tmp_path / "run")
    with started(stage, run, code=FOREGROUND) as process:
        assert process.stderr.readline() == f"geostat: {stage}\n"
        for stop in stops:
            process.send_signal(stop)
            time.sleep(0.05)
        line = refused(ended(process), code=128 + stops[0])
    assert line == "interrupted. What was complete is kept: run the same command again."
    assert not [path for path in run.rglob(".*") if path.name.endswith(("lock", "draft"))]
    if stage == "confront":
        assert geostat(stage, run, "--quiet").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_is_ignored(
    model_folder: Path, text_folder: Path, tmp_path: Path, first: signal.Signals
):
    command = capturing(model_folder, text_folder, tmp_path / "out")
    with started(*command, code=FOREGROUND) as process:
        assert process.stderr.readline().startswith("geostat: ")
        process.send_signal(first)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        result = ended(process)
    assert result.code == 128 + first
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("geostat: interrupted")
    assert geostat(*command, "--quiet").code == 0


def test_a_command_under_nohup_survives_sighup():
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        " from geostat.cli import process; process.install_signal_handlers();"
        " print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    )
    assert called(code=code) == Said(0, "True\n", "")
