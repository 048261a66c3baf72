"""Statements on the softmax normaliser: agreement with the definitions, and refusals."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support.families import tiny
from support.spine import LENGTH, geostat, refused

import geostat as gs
from empirical.store.store import Store
from geostat.experiments.normaliser import dataset
from geostat.experiments.normaliser.dataset import (
    RECORDS,
    SIZE,
    TEMPERATURES,
    Heads,
    of_length,
    records,
    size_of_paper,
    sizes_of,
)
from geostat.experiments.normaliser.measure import lengths_of
from theory.normaliser.normalisers import jacobian, weights

LENGTHS = [16, 24, LENGTH]


@pytest.fixture(scope="module")
def words(model_folder: Path, text_folder: Path) -> list[Any]:
    size = ["--documents", 2, "--length", LENGTH, "--n", "1,2,9"]
    return ["normaliser", model_folder, "--text", text_folder, *size, "--lengths", "24,16"]


def by_definition(ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return means over the heads of one document, from eager weights and value projections."""
    model = tiny("llama").double()
    model.set_attn_implementation("eager")
    values: list[np.ndarray] = []
    for layer in model.get_decoder().layers:
        layer.self_attn.v_proj.register_forward_hook(
            lambda module, given, output: values.append(output[0].numpy())
        )
    out = model.get_decoder()(torch.as_tensor(ids[None].astype(np.int64)), output_attentions=True)
    found: dict[str, list[Any]] = defaultdict(list)
    for attention, value in zip(out.attentions, values, strict=True):
        alpha = attention[0].numpy()
        kv_heads = value.shape[1] // model.config.head_dim
        states = value.reshape(len(ids), kv_heads, -1).swapaxes(0, 1)
        for head, rows in enumerate(alpha):
            x = states[head * kv_heads // len(alpha)]
            by_length = [_of_row(rows[length - 1, :length], x[:length]) for length in LENGTHS]
            found["distance"].append([distance for distance, _ in by_length])
            found["distance_bound"].append([bound for _, bound in by_length])
            found["log_largest"].append([np.log(rows[length - 1].max()) for length in LENGTHS])
            found["within"].append(_within(rows[-1], x))
            jacobians = (jacobian(weights(np.log(rows[-1]), cold), cold) for cold in TEMPERATURES)
            found["response"].append([np.linalg.norm(matrix, 2) for matrix in jacobians])
    return {name: np.mean(rows, axis=0) for name, rows in found.items()}


def _of_row(alpha: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    order = sorted(range(len(alpha)), key=lambda i: (-alpha[i], i))
    inside, outside = order[:SIZE], order[SIZE:]
    y = alpha[:, None] * x
    s = sum(y[i] for i in inside)
    total = sum(np.linalg.norm(s - y[i]) for i in outside)
    share = alpha[inside].sum()
    apart = max(np.linalg.norm(x[i] - x[j]) for i in outside for j in inside)
    longest = max(np.linalg.norm(x[j]) for j in inside)
    bound = (1 - share) * apart + longest * (share * len(outside) - (1 - share))
    unit = sum(np.linalg.norm(row) for row in y)
    assert total <= bound * (1 + 1e-9)
    return total / unit, bound / unit


def _within(alpha: np.ndarray, x: np.ndarray) -> list[float]:
    order = sorted(range(len(alpha)), key=lambda i: (-alpha[i], i))
    y, shares = alpha[:, None] * x, []
    for n in sizes_of(len(alpha)).tolist():
        s = sum(y[i] for i in order[:n])
        near = [np.linalg.norm(s - y[i]) <= np.linalg.norm(s) * (1 + 1e-9) for i in order[:n]]
        shares.append(float(np.mean(near)))
    return shares


def read(out: Path) -> xr.Dataset:
    return Store.open(out / "run.zarr").read("normaliser")


@pytest.fixture(scope="module")
def measured(
    words: list[Any], captured: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], Path]:
    """The lines of the command and its folder, not to be changed."""
    out = tmp_path_factory.mktemp("normaliser")
    shutil.copytree(captured.parent, out, dirs_exist_ok=True)
    said = geostat(*words, "--out", out)
    assert said.code == 0, said
    return said.stdout.splitlines(), out


def test_the_command_gives_the_values_of_the_definitions(words, measured):
    lines, out = measured
    data = read(out)
    ids = Store.open(out / "run.zarr").tree()["capture"]["token_id"].values
    documents = [by_definition(row) for row in ids]
    mean = {name: np.mean([row[name] for row in documents], axis=0) for name in documents[0]}
    assert data["length"].values.tolist() == LENGTHS
    assert data["n"].values.tolist() == sizes_of(LENGTH).tolist()
    for name in ("distance", "distance_bound", "log_largest", "within"):
        np.testing.assert_allclose(data[name], mean[name], rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(data["response"], mean["response"], rtol=0.05)
    se = np.std([row["distance"] for row in documents], axis=0, ddof=1) / 2**0.5
    np.testing.assert_allclose(data["distance_se"], se, rtol=1e-3)
    assert (data["response_most"] <= data["norm_limit"] * (1 + 1e-9)).all()
    assert f"{float(data['power']):.3f}" in lines[1]
    assert lines[-1] == f"run: {out / 'run.zarr'}"
    assert "normaliser" in json.loads((out / "run.json").read_text())["seconds"]
    answered = json.loads(geostat(*words, "--out", out, "--json", "--quiet").stdout)
    assert answered["paper"]["critical_share"] == 0.06
    assert answered["normaliser"] == records(data)


@pytest.mark.slow
def test_measuring_again_changes_nothing(words, measured, tmp_path):
    shutil.copytree(measured[1], tmp_path, dirs_exist_ok=True)
    assert geostat(*words, "--out", tmp_path).code == 0
    before, after = (Store.open(out / "run.zarr").tree() for out in (measured[1], tmp_path))
    for group in ("capture", "normaliser"):
        xr.testing.assert_identical(after[group].to_dataset(), before[group].to_dataset())


def test_every_variable_is_described_and_lines_quote_the_paper(measured):
    data = read(measured[1])
    assert {record.name for record in RECORDS} <= set(data.data_vars)
    for name in data.data_vars:
        assert data[name].attrs["long_name"], name
        assert data[name].attrs["units"], name
    assert size_of_paper(data) == 2  # 6% of 40
    text = "\n".join(dataset.lines(data))
    for number in ("0.70 to 0.85", "0.06", "1/(4T) = 2.5", "1/(2T) = 5"):
        assert number in text


@pytest.mark.parametrize("lengths", ["8", "16,x", "41", "16,-3"])
def test_lengths_beyond_the_window_are_refused(lengths):
    expected = f"--lengths {lengths}: expected numbers of tokens from 16 to 40"
    with pytest.raises(gs.InputError, match=expected):
        lengths_of(lengths, 40)


def test_lengths_are_refused_before_anything_is_measured(words, tmp_path):
    refused(geostat(*words[:-1], "8", "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_lengths_are_parsed():
    assert lengths_of("", 1024) == [64, 128, 256, 512, 1024]
    assert lengths_of("", 100) == [16, 32, 64, 100]
    assert lengths_of(" 32, 16 ,32", 40) == [16, 32, 40]


def numbers(
    lengths: list[int], *layers: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> dict[str, Any]:
    """Return the numbers of layers, each with alpha, values and the visible positions."""
    heads = Heads(lengths, sizes_of(lengths[-1]), np.random.default_rng(5))
    for alpha, values, visible in layers:
        heads.add(alpha, values, visible)
    return heads.numbers()


def test_a_layer_that_hides_tokens_is_omitted_at_that_length():
    rng = np.random.default_rng(0)
    alpha, values = np.zeros((2, 2, 30)), rng.normal(size=(1, 30, 3))
    visible = np.zeros((2, 30), dtype=bool)
    visible[0, :20], visible[1, 10:30] = True, True  # a window of 20
    for length, head in np.ndindex(2, 2):
        alpha[length, head, visible[length]] = weights(rng.normal(size=20))
    found = numbers([20, 30], (alpha, values, visible))
    expected = np.mean([of_length(alpha[0, h, :20], values[0, :20])[0] for h in range(2)])
    np.testing.assert_allclose(found["distance"], [expected, np.nan])
    assert np.isnan([found["power"], *found["within"], found["critical_share"]]).all()


def test_the_exponent_uses_layers_that_see_all_lengths():
    """Largest weights are constant in L; those of a windowed layer are larger, at short L only."""
    values, layers = np.random.default_rng(4).normal(size=(1, 40, 3)), []
    for largest, window in ((0.9, 20), (0.3, 40)):
        alpha, visible = np.zeros((2, 1, 40)), np.zeros((2, 40), dtype=bool)
        for index, length in enumerate((20, 40)):
            seen = slice(max(0, length - window), length)
            visible[index, seen] = True
            alpha[index, 0, seen] = (1 - largest) / (min(window, length) - 1)
            alpha[index, 0, length - 1] = largest
        layers.append((alpha, values, visible))
    assert numbers([20, 40], *layers)["power"] == pytest.approx(0, abs=1e-12)


def test_weights_that_decrease_as_a_power_have_that_exponent():
    lengths, values = [16, 64, 256], np.random.default_rng(2).normal(size=(1, 256, 8))
    alpha, visible = np.zeros((3, 1, 256)), np.zeros((3, 256), dtype=bool)
    for index, length in enumerate(lengths):
        visible[index, :length] = True
        alpha[index, 0, :length] = (1 - 2 * length**-0.5) / (length - 1)
        alpha[index, 0, 3] = 2 * length**-0.5
    found = numbers(lengths, (alpha, values, visible))
    assert found["power"] == pytest.approx(0.5)
    # Lemma 1 at the measured range of logits: −log(L α_min), log(L α_max).
    least = (1 - 2 / 16) / 255
    np.testing.assert_allclose(found["below_upper"][-1], -np.log(256 * least))
    np.testing.assert_allclose(found["above_lower"][-1], np.log(256 * 2 / 16))


def test_equal_weights_and_random_values_have_chance_separability():
    values = np.random.default_rng(3).normal(size=(60, 400, 16))
    values /= np.linalg.norm(values, axis=2, keepdims=True)
    alpha, visible = np.full((1, 60, 400), 1 / 400), np.ones((1, 400), dtype=bool)
    found, n = numbers([400], (alpha, values, visible)), sizes_of(400)
    between = (n > 5) & (n < 200)  # above, random sets of one head overlap
    error = 4 * (0.25 / 60) ** 0.5
    assert (abs(found["within"] - found["within_chance"])[between] < error).all()
    assert (found["ks"] < 0.36).all()  # two samples of 60 from one distribution, level 0.001
    assert found["critical_share"] == n[0] / 400


def test_peaked_weights_differ_from_random_tokens_until_nearly_all_are_selected():
    rng = np.random.default_rng(4)
    alpha, values = weights(3 * rng.normal(size=(1, 80, 100))), rng.normal(size=(80, 100, 8))
    found = numbers([100], (alpha, values, np.ones((1, 100), dtype=bool)))
    assert (found["ks"][:6] > 0.8).all()
    assert (found["distance_by_n"][:6] > 2 * found["distance_chance"][:6]).all()
    assert found["critical_share"] > 0.5
