"""Paths that no disk can hold, names that are not UTF-8, and models whose weights are damaged:
one line each, and nothing left behind.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.families import letters, tiny
from support.places import contents
from support.spine import LENGTH, geostat, refused
from transformers import PreTrainedModel

import geostat as gs
from empirical.sources.paths import path_of, shown

LONG = "x" * 300


@pytest.mark.parametrize("command", ["fit", "confront", "report", "tables", "doctor"])
def test_a_run_whose_name_is_too_long_is_one_line(command: str):
    assert "…: is no path the disk can hold (File name too long). Check the path." in refused(
        geostat(command, LONG)
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([LONG], "…: a name of 300 characters is too long for the disk. Check the path."),
        (
            ["~nobody-of-that-name/x"],
            "~nobody-of-that-name/x: no such home folder. Check the path.",
        ),
        (["{model}", "--text", LONG], "…: a name of 300 characters is too long"),
        (["{model}", "--out", LONG], "too long for the disk"),
    ],
)
def test_a_measurement_of_impossible_paths_is_one_line(
    tmp_path: Path, model_folder: Path, text_folder: Path, given: list[str], said: str
):
    text = [] if "--text" in given else ["--text", text_folder]
    given = [argument.format(model=model_folder) for argument in given]
    assert said in refused(
        geostat(
            "capture",
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
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given", [{"model": "a\0b"}, {"documents": "a\0b"}, {"out": "a\0b"}])
def test_a_path_with_a_nul_is_one_line(
    model_folder: Path, text_folder: Path, tmp_path: Path, given: dict
):
    asked = {
        "model": str(model_folder),
        "documents": text_folder,
        "count": 1,
        "length": 9,
        "out": tmp_path,
    } | given
    with pytest.raises(gs.InputError, match="holds a NUL character, expected a path") as caught:
        gs.capture(**asked)
    assert "\0" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("~nobody-of-that-name/*.txt", "no such file or folder"),
        ("a\0*", "holds a NUL character"),
        ("**a", "is no pattern"),
        (LONG + "*", "a name of 301 characters is too long"),
        ("", "a pattern is empty"),
    ],
)
def test_patterns_that_name_nothing_are_one_line(pattern: str, said: str):
    with pytest.raises(gs.InputError, match=said) as caught:
        gs.documents(pattern)
    assert "\n" not in str(caught.value)


def test_a_pattern_may_start_at_the_root(tmp_path: Path):
    (tmp_path / "a.txt").write_text("text")
    assert gs.documents(f"{tmp_path}/*.txt") == (tmp_path / "a.txt",)


def odd(folder: Path, name: str) -> Path:
    """A path whose name is not UTF-8."""
    return folder / os.fsdecode(b"\xff" + name.encode())


@pytest.mark.slow
def test_text_and_output_under_names_that_are_not_utf8_go_the_whole_way(
    tmp_path: Path, model_folder: Path, text_folder: Path, one_figure: None
):
    texts, out = odd(tmp_path, "texts"), odd(tmp_path, "out")
    shutil.copytree(text_folder, texts)
    said = geostat(
        "run", model_folder, "--text", texts, "--documents", 2, "--length", LENGTH, "--out", out
    )
    assert said.code == 0, said.stderr
    assert f"run: {tmp_path}/\\xffout/run.zarr" in said.stdout
    assert gs.open(out).attrs["corpus"]["name"] == f"{tmp_path}/\\xfftexts"
    assert (out / "report.html").is_file()


def test_a_model_under_a_name_that_is_not_utf8_is_refused(
    tmp_path: Path, model_folder: Path, text_folder: Path
):
    shutil.copytree(model_folder, odd(tmp_path, "model"))
    line = refused(
        geostat("capture", odd(tmp_path, "model"), "--text", text_folder, "--out", tmp_path / "out")
    )
    assert (
        line
        == f"{tmp_path}/\\xffmodel: has a name that is not UTF-8, expected one that the readers of"
        " weights can open. Rename it."
    )


def test_what_is_shown_of_a_path_is_itself_or_tells_it_from_every_other():
    assert shown("a/é 的.txt") == "a/é 的.txt"
    assert shown("a\\xff") == "a\\xff"
    assert shown(os.fsdecode(b"a\xff")) == "a\\xff"
    assert shown(os.fsdecode(b"a\xff\\xff")) == "a\\xff\\\\xff"
    assert path_of("~", home=True) == Path.home()
    assert path_of("~") == Path("~")


def zero(*parts: str) -> Callable[[str, torch.Tensor], object]:
    return lambda name, weight: weight.zero_() if any(part in name for part in parts) else None


def not_a_number(part: str) -> Callable[[str, torch.Tensor], object]:
    return lambda name, weight: weight.view(-1)[3].fill_(float("nan")) if part in name else None


AFTER = (
    "llama: its last hidden states are NaN, infinite or all zero though its attention is sound, so"
    " weights are damaged."
)
DAMAGE = {
    "all zero": (zero(""), "llama: every value state of the first document is zero"),
    "values zero": (zero("v_proj"), "llama: every value state of the first document is zero"),
    "last norm": (not_a_number("model.norm"), AFTER),
    "last output": (not_a_number("layers.3.self_attn.o_proj"), AFTER),
    "last layer": (not_a_number("layers.3.mlp.down"), AFTER),
    "queries": (not_a_number("layers.0.self_attn.q_proj"), "NaN or infinity in the captured row"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_weights_are_one_line_before_anything_is_kept(
    tmp_path: Path, text_folder: Path, name: str
):
    spoil, said = DAMAGE[name]
    model: PreTrainedModel = tiny("llama")
    with torch.no_grad():
        for weight, values in model.named_parameters():
            spoil(weight, values)
    model.save_pretrained(tmp_path / "model")
    letters().save_pretrained(tmp_path / "model")
    before = contents(tmp_path)
    line = refused(
        geostat(
            "capture",
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
    assert said in line
    assert contents(tmp_path) == before
