"""Checkpoints: what weight files hold, by their headers, against the model that a configuration
describes.

transformers gives a weight that it does not find random values, and passes over one that it does
not know: neither may be measured. Imports transformers, safetensors and gguf only.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from safetensors import safe_open
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
)

from empirical.errors import InputError

MOST_NAMED = 3
"""How many tensors a message names before it counts them."""

LAYERS = ("num_hidden_layers", "num_layers", "depth")
"""What configurations call the number of their layers."""
SPARE_LAYERS = 1000
"""Layers that a configuration may have beyond the number of tensors there are before it is
refused without building its model.
"""
SPARE_WEIGHTS = 2**28
"""Weights that a model may have beyond what its files can hold before it is refused without
reading them; a GiB in float32.
"""
PACKED = 32
"""Weights that one element of a quantised file holds at most."""

OLD_BUFFERS = re.compile(r"(attn|attention)\.(bias|masked_bias|causal_mask)$")
"""Constants that earlier versions of transformers saved beside the weights of GPT-2, GPT-Neo,
GPT-J, … and that none of them needs.
"""


def safetensors_files(folder: Path) -> list[Path]:
    """Return the files of a folder that transformers reads: model.safetensors, or the shards that
    its index names; an InputError where neither is there, the index cannot be read, or a shard is
    missing.
    """
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        raise InputError(
            f"{folder}: expected {single.name} or {index.name}. Name a folder written by"
            " save_pretrained."
        )
    try:
        shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{index}: is no index of weights ({type(error).__name__}). Get the file again."
        ) from error
    absent = [shard for shard in shards if not (folder / str(shard)).is_file()]
    if absent or not shards:
        raise InputError(
            f"{folder}: {index.name} names {_few(absent) or 'no files'}, which are not there. Get"
            " the missing files."
        )
    return [folder / shard for shard in shards]


def safetensors_tensors(files: Iterable[Path]) -> dict[str, int]:
    """Return how many elements each tensor of .safetensors files has."""
    out = {}
    for file in files:
        with safe_open(file, framework="pt") as opened:
            out.update({name: prod(opened.get_slice(name).get_shape()) for name in opened.keys()})  # noqa: SIM118 (no mapping)
    return out


class _WholeReader(GGUFReader):
    """A reader that refuses what lies beyond the end of its file. The original goes on without
    moving: a damaged length of an array keeps it busy for ever, and its memory grows.
    """

    def _get(self, offset: int, dtype: Any, count: int = 1, *order: Any, **named: Any) -> Any:
        if int(offset) + np.dtype(dtype).itemsize * int(count) > len(self.data):
            raise ValueError("ends beyond the file")
        return super()._get(offset, dtype, count, *order, **named)


def gguf_tensors(file: Path) -> tuple[str, dict[str, int]]:
    """Return the architecture of a GGUF file, and how many elements each of its tensors has; an
    InputError where it is cut short or none.
    """
    try:
        reader = _WholeReader(file)
        return reader.fields["general.architecture"].contents(), {
            tensor.name: int(tensor.n_elements) for tensor in reader.tensors
        }
    except Exception as error:  # the reader meets damage with whatever its indexing raises
        raise InputError(
            f"{file}: is cut short or no GGUF file ({type(error).__name__}). Get the file again."
        ) from error


def impossible(
    config: PreTrainedConfig, tensors: Mapping[str, int], model: PreTrainedModel | None = None
) -> str | None:
    """Say why files with these tensors, elements of each, cannot hold the model that `config`
    describes, or None; before it takes memory or time.

    Without `model`, built from `config` on the meta device, only the number of layers is judged,
    which must be done before building.
    """
    parts = [config.get_text_config(), *(getattr(config, name, 0) for name in config.sub_configs)]
    told = [getattr(part, name, 0) for part in parts for name in LAYERS]
    layers = max(number for number in told if isinstance(number, int))
    if layers > len(tensors) + SPARE_LAYERS:
        return f"its configuration has {layers} layers, but its files hold {len(tensors)} tensors"
    if model is None:
        return None
    held = sum(tensors.values()) * (PACKED if getattr(config, "quantization_config", None) else 2)
    asked = sum(weight.numel() for weight in model.parameters())
    if asked > held + SPARE_WEIGHTS:
        return f"its configuration has {asked} weights, but its files hold {sum(tensors.values())}"
    return None


def unfit(loading: Mapping[str, Collection[Any]]) -> str | None:
    """Say which weights are missing, unknown or of another shape by what transformers reports of
    loading (`loading_info`), or None.
    """
    extra = [name for name in loading["unexpected_keys"] if not OLD_BUFFERS.search(name)]
    shapes = [
        f"{name} {tuple(held)} for {tuple(asked)}"
        for name, held, asked in loading["mismatched_keys"]
    ]
    return _unlike(missing=loading["missing_keys"], extra=extra, shapes=shapes)


def unfit_gguf(architecture: str, tensors: Mapping[str, int], model: PreTrainedModel) -> str | None:
    """Say which tensors of a GGUF file, elements of each, transformers would pass over without a
    word or take apart wrongly, or None.

    model: built from the file's configuration, on any device.
    """
    with suppress(
        ImportError
    ):  # what newer versions of transformers read in a newer way is told by `loading_info`
        from transformers.integrations.gguf.utils import is_gguf_arch_supported

        if is_gguf_arch_supported(architecture):
            return None
    known = get_gguf_hf_weights_map(
        model, TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=model.config.to_dict())
    )
    taken, extra = defaultdict(list), []
    for name in tensors:
        weight = known.get(name) or known.get(
            name.removesuffix(".weight")
        )  # merged experts go without the suffix
        taken[weight].append(name) if weight else extra.append(name)
    sizes = {name: weight.numel() for name, weight in model.state_dict().items()}
    whole = Counter(known.values())
    shapes = [
        f"{' + '.join(names)} {sum(tensors[name] for name in names)} elements for {sizes[weight]}"
        for weight, names in taken.items()
        if len(names) == whole[weight]
        and weight in sizes
        and sum(tensors[name] for name in names) != sizes[weight]
    ]
    return _unlike(missing=(), extra=extra, shapes=shapes)


def _unlike(
    *, missing: Collection[str], extra: Collection[str], shapes: Collection[str]
) -> str | None:
    """Put the three kinds of misfit into one line."""
    kinds = (
        ("missing", sorted(missing)),
        ("unknown", sorted(extra)),
        ("of another shape", sorted(shapes)),
    )
    return (
        "; ".join(
            f"{len(names)} weight{' is' if len(names) == 1 else 's are'} {kind} ({_few(names)})"
            for kind, names in kinds
            if names
        )
        or None
    )


def _few(names: Collection[str]) -> str:
    """Name the first few and count the rest."""
    named = ", ".join(list(names)[:MOST_NAMED])
    return f"{named} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else named
