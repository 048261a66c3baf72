"""Identity of a model: what it does, its weights however they are kept, the code that came with
it.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.families import _of, tiny, tokens
from torch.nn.utils import parametrize
from transformers import AutoModelForCausalLM, PreTrainedModel

from empirical.capture.identity import FINGERPRINT, differing
from empirical.errors import InputError
from empirical.sources.digests import code_sha256, weights_sha256
from empirical.sources.fingerprint import fingerprint, other_output
from empirical.sources.given import held

Change = Callable[[PreTrainedModel], object]


def recorded(model: torch.nn.Module, *, hashed: bool = False) -> dict[str, Any]:
    """What a run records of a model in memory."""
    with held(model, hashed=hashed).lent() as lent:
        return {"model": lent.provenance()}


def attention(model: PreTrainedModel, layer: int = 1) -> Any:
    return model.model.layers[layer].self_attn


class Halved(torch.nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


def replaced(model: PreTrainedModel) -> None:
    own = model.model.layers[3].mlp.forward
    model.model.layers[3].mlp.forward = lambda x: own(x) * 1.01  # type: ignore[method-assign]


def unlike_far_away(model: PreTrainedModel) -> None:
    """Frequencies so low that no short text shows them."""
    model.model.rotary_emb.inv_freq[-1] *= 1.5


CHANGES: dict[str, Change] = {
    "hook": lambda model: model.model.layers[0].register_forward_hook(lambda m, i, o: o + 5.0),
    "hook before": lambda model: model.model.norm.register_forward_pre_hook(
        lambda m, given: (given[0] * torch.linspace(1, 1.1, given[0].shape[-1]),)
    ),
    "hook on the embedding": lambda model: model.model.embed_tokens.register_forward_hook(
        lambda m, i, o: o.roll(1, dims=-1)
    ),
    "scaling": lambda model: setattr(attention(model), "scaling", attention(model).scaling * 1.01),
    "rotary buffer": lambda model: model.model.rotary_emb.inv_freq.mul_(1.1),
    "low frequencies": unlike_far_away,
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
@pytest.mark.parametrize("change", CHANGES)
def test_what_moves_a_models_numbers_makes_it_another(change: str) -> None:
    model = tiny("llama")
    before = recorded(model)
    assert recorded(model) == before
    CHANGES[change](model)
    assert [name for name, _, _ in differing(before, recorded(model))] == [FINGERPRINT]


def undone(model: PreTrainedModel) -> None:
    """Other values that the output does not show."""
    attention(model).v_proj.register_forward_hook(lambda m, i, o: o * 2)
    attention(model).o_proj.register_forward_pre_hook(lambda m, given: (given[0] / 2,))


def one_head_out(model: PreTrainedModel) -> None:
    def without(module: torch.nn.Module, given: Any) -> tuple[torch.Tensor]:
        left = given[0].clone()
        left[..., :16] = 0
        return (left,)

    attention(model, 0).o_proj.register_forward_pre_hook(without)


def late(model: PreTrainedModel) -> None:
    def steered(module: torch.nn.Module, given: Any, output: torch.Tensor) -> torch.Tensor:
        return torch.cat([output[:, :20], output[:, 20:] + 0.3 * output.std()], dim=1)

    model.model.layers[0].register_forward_hook(steered)


QUIET_CHANGES: dict[str, Change] = {
    "values that are undone": undone,
    "one head": one_head_out,
    "late in a text": late,
    "queries": lambda model: attention(model, 0).q_proj.weight.mul_(1.5),
    "values": lambda model: attention(model, 3).v_proj.register_forward_hook(
        lambda m, i, o: o * 1.3
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("change", QUIET_CHANGES)
def test_what_a_type_of_16_bits_rounds_to_little_is_another_model(
    change: str, dtype: torch.dtype
) -> None:
    model = tiny("llama", scale=4.0).to(dtype)
    before = recorded(model)
    QUIET_CHANGES[change](model)
    assert [name for name, _, _ in differing(before, recorded(model))] == [FINGERPRINT]


@pytest.mark.parametrize("family", ["gpt2", "gemma3", "gpt_oss"])
def test_every_family_has_its_numbers(family: str) -> None:
    told = fingerprint(model := tiny(family))
    assert len(told["layers"]) == model.config.num_hidden_layers
    assert all(isinstance(number, float) for numbers in told.values() for number in numbers)
    model.get_decoder().register_forward_hook(lambda m, i, o: o[0] * 1.001)
    assert told == fingerprint(tiny(family))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_is_no_other_model_and_another_scaling_is(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    model = tiny("llama", scale=4.0).to(dtype)
    told = fingerprint(model)
    exact = copy.deepcopy(model).to(torch.float64 if dtype == torch.float32 else torch.float32)
    assert other_output(told, fingerprint(exact), name) is None
    attention(model).scaling *= 4
    assert other_output(told, fingerprint(model), name) == "attention of layer 1"


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("dynamic", {"factor": 4.0}),
        ("longrope", {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}),
    ],
)
def test_a_model_that_read_a_long_text_is_the_same(kind: str, more: dict[str, Any]) -> None:
    """Some rotary embeddings keep other frequencies after one."""
    rope = {"rope_type": kind, "rope_theta": 1e4, "original_max_position_embeddings": 32, **more}
    maker = _of("Llama", rope_parameters=rope, max_position_embeddings=32)
    model = tiny("llama", maker=maker)
    model.config.max_position_embeddings = 128
    before = recorded(model)
    with torch.no_grad():
        model(tokens(1, 100))
    assert differing(before, recorded(model)) == []


def test_runs_that_tell_no_fingerprint_are_resumed() -> None:
    told = recorded(tiny("llama"))
    old = {name: value for name, value in told["model"].items() if name != "fingerprint"}
    assert differing({"model": old}, told) == []
    rest = {**told["model"]["fingerprint"]}
    del rest["values"]
    assert differing({"model": {**old, "fingerprint": rest}}, told) == []


def test_a_model_whose_numbers_are_none_has_a_fingerprint() -> None:
    model = tiny("llama")
    attention(model).q_proj.weight.fill_(torch.nan)
    told = recorded(model)
    assert told["model"]["fingerprint"]["layers"][1] is None
    assert differing(told, recorded(model)) == []
    assert differing(recorded(tiny("llama")), told) != []


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


PACKED: dict[str, Callable[[float], Any]] = {
    "tuple": lambda one: (torch.full((2,), one), None),
    "nested": lambda one: [("float32", (torch.full((2,), one),))],
    "quantised": lambda one: _quantised(one),
    "scale alone": lambda one: torch._make_per_tensor_quantized_tensor(
        torch.ones(2, dtype=torch.int8), one, 0
    ),
    "by channel": lambda one: torch.quantize_per_channel(
        torch.ones(2, 2), torch.tensor([one, 1.0]), torch.zeros(2), 0, torch.qint8
    ),
    "subclass": lambda one: Wrapped(torch.full((2,), one)),
    "subclass of a subclass": lambda one: Wrapped(Wrapped(torch.full((2,), one))),
    "subclass in a tuple": lambda one: (Wrapped(torch.full((2,), one)), None),
    "subclass of a quantised one": lambda one: Wrapped(_quantised(one)),
}


@pytest.mark.filterwarnings("ignore:torch.quantize:UserWarning")
@pytest.mark.parametrize("kind", PACKED)
def test_packed_weights_count(kind: str) -> None:
    class Model(torch.nn.Module):
        def __init__(self, one: float) -> None:
            super().__init__()
            self.one = one

        def state_dict(self, *args: Any, **keywords: Any) -> Any:
            return {"packed": PACKED[kind](self.one)}

    assert weights_sha256(Model(0.5)) == weights_sha256(Model(0.5))
    assert weights_sha256(Model(0.5)) != weights_sha256(Model(0.25))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3"])
def test_weights_that_pytorch_packed_count(family: str) -> None:
    packed = []
    for factor in (1, 1.5):
        model = tiny(family)
        model.model.layers[1].self_attn.q_proj.weight.data.mul_(factor)
        packed.append(torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}))
    assert weights_sha256(packed[0]) != weights_sha256(packed[1])


def test_weights_whose_bytes_cannot_be_read_are_refused() -> None:
    class Model(torch.nn.Module):
        def state_dict(self, *args: Any, **keywords: Any) -> Any:
            return {"odd": torch.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=True)}

    with pytest.raises(InputError, match="its weight odd is a Tensor, whose bytes cannot be read"):
        weights_sha256(Model())


CODE = """
from transformers import LlamaForCausalLM
from .scale import SCALE

class Own(LlamaForCausalLM):
    def __init__(self, config):
        super().__init__(config)
        self.model.layers[0].mlp.register_forward_hook(lambda m, i, o: o * SCALE)
"""


@pytest.fixture
def own_code(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    model = tiny("llama")
    model.config.auto_map = {"AutoModelForCausalLM": "modeling_own.Own"}
    model.save_pretrained(folder)
    (folder / "modeling_own.py").write_text(CODE)
    (folder / "scale.py").write_text("SCALE = 1.0")
    return folder


@pytest.mark.parametrize("scale", ["1.5", "1.0  # as before"])
def test_edited_code_is_another_model(own_code: Path, scale: str) -> None:
    def load() -> PreTrainedModel:
        return AutoModelForCausalLM.from_pretrained(own_code, trust_remote_code=True).eval()

    before = recorded(load())
    assert recorded(load()) == before
    (own_code / "scale.py").write_text(f"SCALE = {scale}")
    names = [name for name, _, _ in differing(before, recorded(load()))]
    assert names[0] == "model.code_sha256"
    assert (FINGERPRINT in names) == (scale == "1.5")


def test_installed_code_is_not_told() -> None:
    assert code_sha256(tiny("llama").get_decoder()) is None
    assert "code_sha256" not in recorded(tiny("llama"))["model"]
