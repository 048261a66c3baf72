"""What the command refuses: one line with the remedy on stderr, an exit code, and everything
that stood there kept.
"""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.families import letters, tiny
from support.places import contents
from support.spine import LENGTH, Finished, Said, capturing, geostat, refused

from empirical.schema import Variable
from empirical.store.layout import GroupPlan
from empirical.store.lock import alone
from empirical.store.store import Store

BAD_OPTIONS = {
    "unknown model": (["no/such/model"], "no/such/model: no such file or folder"),
    "home of nobody": (
        ["~nobody-of-this-name/model"],
        "~nobody-of-this-name/model: no such home folder",
    ),
    "absent model file": (["absent.gguf"], "absent.gguf: no such file"),
    "no sizes": (["--n", "0"], "--n 0: sizes 0 to 0, expected 1 to 40"),
    "size above T": (["--n", "1,41"], "--n 1,41: 41 is above the 40 tokens"),
    "too few texts": (
        ["--documents", "9"],
        (
            "5 of 5 documents have 40 tokens or more, but --documents is 9. Use --documents 5, or"
            " more texts"
        ),
    ),
    "too short": (
        ["--length", "100"],
        "the longest document has 61 tokens, but --length is 100. Use --length 61",
    ),
    "no documents": (["--documents", "0"], "--documents 0: expected at least 1"),
    "absent text": (["--text", "absent.txt"], "absent.txt: no such file or folder. Check --text"),
    "empty text": (["--text", "{here}/empty.txt"], "empty.txt: holds no text"),
    "empty folder": (["--text", "{here}/folder"], "folder: holds no text files"),
    "unreadable text": (
        ["--text", "{here}/latin.txt"],
        "latin.txt: byte 3 is not UTF-8. Convert the file",
    ),
    "both ways": (["--fresh", "--resume"], "--fresh and --resume were both given"),
    "no such head": (["--head", "L9H0"], "L9H0: no such head"),
    "no head": (["--head", "five"], "--head five: expected a layer and a head"),
    "device": (
        ["--device", "abacus"],
        "--device abacus: expected one of auto, cpu, cuda, mps. Use one",
    ),
    "convention": (["--convention", "mine"], "--convention mine: expected one of paper, followup"),
    "seed": (["--seed", "-3"], "--seed -3: expected at least 0"),
    "special tokens": (
        ["--special-tokens", "some"],
        "--special-tokens some: expected one of default, none. Use one",
    ),
    "dtype": (
        ["--dtype", "int3"],
        "--dtype int3: expected one of float32, bfloat16, float16. Use one",
    ),
    "no model": ([" "], "the model's name is empty, expected a Hugging Face id"),
    "two texts at once": (
        ["{here}/latin.txt", "--text", "{here}/empty.txt"],
        "Repeat --text for each text: `--text {here}/empty.txt --text {here}/latin.txt`",
    ),
    "revision": (["--revision", "main"], "--revision main belongs to a Hugging Face id"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_input_is_one_line_with_the_remedy_and_leaves_nothing(
    tmp_path: Path, model_folder: Path, text_folder: Path, name: str
):
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "latin.txt").write_bytes("abcé".encode("latin-1"))
    (tmp_path / "folder").mkdir()
    given, said = BAD_OPTIONS[name]
    given, said = [argument.format(here=tmp_path) for argument in given], said.format(here=tmp_path)
    model = [] if not given[0].startswith("--") else [model_folder]
    text = [] if "--text" in given else ["--text", text_folder]
    command = "run" if name in {"unknown model", "no sizes"} else "capture"
    before = contents(tmp_path)
    line = refused(
        geostat(
            command,
            *model,
            *text,
            "--documents",
            2,
            "--length",
            LENGTH,
            "--out",
            tmp_path / "out",
            *given,
        )
    )
    assert said in line
    assert line.endswith(".")
    assert not (tmp_path / "out").exists()
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["capture", "--length", "long"], "'--length'"),
        (
            ["capture", "--lenght", "9"],
            "No such option: --lenght (Possible options: --length). See `geostat capture --help`.",
        ),
        (["--bogus"], "No such option: --bogus. See `geostat --help`."),
        (["kapture"], "No such command 'kapture'"),
        (["fit"], "See `geostat fit --help`."),
        (
            ["run", "--text", "a", "b", "c"],
            "(c). Repeat --text for each text. See `geostat run --help`.",
        ),
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
    captured: Path,
    model_folder: Path,
    text_folder: Path,
    other_model: Path,
    given: list[str],
    said: str,
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
        geostat(
            "run",
            tmp_path / "model",
            "--text",
            text_folder,
            "--documents",
            2,
            "--length",
            LENGTH,
            "--out",
            tmp_path / "out",
        )
    )
    assert (
        f"document '{(text_folder / 'text 0.txt').as_posix()}', layer 1, head 3: NaN or infinity in"
        " the captured row" in line
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["fit", "confront", "report", "tables", "figures", "doctor"])
def test_a_run_that_is_not_there_is_refused(tmp_path: Path, command: str):
    assert "no such run. Make one with `geostat run" in refused(
        geostat(command, tmp_path / "absent")
    )


@pytest.mark.parametrize("command", ["confront", "report", "tables", "figures"])
def test_a_run_that_is_not_far_enough_is_refused(captured: Path, command: str):
    assert "geostat fit" in refused(geostat(command, captured))


@pytest.mark.slow
def test_a_damaged_chunk_is_one_line_even_as_the_process_ends(tmp_path: Path):
    plan = GroupPlan(
        variables={
            "big": Variable(dims=("position",), long_name="", units="", symbol="", equation="")
        },
        coordinates={},
        sizes={"position": 500_000},
    )
    store = Store.create(tmp_path / "run.zarr", provenance={}, plan={"capture": plan}, documents=12)
    for index in range(12):
        store.append(
            {"name": str(index)},
            {
                "capture": {
                    "big": np.random.default_rng(index).standard_normal(500_000).astype(np.float32)
                }
            },
        )
    store.settle()
    shard = store.path / "capture" / "big" / "c" / "0" / "0"
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    program = [
        sys.executable,
        "-c",
        "from geostat.cli.app import main; main()",
        "fit",
        str(store.path),
        "--quiet",
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "measure again with `--fresh` (of `geostat run` or `geostat capture`)" in refused(
        Said(done.returncode, done.stdout, done.stderr), code=4
    )


@pytest.mark.parametrize("command", ["fit", "doctor", "capture"])
def test_a_damaged_store_is_exit_code_4(
    tmp_path: Path, captured: Path, model_folder: Path, text_folder: Path, command: str
):
    store = tmp_path / "run.zarr"
    shutil.copytree(captured, store)
    chunk = next(
        file
        for file in (store / "capture" / "cosine_mean" / "c" / "0").rglob("*")
        if file.is_file()
    )
    if command == "capture":
        chunk.unlink()
        said = geostat(*capturing(model_folder, text_folder, store))
    else:
        data = bytearray(chunk.read_bytes())
        data[len(data) // 2] ^= 1
        chunk.write_bytes(bytes(data))
        said = geostat(command, store, *(["--quiet"] if command == "fit" else []))
    assert "measure again with `--fresh` (of `geostat run` or `geostat capture`)" in refused(
        said, code=4
    )


@pytest.mark.parametrize("command", ["fit", "confront", "capture"])
def test_a_second_writer_is_refused_and_changes_nothing(
    captured: Path, model_folder: Path, text_folder: Path, command: str
):
    capture = capturing(model_folder, text_folder, captured, documents=3)
    before = contents(captured)
    with alone(captured):
        line = refused(
            geostat(*(capture if command == "capture" else [command, captured, "--quiet"]))
        )
    assert (
        line
        == f"{captured}: another geostat command is writing there, expected no other. Wait until it"
        " ends, or use another run or --out."
    )
    assert contents(captured) == before


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, finished: Finished):
    (tmp_path / "file").write_text("in the way")
    for command in ("report", "tables"):
        line = refused(
            geostat(
                command,
                finished.store,
                "--out",
                tmp_path / "file" / "out",
                *(["--quiet"] if command == "report" else []),
            )
        )
        assert "is a file, expected a folder to write in" in line
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            errno.ENOSPC,
            (
                "a file: cannot be written (No space left on device). Free some space, or choose"
                " another --out."
            ),
        ),
        (errno.EROFS, "a file: cannot be written (Read-only file system). Choose another --out."),
        (
            errno.EACCES,
            "a file: cannot be opened (Permission denied). Check its permissions, or name another.",
        ),
    ],
)
def test_a_disk_that_refuses_is_no_failure_of_ours(
    captured: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str
):
    def refuse(*args: object, **keywords: object) -> None:
        raise OSError(code, os.strerror(code), "a file")

    monkeypatch.setattr("geostat.runs.pipeline.fit", refuse)
    assert refused(geostat("fit", captured, "--quiet")) == said


def test_what_a_user_cannot_mend_is_not_hidden(captured: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "geostat.runs.pipeline.fit",
        lambda *args, **keywords: (_ for _ in ()).throw(LookupError("of our own")),
    )
    with pytest.raises(LookupError, match="of our own"):
        geostat("fit", captured)


@pytest.mark.parametrize(
    ("given", "after"),
    [
        (["capture", "--text", ""], "--text"),
        (["fit", ""], "fit"),
        (["run", "--out", "", "--quiet"], "--out"),
    ],
)
def test_an_empty_word_is_no_path_to_the_current_folder(given: list[str], after: str):
    line = refused(geostat(*given))
    assert (
        line
        == f"an empty word after {after}, expected a value. Leave it out, or set the variable that"
        " it came from."
    )
