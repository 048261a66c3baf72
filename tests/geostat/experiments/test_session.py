"""Sessions of loss measurements: cached passes change no loss, and stored losses are checked."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from support.every_decoder import tiny_of
from support.families import tiny, tokens
from support.losses import mean_losses

from empirical.intervention.cut import Cut
from empirical.intervention.rules import recent
from geostat.analyses.effective_size import PLAIN, Cell
from geostat.errors import InputError
from geostat.experiments.ablation.context import plain_cell
from geostat.experiments.options import Scope
from geostat.experiments.session import Evaluations, Losses, no_cut
from geostat.runs.console import QUIET

ALL = Scope("all", dict.fromkeys(range(4)))
KEPT = Cell("all", "recent", "deletion", 4)
PUSH = torch.linspace(-2, 2, 64)


@pytest.fixture
def known(tmp_path: Path) -> Evaluations:
    return Evaluations(tmp_path / "losses", {})


def by_recent(*_: Any) -> Any:
    return recent


def assert_losses_of_layers_are_those_of_whole_passes(losses: Losses) -> None:
    for layer, n in product((1, 2, 3), (2, 30)):
        cell = Cell(f"L{layer}", "recent", "deletion", n)
        losses.at(cell, Scope("", {layer: None}), [by_recent])
        cut_of = {layer: Cut(rule=recent, mode="deletion", n=n)}.get
        expected = mean_losses(losses.model, losses.token_ids, cut_of)
        np.testing.assert_allclose(losses.known.losses[cell], expected, rtol=1e-6)


def pushed(module: torch.nn.Module, given: Any, output: Any) -> Any:
    output["last_hidden_state"] = output["last_hidden_state"] + PUSH
    return output


HOOKS: dict[str, Any] = {
    "layer, of keywords": lambda decoder: decoder.layers[1].register_forward_hook(
        lambda module, given, keywords, output: output * 1.5, with_kwargs=True
    ),
    "before a layer": lambda decoder: decoder.layers[1].register_forward_pre_hook(
        lambda module, given: (given[0] + PUSH, *given[1:])
    ),
    "decoder": lambda decoder: decoder.register_forward_hook(pushed),
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_acts_once(hook, known):
    model, ids = tiny("llama"), tokens(2, 40)
    plain = model(input_ids=ids).logits
    HOOKS[hook](model.model)
    hooked = model(input_ids=ids).logits
    assert not torch.allclose(hooked, plain, atol=0.01)
    expected = torch.nn.functional.cross_entropy(
        hooked[:, :-1].double().transpose(1, 2), ids[:, 1:], reduction="none"
    )
    losses = Losses(model, ids.numpy(), None, known, QUIET)
    losses.of(PLAIN, lambda document: no_cut)
    np.testing.assert_allclose(known.losses[PLAIN], expected.mean(dim=1), rtol=1e-5)
    assert_losses_of_layers_are_those_of_whole_passes(losses)


class Keeping(torch.nn.Module):
    """Attention that adds the values of another attention module's last forward pass."""

    def __init__(self, own: torch.nn.Module, other: torch.nn.Module) -> None:
        super().__init__()
        self.own, self.seen = own, [torch.zeros(())]
        other.register_forward_hook(lambda module, given, output: self.seen.append(output[0]))

    def forward(self, *given: Any, **keywords: Any) -> Any:
        output, weights = self.own(*given, **keywords)
        return output + self.seen[-1][..., -output.shape[1] :, :], weights


def keeping() -> transformers.PreTrainedModel:
    model = tiny("llama")
    layers = model.model.layers
    layers[3].self_attn = Keeping(layers[3].self_attn, layers[0].self_attn)
    return model


def sharing(model: str, shared: int, kinds: str = "sliding full sliding full") -> Any:
    """A model whose last layers read keys and values of earlier ones."""
    layer_types = [f"{kind}_attention" for kind in kinds.split()]
    return lambda: tiny_of(
        f"{model}ForCausalLM", num_kv_shared_layers=shared, layer_types=layer_types
    )


SHARED = {
    "gemma 3n": sharing("Gemma3n", 3, "full full full full"),
    "gemma 3n, none shared": lambda: tiny_of("Gemma3nForCausalLM", num_kv_shared_layers=0),
    "gemma 4": sharing("Gemma4", 2),
    "kept from one forward to the next": keeping,
}


@pytest.mark.parametrize(
    "shared", [pytest.param(n, marks=pytest.mark.slow if "none" in n else ()) for n in SHARED]
)
def test_layers_that_read_what_others_computed_give_the_losses_of_whole_passes(shared, known):
    assert_losses_of_layers_are_those_of_whole_passes(
        Losses(SHARED[shared](), tokens(2, 40).numpy(), None, known, QUIET)
    )


@pytest.mark.parametrize(("logit", "loss"), [(1e4, "0"), (torch.nan, "nan")])
def test_a_loss_that_is_zero_or_not_finite_is_refused(logit, loss, known):
    model, ids = tiny("llama"), torch.full((1, 24), 3)
    ids[0, 0] = 5
    certain = logit * torch.nn.functional.one_hot(torch.tensor(3), 97)
    model.lm_head.register_forward_hook(lambda module, given, logits: logits * 0 + certain)
    message = rf"^document 0: the .*next-token loss is {loss}, .*\Z"  # one line
    with pytest.raises(InputError, match=message):
        Losses(model, ids.numpy(), None, known, QUIET).plain()


@pytest.mark.parametrize("reads_on", [None, False])
def test_a_stored_loss_of_another_model_is_refused_before_further_losses(reads_on, known):
    model, ids = tiny("llama"), tokens(3, 40).numpy()
    Losses(model, ids, None, known, QUIET).plain()
    known.losses[PLAIN][2] *= 1.01
    losses = Losses(model, ids, None, known, QUIET)
    losses._reads_on = reads_on
    losses.plain()
    with pytest.raises(InputError, match=r"loss of document 2 is .* as of another head"):
        losses.at(Cell("all", "recent", "deletion", 1), ALL, [by_recent])
    assert [*known.losses] == [PLAIN]


def test_windows_of_another_length_are_compared_with_losses_of_that_length(known):
    model, ids = tiny("llama"), tokens(2, 40).numpy()
    Losses(model, ids, None, known, QUIET).plain()

    def measure_the_last_20_tokens() -> None:
        Losses(model, ids[:, -20:], None, known, QUIET, plain_cell=plain_cell(20)).plain()

    measure_the_last_20_tokens()
    measure_the_last_20_tokens()
    assert (known.losses[plain_cell(20)] != known.losses[PLAIN]).all()
    known.losses[plain_cell(20)][0] *= 1.01
    with pytest.raises(InputError, match=r"loss of document 0 is .* as of another head"):
        measure_the_last_20_tokens()


@pytest.mark.parametrize(("kept", "runs"), [(64, 2), (1, 1 + 6)])
def test_layers_below_a_cut_are_run_once(kept, runs, known, monkeypatch):
    """Once for each of two cached documents; otherwise once for each of six interventions."""
    model, calls = tiny("llama"), []
    monkeypatch.setattr("geostat.experiments.session.KEPT_DOCUMENTS", kept)
    losses = Losses(model, tokens(2, 50).numpy(), None, known, QUIET)
    losses._resumes, losses._reads_on = True, False
    for index, layer in enumerate(model.get_decoder().layers):
        layer.self_attn.register_forward_hook(lambda *given, index=index: calls.append(index))
    for head, n in product((0, 1), (1, 2, 4)):
        scope = Scope(f"L3H{head}", {3: [head]})
        losses.at(Cell(scope.name, "attention", "deletion", n), scope, [by_recent])
    assert [calls.count(layer) for layer in range(4)] == [runs, runs, runs, 2 * 6]


@pytest.mark.parametrize(("room", "targets"), [(2**31, None), (2**31, 5), (0, None)])
def test_queries_that_see_at_most_n_tokens_are_not_run_again(room, targets, known, monkeypatch):
    model, ids = tiny("llama").double(), tokens(2, 50).numpy()
    monkeypatch.setattr("geostat.experiments.session.KEPT_BYTES", room)
    losses = Losses(model, ids, targets, known, QUIET)
    losses.at(Cell("all", "recent", "deletion", 1), ALL, [by_recent])
    queries: list[int] = []
    model.get_decoder().layers[0].mlp.register_forward_hook(
        lambda module, given, output: queries.append(output.shape[1])
    )
    for n in (7, 46, 49, 50):
        queries.clear()
        cell = Cell("all", "recent", "renormalisation", n)
        losses.at(cell, ALL, [by_recent])
        assert queries == ([50] * 2 if room == 0 else [50 - n] * 2 if n < 49 else [])
        cut = Cut(rule=recent, mode="renormalisation", n=n)
        expected = mean_losses(model, ids, lambda layer, cut=cut: cut, targets)
        np.testing.assert_allclose(known.losses[cell], expected, rtol=1e-6)


def read(path: Path, of: dict[str, str]) -> Evaluations:
    known = Evaluations(path, of)
    known.read()
    return known


def test_stored_losses_are_those_of_their_measurement_only(known):
    known.add(KEPT, np.array([1.0, 2.0]))
    assert read(known.path, {}).losses[KEPT].tolist() == [1.0, 2.0]
    other = read(known.path, {"target": "last:2"})
    assert other.losses == {}
    other.add(KEPT, np.array([3.0]))
    assert read(known.path, {}).losses == {}


def a_row(**changes: Any) -> dict[str, Any]:
    return {"cell": ["all", "recent", "deletion", 1], "losses": [1.0, 2.0]} | changes


INVALID = (
    *('{"cell": 5, "losses": []}\n', '{"cell": ["a"]}\n', '{"losses": [1]}\n', "[]\n", "x\n"),
    '{"cell": ["all", "attent',
    {"x": 1},
    a_row(cell=["all"]),
    a_row(cell=["all", "recent", "deletion", "4"]),
    a_row(cell=["all", "recent", "deletion", [1]]),
    a_row(cell=[["all"], "recent", "deletion", 1]),
    *(a_row(losses=[value, 2.0]) for value in ("a", [1.0], None, np.nan, -np.inf)),
    a_row(losses=[[1.0], [2.0]]),
    a_row(sizes="a"),
)


@pytest.mark.parametrize("row", INVALID, ids=str)
def test_an_invalid_row_of_stored_losses_is_dropped(row, known):
    known.add(KEPT, np.array([1.0, 2.0]))
    whole = known.path.read_bytes()
    line = row.encode() if isinstance(row, str) else known._line(row)
    known.path.write_bytes(whole + line)
    assert [*read(known.path, {}).losses] == [KEPT]
    assert known.path.read_bytes() == whole


@pytest.mark.parametrize("other", ["2.5", "NaN", "Infinity", "null", "-1e999"])
def test_an_edited_loss_is_measured_again(other, known):
    known.add(KEPT, np.array([1.0, 2.0]))
    known.add(KEPT._replace(n=8), np.array([1.5, 2.75]))
    known.path.write_text(known.path.read_text().replace("1.5", other))
    assert [*read(known.path, {}).losses] == [KEPT]


def test_a_file_that_holds_no_losses_is_not_read(known):
    known.path.write_bytes(b"\xff\n")
    assert not read(known.path, {}).losses
    with known.path.open("wb") as file:
        file.truncate(1 << 40)  # an endless file
    assert not read(known.path, {}).losses
