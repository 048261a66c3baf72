"""Effective set sizes of a run's model, by command and in Python: found, gone on with, refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
import xarray as xr
from support.families import tiny, tokens
from support.spine import LENGTH, Said, geostat, refused

import geostat as gs
from empirical.intervention.cut import MODES, Cut, Mode, intervened
from empirical.intervention.loss import next_token_losses
from empirical.intervention.rules import RANKINGS, SETS, random
from empirical.store.store import Store
from geostat.experiments.effective_size import Cell
from geostat.experiments.head_regime_rules import REGIMES
from geostat.runs.effective import effective as module
from geostat.runs.effective.asked import DRAWS
from geostat.runs.effective.evaluations import Evaluations


@pytest.fixture
def words(model_folder: Path, text_folder: Path) -> list[Any]:
    size = ["--documents", 2, "--length", LENGTH, "--n", "1,2,9", "--no-null", "--tau", ".2,.6"]
    return ["effective", model_folder, "--text", text_folder, *size]


def read(out: Path) -> xr.Dataset:
    return Store.open(out / "run.zarr").read("effective")


def losses(
    model: transformers.PreTrainedModel,
    ids: np.ndarray,
    cut: Cut | None,
    targets: int | None = None,
    layers: tuple[int, ...] = (0, 1, 2, 3),
) -> np.ndarray:
    """The mean loss of each document, from the intervention itself."""
    out = []
    for row in torch.as_tensor(ids, dtype=torch.long):
        hidden = intervened(model, row[None], lambda layer: cut if layer in layers else None)
        out.append(float(next_token_losses(model, hidden, row[None], targets).double().mean()))
    return np.array(out)


def test_the_command_tells_n_star_and_keeps_every_loss(words: list[Any], tmp_path: Path) -> None:
    said = geostat(*words, "--out", tmp_path)
    assert said.code == 0, said
    data, model = read(tmp_path), tiny("llama")
    ids = Store.open(tmp_path / "run.zarr").tree()["capture"]["token_id"].values
    plain = losses(model, ids, None)
    assert data["plain_loss"].values == pytest.approx(plain, rel=1e-5)
    assert data.attrs["targets"] == LENGTH - 1
    told = said.stdout.splitlines()
    for mode in MODES:
        every = np.stack(
            [
                losses(model, ids, Cut(rule=RANKINGS["attention"], mode=mode, n=n))
                for n in range(1, LENGTH)
            ]
        )
        curve = data.sel(scope="all", rule="attention", mode=mode)
        tried = curve["n"].values[curve["loss"].notnull().all("document").values]
        for n in tried:
            assert curve["loss"].sel(n=n).values == pytest.approx(every[n - 1], rel=1e-5)
        mean = (every / plain - 1).mean(axis=1)
        for tau in (0.2, 0.6):
            above = [n for n in tried if mean[n - 1] > tau]
            star = min(n for n in (*tried, LENGTH) if n > max(above, default=0))
            assert curve["n_star"].sel(tau=tau).item() == star
            assert star - 1 in (0, *above)
            assert any(
                line.startswith(f"  all: attention, {mode}: ") and f"{star} token" in line
                for line in told
            )
    assert data["sizes"].values.tolist() == [[2, 0], [2, 0]]  # of 1, 2 and 9
    assert told[-1] == f"run: {tmp_path / 'run.zarr'}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "run.zarr"]
    assert "effective" in json.loads((tmp_path / "run.json").read_text())["seconds"]
    records = json.loads(geostat(*words, "--out", tmp_path, "--json", "--quiet").stdout)
    assert len(records["effective"]) == 4
    first = records["effective"][0]
    known = ("scope", "rule", "mode", "tau", "n_star", "lower", "upper", "documents")
    assert set(first) == {*known, "steps_up", "largest_step_up"}
    at = data.sel({name: first[name] for name in ("scope", "rule", "mode")})
    assert first["steps_up"] == int(at["steps_up"])


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
    attention.c_attn.bias[0] = 60.0  # every query asks for the mark
    attention.c_attn.weight[0, width] = 1.0
    for i in range(2, 2 + k):
        attention.c_attn.weight[i, 2 * width + i] = 1.0
    attention.c_proj.weight.fill_diagonal_(40.0)
    return model


@pytest.mark.parametrize(
    "k", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(5, marks=pytest.mark.slow)]
)
def test_n_star_is_the_number_of_tokens_that_heads_were_built_to_need(
    k: int, tmp_path: Path
) -> None:
    chance = np.random.default_rng(1)
    windows = [
        [*chance.permutation(k), *(2 * k + 1 + chance.permutation(40)[:20]), k, k, k, k]
        for _ in range(3)
    ]
    run = gs.effective(
        needing(k),
        documents=windows,
        length=k + 24,
        out=tmp_path,
        tau=[0.01, 0.1],
        target="last:4",
        null=False,
    )
    assert run["effective"]["n_star"].values.tolist() == [[[[k, k], [k, k]]]]


def counted(monkeypatch: pytest.MonkeyPatch, stop: int | None = None) -> list[Any]:
    """Note every cut whose losses are measured; interrupt the one after `stop`."""
    measured: list[Any] = []
    own = module.Losses._documents

    def documents(self: Any, cell: Any, *more: Any) -> Any:
        if len(measured) == stop:
            raise KeyboardInterrupt
        measured.append(cell)
        return own(self, cell, *more)

    monkeypatch.setattr(module.Losses, "_documents", documents)
    return measured


@pytest.mark.slow
def test_what_is_interrupted_goes_on_and_ends_like_what_was_not(
    words: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert geostat(*words, "--out", tmp_path / "whole").code == 0
    with monkeypatch.context() as patch:
        counted(patch, stop=5)
        said = geostat(*words, "--out", tmp_path / "parts", "--quiet")
    assert said.code == 130
    assert said.stderr == (
        "geostat: interrupted: losses measured so far (5) are kept. Run the same command again to"
        " go on.\n"
    )
    (kept,) = (tmp_path / "parts").glob(".run.zarr.effective-*")
    with kept.open("a") as file:
        file.write('{"cell": ["all", "attent')  # a line that was cut short
    measured = counted(monkeypatch)
    assert geostat(*words, "--out", tmp_path / "parts").code == 0
    whole = read(tmp_path / "whole")
    assert len(measured) == int(whole["loss"].notnull().all("document").sum()) + 1 - 5
    xr.testing.assert_identical(read(tmp_path / "parts"), whole)
    assert not kept.exists()


def test_losses_of_something_else_are_not_taken(tmp_path: Path) -> None:
    first = Evaluations(tmp_path / "kept", {"target": "all"})
    first.add(module.PLAIN, np.array([1.0, 2.0]))
    same, other = (Evaluations(tmp_path / "kept", {"target": t}) for t in ("all", "last:2"))
    same.read()
    assert same.losses[module.PLAIN].tolist() == [1.0, 2.0]
    other.read()
    assert other.losses == {}
    whole = (tmp_path / "kept").read_text()
    for row in ('{"cell": 5, "losses": []}', '{"cell": ["a"]}', '{"losses": [1]}', "[]", "x"):
        (tmp_path / "kept").write_text(f"{whole}{row}\n")
        edited = Evaluations(tmp_path / "kept", {"target": "all"})
        edited.read()
        assert list(edited.losses) == [module.PLAIN]
        assert (tmp_path / "kept").read_text() == whole
    (tmp_path / "kept").write_bytes(b"\xff\n")
    edited.losses.clear()
    edited.read()
    assert edited.losses == {}
    other.add(module.PLAIN, np.array([3.0]))
    first.losses.clear()
    first.read()
    assert first.losses == {}


def test_asked_again_it_goes_on_with_what_the_run_holds(
    words: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ["--mode", "deletion", "--out", tmp_path, "--quiet"]
    assert geostat(*words, *more).code == 0
    first, measured = read(tmp_path), counted(monkeypatch)
    assert geostat(*words, *more).code == 0
    assert measured == []
    xr.testing.assert_identical(read(tmp_path), first)
    assert geostat(*words, *more, "--rule", "recent", "--layers", "1-2").code == 0
    second = read(tmp_path)
    assert second["scope"].values.tolist() == ["all", "layers 1,2"]
    xr.testing.assert_equal(
        second["n_star"].sel(scope="all", rule="attention"),
        first["n_star"].sel(scope="all", rule="attention"),
    )
    assert bool(second["n_star"].sel(scope="all", rule="recent").isnull().all())
    assert bool(second["n_star"].sel(scope="layers 1,2", rule="recent").notnull().all())
    line = refused(geostat(*words, *more, "--target", "last:3"))
    assert "its effective set sizes are of --target all, this asks for last:3" in line
    assert geostat(*words, *more, "--target", f"last:{LENGTH - 1}").code == 0  # the same tokens
    assert geostat(*words[:-1], ".4", *more).code == 0
    third = read(tmp_path)
    assert third["tau"].values.tolist() == [0.2, 0.4, 0.6]
    xr.testing.assert_equal(third["n_star"].sel(tau=[0.2, 0.6]), second["n_star"])
    found = third["n_star"].sel(scope="all", rule="attention", mode="deletion", tau=0.4)
    assert bool(found.notnull())


@pytest.mark.slow
def test_an_interrupted_search_tells_no_size_and_another_target_leaves_it(
    words: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ["--mode", "deletion", "--out", tmp_path, "--quiet"]
    with monkeypatch.context() as patch:
        counted(patch, stop=2)
        assert geostat(*words, *more).code == 130
    assert geostat(*words, *more, "--rule", "recent").code == 0
    data = read(tmp_path).sel(mode="deletion", scope="all")
    assert bool(data["n_star"].sel(rule="attention").isnull().all())
    assert bool(data["n_star"].sel(rule="recent").notnull().all())
    other = tmp_path / "other"
    with monkeypatch.context() as patch:
        counted(patch, stop=3)
        assert geostat(*words, *more[:-2], other, "--quiet", "--target", "last:5").code == 130
    assert geostat(*words, *more[:-2], other, "--quiet").code == 0
    assert len(list(other.glob(".run.zarr.effective-*"))) == 1
    measured = counted(monkeypatch, stop=1)
    assert geostat(*words, *more[:-2], other, "--quiet", "--fresh").code == 130
    assert len(measured) == 1
    (kept,) = other.glob(".run.zarr.effective-*")
    assert len(kept.read_text().splitlines()) == 2


def test_every_rule_is_what_it_says(words: list[Any], tmp_path: Path) -> None:
    rules = ("random", *SETS, "sink-recent")
    asked = ["--rule", "random", "--rule", ",".join(rules[1:])]  # repeated, or with commas
    more = ["--out", tmp_path, "--mode", "renormalisation", "--target", "last:5", "--layers", "1,3"]
    said = geostat(*words, *asked, *more)
    assert said.code == 0, said
    data, model = read(tmp_path), tiny("llama")
    ids = Store.open(tmp_path / "run.zarr").tree()["capture"]["token_id"].values
    mode: Mode = "renormalisation"
    place = {"scope": "layers 1,3", "mode": mode}
    drawn = [
        [
            losses(model, row[None], Cut(rule=random(draw, 0, at), mode=mode, n=4), 5, (1, 3))[0]
            for at, row in enumerate(ids)
        ]
        for draw in range(DRAWS)
    ]
    found = data["loss"].sel(**place, rule="random", n=4)
    assert found.values == pytest.approx(np.mean(drawn, axis=0), rel=1e-5)
    for rule in SETS:
        sizes: list[torch.Tensor] = []
        cut = Cut(rule=SETS[rule], mode=mode, n=None, on_sizes=sizes.append)
        expected = losses(model, ids, cut, 5, (1, 3))
        here = data.sel(**place, set_rule=rule)
        assert here["set_loss"].values == pytest.approx(expected, rel=1e-5)
        per_document = np.array([float(one.double().mean()) for one in sizes])
        assert here["set_size"].values == pytest.approx(per_document.reshape(2, -1).mean(axis=1))
        assert (
            f"layers 1,3: {rule}, {mode}: keeps {here['set_size'].values.mean():.1f}" in said.stdout
        )


@pytest.mark.slow
def test_layers_and_heads_by_themselves(words: list[Any], tmp_path: Path) -> None:
    more = ["--mode", "deletion", "--tau", ".3", "--quiet", "--out", tmp_path]
    assert geostat(*words, *more, "--each", "layer", "--layers", "0,2").code == 0
    assert geostat(*words, *more, "--each", "head", "--head", "L1H2", "--head", "L3H0").code == 0
    assert geostat(*words, *more, "--rule", "greedy", "--head", "L1H2", "--head", "L3H0").code == 0
    data, model = read(tmp_path), tiny("llama")
    assert data["scope"].values.tolist() == ["layer 0", "layer 2", "L1H2", "L3H0", "L1H2 L3H0"]
    ids = Store.open(tmp_path / "run.zarr").tree()["capture"]["token_id"].values
    for scope, layer, heads in (("L1H2", 1, [2]), ("L3H0", 3, [0]), ("layer 2", 2, None)):
        cut = Cut(rule=RANKINGS["attention"], mode="deletion", n=2, heads=heads)
        found = data["loss"].sel(scope=scope, rule="attention", mode="deletion", n=2)
        np.testing.assert_allclose(found, losses(model, ids, cut, layers=(layer,)), rtol=1e-6)


@pytest.mark.slow
def test_the_heads_of_a_regime(with_regimes: Path, tmp_path: Path) -> None:
    shutil.copytree(with_regimes, tmp_path, dirs_exist_ok=True)
    model, ids = tiny("llama"), tokens(4, 80).numpy()
    asked: dict[str, Any] = {"documents": list(ids), "length": 80, "tau": [0.3], "null": False}
    asked |= {"mode": "deletion", "out": tmp_path}
    run = gs.effective(model, **asked, regimes=["reset"])
    label = run["heads"].to_dataset()["label"].sel(criterion="size").values
    chosen = label == REGIMES.index("reset")
    assert 0 < chosen.sum() < chosen.size
    cuts = [
        Cut(rule=RANKINGS["attention"], mode="deletion", n=2, heads=np.flatnonzero(row).tolist())
        for row in chosen
    ]
    expected = []
    for row in torch.as_tensor(ids, dtype=torch.long):
        hidden = intervened(model, row[None], lambda layer: cuts[layer])
        expected.append(float(next_token_losses(model, hidden, row[None], None).double().mean()))
    data = run["effective"].to_dataset()
    assert data["scope"].values.tolist() == ["reset heads"]
    assert data["loss"].sel(n=2).values.ravel() == pytest.approx(expected, rel=1e-5)
    alone = gs.effective(model, **asked, regimes=["reset"], each="head")["effective"]
    names = [f"L{layer}H{head}" for layer, head in zip(*chosen.nonzero(), strict=True)]
    assert alone["scope"].values.tolist() == ["reset heads", *names]
    absent = next(code for code in (1, 2, 3) if not (label == code).any())
    with pytest.raises(gs.InputError, match="no head of this run is one"):
        gs.effective(model, **asked, regimes=[REGIMES[absent]])


class Wrapped(torch.nn.Module):
    """A module that holds a model, as peft's do."""

    def __init__(self, model: transformers.PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.config = model.config

    def get_decoder(self) -> torch.nn.Module:
        return self.model.get_decoder()

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.model.get_output_embeddings()

    def forward(self, **keywords: Any) -> Any:
        return self.model(**keywords)


def _spoilt(model: transformers.PreTrainedModel, where: str) -> None:
    weights = {
        "head": model.lm_head.weight,
        "last norm": model.model.norm.weight,
        "last layer": model.model.layers[3].mlp.down_proj.weight,
    }
    with torch.no_grad():
        weights[where][5] = torch.inf if where == "last norm" else torch.nan


@pytest.mark.parametrize(
    "where", ["head", pytest.param("last norm", marks=pytest.mark.slow), "last layer"]
)
@pytest.mark.parametrize("what", [gs.effective, pytest.param(gs.ablate, marks=pytest.mark.slow)])
def test_a_loss_that_is_no_number_is_refused(tmp_path: Path, where: str, what: Any) -> None:
    asked: dict[str, Any] = {"documents": tokens(2, 40), "length": 40, "n": "1,2,9", "null": False}
    if what is gs.ablate:
        asked |= {"sizes": [1, 4], "parts": "heads"}
    model = tiny("llama")
    _spoilt(model, where)
    with pytest.raises(gs.InputError) as caught:
        what(model, out=tmp_path, **asked)
    said = str(caught.value)
    assert "weights are damaged" in said if where != "head" else "next-token loss is nan" in said
    assert "\n" not in said
    assert "effective" not in Store.open(tmp_path / "run.zarr").results if where == "head" else True


def test_a_loss_of_nothing_has_no_shares(tmp_path: Path) -> None:
    model, document = tiny("llama"), torch.full((40,), 3)
    document[0] = 5
    certain = 1e4 * torch.nn.functional.one_hot(torch.tensor(3), 97)
    model.lm_head.register_forward_hook(lambda module, given, logits: logits * 0 + certain)
    with pytest.raises(gs.InputError, match="document 0: the model's next-token loss is 0"):
        gs.effective(model, documents=[document], length=40, n="1,2", null=False, out=tmp_path)


OTHER_HEADS: dict[str, Any] = {
    "hook": lambda model: model.lm_head.register_forward_hook(lambda m, given, logits: logits / 2),
    "weights": lambda model: model.lm_head.weight.mul_(1.5),
    "forward": lambda model: setattr(
        model.lm_head, "forward", lambda x: x @ model.model.embed_tokens.weight.T
    ),
}


@pytest.mark.parametrize(
    "change", ["hook", *(pytest.param(name, marks=pytest.mark.slow) for name in [*OTHER_HEADS][1:])]
)
def test_losses_of_another_head_are_not_set_beside_those_that_stand_there(
    tmp_path: Path, change: str
) -> None:
    asked: dict[str, Any] = {"documents": tokens(2, 40), "length": 40, "n": "1,2", "null": False}
    asked |= {"mode": "deletion", "out": tmp_path}
    model = tiny("llama")
    first = gs.effective(model, tau=0.5, **asked)
    OTHER_HEADS[change](model)
    for more in ({"tau": 0.5}, {"tau": 0.5, "rules": ["recent"]}):
        with pytest.raises(gs.InputError, match=r"as of another head\. Use fresh=True"):
            gs.effective(model, **asked, **more)
    xr.testing.assert_identical(gs.open(tmp_path)["effective"].ds, first["effective"].ds)


def test_kept_losses_that_are_no_numbers_are_measured_again(tmp_path: Path) -> None:
    kept = Evaluations(tmp_path / "losses", {"of": "it"})
    kept.add(Cell("all", "recent", "deletion", 4), np.array([1.0, 2.0]))
    kept.add(Cell("all", "recent", "deletion", 8), np.array([1.5, 2.5]))
    text = kept.path.read_text()
    for other in ("NaN", "Infinity", "null", "-1e999"):
        kept.path.write_text(text.replace("1.5", other))
        again = Evaluations(kept.path, {"of": "it"})
        again.read()
        assert [cell.n for cell in again.losses] == [4]


ROWS: list[dict[str, Any]] = [
    {"x": 1},
    {"cell": ["all"], "losses": [1.0, 2.0]},
    {"cell": ["all", "recent", "deletion", [1]], "losses": [1.0, 2.0]},
    {"cell": [["all"], "recent", "deletion", 1], "losses": [1.0, 2.0]},
    {"cell": ["all", "recent", "deletion", 1], "losses": ["a", "b"]},
    {"cell": ["all", "recent", "deletion", 1], "losses": [[1.0], [2.0]]},
    {"cell": ["all", "recent", "deletion", 1], "losses": [1.0, 2.0], "sizes": "a"},
]


@pytest.mark.parametrize("row", ROWS)
def test_kept_losses_of_another_shape_are_measured_again(row: Any, tmp_path: Path) -> None:
    kept = Evaluations(tmp_path / "losses", {"of": "it"})
    kept.add(Cell("all", "recent", "deletion", 4), np.array([1.0, 2.0]))
    with kept.path.open("ab") as file:
        file.write(kept._line(row))
    again = Evaluations(kept.path, {"of": "it"})
    again.read()
    assert [cell.n for cell in again.losses] == [4]


def test_a_file_of_kept_losses_without_end_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "losses").open("wb") as file:
        file.truncate(1 << 40)
    again = Evaluations(tmp_path / "losses", {"of": "it"})
    again.read()
    assert not again.losses


def test_a_model_in_memory_and_one_inside_a_module(tmp_path: Path) -> None:
    model, ids = tiny("gemma2"), tokens(2, 50).numpy()
    asked: dict[str, Any] = {"documents": list(ids), "length": 50, "tau": [0.3], "null": False}
    model.train()
    first = gs.effective(model, **asked, out=tmp_path / "model")["effective"]
    assert model.training
    second = gs.effective(Wrapped(model), **asked, out=tmp_path / "module")["effective"]
    xr.testing.assert_equal(first.to_dataset(), second.to_dataset())
    with pytest.raises(gs.InputError, match="has no head that predicts tokens"):
        gs.effective(model.eval().model, **asked, out=tmp_path / "decoder")


def test_modules_around_the_decoder_are_evaluated_too(tmp_path: Path) -> None:
    model, ids = tiny("llama"), tokens(2, 40)
    model.lm_head = torch.nn.Sequential(torch.nn.Dropout(0.5), model.lm_head)
    asked: dict[str, Any] = {"documents": ids, "length": 40, "n": "1,2", "null": False, "tau": 0.5}
    asked |= {"mode": "deletion", "rules": ["attention"]}
    losses = []
    for train in (True, False):
        model.train(train)
        found = gs.effective(model, out=tmp_path / str(train), **asked)["effective"]
        assert model.training == model.lm_head[0].training == train
        losses.append(found["plain_loss"].values.tolist())
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--tau", "0"], "--tau 0: expected shares above 0"),
        (["--tau", "-1,.1"], "expected shares above 0"),
        (["--tau", "nan"], "expected shares above 0"),
        (["--tau", "little"], "expected shares above 0"),
        (["--rule", "best"], "--rule best: "),
        (["--rule", "recent,"], "--rule : expected one of"),
        (["--mode", "mask"], "--mode mask: "),
        (["--each", "token"], "--each token: "),
        (["--target", "last"], "--target last: expected all, or last:K"),
        (["--target", "last:0"], "expected all, or last:K"),
        (
            ["--target", f"last:{LENGTH}"],
            f"a window of {LENGTH} tokens has {LENGTH - 1} to predict",
        ),
        (["--layers", "4"], "--layers 4: expected layers from 0 to 3"),
        (["--layers", "2-1"], "expected layers from 0 to 3"),
        (["--layers", "some"], "expected layers from 0 to 3"),
        (["--head", "L0H4"], "--head L0H4: the model has layers 0 to 3 and heads 0 to 3"),
        (["--head", "H4"], "expected a layer and a head, such as L5H3"),
        (["--head", "L0H1", "--layers", "2"], "--layers and --head were both given"),
        (["--head", "L0H1,L0H4"], "--head L0H4: the model has layers 0 to 3 and heads 0 to 3"),
        (["--regime", "mixer,sink"], "--regime sink: "),
        (["--regime", "mixer", "--layers", "2"], "--regime was given beside --head, --layers"),
        (["--rule", "greedy", "--length", 300], "a window has 300 tokens, expected at most 256"),
        (["--rule", "greedy"], "would choose for 16 heads, expected at most 12"),
        (["--documents", 6], "5 documents"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    words: list[Any], tmp_path: Path, more: list[Any], said: str
) -> None:
    line = refused(geostat(*words, *more, "--out", tmp_path / "out", "--quiet"))
    assert said in line
    assert not (tmp_path / "out" / "run.zarr").exists()


def test_a_run_of_other_settings_is_refused(words: list[Any], tmp_path: Path) -> None:
    assert geostat(*words, "--out", tmp_path, "--quiet", "--mode", "deletion").code == 0
    said = geostat(*words, "--out", tmp_path, "--quiet", "--length", 30)
    assert "was measured with length = 40, this run has 30" in refused(said)


@pytest.mark.slow
def test_results_that_stand_there_stay(
    words: list[Any], tmp_path: Path, model_folder: Path, text_folder: Path
) -> None:
    take = [
        "--text",
        text_folder,
        "--documents",
        2,
        "--length",
        LENGTH,
        "--n",
        "1,2,9",
        "--no-null",
    ]
    assert geostat("capture", model_folder, *take, "--out", tmp_path, "--quiet") == Said(0, "", "")
    assert geostat("fit", tmp_path, "--quiet").code == 0
    assert geostat(*words, "--out", tmp_path, "--quiet", "--mode", "deletion").code == 0
    assert "norms" in Store.open(tmp_path / "run.zarr").results
    assert geostat("fit", tmp_path, "--quiet").code == 0
    assert {"norms", "effective"} <= set(Store.open(tmp_path / "run.zarr").results)


@pytest.mark.slow
def test_single_values_and_lists_are_taken_in_python(tmp_path: Path) -> None:
    asked = {"documents": list(tokens(2, 20).numpy()), "length": 20, "out": tmp_path}
    run = gs.effective(tiny("llama"), **asked, tau=0.5, rules="recent", layers=[1, 2], n=[4, 9])
    data = run["effective"]
    assert run["capture"]["n"].values.tolist() == [4, 9]
    with pytest.raises(gs.InputError, match="n 4,99: 99 is above the 20 tokens"):
        gs.effective(tiny("llama"), **asked, n=np.array([4, 99]))
    assert data["tau"].values.tolist() == [0.5]
    assert data["rule"].values.tolist() == ["recent"]
    with pytest.raises(gs.InputError, match="layers"):
        gs.effective(tiny("llama"), **asked, layers=[7])
    with pytest.raises(gs.InputError, match="recentt"):
        gs.effective(tiny("llama"), **asked, rules="recentt")
