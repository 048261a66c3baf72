"""Digests of a model: of its weights, and of what else its numbers follow from.

Imports torch and transformers.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from transformers import PreTrainedModel

from empirical.errors import InputError

_UNUSED: Final = frozenset(
    {
        "architectures",
        "chunk_size_feed_forward",
        "dtype",
        "id2label",
        "initializer_range",
        "label2id",
        "output_attentions",
        "output_hidden_states",
        "problem_type",
        "return_dict",
        "transformers_version",
        "use_cache",
    }
)
"""Entries of a configuration that move no number of a forward, or stand elsewhere in a run."""


def weights_sha256(model: torch.nn.Module) -> str:
    """Return the sha256 of a model's weights: of name, type, shape and bytes of each entry of its
    state, in the order of names, packed and quantised ones by their parts. On any device the same.

    Raises:
        InputError: a weight is not in memory, as of layers that were moved to the disk, or of a
            type whose bytes cannot be read.
    """
    digest = hashlib.sha256()
    for entry, value in sorted(model.state_dict().items(), key=lambda item: item[0]):
        try:
            for name, part in plain_parts(entry, value):
                if part.is_meta:
                    raise InputError(
                        f"model: its weight {name} is not in memory, so it cannot be hashed. Give"
                        " hash_weights=False."
                    )
                digest.update(f"{name} {part.dtype} {tuple(part.shape)}\n".encode())
                flat = part.cpu().contiguous().reshape(-1)
                digest.update(flat.view(torch.uint8).numpy().data)
        except (RuntimeError, TypeError, AttributeError) as error:  # of whose type this is
            raise InputError(
                f"model: its weight {entry} is a {type(value).__name__}, whose bytes cannot be read"
                f" ({type(error).__name__}). Give hash_weights=False."
            ) from error
    return digest.hexdigest()


def plain_parts(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the plain tensors, each with a name, of which an entry of a state is made: a tuple of
    packed parameters, a quantised tensor, one of a library's own type. What holds none gives none.
    """
    if isinstance(value, tuple | list):
        for place, part in enumerate(value):
            yield from plain_parts(f"{name}.{place}", part)
    elif not isinstance(value, torch.Tensor):
        return
    elif hasattr(value, "__tensor_flatten__"):  # a subclass that keeps its numbers in others
        for part in value.__tensor_flatten__()[0]:
            yield from plain_parts(f"{name}.{part}", getattr(value, part))
    elif value.is_quantized:
        whole = value.detach()
        yield f"{name} {whole.dtype}", whole.int_repr()
        if whole.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            yield f"{name}.scale", torch.tensor([whole.q_scale(), whole.q_zero_point()])
        else:
            yield f"{name}.scale", whole.q_per_channel_scales()
            yield f"{name}.zero", whole.q_per_channel_zero_points()
    else:
        yield name, value.detach()


def code_sha256(model: torch.nn.Module) -> str | None:
    """Return the sha256 of the Python files that came with a model, as lines `sha256 name` in the
    order of names; None where all of its modules are of installed packages.
    """
    modules = {type(module).__module__ for module in model.modules()}
    own = {name for name in modules if name.partition(".")[0] == "transformers_modules"}
    files = [getattr(sys.modules.get(name), "__file__", None) for name in own]
    folders = {Path(file).parent for file in files if file}
    lines = sorted(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.name}\n"
        for folder in folders
        for file in folder.glob("*.py")
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest() if lines else None


def config_sha256(decoder: PreTrainedModel) -> str:
    """Return the sha256 of what a decoder's numbers follow from beside its weights: the entries of
    its configuration, and of each module with adapters, as peft's, which are active and how much
    they count.

    Names, versions and the attention implementation are left out.
    """
    told = {
        name: value
        for name, value in decoder.config.to_dict().items()
        if not name.startswith("_") and name not in _UNUSED
    }
    adapters = {
        name: [getattr(module, part, None) for part in ("disable_adapters", "scaling")]
        + [active, getattr(module, "merged_adapters", None)]
        for name, module in decoder.named_modules()
        if isinstance(active := getattr(module, "active_adapters", None), list)
    }
    text = json.dumps([told, adapters], sort_keys=True, default=_told)
    return hashlib.sha256(text.encode()).hexdigest()


def _told(value: Any) -> str:
    """Name what JSON does not know: a type by its name, any other thing by its kind."""
    return str(value) if isinstance(value, torch.dtype) else type(value).__name__
