"""Loading through transformers' `from_pretrained`: quietly, its errors in one line, and refused
where the weights are not those of the configuration.

Imports torch, transformers and safetensors only.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMultimodalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from empirical.errors import InputError, boundary, message_of, quoted_error
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

Part = Literal["configuration", "model", "tokenizer", "weights", "forward"]
PARTS: Final[dict[Part, tuple[str, str]]] = {
    "configuration": (
        "its configuration cannot be read",
        "expected that of a transformers model. Check its config.json.",
    ),
    "model": (
        "no causal language model can be built from its configuration",
        "expected one that describes it. Check its config.json, or name another model.",
    ),
    "tokenizer": (
        "its tokenizer cannot be loaded",
        "expected its files, which tokenizer.save_pretrained(folder) writes. Put them there.",
    ),
    "weights": (
        "its weights cannot be loaded",
        "expected those of its configuration. Get its files again, or name another model.",
    ),
    "forward": (
        "it cannot read two tokens",
        "expected that it can. Check its config.json, or name another model.",
    ),
}
"""What is said of a part of a model that fails, and the remedy."""
OWN_CODE: Final = "comes with Python code of its own. If you trust it, use --trust-remote-code."


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


def load(source: Source, kind: Any, options: dict[str, Any], part: Part) -> Any:
    """Call `from_pretrained` and turn its errors into one line."""
    with in_one_line(source, part):
        if source.gguf is None:
            return kind.from_pretrained(source.folder, **options)
        with redirect_stderr(
            io.StringIO()
        ):  # the bar of the unpacking asks nobody whether it may be shown
            return kind.from_pretrained(source.folder, gguf_file=source.gguf, **options)


def load_tokenizer(source: Source, options: dict[str, Any]) -> PreTrainedTokenizerBase:
    """Load the tokenizer; an InputError where there is none, for which transformers may make one
    of special tokens alone.
    """
    tokenizer = load(source, AutoTokenizer, options, "tokenizer")
    with in_one_line(source, "tokenizer"):
        if len(tokenizer) <= len(tokenizer.all_special_ids):
            raise ValueError("it holds special tokens alone")
    return cast("PreTrainedTokenizerBase", tokenizer)


def kind_of(config: PreTrainedConfig) -> Any:
    """Return the class that loads a model: that of causal language models, or else, where that does
    not know it, of models that read pictures or sounds beside text, save by an encoder of them.
    """
    own = getattr(config, "auto_map", None) or {}
    others = (AutoModelForMultimodalLM, AutoModelForImageTextToText)
    for kind in (AutoModelForCausalLM, *(() if config.is_encoder_decoder else others)):
        if kind.__name__ in own or type(config) in kind._model_mapping:
            return kind
    return AutoModelForCausalLM


def refuse_own_code(source: Source, config: PreTrainedConfig) -> None:
    """Refuse a model whose own code holds another class than the one that transformers has for its
    type and would load in its stead, without a word.
    """
    kind = kind_of(config)
    with in_one_line(source, "configuration"):
        own = (getattr(config, "auto_map", None) or {}).get(kind.__name__)
        known = kind._model_mapping.get(type(config), None)
        if own and known and str(own).rpartition(".")[2] != known.__name__:
            raise InputError(f"{source.model}: {OWN_CODE}")


def load_weights(
    source: Source, config: PreTrainedConfig, options: dict[str, Any]
) -> PreTrainedModel:
    """Load the weights with PyTorch's attention where the family may take it, and else with its
    own; refuse those that were made up.
    """
    kind = kind_of(config)
    options = {
        **options,
        "output_loading_info": True,
        "ignore_mismatched_sizes": True,
    }  # the misfits are named below
    try:
        loaded, result = load(source, kind, {**options, "attn_implementation": "sdpa"}, "weights")
    except InputError as error:
        if "scaled_dot_product_attention" not in str(error.__cause__):
            raise
        loaded, result = load(source, kind, {**options, "attn_implementation": "eager"}, "weights")
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
        with in_one_line(source, "weights"):
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
    with in_one_line(source, "configuration"):
        misfit = impossible(config, tensors)
    if misfit is None:
        # What a configuration asks for beside shapes, such as FlashAttention, need not be here: it
        # is loaded without.
        plain: dict[str, Any] = {
            "attn_implementation": "eager",
            "dtype": torch.float32,
            "trust_remote_code": trust_remote_code,
        }
        with in_one_line(source, "model"), torch.device("meta"):
            model = kind_of(config).from_config(deepcopy(config), **plain)
            misfit = impossible(config, tensors, model)
            if misfit is None and architecture:
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


def in_one_line(source: Source, part: Part) -> AbstractContextManager[None]:
    """Turn what a damaged or foreign model makes transformers say in many lines into one, with
    the remedy; `part` is what is read, or tried, of the model.
    """
    seen, remedy = PARTS[part]
    return boundary(f"{source.model}: {seen}", remedy, partial(_known, source))


def _known(source: Source, error: BaseException) -> str | None:
    """Say of some errors what else is to be done."""
    text, name = message_of(error), type(error).__name__
    if "trust_remote_code" in text or "remote code" in text:
        return f"{source.model}: {OWN_CODE}"
    if "safetensors" in text and "does not appear to have" in text:
        return (
            f"{source.model}: has no safetensors weights. Pickled ones run code when loaded:"
            " --allow-pickle takes them."
        )
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in text:
        return (
            f"{source.model}: does not fit into memory ({name}). Free some, use --dtype bfloat16,"
            " or a smaller model."
        )
    if isinstance(error, OSError) and error.errno is not None:
        return (
            f"{error.filename or source.model}: cannot be read ({error.strerror}). Check the disk"
            " and the file's permissions."
        )
    if source.model == BUILTIN:
        return (
            f"{source.folder}: the converted built-in model is damaged ({name}). Remove that"
            " folder; it is made anew."
        )
    if isinstance(error, SafetensorError):
        return (
            f"{source.model}: its weights are cut short or damaged ({quoted_error(error)}). Get the"
            " files again."
        )
    return None
