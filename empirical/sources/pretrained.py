"""Loading through transformers' `from_pretrained`: quietly, its errors in one line, and refused
where the weights are not those of the configuration.

Imports torch, transformers and safetensors only.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from empirical.errors import InputError
from empirical.sources.builtin import BUILTIN
from empirical.sources.checkpoints import (
    gguf_tensors,
    impossible,
    safetensors_files,
    safetensors_tensors,
    unfit,
    unfit_gguf,
)
from empirical.sources.folders import Source


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and notices; what matters reaches the user as an error
    of our own. Downloads keep their bar.
    """
    verbosity = logging.get_verbosity()
    hook = logging.set_tqdm_hook(
        lambda factory, args, keywords: logging.EmptyTqdm(*args, **keywords)
    )
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.set_tqdm_hook(hook)


def load(source: Source, kind: Any, options: dict[str, Any]) -> Any:
    """Call `from_pretrained` and turn its errors into one line."""
    with _one_line(source):
        if source.gguf is None:
            return kind.from_pretrained(source.folder, **options)
        with redirect_stderr(
            io.StringIO()
        ):  # the bar of the unpacking asks nobody whether it may be shown
            return kind.from_pretrained(source.folder, gguf_file=source.gguf, **options)


def load_weights(source: Source, options: dict[str, Any]) -> PreTrainedModel:
    """Load the weights with PyTorch's attention where the family may take it, and else with its
    own; refuse those that were made up.
    """
    options = {
        **options,
        "output_loading_info": True,
        "ignore_mismatched_sizes": True,
    }  # the misfits are named below
    try:
        loaded, result = load(
            source, AutoModelForCausalLM, {**options, "attn_implementation": "sdpa"}
        )
    except InputError as error:
        if "scaled_dot_product_attention" not in str(error.__cause__):
            raise
        loaded, result = load(
            source, AutoModelForCausalLM, {**options, "attn_implementation": "eager"}
        )
    _refuse(source, unfit(result))
    return loaded


def read_headers(source: Source) -> tuple[str, dict[str, int]] | None:
    """Read the architecture, of a GGUF file, and how many elements each tensor has in a model's
    files.

    None for those of the hub, not here yet, and for pickles, which tell nothing unless they are
    loaded.
    """
    folder = Path(source.folder)
    if source.gguf is not None:
        return gguf_tensors(folder / source.gguf)
    files = source.identified_by or folder.glob("*.safetensors")
    if source.revision is None and any(file.suffix == ".safetensors" for file in files):
        with _one_line(source):
            return "", safetensors_tensors(safetensors_files(folder))
    return None


def refuse_unfit(
    source: Source,
    architecture: str,
    tensors: dict[str, int],
    config: PreTrainedConfig,
    *,
    trust_remote_code: bool,
) -> None:
    """Refuse files that do not hold what the configuration tells, before either costs time or
    memory.
    """
    misfit = impossible(config, tensors)
    if misfit is None:
        # What a configuration asks for beside shapes, such as FlashAttention, need not be here: it
        # is loaded without.
        plain: dict[str, Any] = {
            "attn_implementation": "eager",
            "dtype": torch.float32,
            "trust_remote_code": trust_remote_code,
        }
        with _one_line(source), torch.device("meta"):
            model = AutoModelForCausalLM.from_config(deepcopy(config), **plain)
        misfit = impossible(config, tensors, model)
        if misfit is None and architecture:
            with _one_line(source):
                misfit = unfit_gguf(architecture, tensors, model)
    _refuse(source, misfit)


def _refuse(source: Source, misfit: str | None) -> None:
    """Say in one line that weights and configuration are not of one model, if they are not."""
    if misfit is None:
        return
    if source.model == BUILTIN:
        raise InputError(
            f"{source.folder}: the converted built-in model is damaged: {misfit}. Remove that"
            " folder; it is made anew."
        )
    remedy = (
        "Get a whole copy of the model."
        if source.gguf is None
        else "Get a whole copy of the model, or one as .safetensors."
    )
    raise InputError(
        f"{source.model}: weights and configuration do not belong together: {misfit}. {remedy}"
    )


@contextmanager
def _one_line(source: Source) -> Iterator[None]:
    """Turn what a damaged or foreign model makes transformers say in many lines into one, with
    the remedy.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # whatever it raises, the user reads one line
        text = " ".join(str(error).split())[:200]
        if "trust_remote_code" in text or "remote code" in text:
            line = (
                f"{source.model}: comes with Python code of its own. If you trust it, use"
                " --trust-remote-code."
            )
        elif "safetensors" in text and "does not appear to have" in text:
            line = (
                f"{source.model}: has no safetensors weights. Pickled ones run code when loaded:"
                " --allow-pickle takes them."
            )
        elif source.model == BUILTIN:
            damage = type(error).__name__
            line = (
                f"{source.folder}: the converted built-in model is damaged ({damage}). Remove that"
                " folder; it is made anew."
            )
        elif isinstance(error, SafetensorError):
            line = (
                f"{source.model}: its weights are cut short or damaged ({text}). Get the files"
                " again."
            )
        else:
            line = (
                f"{source.model}: transformers cannot load it ({type(error).__name__}: {text})."
                " Name a causal language model."
            )
        raise InputError(line) from error
