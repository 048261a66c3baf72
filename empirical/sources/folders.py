"""Where a model comes from: the built-in one, a local folder, a GGUF file or a Hugging Face id, and
what identifies its weights.

Imports huggingface_hub and transformers, and what converts the built-in model.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from transformers.utils import find_adapter_config_file

from empirical.errors import InputError
from empirical.sources.builtin import BUILTIN, converted, file_sha256, gguf_file
from empirical.sources.paths import path_of, refuse_unbounded, shown

READ_WHOLE = frozenset({".jinja", ".json", ".model", ".py", ".tiktoken", ".txt"})
"""What transformers reads of a folder beside weights, by how its name ends."""
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where weights come from: what `from_pretrained` takes, and what tells of them before they
    are read.
    """

    model: str
    folder: str
    revision: str | None = None
    gguf: str | None = None
    identified_by: tuple[Path, ...] = ()
    """The files whose sha256 identifies a local model."""
    sha256: str | None = None
    """Where it is known already."""

    def identity(self) -> str | None:
        """Return the sha256 that identifies the weights of a local model: of its file, or of the
        lines `sha256 name` of several.
        """
        hashes = [file_sha256(file) for file in self.identified_by]
        if len(hashes) < 2:
            return hashes[0] if hashes else self.sha256
        lines = "".join(
            f"{sha256} {file.name}\n"
            for sha256, file in zip(hashes, self.identified_by, strict=True)
        )
        return hashlib.sha256(lines.encode()).hexdigest()


def source_of(model: str | None, revision: str | None, *, allow_pickle: bool) -> Source:
    """Find out which of the four kinds of source `model` names (arguments as of `models.find`); an
    InputError where it names nothing that can be a model, or the hub does not have it or cannot be
    reached.
    """
    path = None if model is None or model == "builtin" else path_of(model, home=True)
    if path is not None and path.exists() and str(path) != shown(str(path)):
        raise InputError(
            f"{shown(path)}: has a name that is not UTF-8, expected one that the readers of weights"
            " can open. Rename it."
        )
    if revision is not None and (path is None or path.exists()):
        raise InputError(
            f"--revision {revision} belongs to a Hugging Face id, but the model is"
            f" {model or 'the built-in one'}. Leave it out."
        )
    if path is None:
        gguf = gguf_file()
        sha256 = file_sha256(gguf)
        return Source(model=BUILTIN, folder=str(converted(gguf, sha256)), sha256=sha256)
    assert model is not None
    if path.exists():
        _refuse_adapter(model, path if path.is_dir() else path.parent, None)
        _refuse_endless(path if path.is_dir() else path.parent)
    if path.is_dir():
        return Source(
            model=shown(model),
            folder=str(path),
            identified_by=_weight_files(path, allow_pickle=allow_pickle),
        )
    if path.exists() and (path.suffix != ".gguf" or not path.is_file()):
        seen = (
            f"a file of type {path.suffix or 'unknown'}"
            if path.is_file()
            else "a pipe, a device or a socket"
        )
        raise InputError(
            f"{model}: is {seen}, expected a .gguf file, a folder or a Hugging Face id."
        )
    if path.exists():
        return Source(
            model=shown(model), folder=str(path.parent), gguf=path.name, identified_by=(path,)
        )
    if path.suffix == ".gguf" or not _HUB_ID.fullmatch(model):
        raise InputError(
            f"{model}: no such file or folder, and it is no Hugging Face id. Check the path."
        )
    commit = _commit(model, revision)
    _refuse_adapter(model, model, commit)
    return Source(model=shown(model), folder=model, revision=commit)


def _refuse_adapter(model: str, place: str | Path, commit: str | None) -> None:
    """Refuse a peft adapter, alone or beside a whole model, on which transformers would put it
    without a word; its files would not be part of what identifies the run.
    """
    if find_adapter_config_file(str(place), revision=commit) is not None:
        raise InputError(
            f"{shown(model)}: holds a peft adapter (adapter_config.json), expected a model without"
            " one. If it is merged into the weights beside it, remove the adapter's files; else"
            " merge it and save the whole model, or give geostat.capture the model with its adapter"
            " in memory."
        )


def _refuse_endless(folder: Path) -> None:
    """Refuse a folder with a pipe, a device or a socket among what transformers may open, or a text
    that is too large to be read whole.
    """
    for file in (*folder.glob("*"), *folder.glob("additional_chat_templates/*")):
        if file.suffix in READ_WHOLE and not file.is_dir() and file.exists():
            refuse_unbounded(file, file.stat())


def _files_of(folder: Path, pattern: str) -> list[Path]:
    """Return weight files of a folder, and those that its index or its configuration names,
    wherever they lie.
    """
    named: list[str] = []
    # who opens what cannot be read here says so
    with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        told = json.loads((folder / "config.json").read_bytes()).get("transformers_weights")
        named += [told] if isinstance(told, str) and Path(told).match(f"{pattern}*") else []
    indexes = [*folder.glob(f"{pattern}.index.json"), *(folder / name for name in named)]
    for index in indexes:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            if index.suffix == ".json" and index.is_file():
                named += map(str, json.loads(index.read_bytes())["weight_map"].values())
    files = {folder / name for name in named if not name.endswith(".json")}
    return sorted({file for file in files if file.exists()} | set(folder.glob(pattern)))


def _weight_files(folder: Path, *, allow_pickle: bool) -> tuple[Path, ...]:
    """Return the weight files of a local folder."""
    files = _files_of(folder, "*.safetensors") or (
        _files_of(folder, "pytorch_model*.bin") if allow_pickle else []
    )
    if not (folder / "config.json").is_file() or not files:
        held = sorted(file.name for file in folder.glob("*.gguf"))
        remedy = (
            f"Name the file: {folder / held[0]}."
            if held
            else "Name a folder written by save_pretrained."
        )
        if not held and any(folder.glob("*.bin")):
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
    """Return the commit that a hub id and revision stand for: from the hub, or, where it cannot
    be reached, from what was loaded before.
    """
    try:
        return str(HfApi().model_info(model, revision=revision, timeout=20).sha)
    except RevisionNotFoundError as error:
        raise InputError(
            f"{model}: the Hugging Face hub has no revision {revision} of it. Check --revision."
        ) from error
    except GatedRepoError as error:
        raise InputError(
            f"{model}: its authors ask for consent. Accept their terms on huggingface.co and log in"
            " with `hf auth login`."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"{model}: no such folder or file, and the Hugging Face hub knows no such model (or it"
            " is private). Check the name."
        ) from error
    # the transport's own errors change with the library underneath; any of them means: not reached
    except Exception as error:
        held = try_to_load_from_cache(model, "config.json", revision=revision)
        if isinstance(held, str):
            return Path(held).parent.name
        raise InputError(
            f"{model}: the Hugging Face hub cannot be reached ({type(error).__name__}) and the"
            " model was not loaded before. Check the connection, or leave out the model to use the"
            " built-in one."
        ) from error
