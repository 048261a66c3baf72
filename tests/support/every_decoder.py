"""Tiny random models of every class of causal language models in transformers, with sizes reduced
by the names in their configuration.
"""

from __future__ import annotations

import re
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

LAYERS, WINDOW, VOCABULARY = 4, 8, 97

SHRUNK: tuple[tuple[str, Any], ...] = (
    (r"vocab|num_embeddings$|token_size", VOCABULARY),
    (r"^pad_token_id$", 0),
    (r"^(bos|decoder_start)_token_id$", 1),
    (r"_token(_id|_index)?$|_token_ids$", 2),
    (r"num_key_value_heads|num_kv_heads|kv_n_heads", 2),
    (r"kv_shared_layers|nextn|mtp|dense_replace", 0),
    (r"(num|n|encoder|decoder)_?(hidden_|encoder_|decoder_|hash_)?layers?$|^depth$", LAYERS),
    (r"(experts|topk)_per_tok|^top_k$|moe_topk|topk$", 2),
    (r"n_groups?$|topk_group|n_expert_group", 1),
    (r"n?_?experts?$|num_.*experts|moe_num", 4),
    (r"heads?$|_heads_", 4),
    (r"position|n_ctx|max_seq_len", 256),
    (r"sliding_window|chunk_size$|local_attention|window_size", WINDOW),
    (r"rope_head_dim|rope_dim$", 8),
    (r"head_dim|head_size|d_kv|v_head|kv_channels", 16),
    (r"rank", 16),
    (r"intermediate|ffn|inner|d_ff|feedforward|mlp", 48),
    (r"hidden|d_model|n_embd|embedding_size|embed_dim|^dim|^width|_dim$|_width$|d_embed", 64),
)
"""What a number of a configuration becomes, by the first pattern that its name matches."""


ALIKE = {"head_dim": 16, "global_head_dim": 16}
ROPE = {"rope_type": "default", "rope_theta": 1e4}
ZAMBA = {
    "layers_block_type": ["linear_attention", "hybrid"] * 2,
    **{"num_key_value_heads": 4, "attention_hidden_size": 128, "attention_head_dim": 32},
}
FITTED: dict[str, dict[str, Any]] = {
    "BambaForCausalLM": {"mamba_n_heads": 8, "mamba_d_head": 16, "attn_layer_indices": [1]},
    "CTRLLMHeadModel": {"dff": 48},
    "CohereCompassForCausalLM": {
        "rope_parameters": dict.fromkeys(("full_attention", "sliding_attention"), ROPE),
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "DbrxForCausalLM": {"attn_config": {"rope_theta": 1e4, "kv_n_heads": 2}},
    "Qwen4ExpForCausalLM": {
        **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16},
        **{"indexer_budget": 16, "indexer_compress_ratio": 4},
    },
    "Dots1ForCausalLM": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "Dots3NoteForCausalLM": {"num_key_value_heads": 4},
    "FalconH1ForCausalLM": {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_ssm": 64},
    "Gemma4ForCausalLM": ALIKE,
    "Gemma4ForConditionalGeneration": {"text_config": ALIKE},
    "Gemma4UnifiedForCausalLM": ALIKE,
    "Gemma4UnifiedForConditionalGeneration": {"text_config": ALIKE},
    "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 2]]},
    "GraniteMoeHybridForCausalLM": {"mamba_n_heads": 8, "mamba_d_head": 16},
    "HunYuanDenseV1ForCausalLM": {"head_dim": 16},
    "HunYuanMoEV1ForCausalLM": {"head_dim": 16},
    "Lfm2MoeForCausalLM": {"layer_types": ["conv", "full_attention"] * 2},
    "MinistralForCausalLM": {"head_dim": 16},
    "NemotronForCausalLM": {"num_key_value_heads": 2},
    "Mamba2ForCausalLM": {"num_heads": 8, "head_dim": 16},
    "XLNetLMHeadModel": {"d_head": 16},
    "ReformerModelWithLMHead": {"axial_pos_embds_dim": [16, 48], "axial_pos_shape": [16, 16]},
    "DeepseekV2ForCausalLM": {"num_experts_per_tok": 2, "first_k_dense_replace": 0},
    "MllamaForCausalLM": {"cross_attention_layers": []},
    "Zamba2ForCausalLM": ZAMBA,
    "ZambaForCausalLM": ZAMBA | {"attn_layer_period": 2, "attn_layer_offset": 1},
}
"""What some classes ask for beside, or in place of that."""


UNBUILT: dict[str, str] = {
    "Gemma3nForConditionalGeneration": "requires the timm library",
    "Gemma4AssistantForCausalLM": "hidden_size_per_layer_input must be 0",
    "Gemma4UnifiedAssistantForCausalLM": "set of layer types producing a cache",
}
"""Classes that cannot be built tiny, and what they say."""

_REFUSED = """
    AXK2ForCausalLM BailingHybridForCausalLM BambaForCausalLM BigBirdForCausalLM
    BigBirdPegasusForCausalLM BloomForCausalLM BltForCausalLM CodeGenForCausalLM
    CpmAntForCausalLM DbrxForCausalLM DeepseekV32ForCausalLM DeepseekV4ForCausalLM
    DiffLlamaForCausalLM DogeForCausalLM Dots3NoteForCausalLM FalconForCausalLM
    FalconMambaForCausalLM GPTJForCausalLM GPTNeoForCausalLM GPTNeoXJapaneseForCausalLM
    GitForCausalLM GlmMoeDsaForCausalLM GraniteMoeHybridForCausalLM HYV4ForCausalLM
    HrmTextForCausalLM Inkling2ForCausalLM InklingForCausalLM JambaForCausalLM
    KimiLinearForCausalLM Lfm2MoeForCausalLM Lfm3ForCausalLM Mamba2ForCausalLM MambaForCausalLM
    MegatronBertForCausalLM MiMoV2FlashForCausalLM MiniMaxForCausalLM MptForCausalLM
    MusicgenForCausalLM MusicgenMelodyForCausalLM MvpForCausalLM NemotronHForCausalLM
    OlmoHybridForCausalLM OpenAIGPTLMHeadModel ProphetNetForCausalLM Qwen3NextForCausalLM
    Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM Qwen4ExpForCausalLM RecurrentGemmaForCausalLM
    ReformerModelWithLMHead RemBertForCausalLM RoFormerForCausalLM RwkvForCausalLM
    TrOCRForCausalLM XGLMForCausalLM XLMWithLMHeadModel XLNetLMHeadModel XmodForCausalLM
    Zamba2ForCausalLM ZambaForCausalLM xLSTMForCausalLM
"""
REFUSED = frozenset(_REFUSED.split())
"""Classes that the tap refuses: some layers do not attend, or not through transformers' interface,
or attend twice, to fewer keys than tokens, or with a bias; or they ask for more than text.
"""


def families() -> list[str]:
    """Return the names of transformers' classes of causal language models."""
    return sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()))


def config_of(family: type[PreTrainedModel], **changes: Any) -> PreTrainedConfig:
    """Return a tiny configuration of a class, with some entries changed."""
    fitted = _merged(_shrunk(family.config_class()), FITTED.get(family.__name__, {}))
    return family.config_class(**_merged(fitted, changes))


def tiny_of(name: str, **changes: Any) -> PreTrainedModel:
    """Return a tiny random model of a class, by name, with changed configuration entries and
    weights so large that attention rows have peaks.
    """
    family = getattr(transformers, name)
    torch.manual_seed(0)
    model = family(config_of(family, **changes)).eval().requires_grad_(False)
    for place, weight in model.named_parameters():
        if weight.ndim > 1 and not re.search("emb|wte|wpe", place):
            weight.normal_(std=0.1)
        elif "sink" in place:
            weight.normal_(mean=1.0)
    return model


def _shrunk(given: PreTrainedConfig) -> dict[str, Any]:
    """Return keywords that make a configuration tiny: each number by its name."""
    aliases = {held: name for name, held in (given.attribute_map or {}).items()}
    out: dict[str, Any] = {}
    for name, value in given.to_dict().items():
        if name in given.sub_configs and isinstance(vars(given).get(name), PreTrainedConfig):
            out[name] = _shrunk(vars(given)[name])
        elif name == "is_decoder":
            out[name] = True
        elif isinstance(value, int) and not isinstance(value, bool):
            known = (_size_of(one) for one in (aliases.get(name, name), name))
            size = next((one for one in known if one is not None), None)
            if size is not None and (value > size or name.endswith(("_id", "_index"))):
                out[name] = size
    if "qk_rope_head_dim" in out:  # heads of latent attention: a part with positions, one without
        latent = {"num_key_value_heads": 4, "head_dim": 8, "qk_head_dim": 24}
        out |= {name: size for name, size in latent.items() if name in out}
    return out


def _size_of(name: str) -> int | None:
    return next((size for pattern, size in SHRUNK if re.search(pattern, name)), None)


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return first | {
        name: _merged(first[name], one) if isinstance(one, dict) and name in first else one
        for name, one in second.items()
    }
