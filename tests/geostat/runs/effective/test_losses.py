"""Losses of documents under cuts: what is not run twice, and that it moves no loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from support.every_decoder import tiny_of
from support.families import tiny, tokens

from empirical.intervention.cut import Cut, intervened
from empirical.intervention.loss import next_token_losses
from empirical.intervention.rules import recent
from geostat.errors import InputError
from geostat.experiments.ablation.context import plain_cell
from geostat.experiments.effective_size import PLAIN, Cell
from geostat.runs.console import QUIET
from geostat.runs.effective.asked import Scope
from geostat.runs.effective.evaluations import Evaluations
from geostat.runs.effective.losses import Losses


def measured(
    model: transformers.PreTrainedModel,
    ids: np.ndarray,
    cut: Cut,
    targets: int | None,
    only: int | None = None,
) -> np.ndarray:
    """The mean loss of each document, from the intervention itself."""
    out = []
    for row in torch.as_tensor(ids, dtype=torch.long):
        hidden = intervened(model, row[None], lambda layer: cut if only in (None, layer) else None)
        out.append(float(next_token_losses(model, hidden, row[None], targets).double().mean()))
    return np.array(out)


PUSH = torch.linspace(-2, 2, 64)


def layer_hook(model: transformers.PreTrainedModel) -> None:
    model.model.layers[0].register_forward_hook(lambda module, given, output: output + PUSH)


def layer_hook_of_keywords(model: transformers.PreTrainedModel) -> None:
    model.model.layers[1].register_forward_hook(
        lambda module, given, more, output: output * 1.5, with_kwargs=True
    )


def hook_before_a_layer(model: transformers.PreTrainedModel) -> None:
    model.model.layers[1].register_forward_pre_hook(
        lambda module, given: (given[0] + PUSH, *given[1:])
    )


def decoder_hook(model: transformers.PreTrainedModel) -> None:
    def push(module: torch.nn.Module, given: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state * 1.5
        return output

    model.model.register_forward_hook(push)


def decoder_hook_by_name(model: transformers.PreTrainedModel) -> None:
    def push(module: torch.nn.Module, given: Any, output: Any) -> Any:
        output["last_hidden_state"] = output["last_hidden_state"] + PUSH
        return output

    model.model.register_forward_hook(push)


@pytest.mark.parametrize(
    "hooked",
    [layer_hook, layer_hook_of_keywords, hook_before_a_layer, decoder_hook, decoder_hook_by_name],
)
def test_a_hook_acts_once(hooked: Any, tmp_path: Path) -> None:
    model, ids = tiny("llama"), tokens(2, 40)
    plain = model(input_ids=ids).logits
    hooked(model)
    with torch.no_grad():
        own = model(input_ids=ids).logits
    assert not torch.allclose(own, plain, atol=0.01)
    expected = torch.nn.functional.cross_entropy(
        own[:, :-1].double().transpose(1, 2), ids[:, 1:], reduction="none"
    )
    losses = Losses(model, ids.numpy(), None, Evaluations(tmp_path / "losses", {}), QUIET)
    losses.at(PLAIN, None)
    np.testing.assert_allclose(losses.known.losses[PLAIN], expected.mean(dim=1), rtol=1e-5)
    for layer in (1, 2, 3):
        for n in (2, 30):
            cell, scope = Cell(f"L{layer}", "recent", "deletion", n), Scope("", {layer: None})
            losses.at(cell, scope, [lambda at: recent])
            cut = Cut(rule=recent, mode="deletion", n=n)
            wanted = measured(model, ids.numpy(), cut, None, layer)
            np.testing.assert_allclose(losses.known.losses[cell], wanted, rtol=1e-6)


@pytest.mark.parametrize("reads_on", [None, False])
def test_a_loss_of_a_later_document_that_is_another_model_s_is_seen_before_others_stand_beside_it(
    reads_on: bool | None, tmp_path: Path
) -> None:
    model, ids, known = tiny("llama"), tokens(3, 40).numpy(), Evaluations(tmp_path / "losses", {})
    Losses(model, ids, None, known, QUIET).plain()
    scope, asked = Scope("all", {layer: None for layer in range(4)}), [lambda at: recent]
    known.losses[PLAIN][2] *= 1.01
    losses = Losses(model, ids, None, known, QUIET)
    losses._reads_on = reads_on
    losses.plain()
    with pytest.raises(InputError, match=r"loss of document 2 is .* as of another head"):
        losses.at(Cell("all", "recent", "deletion", 1), scope, asked)
    assert [*known.losses] == [PLAIN]


def test_windows_of_another_length_are_compared_with_their_own_loss(tmp_path: Path) -> None:
    model, ids, known = tiny("llama"), tokens(2, 40).numpy(), Evaluations(tmp_path / "losses", {})
    Losses(model, ids, None, known, QUIET).plain()
    short = ids[:, -20:]
    for _ in range(2):
        Losses(model, short, None, known, QUIET, own=plain_cell(20)).plain()
    assert (known.losses[plain_cell(20)] != known.losses[PLAIN]).all()
    known.losses[plain_cell(20)][0] *= 1.01
    with pytest.raises(InputError, match=r"loss of document 0 is .* as of another head"):
        Losses(model, short, None, known, QUIET, own=plain_cell(20)).plain()


@pytest.mark.parametrize(("kept", "runs"), [(64, 2), (1, 1 + 6)])
def test_layers_below_a_cut_are_run_once(
    kept: int, runs: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For each of two documents; or, of a document that is not kept, for each of six cuts."""
    model, calls = tiny("llama"), []
    monkeypatch.setattr("geostat.runs.effective.losses.KEPT", kept)
    known = Evaluations(tmp_path / "losses", {})
    losses = Losses(model, tokens(2, 50).numpy(), None, known, QUIET)
    losses._resumes, losses._reads_on = True, False
    for at, layer in enumerate(model.get_decoder().layers):
        layer.self_attn.register_forward_hook(lambda *given, at=at: calls.append(at))
    for head in (0, 1):
        for n in (1, 2, 4):
            scope = Scope(f"L3H{head}", {3: [head]})
            losses.at(Cell(scope.name, "attention", "deletion", n), scope, [lambda at: recent])
    assert [calls.count(layer) for layer in range(4)] == [runs, runs, runs, 2 * 6]


@pytest.mark.parametrize("targets", [None, 5])
@pytest.mark.parametrize("room", [2**31, 0])
def test_queries_that_see_no_more_than_n_tokens_are_not_run_again(
    room: int, targets: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, ids = tiny("llama").double(), tokens(2, 50).numpy()
    monkeypatch.setattr("geostat.runs.effective.losses.KEPT_BYTES", room)
    own = Losses(model, ids, targets, Evaluations(tmp_path / "losses", {}), QUIET)
    scope, asked = Scope("all", {layer: None for layer in range(4)}), []
    own.at(Cell("all", "recent", "deletion", 1), scope, [lambda at: recent])
    model.get_decoder().layers[0].mlp.register_forward_hook(
        lambda module, given, output: asked.append(output.shape[1])
    )
    for n in (1, 7, 30, 44, 46, 49, 50):
        cell = Cell("all", "recent", "renormalisation", n)
        own.at(cell, scope, [lambda at: recent])
        cut = Cut(rule=recent, mode="renormalisation", n=n)
        read, expected = asked.copy(), measured(model, ids, cut, targets)
        asked.clear()
        np.testing.assert_allclose(own.known.losses[cell], expected, rtol=1e-6)
        assert read == ([50] * 2 if room == 0 else [50 - n] * 2 if n < 49 else [])


class Keeping(torch.nn.Module):
    """An attention that adds the values that another one had in its last forward."""

    def __init__(self, own: torch.nn.Module, other: torch.nn.Module) -> None:
        super().__init__()
        self.own, self.seen = own, [torch.zeros(())]
        other.register_forward_hook(lambda module, given, output: self.seen.append(output[0]))

    def forward(self, *given: Any, **keywords: Any) -> Any:
        output, weights = self.own(*given, **keywords)
        return output + self.seen[-1][..., -output.shape[1] :, :], weights


def _keeping() -> transformers.PreTrainedModel:
    model = tiny("llama")
    layers = model.model.layers
    layers[3].self_attn = Keeping(layers[3].self_attn, layers[0].self_attn)
    return model


SHARED = {
    "gemma 3n": lambda: tiny_of("Gemma3nForCausalLM", num_kv_shared_layers=2, layer_types=KINDS),
    "gemma 3n, three": lambda: tiny_of(
        "Gemma3nForCausalLM", num_kv_shared_layers=3, layer_types=["full_attention"] * 4
    ),
    "gemma 3n, none shared": lambda: tiny_of("Gemma3nForCausalLM", num_kv_shared_layers=0),
    "gemma 4": lambda: tiny_of("Gemma4ForCausalLM", num_kv_shared_layers=2, layer_types=KINDS),
    "kept from one forward to the next": _keeping,
}
KINDS = ["sliding_attention", "full_attention"] * 2


@pytest.mark.parametrize("shared", SHARED)
def test_layers_that_read_what_others_computed_give_the_losses_of_whole_passes(
    shared: str, tmp_path: Path
) -> None:
    model, ids = SHARED[shared](), tokens(2, 40).numpy()
    own = Losses(model, ids, None, Evaluations(tmp_path / "losses", {}), QUIET)
    for layer in (1, 2, 3):
        for n in (2, 30):
            cell, scope = Cell(f"L{layer}", "recent", "deletion", n), Scope("", {layer: None})
            own.at(cell, scope, [lambda at: recent])
            cut = Cut(rule=recent, mode="deletion", n=n)
            expected = measured(model, ids, cut, None, layer)
            np.testing.assert_allclose(own.known.losses[cell], expected, rtol=1e-6)
