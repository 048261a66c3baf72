"""Tiny GGUF files: a Llama of two layers with a tokenizer of letters, whose tensors and header a
test may change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS = 2, 32, 48, 4, 2
TOKENS = ["<unk>", "<s>", "</s>", *(chr(ord("a") + index) for index in range(26)), "ab"]


def gguf_tensors() -> dict[str, np.ndarray]:
    """Return random weights under their GGUF names, rows first."""
    shapes = {"token_embd.weight": (len(TOKENS), HIDDEN), "output_norm.weight": (HIDDEN,)}
    kv_shape = (HIDDEN * KV_HEADS // HEADS, HIDDEN)
    by_layer = {
        **{"attn_q": (HIDDEN, HIDDEN), "attn_k": kv_shape, "attn_v": kv_shape},
        **{"attn_output": (HIDDEN, HIDDEN), "ffn_gate": (INNER, HIDDEN), "ffn_up": (INNER, HIDDEN)},
        **{"ffn_down": (HIDDEN, INNER), "attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,)},
    }
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in by_layer.items()}
    chance = np.random.default_rng(0)
    return {
        name: chance.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }


def gguf_file(
    path: Path,
    *,
    layers: int = LAYERS,
    change: Callable[[dict[str, np.ndarray]], object] = lambda tensors: None,
) -> Path:
    """Write the file; `change` may remove, add or reshape tensors."""
    tensors = gguf_tensors()
    change(tensors)
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
