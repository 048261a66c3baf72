"""Invalid paths, non-UTF-8 names and damaged weights: one line each, and no files left behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.families import save, tiny
from support.places import contents
from support.spine import LENGTH, capturing, geostat, refused

import geostat as gs
from empirical.sources.paths import path_of, shown

LONG = "x" * 300
slow = pytest.mark.slow


def test_a_too_long_run_name_is_one_line():
    assert "…: is not a valid path (File name too long). Check the path." in refused(
        geostat("doctor", LONG)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": LONG}, "…: a name of 300 characters is too long for the disk. Check the path."),
        ({"model": "~nobody-of-that-name/x"}, "~nobody-of-that-name/x: no such home folder. Check"),
        ({"text": LONG}, "…: a name of 300 characters is too long"),
        ({"out": LONG}, "too long for the disk"),
    ],
)
def test_a_measurement_of_impossible_paths_is_one_line(
    tmp_path: Path, model_folder: Path, text_folder: Path, change: dict, message: str
):
    paths = {"model": model_folder, "text": text_folder, "out": tmp_path / "out"} | change
    assert message in refused(geostat(*capturing(**paths)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("keyword", ["model", "documents", "out"])
def test_a_path_with_a_nul_is_one_line(
    model_folder: Path, text_folder: Path, tmp_path: Path, keyword: str
):
    kwargs = {"model": str(model_folder), "documents": text_folder, "count": 1, "length": 9}
    with pytest.raises(gs.InputError, match="holds a NUL character, expected a path") as caught:
        gs.capture(**kwargs | {"out": tmp_path, keyword: "a\0b"})
    assert "\0" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("~nobody-of-that-name/*.txt", "no such file or folder"),
        ("a\0*", "holds a NUL character"),
        ("**a", "is not a pattern"),
        (LONG + "*", "a name of 301 characters is too long"),
        ("", "a pattern is empty"),
    ],
)
def test_patterns_without_a_match_are_one_line(pattern: str, message: str):
    with pytest.raises(gs.InputError, match=message) as caught:
        gs.documents(pattern)
    assert "\n" not in str(caught.value)


def odd(folder: Path, name: str) -> Path:
    """Return a path with a non-UTF-8 name."""
    return folder / os.fsdecode(b"\xff" + name.encode())


@slow
@pytest.mark.usefixtures("one_figure")
def test_text_and_output_paths_may_be_non_utf8(
    tmp_path: Path, model_folder: Path, text_folder: Path
):
    texts, out = odd(tmp_path, "texts"), odd(tmp_path, "out")
    shutil.copytree(text_folder, texts)
    size = ["--documents", 2, "--length", LENGTH]
    result = geostat("run", model_folder, "--text", texts, *size, "--out", out)
    assert result.code == 0, result.stderr
    assert f"run: {tmp_path}/\\xffout/run.zarr" in result.stdout
    assert gs.open(out).attrs["corpus"]["name"] == f"{tmp_path}/\\xfftexts"
    assert (out / "report.html").is_file()


def test_a_non_utf8_model_path_is_refused(tmp_path: Path, model_folder: Path, text_folder: Path):
    model = shutil.copytree(model_folder, odd(tmp_path, "model"))
    line = refused(geostat(*capturing(model, text_folder, tmp_path / "out")))
    assert line.startswith(f"{tmp_path}/\\xffmodel: has a name that is not UTF-8, expected a UTF-8")


def test_only_a_home_folder_is_expanded():
    assert shown("a/é 的\\xff.txt") == "a/é 的\\xff.txt"
    assert path_of("~", home=True) == Path.home()
    assert path_of("~") == Path("~")


def zero(part: str) -> Callable[[str, torch.Tensor], object]:
    return lambda name, weight: weight.zero_() if part in name else None


def not_a_number(part: str) -> Callable[[str, torch.Tensor], object]:
    return lambda name, weight: weight.view(-1)[3].fill_(float("nan")) if part in name else None


AFTER = "its last hidden states are NaN, infinite or all zero although its attention is finite,"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(zero("v_proj"), "every value state of the first document is zero", id="zero"),
        pytest.param(not_a_number("model.norm"), AFTER, id="last norm"),
        pytest.param(not_a_number("layers.3.mlp.down"), AFTER, id="last layer", marks=slow),
        pytest.param(
            not_a_number("layers.0.self_attn.q_proj"),
            "layer 0, head 0: NaN or infinity in the captured row",
            id="queries",
        ),
    ],
)
def test_damaged_weights_are_one_line_before_anything_is_stored(
    tmp_path: Path,
    text_folder: Path,
    spoil: Callable[[str, torch.Tensor], object],
    message: str,
):
    model = tiny("llama")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spoil(name, weight)
    save(model, tmp_path / "model")
    before = contents(tmp_path)
    assert message in refused(
        geostat(*capturing(tmp_path / "model", text_folder, tmp_path / "out"))
    )
    assert contents(tmp_path) == before
