"""Identity of a model: what it does, its weights however they are kept, the code that came with
it.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.families import _of, edited, tiny, tokens
from support.raising import refused
from torch.nn.utils import parametrize
from transformers import AutoModelForCausalLM, PreTrainedModel

from empirical.capture.identity import FINGERPRINT, differing
from empirical.sources.given import held
from empirical.sources.identity import code_sha256, fingerprint, other_output, weights_sha256

Change = Callable[[PreTrainedModel], object]


def recorded(model: torch.nn.Module) -> dict[str, Any]:
    """What a run records of a model in memory."""
    with held(model, hashed=False).loaded() as loaded:
        return {"model": loaded.provenance()}


def changed(before: dict[str, Any], model: PreTrainedModel) -> list[str]:
    """Names of the entries in which a model differs from what was recorded."""
    return [name for name, _, _ in differing(before, recorded(model))]


def attention(model: PreTrainedModel, layer: int = 1) -> Any:
    return model.model.layers[layer].self_attn


def on_output(module: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    module.register_forward_hook(lambda module, given, output: change(output))


def on_input(module: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    module.register_forward_pre_hook(lambda module, given: (change(given[0]),))


class Halved(torch.nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


def replaced(model: PreTrainedModel) -> None:
    forward = model.model.layers[3].mlp.forward
    model.model.layers[3].mlp.forward = lambda x: forward(x) * 1.01  # type: ignore[method-assign]


def low_frequencies(model: PreTrainedModel) -> None:
    """Frequencies so low that no short text shows them."""
    model.model.rotary_emb.inv_freq[-1] *= 1.5


CHANGES: dict[str, Change] = {
    "hook": lambda model: on_output(model.model.layers[0], lambda states: states + 5.0),
    "hook before": lambda model: on_input(model.model.norm, lambda states: states.roll(1, -1)),
    "embedding": lambda model: on_output(model.model.embed_tokens, lambda out: out.roll(1, -1)),
    "scaling": lambda model: setattr(attention(model), "scaling", attention(model).scaling * 1.01),
    "rotary buffer": lambda model: model.model.rotary_emb.inv_freq.mul_(1.1),
    "low frequencies": low_frequencies,
    "forward": replaced,
    "activation": lambda model: setattr(model.model.layers[2].mlp, "act_fn", torch.nn.GELU()),
    "epsilon": lambda model: setattr(model.model.norm, "variance_epsilon", 0.5),
    "parametrization": lambda model: parametrize.register_parametrization(
        attention(model).v_proj, "weight", Halved()
    ),
    "rotary scaling": lambda model: setattr(model.model.rotary_emb, "attention_scaling", 1.02),
    "quantised": lambda model: torch.ao.quantization.quantize_dynamic(
        model, {torch.nn.Linear}, dtype=torch.qint8, inplace=True
    ),
}


@pytest.mark.filterwarnings("ignore:torch.ao.quantization:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*quant:UserWarning")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_of_the_numbers_changes_the_fingerprint(change: Change):
    model = tiny("llama")
    before = recorded(model)
    assert recorded(model) == before
    change(model)
    assert changed(before, model) == [FINGERPRINT]


def undone(model: PreTrainedModel) -> None:
    """Other values that the output does not show."""
    on_output(attention(model).v_proj, lambda values: values * 2)
    on_input(attention(model).o_proj, lambda mixed: mixed / 2)


def one_head_out(model: PreTrainedModel) -> None:
    first = torch.arange(64) < 16
    on_input(attention(model, 0).o_proj, lambda mixed: mixed.masked_fill(first, 0))


def late(model: PreTrainedModel) -> None:
    def steered(states: torch.Tensor) -> torch.Tensor:
        return torch.cat([states[:, :20], states[:, 20:] + 0.3 * states.std()], dim=1)

    on_output(model.model.layers[0], steered)


QUIET_CHANGES: dict[str, Change] = {
    "values that are undone": undone,
    "one head": one_head_out,
    "late in a text": late,
    "queries": lambda model: attention(model, 0).q_proj.weight.mul_(1.5),
    "values": lambda model: on_output(attention(model, 3).v_proj, lambda values: values * 1.3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("change", QUIET_CHANGES.values(), ids=QUIET_CHANGES)
def test_quiet_changes_show_in_every_dtype(change: Change, dtype: torch.dtype):
    model = tiny("llama", scale=4.0).to(dtype)
    before = recorded(model)
    change(model)
    assert changed(before, model) == [FINGERPRINT]


@pytest.mark.parametrize("family", ["gpt2", "gemma3", "gpt_oss"])
def test_every_family_has_a_fingerprint(family: str):
    stored = fingerprint(model := tiny(family))
    assert len(stored["layers"]) == model.config.num_hidden_layers
    assert all(isinstance(number, float) for numbers in stored.values() for number in numbers)
    model.get_decoder().register_forward_hook(lambda m, i, o: o[0] * 1.001)
    assert stored == fingerprint(tiny(family))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_is_tolerated_and_another_scaling_is_not(dtype: torch.dtype):
    name = str(dtype).removeprefix("torch.")
    model = tiny("llama", scale=4.0).to(dtype)
    stored = fingerprint(model)
    exact = copy.deepcopy(model).to(torch.float64 if dtype == torch.float32 else torch.float32)
    assert other_output(stored, fingerprint(exact), name) is None
    attention(model).scaling *= 4
    assert other_output(stored, fingerprint(model), name) == "attention of layer 1"


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("dynamic", {"factor": 4.0}),
        ("longrope", {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}),
    ],
)
def test_a_long_text_does_not_change_the_fingerprint(kind: str, more: dict[str, Any]):
    """Some rotary embeddings keep other frequencies after one."""
    rope = {"rope_type": kind, "rope_theta": 1e4, "original_max_position_embeddings": 32, **more}
    maker = _of("Llama", rope_parameters=rope, max_position_embeddings=32)
    model = tiny("llama", maker=maker)
    model.config.max_position_embeddings = 128
    before = recorded(model)
    with torch.no_grad():
        model(tokens(1, 100))
    assert changed(before, model) == []


def test_runs_without_a_fingerprint_are_resumed():
    stored = recorded(tiny("llama"))
    old = {name: value for name, value in stored["model"].items() if name != "fingerprint"}
    assert differing({"model": old}, stored) == []
    rest = {**stored["model"]["fingerprint"]}
    del rest["values"]
    assert differing({"model": {**old, "fingerprint": rest}}, stored) == []


def test_a_model_with_nan_has_a_fingerprint():
    model = tiny("llama")
    attention(model).q_proj.weight.fill_(torch.nan)
    stored = recorded(model)
    assert stored["model"]["fingerprint"]["layers"][1] is None
    assert changed(stored, model) == []
    assert changed(stored, tiny("llama")) != []


class Wrapped(torch.Tensor):
    """A weight that keeps its numbers in another tensor, as libraries of quantisation do."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Wrapped":
        whole = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32)
        whole.inner = inner
        return whole

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return Wrapped(args[0].inner)
        raise NotImplementedError(func)


def _quantised(scale: float) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(2, 2), scale, 0, torch.qint8)


def _plain(number: float) -> torch.Tensor:
    return torch.full((2,), number)


PACKED: dict[str, Callable[[float], Any]] = {
    "tuple": lambda number: (_plain(number), None),
    "nested": lambda number: [("float32", (_plain(number),))],
    "quantised": _quantised,
    "scale alone": lambda scale: torch._make_per_tensor_quantized_tensor(
        torch.ones(2, dtype=torch.int8), scale, 0
    ),
    "by channel": lambda scale: torch.quantize_per_channel(
        torch.ones(2, 2), torch.tensor([scale, 1.0]), torch.zeros(2), 0, torch.qint8
    ),
    "subclass": lambda number: Wrapped(_plain(number)),
    "subclass of a subclass": lambda number: Wrapped(Wrapped(_plain(number))),
    "subclass in a tuple": lambda number: (Wrapped(_plain(number)), None),
    "subclass of a quantised one": lambda scale: Wrapped(_quantised(scale)),
}


class Holding(torch.nn.Module):
    """A module whose state is one weight."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.state = {"weight": weight}

    def state_dict(self, *args: Any, **keywords: Any) -> Any:
        return self.state


@pytest.mark.filterwarnings("ignore:torch.quantize:UserWarning")
@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_packed_weights_are_hashed(pack: Callable[[float], Any]):
    first, same, other = (weights_sha256(Holding(pack(number))) for number in (0.5, 0.5, 0.25))
    assert first == same != other


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_weights_packed_by_pytorch_are_hashed():
    packed = []
    for factor in (1, 1.5):
        model = tiny("llama")
        model.model.layers[1].self_attn.q_proj.weight.data.mul_(factor)
        packed.append(torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}))
    assert weights_sha256(packed[0]) != weights_sha256(packed[1])


def test_weights_whose_bytes_cannot_be_read_are_refused():
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=True)
    with refused("its weight weight is a Tensor, whose bytes cannot be read"):
        weights_sha256(Holding(sparse))


CODE = """
from transformers import LlamaForCausalLM
from .scale import SCALE

class Own(LlamaForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        self.model.layers[0].mlp.register_forward_hook(lambda m, i, o: o * SCALE)
"""


@pytest.mark.parametrize("scale", ["1.5", "1.0  # as before"])
def test_edited_code_changes_the_identity(saved: Path, scale: str):
    def load() -> PreTrainedModel:
        return AutoModelForCausalLM.from_pretrained(saved, trust_remote_code=True).eval()

    edited(saved / "config.json", auto_map={"AutoModelForCausalLM": "modeling_own.Own"})
    (saved / "modeling_own.py").write_text(CODE)
    (saved / "scale.py").write_text("SCALE = 1.0")
    before = recorded(load())
    assert recorded(load()) == before
    (saved / "scale.py").write_text(f"SCALE = {scale}")
    names = changed(before, load())
    assert names[0] == "model.code_sha256"
    assert (FINGERPRINT in names) == (scale == "1.5")


def test_installed_code_is_not_recorded():
    assert code_sha256(tiny("llama").get_decoder()) is None
    assert "code_sha256" not in recorded(tiny("llama"))["model"]
