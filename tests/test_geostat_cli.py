"""The command as a person meets it: one line and an exit code for bad input, JSON where asked, silence where asked, and nothing lost to Ctrl-C."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Finished
from families import letters, tiny
from spine import LENGTH, Said, contents, geostat, refused

from empirical.layout import GroupPlan
from empirical.schema import Variable
from empirical.store import Store
from theory import catalogue

MANY = 12
"""Documents of a run that is stopped half-way."""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, text_folder: Path) -> Path:
    """The store of a capture of two documents; not to be changed."""
    out = tmp_path_factory.mktemp("captured")
    said = geostat(
        "capture", model_folder, "--text", text_folder, "--documents", 2, "--length", LENGTH, "--n", "1,2,9", "--out", out, "--quiet"
    )
    assert said == Said(0, "", "")
    return out / "run.zarr"


def test_the_main_job_tells_its_stages_and_prints_the_verdict(finished: Finished):
    said = finished.said
    stages = [line.removeprefix("geostat: ") for line in said.stderr.splitlines()]
    assert [stage for stage in stages if not re.search(r"documents|\d%$", stage)] == [
        "load the model", "read the text", "capture", "fit norms", "fit similarity", "fit weights", "confront", "report"
    ]  # fmt: skip
    assert any(stage.startswith("3/3 documents") for stage in stages)
    lines = said.stdout.splitlines()
    assert lines[:3] == [f"report: {finished.out / 'report.html'}", f"run: {finished.store}", "verdict:"]
    assert [line.strip() for line in lines[3:]] == finished.tree["summary"].attrs["sentences"]
    page = (finished.out / "report.html").read_text(encoding="utf-8")
    assert "Assumption 2" in page
    assert list((finished.out / "figures").glob("*.pdf"))
    assert list((finished.out / "tables").glob("*.tex"))


BAD_OPTIONS = {
    "unknown model": (["no/such/model"], "no/such/model: no such file or folder"),
    "absent model file": (["absent.gguf"], "absent.gguf: no such file"),
    "no sizes": (["--n", "0"], "--n 0: sizes 0 to 0, expected 1 to 40"),
    "size above T": (["--n", "1,41"], "--n 1,41: 41 is above the 40 tokens"),
    "too few texts": (
        ["--documents", "9"],
        "5 of 5 documents have 40 tokens or more, but --documents is 9. Use --documents 5, or more texts",
    ),
    "too short": (["--length", "100"], "the longest document has 61 tokens, but --length is 100. Use --length 61"),
    "no documents": (["--documents", "0"], "--documents 0: expected at least 1"),
    "absent text": (["--text", "absent.txt"], "absent.txt: no such file or folder. Check --text"),
    "empty text": (["--text", "{here}/empty.txt"], "empty.txt: holds no text"),
    "empty folder": (["--text", "{here}/folder"], "folder: holds no text files"),
    "unreadable text": (["--text", "{here}/latin.txt"], "latin.txt: byte 3 is not UTF-8. Convert the file"),
    "both ways": (["--fresh", "--resume"], "--fresh and --resume were both given"),
    "no such head": (["--head", "L9H0"], "L9H0: no such head"),
    "no head": (["--head", "five"], "--head five: expected a layer and a head"),
    "device": (["--device", "abacus"], "--device abacus: expected one of auto, cpu, cuda, mps. Use one"),
    "convention": (["--convention", "mine"], "--convention mine: expected one of paper, followup"),
    "seed": (["--seed", "-3"], "--seed -3: expected at least 0"),
    "special tokens": (["--special-tokens", "some"], "--special-tokens some: expected one of default, none. Use one"),
    "dtype": (["--dtype", "int3"], "--dtype int3: expected one of float32, bfloat16, float16. Use one"),
    "no model": ([""], "the model's name is empty, expected a Hugging Face id"),
    "two texts at once": (
        ["{here}/latin.txt", "--text", "{here}/empty.txt"],
        "Repeat --text for each text: `--text {here}/empty.txt --text {here}/latin.txt`",
    ),
    "revision": (["--revision", "main"], "--revision main belongs to a Hugging Face id"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_input_is_one_line_with_the_remedy_and_leaves_nothing(tmp_path: Path, model_folder: Path, text_folder: Path, name: str):
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "latin.txt").write_bytes("abcé".encode("latin-1"))
    (tmp_path / "folder").mkdir()
    given, said = BAD_OPTIONS[name]
    given, said = [argument.format(here=tmp_path) for argument in given], said.format(here=tmp_path)
    model = [] if not given[0].startswith("--") else [model_folder]
    text = [] if "--text" in given else ["--text", text_folder]
    command = "run" if name in {"unknown model", "no sizes"} else "capture"
    before = contents(tmp_path)
    line = refused(geostat(command, *model, *text, "--documents", 2, "--length", LENGTH, "--out", tmp_path / "out", *given))
    assert said in line
    assert line.endswith(".")
    assert not (tmp_path / "out").exists()
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["capture", "--length", "long"], "'--length'"),
        (["capture", "--lenght", "9"], "No such option: --lenght (Possible options: --length). See `geostat capture --help`."),
        (["--bogus"], "No such option: --bogus. See `geostat --help`."),
        (["kapture"], "No such command 'kapture'"),
        (["fit"], "See `geostat fit --help`."),
        (["run", "--text", "a", "b", "c"], "(c). Repeat --text for each text. See `geostat run --help`."),
        (["fit", "a", "b"], "(b). See `geostat fit --help`."),
    ],
)
def test_a_command_line_that_cannot_be_read_is_one_line(given: list[str], said: str):
    line = refused(geostat(*given))
    assert said in line
    assert line.endswith("--help`.")


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    tiny("llama", seed=1).save_pretrained(folder)
    letters(bos=True).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["{other}"], "was measured with model."),
        (["--seed", "1"], "was measured with seed = 0, this run has 1"),
        (["--length", "39"], "length = 40, this run has 39"),
        (["--n", "1,2"], "was measured with n."),
        (["--convention", "followup"], "convention = paper, this run has followup"),
        (["--special-tokens", "none"], "special_tokens = default, this run has none"),
        (["--no-null"], "groups"),
        (["--text", "{texts}/text 3.txt", "--documents", "1"], "corpus"),
    ],
)
def test_a_store_of_another_model_or_settings_is_refused_and_kept(
    captured: Path, model_folder: Path, text_folder: Path, other_model: Path, given: list[str], said: str
):
    given = [argument.format(other=other_model, texts=text_folder) for argument in given]
    model = [] if not given[0].startswith("--") else [model_folder]
    text = [] if "--text" in given else ["--text", text_folder]
    before = contents(captured)
    standing = ["--documents", 2, "--length", LENGTH, "--n", "1,2,9", "--out", captured]
    line = refused(geostat("capture", *model, *text, *standing, "--resume", *given))
    assert said in line
    assert "Use --fresh to measure again, or another --out." in line
    assert contents(captured) == before


def test_a_captured_row_with_nan_is_refused(tmp_path: Path, text_folder: Path):
    model = tiny("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.q_proj.weight[16 * 3] = float("inf")
    model.save_pretrained(tmp_path / "model")
    letters().save_pretrained(tmp_path / "model")
    line = refused(
        geostat("run", tmp_path / "model", "--text", text_folder, "--documents", 2, "--length", LENGTH, "--out", tmp_path / "out")
    )
    assert f"document '{(text_folder / 'text 0.txt').as_posix()}', layer 1, head 3: NaN or infinity in the captured row" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["fit", "confront", "report", "tables", "figures", "doctor"])
def test_a_run_that_is_not_there_is_refused(tmp_path: Path, command: str):
    assert "no such run. Make one with `geostat run" in refused(geostat(command, tmp_path / "absent"))


@pytest.mark.parametrize("command", ["confront", "report", "tables", "figures"])
def test_a_run_that_is_not_far_enough_is_refused(captured: Path, command: str):
    assert "geostat fit" in refused(geostat(command, captured))


def test_a_damaged_chunk_is_one_line_even_as_the_process_ends(tmp_path: Path):
    plan = GroupPlan(
        variables={"big": Variable(dims=("position",), long_name="", units="", symbol="", equation="")},
        coordinates={},
        sizes={"position": 500_000},
    )
    store = Store.create(tmp_path / "run.zarr", provenance={}, plan={"capture": plan}, documents=12)
    for index in range(12):
        store.append({"name": str(index)}, {"capture": {"big": np.random.default_rng(index).standard_normal(500_000).astype(np.float32)}})
    chunk = store.path / "capture" / "big" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
    program = [sys.executable, "-c", "from geostat.cli import main; main()", "fit", str(store.path), "--quiet"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "measure again with --fresh" in refused(Said(done.returncode, done.stdout, done.stderr), code=4)


@pytest.mark.parametrize("command", ["fit", "doctor", "capture"])
def test_a_damaged_store_is_exit_code_4(tmp_path: Path, captured: Path, model_folder: Path, text_folder: Path, command: str):
    store = tmp_path / "run.zarr"
    shutil.copytree(captured, store)
    chunk = next(file for file in (store / "capture" / "cosine_mean" / "c" / "1").rglob("*") if file.is_file())
    if command == "capture":
        chunk.unlink()
        said = geostat("capture", model_folder, "--text", text_folder, "--documents", 2, "--length", LENGTH, "--n", "1,2,9", "--out", store)
    else:
        data = bytearray(chunk.read_bytes())
        data[len(data) // 2] ^= 1
        chunk.write_bytes(bytes(data))
        said = geostat(command, store, *(["--quiet"] if command == "fit" else []))
    assert "measure again with --fresh" in refused(said, code=4)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, finished: Finished):
    (tmp_path / "file").write_text("in the way")
    for command in ("report", "tables"):
        line = refused(geostat(command, finished.store, "--out", tmp_path / "file" / "out", *(["--quiet"] if command == "report" else [])))
        assert "cannot be written" in line
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "a file: cannot be written (No space left on device). Free some space, or choose another --out."),
        (errno.EROFS, "a file: cannot be written (Read-only file system). Choose another --out."),
        (errno.EACCES, "a file: cannot be opened (Permission denied). Check its permissions, or name another."),
    ],
)
def test_a_disk_that_refuses_is_no_failure_of_ours(captured: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str):
    def refuse(*args: object, **keywords: object) -> None:
        raise OSError(code, os.strerror(code), "a file")

    monkeypatch.setattr("geostat.pipeline.fit", refuse)
    assert refused(geostat("fit", captured, "--quiet")) == said


def test_what_a_user_cannot_mend_is_not_hidden(captured: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("geostat.pipeline.fit", lambda *args, **keywords: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(OSError, match="Input/output error"):
        geostat("fit", captured)


def test_json_is_json_and_the_stages_stay_on_stderr(finished: Finished, tmp_path: Path):
    store = tmp_path / "run.zarr"
    shutil.copytree(finished.store, store)
    said = geostat("confront", store, "--edition", "sharp", "--n", "all", "--json")
    assert said.code == 0
    found = json.loads(said.stdout)
    assert found["run"] == str(store)
    assert len(found["verdict"]) == 5
    assert "confront" in said.stderr
    envelope = Store.open(store).read("envelope")
    assert list(envelope["edition"].values) == ["sharp"]
    np.testing.assert_array_equal(envelope["n_envelope"], finished.tree["capture"]["n"])
    fitted = json.loads(geostat("fit", store, "--json", "--quiet").stdout)
    assert fitted["results"] == ["envelope", "norms", "similarity", "summary", "weights"]


def test_quiet_is_silent(finished: Finished, tmp_path: Path):
    store = tmp_path / "run.zarr"
    shutil.copytree(finished.store, store)
    assert geostat("fit", store, "--quiet") == Said(0, "", "")
    assert geostat("confront", store, "--quiet") == Said(0, "", "")
    assert geostat("tables", store, "--quiet") == Said(0, "", "")
    assert list((tmp_path / "tables").glob("*.tex"))


def test_a_seldom_used_word_has_the_result_of_its_option(tmp_path: Path, model_folder: Path, text_folder: Path):
    given = [
        "--documents",
        1,
        "--length",
        LENGTH,
        "--n",
        "1-3",
        "--convention",
        "followup",
        "--special-tokens",
        "none",
        "--seed",
        7,
        "--head",
        "L1H2",
    ]
    said = geostat(
        "capture", model_folder, "--text", text_folder / "text 2.txt", *given, "--no-null", "--out", tmp_path / "mine.zarr", "--json"
    )
    assert json.loads(said.stdout) == {"run": str(tmp_path / "mine.zarr"), "documents": 1}
    tree = Store.open(tmp_path / "mine.zarr").tree()
    assert list(tree["capture"]["n"].values) == [1, 2, 3]
    assert tree["capture"].attrs["convention"] == "followup"
    assert tree["capture"]["token_id"].values[0, 0] != 1  # no token put before the text
    assert tree.attrs["seed"] == 7
    assert list(tree["capture"]["named_head"].values) == ["L1H2"]
    assert "null" not in tree.children


def test_foreign_markup_is_printed_untouched(tmp_path: Path, model_folder: Path, text_folder: Path):
    odd = tmp_path / "[/INST] [bold red]:smile: {0} %s"
    odd.mkdir(parents=True)  # the slash makes two folders of it
    (odd / "model").symlink_to(model_folder)
    shutil.copy(text_folder / "text 0.txt", odd / "text.txt")
    asked = [odd / "model", "--text", odd / "text.txt", "--documents", 1, "--length", LENGTH, "--n", "1,2"]
    said = geostat("capture", *asked, "--out", odd)
    assert said.code == 0
    assert said.stdout == f"run: {odd / 'run.zarr'}\ndocuments: 1\n"
    again = refused(geostat("capture", *asked, "--out", odd, "--seed", "1"))
    assert str(odd) in again


def test_statements_are_printed():
    said = geostat("theory", "12")
    assert said.code == 0
    assert "eq. (12)" in said.stdout
    errata = geostat("theory", "--errata")
    assert errata.code == 0
    assert json.loads(geostat("theory", "12", "--as", "json").stdout)
    assert len(json.loads(geostat("theory", "--errata", "--as", "json").stdout)) == len(list(catalogue.errata()))
    line = refused(geostat("theory", "unheard-of"))
    assert line.endswith("`geostat theory` lists all.")
    assert len(line.split(", ")) == 3
    assert "--as runes" in refused(geostat("theory", "12", "--as", "runes"))


def test_doctor_verifies_a_run(finished: Finished):
    said = geostat("doctor", finished.store.parent, "--json")
    found = json.loads(said.stdout)
    assert found["run"] == f"{finished.store} is sound: 3 documents; /envelope, /norms, /similarity, /summary, /weights"
    assert "cpu" in found["devices"]


def test_no_command_shows_what_there_is():
    said = geostat()
    for command in ("run", "capture", "fit", "confront", "report", "tables", "figures", "theory", "doctor"):
        assert f"  {command} " in said.stdout + said.stderr


# What follows starts real processes, because a signal is what is tested.


@pytest.fixture(scope="module")
def many_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("many") / "texts.jsonl"
    chance = np.random.default_rng(3)
    rows = [json.dumps({"text": "".join(chance.choice(list("abcdefghijklmnopqrstuvwxyz"), LENGTH))}) for _ in range(MANY)]
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def many(model_folder: Path, texts: Path, out: Path) -> list[str]:
    given = ["capture", model_folder, "--text", texts, "--documents", MANY, "--length", LENGTH, "--n", "1,2,9", "--out", out]
    return [str(argument) for argument in given]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, many_texts: Path) -> Path:
    out = tmp_path_factory.mktemp("uninterrupted")
    assert geostat(*many(model_folder, many_texts, out), "--quiet").code == 0
    return out / "run.zarr"


def kept(store: Path) -> int:
    """Documents in the manifest on disk."""
    try:
        return len(json.loads((store / "zarr.json").read_text(encoding="utf-8"))["attributes"]["manifest"]["documents"])
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_a_stopped_capture_keeps_its_documents_and_ends_like_one_that_was_not(
    tmp_path: Path, model_folder: Path, many_texts: Path, uninterrupted: Path, blow: signal.Signals
):
    store, command = tmp_path / "run.zarr", many(model_folder, many_texts, tmp_path)
    program = [sys.executable, "-c", "from geostat.cli import main; main()", *command]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONWARNINGS": ""}
    ) as process:
        until = time.monotonic() + 120
        while kept(store) < 2 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(blow)
        stdout, stderr = process.communicate(timeout=60)
    there = kept(store)
    assert 2 <= there < MANY
    if blow is signal.SIGINT:
        line = refused(Said(process.returncode, stdout, stderr), code=130)
        assert line == f"interrupted: {there} of {MANY} documents are kept in {store}. Run the same command again with --resume to go on."
    else:
        assert process.returncode == -signal.SIGKILL
    found = Store.open(store)
    found.verify()
    assert found.read("capture").sizes["document"] == there
    assert geostat(*command, "--resume", "--quiet") == Said(0, "", "")
    assert contents(store) == contents(uninterrupted)


def test_a_study_and_an_audit_are_commands(tmp_path: Path):
    said = geostat("whatif", "--set", "N=2,4", "--set", "L=32", "--set", "rho0=0", "--edition", "sharp", "--out", tmp_path / "study")
    assert said.code == 0
    assert said.stdout.startswith("points: 2, 0 of them left out")
    assert (tmp_path / "study" / "whatif.nc").is_file()
    found = geostat("whatif", "--find", "N", "--target", "0.5", "--set", "L=32", "--bound", "precision_lower")
    assert found.code == 0
    assert "precision_lower" in found.stdout
    assert "'banana' is no parameter" in refused(geostat("whatif", "--set", "banana=1"))
    audited = geostat("theory", "--audit", "--draws", "20", "--every", "400")
    assert audited.code == 0
    assert "| conditional | E R(r_min) |" in audited.stdout
    assert "expected at least 2 draws" in refused(geostat("theory", "--audit", "--draws", "1"))
