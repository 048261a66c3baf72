"""Alternative implementations for `peers`: α's last row and v of each layer by other libraries,
Precision and Recall from them, and the model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedModel

VOCABULARY = 49152
Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""α's last row, (head, token), and v, (kv_head, token, dimension), of each layer."""


def random_model() -> PreTrainedModel:
    """Return a Llama of the built-in model's shape: 30 layers, 9 heads, 3 KV heads, d = 64."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=VOCABULARY,
        max_position_embeddings=8193,
        tie_word_embeddings=True,
        initializer_range=0.05,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def vectorised(alpha: torch.Tensor, values: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """Precision and Recall of all heads of a layer at every N: (2, head, n).

    alpha: (head, token); values: (kv_head, token, dimension). Distances are float64, or rounding
    would part tokens that are equal: ‖s − y‖² − ‖s‖² = ‖y‖² − 2⟨s, y⟩.
    """
    heads, tokens = alpha.shape
    order = alpha.argsort(dim=-1, descending=True, stable=True)
    y = alpha[..., None].double() * values.double().repeat_interleave(heads // len(values), dim=0)
    y = y.gather(1, order[..., None].expand_as(y))
    s = y.cumsum(dim=1)[:, n - 1]
    distance = (y**2).sum(dim=-1)[:, None] - 2 * s @ y.transpose(1, 2)  # (head, n, rank)
    selected = torch.arange(tokens) < n[:, None]
    farthest = distance.masked_fill(~selected, -torch.inf).amax(dim=-1, keepdim=True)
    nearest = distance.masked_fill(selected, torch.inf).amin(dim=-1, keepdim=True)
    intruders = ((distance <= farthest) & ~selected).sum(dim=-1)
    inside = ((distance <= nearest) & selected).sum(dim=-1)
    return torch.stack([n / (n + intruders), inside / n])


def by_loop(alpha: np.ndarray, values: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return the same by a plain loop over heads and N in NumPy."""
    out = np.empty((2, len(alpha), len(n)))
    for head, weights in enumerate(alpha):
        y = weights[:, None] * values[head * len(values) // len(alpha)]
        order = np.argsort(-weights, kind="stable")
        for index, size in enumerate(n):
            inside, outside = order[:size], order[size:]
            distance = np.linalg.norm(y[inside].sum(axis=0) - y, axis=1)
            intruders = (distance[outside] <= distance[inside].max()).sum()
            nearest = distance[outside].min(initial=np.inf)
            out[:, head, index] = size / (size + intruders), (distance[inside] <= nearest).mean()
    return out


def measured(layers: Layers, n: np.ndarray, *, loop: bool = False) -> np.ndarray:
    """Return Precision and Recall of every head, (2, layer, head, n)."""
    if loop:
        return np.stack([by_loop(a.numpy(), v.numpy(), n) for a, v in layers], axis=1)
    sizes = torch.as_tensor(n)
    return torch.stack([vectorised(a, v, sizes) for a, v in layers], dim=1).numpy()


def eager(model: PreTrainedModel, ids: torch.Tensor) -> Layers:
    """Return rows and values by `output_attentions` and the KV cache."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model.model(ids, output_attentions=True, use_cache=True)
    model.set_attn_implementation("sdpa")
    values = [layer.values[0] for layer in out.past_key_values.layers]
    return [(a[0, :, -1], v) for a, v in zip(out.attentions, values, strict=True)]


def transformer_lens(model: PreTrainedModel) -> Callable[[torch.Tensor], Layers]:
    """Return rows and values by TransformerLens hooks, which cache two tensors per layer."""
    from transformer_lens.model_bridge import TransformerBridge  # type: ignore[import-not-found]

    model.set_attn_implementation("eager")
    with tempfile.TemporaryDirectory() as folder:
        _tokenizer().save_pretrained(folder)
        model.config.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(
            folder, device="cpu", hf_model=model, tokenizer=tokenizer
        )

    def layers(ids: torch.Tensor) -> Layers:
        alpha: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        for block in range(bridge.cfg.n_layers):
            prefix = f"blocks.{block}.attn.hook_"
            bridge.add_hook(f"{prefix}pattern", lambda x, hook: alpha.append(x[0, :, -1].clone()))
            bridge.add_hook(f"{prefix}v", lambda x, hook: values.append(x[0].transpose(0, 1)))
        with torch.no_grad():
            bridge(ids, return_type=None, stop_at_layer=bridge.cfg.n_layers)  # no logits
        bridge.reset_hooks()
        return list(zip(alpha, values, strict=True))

    return layers


def _tokenizer() -> Any:
    """Return an unused tokenizer, which the bridge requires."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    names = {f"t{index}": index for index in range(VOCABULARY)}
    plain = Tokenizer(models.WordLevel(names, unk_token="t0"))
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token="t1", eos_token="t2", pad_token="t2", unk_token="t0"
    )


def nnsight(model: PreTrainedModel) -> Callable[[torch.Tensor], Layers]:
    """Return rows and values by an nnsight trace of the decoder."""
    from nnsight import NNsight  # type: ignore[import-not-found]

    model.set_attn_implementation("eager")
    traced = NNsight(model.model)

    def layers(ids: torch.Tensor) -> Layers:
        with torch.no_grad(), traced.trace(ids, use_cache=False):
            alpha, values = [].save(), [].save()  # type: ignore[attr-defined]
            for layer in traced.layers:
                states = layer.self_attn.v_proj.output[0]
                values.append(states.unflatten(-1, (-1, 64)).transpose(0, 1))
                alpha.append(layer.self_attn.output[1][0, :, -1].clone())
        return list(zip(alpha, values, strict=True))

    return layers
