"""Model checkpoints: location and identity of the weights, and loading through transformers.

A source is the built-in model, a local folder, a GGUF file or a Hugging Face id. transformers fills
a missing weight with random values and ignores an unknown one. Neither may be measured, so the
headers of the files are compared with the configured model before loading. Imports torch,
transformers, safetensors, gguf and huggingface_hub.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np
import torch
from gguf import GGUFReader
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError, safe_open
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMultimodalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
)
from transformers.utils import find_adapter_config_file, logging

from empirical.errors import InputError, boundary, message_of, quoted_error
from empirical.sources.builtin import BUILTIN, converted, file_sha256, gguf_file, quantization
from empirical.sources.paths import path_of, refuse_unbounded, shown

READ_WHOLE = frozenset({".jinja", ".json", ".model", ".py", ".tiktoken", ".txt"})
"""Suffixes of the files, other than weights, that transformers reads in a folder."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Errors of reading a damaged JSON file of weight names."""
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Arguments of `from_pretrained`, and what identifies the weights before loading."""

    model: str
    folder: str
    revision: str | None = None
    gguf: str | None = None
    identified_by: tuple[Path, ...] = ()
    """Files whose sha256 identifies a local model."""
    sha256: str | None = None
    """sha256 of the weights, if already known."""
    quantization: str | None = None
    """How the weights of the built-in model were quantised, in words."""

    def identity(self) -> str | None:
        """Return the sha256 of a local model's file, or of the lines `sha256 name` of several."""
        digests = [(file_sha256(file), file.name) for file in self.identified_by]
        if len(digests) < 2:
            return digests[0][0] if digests else self.sha256
        lines = "".join(f"{sha256} {name}\n" for sha256, name in digests)
        return hashlib.sha256(lines.encode()).hexdigest()


def source_of(model: str | None, revision: str | None, *, allow_pickle: bool) -> Source:
    """Return the source that `model` names (arguments as of `models.find`); an InputError if the
    name cannot be a model, or the hub does not have it or cannot be reached.
    """
    path = None if model is None or model == "builtin" else path_of(model, home=True)
    if path is not None and path.exists() and str(path) != shown(str(path)):
        raise InputError(
            f"{shown(path)}: has a name that is not UTF-8, expected a UTF-8 name, as the weight"
            " readers require. Rename it."
        )
    if revision is not None and (path is None or path.exists()):
        raise InputError(
            f"--revision {revision} belongs to a Hugging Face id, but the model is"
            f" {model or 'the built-in one'}. Leave it out."
        )
    if path is None:
        gguf = gguf_file()
        sha256 = file_sha256(gguf)
        return Source(
            model=BUILTIN,
            folder=str(converted(gguf, sha256)),
            sha256=sha256,
            quantization=quantization(gguf),
        )
    assert model is not None
    name = shown(model)
    if not path.exists():
        if path.suffix == ".gguf" or not _HUB_ID.fullmatch(model):
            raise InputError(
                f"{model}: no such file or folder, and it is no Hugging Face id. Check the path."
            )
        commit = _commit(model, revision)
        _refuse_adapter(model, model, commit)
        return Source(model=name, folder=model, revision=commit)
    folder = path if path.is_dir() else path.parent
    _refuse_adapter(model, folder, None)
    _refuse_endless(folder)
    if path.is_dir():
        files = _weight_files(path, allow_pickle=allow_pickle)
        return Source(model=name, folder=str(path), identified_by=files)
    if path.suffix != ".gguf" or not path.is_file():
        kind = f"a file of type {path.suffix or 'unknown'}"
        seen = kind if path.is_file() else "a pipe, a device or a socket"
        raise InputError(
            f"{model}: is {seen}, expected a .gguf file, a folder or a Hugging Face id."
        )
    return Source(model=name, folder=str(folder), gguf=path.name, identified_by=(path,))


def _refuse_adapter(model: str, place: str | Path, commit: str | None) -> None:
    """Refuse a peft adapter, alone or next to a whole model. transformers would apply it silently,
    and its files would not be part of the run's identity.
    """
    if find_adapter_config_file(str(place), revision=commit) is not None:
        raise InputError(
            f"{shown(model)}: holds a peft adapter (adapter_config.json), expected a model without"
            " one. If it is already merged into the weights, remove the adapter's files; otherwise"
            " merge it and save the whole model, or pass the model with its adapter to"
            " geostat.capture."
        )


def _refuse_endless(folder: Path) -> None:
    """Refuse a folder in which a file that transformers may open is a pipe, a device or a socket,
    or is a text too large to read.
    """
    for file in (*folder.glob("*"), *folder.glob("additional_chat_templates/*")):
        if file.suffix in READ_WHOLE and not file.is_dir() and file.exists():
            refuse_unbounded(file, file.stat())


def _files_of(folder: Path, pattern: str) -> list[Path]:
    """Return a folder's weight files, with those that its index or configuration names."""
    named: list[str] = []
    # transformers refuses later the files that cannot be read here.
    with suppress(*UNREADABLE):
        name = json.loads((folder / "config.json").read_bytes()).get("transformers_weights")
        named += [name] if isinstance(name, str) and Path(name).match(f"{pattern}*") else []
    for index in (*folder.glob(f"{pattern}.index.json"), *(folder / name for name in [*named])):
        with suppress(*UNREADABLE):
            if index.suffix == ".json" and index.is_file():
                named += map(str, json.loads(index.read_bytes())["weight_map"].values())
    files = {folder / name for name in named if not name.endswith(".json")}
    return sorted({file for file in files if file.exists()} | set(folder.glob(pattern)))


def _weight_files(folder: Path, *, allow_pickle: bool) -> tuple[Path, ...]:
    """Return the weight files of a local folder."""
    files = _files_of(folder, "*.safetensors")
    if not files and allow_pickle:
        files = _files_of(folder, "pytorch_model*.bin")
    if not (folder / "config.json").is_file() or not files:
        remedy = "Name a folder written by save_pretrained."
        if gguf := sorted(folder.glob("*.gguf")):
            remedy = f"Name the file: {gguf[0]}."
        elif any(folder.glob("*.bin")):
            remedy = (
                "Its weights may be pickles, which run code when loaded: --allow-pickle takes them."
            )
        raise InputError(f"{folder}: expected config.json and weights as .safetensors. {remedy}")
    for file in files:
        if not file.is_file():
            raise InputError(
                f"{file}: is no regular file or a link to nothing, expected weights. Remove it, or"
                " get the file again."
            )
    return tuple(files)


def _commit(model: str, revision: str | None) -> str:
    """Return the commit of a hub id and revision, from the hub, else from the local cache."""
    try:
        return str(HfApi().model_info(model, revision=revision, timeout=20).sha)
    except RevisionNotFoundError as error:
        raise InputError(
            f"{model}: the Hugging Face hub has no revision {revision} of it. Check --revision."
        ) from error
    except GatedRepoError as error:
        raise InputError(
            f"{model}: its authors require consent. Accept their terms on huggingface.co and log in"
            " with `hf auth login`."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"{model}: no such folder or file, and the Hugging Face hub knows no such model (or it"
            " is private). Check the name."
        ) from error
    # any other error means that the hub was not reached; its class depends on the HTTP library
    except Exception as error:
        cached = try_to_load_from_cache(model, "config.json", revision=revision)
        if isinstance(cached, str):
            return Path(cached).parent.name
        raise InputError(
            f"{model}: the Hugging Face hub cannot be reached ({type(error).__name__}) and the"
            " model is not in the cache. Check the connection, or omit the model to use the"
            " built-in one."
        ) from error


MOST_NAMED = 3
"""Number of tensors that a message names; further ones are counted."""

LAYERS = ("num_hidden_layers", "num_layers", "depth")
"""Names of the number of layers in configurations."""
SPARE_LAYERS = 1000
"""Excess of configured layers over tensors in the files at which a model is refused unbuilt."""
SPARE_WEIGHTS = 2**28
"""Excess of configured weights over the capacity of the files from which a model is refused without
loading it; 1 GiB in float32.
"""
PACKED = 32
"""Most weights that one element of a quantised file can hold."""

OLD_BUFFERS = re.compile(r"(attn|attention)\.(bias|masked_bias|causal_mask)$")
"""Constants that old versions of transformers saved with GPT-2, GPT-Neo, GPT-J, …"""


def safetensors_files(folder: Path) -> list[Path]:
    """Return the weight files that transformers reads in a folder: model.safetensors, or the shards
    in its index; an InputError if one is missing or the index cannot be read.
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
    except UNREADABLE as error:
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
    """Return the number of elements of each tensor in .safetensors files."""
    out = {}
    for file in files:
        with safe_open(file, framework="pt") as opened:
            out.update({name: prod(opened.get_slice(name).get_shape()) for name in opened.keys()})  # noqa: SIM118 (no mapping)
    return out


class _WholeReader(GGUFReader):
    """GGUF reader that refuses to read beyond the file, where the base class may loop for ever."""

    def _get(self, offset: int, dtype: Any, count: int = 1, *order: Any, **named: Any) -> Any:
        if int(offset) + np.dtype(dtype).itemsize * int(count) > len(self.data):
            raise ValueError("ends beyond the file")
        return super()._get(offset, dtype, count, *order, **named)


def gguf_tensors(file: Path) -> tuple[str, dict[str, int]]:
    """Return a GGUF file's architecture and elements per tensor; an InputError if damaged."""
    try:
        reader = _WholeReader(file)
        return reader.fields["general.architecture"].contents(), {
            tensor.name: int(tensor.n_elements) for tensor in reader.tensors
        }
    except Exception as error:  # damage raises whatever the reader's indexing raises
        raise InputError(
            f"{file}: is truncated or no GGUF file ({type(error).__name__}). Get the file again."
        ) from error


def impossible(
    config: PreTrainedConfig, tensors: Mapping[str, int], model: PreTrainedModel | None = None
) -> str | None:
    """Return why files with these tensors (elements of each) cannot hold the configured model, or
    None. Without `model`, on the meta device, only the number of layers is checked; this precedes
    building it.
    """
    parts = [config.get_text_config(), *(getattr(config, name, 0) for name in config.sub_configs)]
    numbers = [getattr(part, name, 0) for part in parts for name in LAYERS]
    layers = max(number for number in numbers if isinstance(number, int))
    if layers > len(tensors) + SPARE_LAYERS:
        return f"its configuration has {layers} layers, but its files hold {len(tensors)} tensors"
    if model is None:
        return None
    held = sum(tensors.values())
    most = held * (PACKED if getattr(config, "quantization_config", None) else 2) + SPARE_WEIGHTS
    weights = sum(weight.numel() for weight in model.parameters())
    if weights > most:
        return f"its configuration has {weights} weights, but its files hold {held}"
    return None


def unfit(loading: Mapping[str, Collection[Any]]) -> str | None:
    """Return which weights are missing, unknown or of another shape (`loading_info`), or None."""
    extra = [name for name in loading["unexpected_keys"] if not OLD_BUFFERS.search(name)]
    shapes = [
        f"{name} {tuple(shape)} for {tuple(expected)}"
        for name, shape, expected in loading["mismatched_keys"]
    ]
    return _misfit(missing=loading["missing_keys"], extra=extra, shapes=shapes)


def unfit_gguf(architecture: str, tensors: Mapping[str, int], model: PreTrainedModel) -> str | None:
    """Return which tensors of a GGUF file (elements of each) transformers would silently ignore or
    split wrongly, or None; `model` is built from the file's configuration.
    """
    # For architectures with the newer reader, `loading_info` reports unknown tensors.
    with suppress(ImportError):
        from transformers.integrations.gguf.utils import is_gguf_arch_supported

        if is_gguf_arch_supported(architecture):
            return None
    known = get_gguf_hf_weights_map(
        model, TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=model.config.to_dict())
    )
    parts_of, extra = defaultdict(list), []
    for name in tensors:
        # Merged experts have no suffix.
        weight = known.get(name) or known.get(name.removesuffix(".weight"))
        parts_of[weight].append(name) if weight else extra.append(name)
    sizes = {name: weight.numel() for name, weight in model.state_dict().items()}
    whole = Counter(known.values())
    shapes = []
    for weight, names in parts_of.items():
        size = sum(tensors[name] for name in names)
        if len(names) == whole[weight] and size != sizes.get(weight, size):
            shapes.append(f"{' + '.join(names)} {size} elements for {sizes[weight]}")
    return _misfit(missing=(), extra=extra, shapes=shapes)


def _misfit(
    *, missing: Collection[str], extra: Collection[str], shapes: Collection[str]
) -> str | None:
    """Return the three kinds of misfit as one line, or None."""
    kinds = {"missing": missing, "unknown": extra, "of another shape": shapes}
    parts = [
        f"{len(names)} weight{' is' if len(names) == 1 else 's are'} {kind} ({_few(sorted(names))})"
        for kind, names in kinds.items()
        if names
    ]
    return "; ".join(parts) or None


def _few(names: Sequence[str]) -> str:
    """Return the first few names and the number of the rest."""
    named = ", ".join(names[:MOST_NAMED])
    return f"{named} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else named


Part = Literal["configuration", "model", "tokenizer", "weights", "forward"]
PARTS: Final[dict[Part, tuple[str, str]]] = {
    "configuration": (
        "its configuration cannot be read",
        "expected that of a transformers model. Check its config.json.",
    ),
    "model": (
        "no causal language model can be built from its configuration",
        "expected one that describes such a model. Check its config.json, or name another model.",
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
        "expected a working model. Check its config.json, or name another model.",
    ),
}
"""Message and remedy for each part of a model that fails."""
OWN_CODE: Final = "comes with its own Python code. If you trust it, use --trust-remote-code."


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' bars and warnings; problems reach the user as InputErrors."""
    verbosity = logging.get_verbosity()
    hook = logging.set_tqdm_hook(lambda factory, args, kwargs: logging.EmptyTqdm(*args, **kwargs))
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
        # The progress bar of the unpacking has no switch.
        with redirect_stderr(io.StringIO()):
            return kind.from_pretrained(source.folder, gguf_file=source.gguf, **options)


def load_tokenizer(source: Source, options: dict[str, Any]) -> PreTrainedTokenizerBase:
    """Load the tokenizer; refuse one of special tokens only, which stands for a missing one."""
    tokenizer = load(source, AutoTokenizer, options, "tokenizer")
    with in_one_line(source, "tokenizer"):
        if len(tokenizer) <= len(tokenizer.all_special_ids):
            raise ValueError("it holds special tokens alone")
    return cast("PreTrainedTokenizerBase", tokenizer)


def kind_of(config: PreTrainedConfig) -> Any:
    """Return the class that loads a model: causal language models, or, if that does not know the
    configuration, multimodal models without an encoder-decoder.
    """
    own = getattr(config, "auto_map", None) or {}
    others = (AutoModelForMultimodalLM, AutoModelForImageTextToText)
    for kind in (AutoModelForCausalLM, *(() if config.is_encoder_decoder else others)):
        if kind.__name__ in own or type(config) in kind._model_mapping:
            return kind
    return AutoModelForCausalLM


def refuse_own_code(source: Source, config: PreTrainedConfig) -> None:
    """Refuse own code for which transformers would silently load a built-in class instead."""
    kind = kind_of(config)
    with in_one_line(source, "configuration"):
        own = (getattr(config, "auto_map", None) or {}).get(kind.__name__)
        known = kind._model_mapping.get(type(config), None)
        if own and known and str(own).rpartition(".")[2] != known.__name__:
            raise InputError(f"{source.model}: {OWN_CODE}")


def load_weights(
    source: Source, config: PreTrainedConfig, options: dict[str, Any]
) -> PreTrainedModel:
    """Load with PyTorch's attention, or else eager; refuse weights initialised at random."""
    # `_refuse` names weights of another shape.
    options = options | {"output_loading_info": True, "ignore_mismatched_sizes": True}

    def load_with(attention: str) -> Any:
        attending = options | {"attn_implementation": attention}
        return load(source, kind_of(config), attending, "weights")

    try:
        model, loading = load_with("sdpa")
    except InputError as error:
        if "scaled_dot_product_attention" not in str(error.__cause__):
            raise
        model, loading = load_with("eager")
    _refuse(source, unfit(loading))
    return model


def read_headers(source: Source) -> tuple[str, dict[str, int]] | None:
    """Return the architecture (of a GGUF file, else "") and the elements of each tensor in a
    model's files. None for hub models, which are not downloaded yet, and for pickles, which would
    be loaded.
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
    """Refuse files that do not match the configuration, before loading costs time or memory."""
    with in_one_line(source, "configuration"):
        misfit = impossible(config, tensors)
    if misfit is None:
        # Only shapes matter here: other requirements of a configuration, such as FlashAttention,
        # may be missing on this machine.
        with in_one_line(source, "model"), torch.device("meta"):
            model = kind_of(config).from_config(
                deepcopy(config),
                attn_implementation="eager",
                dtype=torch.float32,
                trust_remote_code=trust_remote_code,
            )
            misfit = impossible(config, tensors, model)
            if misfit is None and architecture:
                misfit = unfit_gguf(architecture, tensors, model)
    _refuse(source, misfit)


def _refuse(source: Source, misfit: str | None) -> None:
    """Raise an InputError if weights and configuration do not match."""
    if misfit is None:
        return
    if source.model == BUILTIN:
        raise InputError(_damaged_copy(source, f": {misfit}"))
    remedy = "" if source.gguf is None else ", or one as .safetensors"
    raise InputError(
        f"{source.model}: weights and configuration do not belong together: {misfit}. Get a whole"
        f" copy of the model{remedy}."
    )


def _damaged_copy(source: Source, why: str) -> str:
    return (
        f"{source.folder}: the converted built-in model is damaged{why}. Remove that folder; it is"
        " converted again."
    )


def in_one_line(source: Source, part: Part) -> AbstractContextManager[None]:
    """Turn errors of transformers, while it reads a part of a model, into one line."""
    seen, remedy = PARTS[part]
    return boundary(f"{source.model}: {seen}", remedy, partial(_known, source))


def _known(source: Source, error: BaseException) -> str | None:
    """Return the whole message for errors with a specific remedy, else None."""
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
        return _damaged_copy(source, f" ({name})")
    if isinstance(error, SafetensorError):
        return (
            f"{source.model}: its weights are truncated or damaged ({quoted_error(error)})."
            " Download the files again."
        )
    return None
