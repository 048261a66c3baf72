"""Effective set sizes, by command and in Python: results, resumed searches and refusals."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
import xarray as xr
from support.families import tiny, tokens
from support.losses import mean_losses
from support.spine import LENGTH, Said, geostat, refused

import geostat as gs
from empirical.intervention.cut import MODES, Cut, Mode
from empirical.intervention.rules import RANKINGS, SETS, random
from empirical.store.store import Store
from geostat.analyses.head_regime_rules import REGIMES
from geostat.experiments.effective.options import DRAWS
from geostat.experiments.session import Evaluations


@pytest.fixture(scope="module")
def words(model_folder: Path, text_folder: Path) -> list[Any]:
    size = ["--documents", 2, "--length", LENGTH, "--n", "1,2,9", "--tau", ".2,.6"]
    return ["effective", model_folder, "--text", text_folder, *size]


TWO: dict[str, Any] = {"documents": tokens(2, 24), "length": 24, "n": "1,2", "null": False}
"""Options of a small run in Python."""


def read(out: Path) -> xr.Dataset:
    return Store.open(out / "run.zarr").read("effective")


def token_ids(out: Path) -> np.ndarray:
    ids: np.ndarray = Store.open(out / "run.zarr").tree()["capture"]["token_id"].values
    return ids


@pytest.fixture(scope="module")
def measured(
    words: list[Any], captured: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], Path]:
    """The lines of the command and its folder, not to be changed."""
    out = tmp_path_factory.mktemp("effective")
    shutil.copytree(captured.parent, out, dirs_exist_ok=True)
    said = geostat(*words, "--out", out)
    assert said.code == 0, said
    return said.stdout.splitlines(), out


def test_the_command_prints_n_star_and_stores_every_loss(words, measured):
    lines, out = measured
    data, model, ids = read(out), tiny("llama"), token_ids(out)
    plain = mean_losses(model, ids)
    assert data["plain_loss"].values == pytest.approx(plain, rel=1e-5)
    assert data.attrs["targets"] == LENGTH - 1
    for mode in MODES:
        curve = data.sel(scope="all", rule="attention", mode=mode)
        tried = curve["n"].values[curve["loss"].notnull().all("document").values]
        mean = {}
        for n in tried:
            cut = Cut(rule=RANKINGS["attention"], mode=mode, n=n)
            expected = mean_losses(model, ids, lambda layer, cut=cut: cut)
            assert curve["loss"].sel(n=n).values == pytest.approx(expected, rel=1e-5)
            mean[n] = (expected / plain - 1).mean()
        for tau in (0.2, 0.6):
            above = [n for n in tried if mean[n] > tau]
            star = min(n for n in (*tried, LENGTH) if n > max(above, default=0))
            assert curve["n_star"].sel(tau=tau).item() == star
            assert star - 1 in (0, *above)
            of_mode = [line for line in lines if line.startswith(f"  all: attention, {mode}: ")]
            assert any(f"{star} token" in line for line in of_mode)
    assert data["sizes"].values.tolist() == [[2, 0], [2, 0]]  # the sizes 1, 2 and 9
    assert lines[-1] == f"run: {out / 'run.zarr'}"
    assert sorted(path.name for path in out.iterdir()) == ["run.json", "run.zarr"]
    assert "effective" in json.loads((out / "run.json").read_text())["seconds"]
    records = json.loads(geostat(*words, "--out", out, "--json", "--quiet").stdout)
    assert len(records["effective"]) == 4
    first = records["effective"][0]
    known = ("scope", "rule", "mode", "tau", "n_star", "lower", "upper", "documents")
    assert set(first) == {*known, "steps_up", "largest_step_up"}
    selected = data.sel({name: first[name] for name in ("scope", "rule", "mode")})
    assert first["steps_up"] == int(selected["steps_up"])


def needing(k: int) -> transformers.PreTrainedModel:
    """A model of one head that weighs the k marked tokens of a window alike, and no others, and
    predicts one token by all of their values: without any of them another one is likelier.

    Tokens: k marked, the target, k rivals (of all marked but one), fillers.
    """
    fillers, width = 40, 32
    config = transformers.GPT2Config(
        vocab_size=2 * k + 1 + fillers,
        n_embd=width,
        n_layer=1,
        n_head=1,
        n_positions=64,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        weight.fill_(1.0 if "ln_" in name and name.endswith("weight") else 0.0)
    embedding, attention = model.transformer.wte.weight, model.transformer.h[0].attn
    embedding[:, 0], embedding[:, 1] = -1, 1  # unmarked
    embedding[:k, 0], embedding[:k, 1] = 1, -1
    contents = torch.eye(k)
    embedding[:k, 2 : 2 + k] = contents
    embedding[k, 2 : 2 + k] = contents.sum(dim=0) / k**0.5
    embedding[k + 1 : 2 * k + 1, 2 : 2 + k] = (1 - contents) / (k - 1) ** 0.5
    embedding[2 * k + 1 :, 2 + k : 8 + k] = 0.3 * torch.randn(
        fillers, 6, generator=torch.Generator().manual_seed(0)
    )
    attention.c_attn.bias[0] = 60.0  # every query attends to the mark
    attention.c_attn.weight[0, width] = 1.0
    for i in range(2, 2 + k):
        attention.c_attn.weight[i, 2 * width + i] = 1.0
    attention.c_proj.weight.fill_diagonal_(40.0)
    return model


@pytest.mark.parametrize(
    "k", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(5, marks=pytest.mark.slow)]
)
def test_n_star_of_a_model_built_to_need_k_tokens_is_k(k, tmp_path):
    chance = np.random.default_rng(1)
    windows = [
        [*chance.permutation(k), *(2 * k + 1 + chance.permutation(40)[:20]), k, k, k, k]
        for _ in range(3)
    ]
    options = {"length": k + 24, "tau": [0.01, 0.1], "target": "last:4", "null": False, "n": "1,2"}
    run = gs.effective(needing(k), documents=windows, **options, out=tmp_path)
    assert run["effective"]["n_star"].values.tolist() == [[[[k, k], [k, k]]]]


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int, *words: Any) -> Said:
    """Call the command, and interrupt it after some interventions."""
    with monkeypatch.context() as patch:
        counted(patch, stop=after)
        said = geostat(*words)
    assert said.code == 130
    return said


def counted(monkeypatch: pytest.MonkeyPatch, stop: int | None = None) -> list[Any]:
    """Record every measured intervention; interrupt after `stop`."""
    measured: list[Any] = []
    add = Evaluations.add

    def added(self: Any, cell: Any, *more: Any) -> None:
        if len(measured) == stop:
            raise KeyboardInterrupt
        measured.append(cell)
        add(self, cell, *more)

    monkeypatch.setattr(Evaluations, "add", added)
    return measured


@pytest.mark.slow
def test_an_interrupted_search_resumes_with_the_same_result(words, measured, tmp_path, monkeypatch):
    said = interrupted(monkeypatch, 5, *words, "--out", tmp_path, "--quiet")
    assert said.stderr == (
        "geostat: interrupted: losses measured so far (5) are kept. Run the same command again to"
        " resume.\n"
    )
    (kept,) = tmp_path.glob(".run.zarr.effective-*")
    with kept.open("a") as file:
        file.write('{"cell": ["all", "attent')  # a truncated line
    cells = counted(monkeypatch)
    assert geostat(*words, "--out", tmp_path).code == 0
    whole = read(measured[1])
    assert len(cells) == int(whole["loss"].notnull().all("document").sum()) + 1 - 5
    xr.testing.assert_identical(read(tmp_path), whole)
    assert not kept.exists()


def test_a_second_command_reuses_the_losses_of_the_run(words, measured, tmp_path, monkeypatch):
    shutil.copytree(measured[1], tmp_path, dirs_exist_ok=True)
    first, cells, more = read(tmp_path), counted(monkeypatch), ["--out", tmp_path, "--quiet"]
    assert geostat(*words, *more).code == 0
    assert cells == []
    xr.testing.assert_identical(read(tmp_path), first)
    line = refused(geostat(*words, *more, "--target", "last:3"))
    assert "its effective set sizes are of --target all, expected last:3" in line
    more += ["--mode", "deletion", "--target", f"last:{LENGTH - 1}"]  # the same tokens
    assert geostat(*words[:-1], ".4", "--rule", "attention,recent", *more).code == 0
    star = read(tmp_path)["n_star"].sel(scope="all")
    assert star["tau"].values.tolist() == [0.2, 0.4, 0.6]
    before = first["n_star"].sel(scope="all", rule="attention")
    xr.testing.assert_equal(star.sel(rule="attention", tau=[0.2, 0.6]), before)
    assert bool(star.sel(mode="deletion", tau=0.4).notnull().all("rule"))


@pytest.mark.slow
def test_an_interrupted_search_has_no_n_star(words, tmp_path, monkeypatch):
    more = ["--mode", "deletion", "--out", tmp_path, "--quiet"]
    interrupted(monkeypatch, 2, *words, *more)
    assert geostat(*words, *more, "--rule", "recent").code == 0
    data = read(tmp_path).sel(mode="deletion", scope="all")
    assert bool(data["n_star"].sel(rule="attention").isnull().all())
    assert bool(data["n_star"].sel(rule="recent").notnull().all())


@pytest.mark.slow
def test_losses_of_an_interrupted_search_are_kept_until_a_fresh_start(words, tmp_path, monkeypatch):
    more = ["--mode", "deletion", "--out", tmp_path, "--quiet"]
    interrupted(monkeypatch, 3, *words, *more, "--target", "last:5")
    assert geostat(*words, *more).code == 0
    assert len(list(tmp_path.glob(".run.zarr.effective-*"))) == 1
    interrupted(monkeypatch, 1, *words, *more, "--fresh")
    (kept,) = tmp_path.glob(".run.zarr.effective-*")
    assert len(kept.read_text().splitlines()) == 2


@pytest.mark.usefixtures("two_documents")
def test_every_rule_has_the_losses_of_its_intervention(words, tmp_path):
    rules = ("random", *SETS, "sink-recent")
    arguments = ["--rule", "random", "--rule", ",".join(rules[1:])]  # repeated or comma-separated
    more = ["--out", tmp_path, "--mode", "renormalisation", "--target", "last:5", "--layers", "1,3"]
    said = geostat(*words, *arguments, *more)
    assert said.code == 0, said
    data, model, ids = read(tmp_path), tiny("llama"), token_ids(tmp_path)
    mode: Mode = "renormalisation"
    place = {"scope": "layers 1,3", "mode": mode}

    def losses(ids: np.ndarray, cut: Cut) -> np.ndarray:
        return mean_losses(model, ids, {1: cut, 3: cut}.get, 5)

    for index, row in enumerate(ids):
        drawn = [Cut(rule=random(draw, 0, index), mode=mode, n=4) for draw in range(DRAWS)]
        expected = np.mean([losses(row[None], cut) for cut in drawn])
        found = data["loss"].sel(**place, rule="random", n=4)[index]
        assert float(found) == pytest.approx(expected, rel=1e-5)
    for rule in SETS:
        sizes: list[torch.Tensor] = []
        expected = losses(ids, Cut(rule=SETS[rule], mode=mode, n=None, on_sizes=sizes.append))
        here = data.sel(**place, set_rule=rule)
        assert here["set_loss"].values == pytest.approx(expected, rel=1e-5)
        per_document = np.array([float(size.double().mean()) for size in sizes])
        assert here["set_size"].values == pytest.approx(per_document.reshape(2, -1).mean(axis=1))
        size = f"{here['set_size'].values.mean():.1f}"
        assert f"layers 1,3: {rule}, {mode}: keeps {size}" in said.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("two_documents")
def test_single_layers_and_heads(words, tmp_path):
    more = ["--mode", "deletion", "--tau", ".3", "--quiet", "--out", tmp_path]
    assert geostat(*words, *more, "--each", "layer", "--layers", "0,2").code == 0
    assert geostat(*words, *more, "--each", "head", "--head", "L1H2", "--head", "L3H0").code == 0
    assert geostat(*words, *more, "--rule", "greedy", "--head", "L1H2", "--head", "L3H0").code == 0
    data, model, ids = read(tmp_path), tiny("llama"), token_ids(tmp_path)
    assert data["scope"].values.tolist() == ["layer 0", "layer 2", "L1H2", "L3H0", "L1H2 L3H0"]
    for scope, layer, heads in (("L1H2", 1, [2]), ("L3H0", 3, [0]), ("layer 2", 2, None)):
        cut = Cut(rule=RANKINGS["attention"], mode="deletion", n=2, heads=heads)
        found = data["loss"].sel(scope=scope, rule="attention", mode="deletion", n=2)
        np.testing.assert_allclose(found, mean_losses(model, ids, {layer: cut}.get), rtol=1e-6)


@pytest.mark.slow
def test_the_heads_of_a_regime(with_regimes, tmp_path):
    shutil.copytree(with_regimes, tmp_path, dirs_exist_ok=True)
    model, ids = tiny("llama"), tokens(4, 80)
    options = {"documents": ids, "length": 80, "tau": [0.3], "null": False, "mode": "deletion"}
    run = gs.effective(model, **options, regimes=["reset"], out=tmp_path)
    label = run["heads"].to_dataset()["label"].sel(criterion="size").values
    chosen = label == REGIMES.index("reset")
    assert 0 < chosen.sum() < chosen.size
    heads = [np.flatnonzero(row).tolist() for row in chosen]
    cut = Cut(rule=RANKINGS["attention"], mode="deletion", n=2)
    expected = mean_losses(model, ids, lambda layer: replace(cut, heads=heads[layer]))
    data = run["effective"].to_dataset()
    assert data["scope"].values.tolist() == ["reset heads"]
    assert data["loss"].sel(n=2).values.ravel() == pytest.approx(expected, rel=1e-5)


class Wrapped(torch.nn.Module):
    """A module that holds a model, as peft's do."""

    def __init__(self, model: transformers.PreTrainedModel) -> None:
        super().__init__()
        self.model, self.config = model, model.config
        self.get_decoder = model.get_decoder
        self.get_output_embeddings = model.get_output_embeddings

    def forward(self, **keywords: Any) -> Any:
        return self.model(**keywords)


def test_a_model_in_training_inside_a_module_has_the_losses_of_evaluation(tmp_path):
    model, options = tiny("gemma2"), {**TWO, "tau": [0.3], "mode": "deletion"}
    model.lm_head = torch.nn.Sequential(torch.nn.Dropout(0.5), model.lm_head)
    found = []
    for training, given in ((False, model), (True, Wrapped(model))):
        model.train(training)
        out = tmp_path / str(len(found))
        found.append(gs.effective(given, **options, out=out)["effective"].to_dataset())
        assert model.training == model.lm_head[0].training == training
    xr.testing.assert_equal(found[0], found[1])
    with pytest.raises(gs.InputError, match="has no head that predicts tokens"):
        gs.effective(model.model, **options, out=tmp_path / "decoder")


def test_refused_options_are_one_line_before_anything_is_measured(words, tmp_path):
    line = refused(geostat(*words, "--layers", "4", "--out", tmp_path / "out", "--quiet"))
    assert "--layers 4: expected layers from 0 to 3" in line
    assert not (tmp_path / "out" / "run.zarr").exists()
