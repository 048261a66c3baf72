"""Every causal language model class of transformers, tiny and random, captured in memory.

Its weights equal eager attention in float64, or the model is refused in one line.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from support.every_decoder import REFUSED, UNBUILT, families, tiny_of
from support.families import tokens
from transformers import PreTrainedModel

import geostat as gs

QUICK = {"FalconH1ForCausalLM", "Llama4ForCausalLM", "XmodForCausalLM"}
LENGTH = 40
ROUNDING = 1e-4
"""Tolerance of float32 weights after layers with peaked rows."""


def eager(model: PreTrainedModel, ids: torch.Tensor) -> list[torch.Tensor]:
    """Return the last query's weights of each layer, (document, head, position), in float64."""
    wide = copy.deepcopy(model).double()
    wide.set_attn_implementation("eager")
    if wide._can_set_experts_implementation():
        wide.set_experts_implementation("eager")  # the others do not support float64
    with torch.no_grad():
        out = wide(input_ids=ids, output_attentions=True, use_cache=False, return_dict=True)
    return [attention[:, :, -1] for attention in out.attentions if attention is not None]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in families()
        if name not in UNBUILT
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_weights_are_those_of_eager_attention_or_the_model_is_refused(
    name: str, tmp_path: Path
) -> None:
    model, ids = tiny_of(name), tokens(2, LENGTH)
    kwargs = {"documents": list(ids), "length": LENGTH, "null": False, "queries": "last"}
    if name in REFUSED:
        with pytest.raises(gs.InputError) as caught:
            gs.capture(model, out=tmp_path, **kwargs)
        assert "\n" not in str(caught.value)
        return
    run = gs.capture(model, out=tmp_path, **kwargs)
    measured = torch.as_tensor(run["capture"]["attention_weight"].values, dtype=torch.float64)
    expected = eager(model, ids)
    assert len(expected) == measured.shape[1]
    for row, result in zip(expected, measured.unbind(1), strict=True):
        kept, whole = result.sum(dim=-1, keepdim=True), row.sum(dim=-1, keepdim=True)
        # eager weights exclude the share of a learned sink
        rounded = torch.where((whole - 1).abs() < (whole - kept).abs(), row * kept, row)
        torch.testing.assert_close(result, rounded, atol=ROUNDING, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNBUILT)
def test_families_outside_the_table_cannot_be_built(name: str) -> None:
    with pytest.raises(Exception, match=UNBUILT[name]):
        tiny_of(name)
