"""The normaliser's statements of a run's heads, by command and in Python: as by definition, in a
run that is there, refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support.families import tiny, tokens
from support.spine import LENGTH, geostat, refused

import geostat as gs
from empirical.store.store import Store
from geostat.display.tree import PAPER
from geostat.experiments.normaliser_dataset import VARIABLES
from geostat.experiments.normaliser_numbers import SIZE, TEMPERATURES, Heads, of_length, sizes_of
from geostat.runs.normaliser.normaliser import lengths_of
from geostat.runs.normaliser.told import lines, records, size_of_paper
from theory.normaliser.normalisers import jacobian, weights

LENGTHS = [16, 24, LENGTH]


@pytest.fixture
def words(model_folder: Path, text_folder: Path) -> list[Any]:
    size = ["--documents", 2, "--length", LENGTH, "--n", "1,2,9", "--no-null"]
    return ["normaliser", model_folder, "--text", text_folder, *size, "--lengths", "24,16"]


def by_definition(ids: np.ndarray) -> dict[str, np.ndarray]:
    """Means over the heads of one document, from eager weights and the values' projections."""
    model = tiny("llama").double()
    model.set_attn_implementation("eager")
    values: list[np.ndarray] = []
    hooks = [
        layer.self_attn.v_proj.register_forward_hook(
            lambda _module, _inputs, out: values.append(out[0].numpy())
        )
        for layer in model.get_decoder().layers
    ]
    out = model.get_decoder()(torch.as_tensor(ids[None].astype(np.int64)), output_attentions=True)
    for hook in hooks:
        hook.remove()
    found: dict[str, list[Any]] = {
        name: [] for name in ("distance", "bound", "largest", "within", "response")
    }
    for attention, value in zip(out.attentions, values, strict=True):
        alpha = attention[0].numpy()
        kv_heads = value.shape[1] // model.config.head_dim
        states = value.reshape(len(ids), kv_heads, -1).swapaxes(0, 1)
        for head, rows in enumerate(alpha):
            x = states[head * kv_heads // len(alpha)]
            by_length = [_of_row(rows[length - 1, :length], x[:length]) for length in LENGTHS]
            found["distance"].append([one[0] for one in by_length])
            found["bound"].append([one[1] for one in by_length])
            found["largest"].append([np.log(rows[length - 1].max()) for length in LENGTHS])
            found["within"].append(_within(rows[-1], x))
            norms = [
                np.linalg.norm(jacobian(weights(np.log(rows[-1]), cold), cold), 2)
                for cold in TEMPERATURES
            ]
            found["response"].append(norms)
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


def test_the_command_tells_what_follows_from_the_definitions(
    words: list[Any], tmp_path: Path
) -> None:
    said = geostat(*words, "--out", tmp_path)
    assert said.code == 0, said
    data = read(tmp_path)
    ids = Store.open(tmp_path / "run.zarr").tree()["capture"]["token_id"].values
    each = [by_definition(row) for row in ids]
    mean = {name: np.mean([one[name] for one in each], axis=0) for name in each[0]}
    assert data["length"].values.tolist() == LENGTHS
    assert data["n"].values.tolist() == sizes_of(LENGTH).tolist()
    for name, of in (
        ("distance", "distance"),
        ("distance_bound", "bound"),
        ("log_largest", "largest"),
        ("within", "within"),
    ):
        np.testing.assert_allclose(data[name], mean[of], rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(data["response"], mean["response"], rtol=0.05)
    se = np.std([one["distance"] for one in each], axis=0, ddof=1) / 2**0.5
    np.testing.assert_allclose(data["distance_se"], se, rtol=1e-3)
    assert (data["response_most"] <= data["norm_limit"] * (1 + 1e-9)).all()
    told = said.stdout.splitlines()
    assert f"{float(data['power']):.3f}" in told[1]
    assert told[-1] == f"run: {tmp_path / 'run.zarr'}"
    assert "normaliser" in json.loads((tmp_path / "run.json").read_text())["seconds"]
    answered = json.loads(geostat(*words, "--out", tmp_path, "--json", "--quiet").stdout)
    assert answered["paper"]["critical_share"] == 0.06
    assert answered["normaliser"] == records(data)


@pytest.mark.slow
def test_it_goes_into_a_run_that_is_there_and_comes_out_the_same(
    words: list[Any], tmp_path: Path
) -> None:
    captured = ["capture", *words[1:-2], "--out", tmp_path, "--quiet"]
    assert geostat(*captured).code == 0
    before = Store.open(tmp_path / "run.zarr").tree()["capture"].to_dataset()
    assert geostat(*words, "--out", tmp_path).code == 0
    first = read(tmp_path)
    assert Store.open(tmp_path / "run.zarr").tree()["capture"].to_dataset().identical(before)
    assert geostat(*words, "--out", tmp_path).code == 0
    assert read(tmp_path).identical(first)


def test_a_model_in_memory_is_looked_at_as_it_is(tmp_path: Path) -> None:
    ids = tokens(2, 20).tolist()
    run = gs.normaliser(
        tiny("gpt2"), documents=ids, length=20, lengths=[16], out=tmp_path, n="1,2", null=False
    )
    data = run["normaliser"].to_dataset()
    assert data["length"].values.tolist() == [16, 20]
    assert np.isfinite(data["distance"]).all()
    assert (data["distance"] <= data["distance_bound"]).all()


@pytest.mark.slow
def test_every_number_is_described_and_lines_name_the_papers_figures(
    words: list[Any], tmp_path: Path
) -> None:
    assert geostat(*words, "--out", tmp_path).code == 0
    data = read(tmp_path)
    assert {one.name for one in VARIABLES} <= set(data.data_vars)
    for name in data.data_vars:
        assert data[name].attrs["long_name"], name
        assert data[name].attrs["units"], name
    assert size_of_paper(data) == 2  # 6% of 40
    text = "\n".join(lines(data))
    for number in ("0.70 to 0.85", "0.06", "1/(4T) = 2.5", "1/(2T) = 5"):
        assert number in text
    assert set(PAPER["paper_normaliser"]) >= {"model", "source", "within", "critical_share"}


@pytest.mark.parametrize("lengths", ["8", "16,x", f"{LENGTH + 1}", "16,-3"])
def test_lengths_that_a_window_does_not_have_are_refused(
    lengths: str, words: list[Any], tmp_path: Path
) -> None:
    line = refused(geostat(*words[:-1], lengths, "--out", tmp_path))
    assert f"--lengths {lengths}: expected numbers of tokens from 16 to {LENGTH}" in line
    assert not tmp_path.exists() or not list(tmp_path.iterdir())


def test_lengths_are_read() -> None:
    assert lengths_of("", 1024) == [64, 128, 256, 512, 1024]
    assert lengths_of("", 1000) == [64, 128, 256, 512, 1000]
    assert lengths_of("", 100) == [16, 32, 64, 100]
    assert lengths_of("", 40) == [16, 32, 40]
    assert lengths_of(" 32, 16 ,32", 40) == [16, 32, 40]


def row(seed: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return weights(rng.normal(size=length)), rng.normal(size=(length, 3))


def test_a_layer_that_does_not_see_a_length_is_left_out_there() -> None:
    rng = np.random.default_rng(0)
    alpha, values = np.zeros((2, 2, 30)), rng.normal(size=(1, 30, 3))
    visible = np.zeros((2, 30), dtype=bool)
    visible[0, :20], visible[1, 10:30] = True, True  # a window of 20
    for at, head in np.ndindex(2, 2):
        alpha[at, head, visible[at]] = weights(rng.normal(size=20))
    heads = Heads([20, 30], sizes_of(30), rng)
    heads.add(alpha, values, visible)
    found = heads.numbers()
    expected = np.mean([of_length(alpha[0, h, :20], values[0, :20])[0] for h in range(2)])
    np.testing.assert_allclose(found["distance"], [expected, np.nan])
    assert np.isnan(found["power"])
    assert np.isnan(found["within"]).all()
    assert np.isnan(found["critical_share"])


def test_the_fall_of_the_largest_weight_is_of_layers_that_see_all_lengths() -> None:
    """Every layer's largest weight is level; a window layer's is larger, at the short length."""
    rng = np.random.default_rng(4)
    heads = Heads([20, 40], sizes_of(40), rng)
    values = rng.normal(size=(1, 40, 3))
    for largest, window in ((0.9, 20), (0.3, 40)):
        alpha, visible = np.zeros((2, 1, 40)), np.zeros((2, 40), dtype=bool)
        for at, length in enumerate((20, 40)):
            seen = slice(max(0, length - window), length)
            visible[at, seen] = True
            alpha[at, 0, seen] = (1 - largest) / (min(window, length) - 1)
            alpha[at, 0, length - 1] = largest
        heads.add(alpha, values, visible)
    assert heads.numbers()["power"] == pytest.approx(0, abs=1e-12)


def test_weights_that_fall_as_a_power_of_the_length_have_that_power() -> None:
    heads = Heads([16, 64, 256], sizes_of(256), np.random.default_rng(1))
    alpha, visible = np.zeros((3, 1, 256)), np.zeros((3, 256), dtype=bool)
    for at, length in enumerate(heads.lengths):
        visible[at, :length] = True
        alpha[at, 0, :length] = (1 - 2 * length**-0.5) / (length - 1)
        alpha[at, 0, 3] = 2 * length**-0.5
    heads.add(alpha, np.random.default_rng(2).normal(size=(1, 256, 8)), visible)
    found = heads.numbers()
    assert found["power"] == pytest.approx(0.5)
    # Lemma 1 at the measured range of logits: −log(L α_min), log(L α_max).
    least = (1 - 2 / 16) / 255
    np.testing.assert_allclose(found["below_upper"][-1], -np.log(256 * least))
    np.testing.assert_allclose(found["above_lower"][-1], np.log(256 * 2 / 16))


def test_of_flat_weights_and_random_values_separability_is_that_of_chance() -> None:
    rng = np.random.default_rng(3)
    heads = Heads([400], sizes_of(400), rng)
    values = rng.normal(size=(60, 400, 16))
    values /= np.linalg.norm(values, axis=2, keepdims=True)
    heads.add(np.full((1, 60, 400), 1 / 400), values, np.ones((1, 400), dtype=bool))
    found = heads.numbers()
    for at, n in enumerate(heads.n.tolist()):
        if 5 < n < 200:  # beyond, random sets of one head overlap
            error = 4 * (0.25 / 60) ** 0.5
            assert abs(found["within"][at] - found["within_chance"][at]) < error
    assert (found["ks"] < 0.36).all()  # two samples of 60 that are alike; level 0.001
    assert found["critical_share"] == heads.n[0] / 400


def test_peaked_weights_are_told_from_random_tokens_until_nearly_all_are_selected() -> None:
    rng = np.random.default_rng(4)
    heads = Heads([100], sizes_of(100), rng)
    alpha = weights(3 * rng.normal(size=(1, 80, 100)))
    heads.add(alpha, rng.normal(size=(80, 100, 8)), np.ones((1, 100), dtype=bool))
    found = heads.numbers()
    assert (found["ks"][:6] > 0.8).all()
    assert (found["distance_by_n"][:6] > 2 * found["distance_chance"][:6]).all()
    assert found["critical_share"] > 0.5
