"""Where a run's numbers come from: everything that must be equal for two runs to be the same, and
what tells them apart.

Imports the versions of what computes. Nothing here but `machine` changes from run to run.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Collection, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from empirical.capture.source import Described
from empirical.errors import InputError
from empirical.measure.convention import Convention
from empirical.schema import SCHEMA_VERSION
from empirical.sources.fingerprint import other_output
from empirical.sources.queries import Queries
from empirical.sources.windows import Windows
from empirical.store.stored_run import StoredRun

LIBRARIES = ("torch", "transformers", "numpy", "numba")
"""Whose versions can move a measured number."""

UNTOLD = {"measure": "cpu"}
"""What runs were whose provenance does not tell it, as it was not to be chosen."""

UNTOLD_OF_MODEL = frozenset({"config_sha256", "code_sha256", "fingerprint"})
"""What a run's provenance may not tell of its model: where it does not, any will do."""

FINGERPRINT = "model.fingerprint"
"""What the provenance tells of what a model does, compared within rounding."""

RECORDED_ONLY = "git_commit"
"""All other provenance must agree before documents are added to a store."""


def git_commit() -> str:
    """Commit of the checkout this package runs from, with +changes when files differ from it;
    empty outside a checkout.
    """
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return ""
    describe = [
        "git",
        "describe",
        "--always",
        "--abbrev=40",
        "--exclude=*",
        "--dirty=+changes",
    ]  # no tag stands in for the commit
    try:
        return subprocess.run(
            describe, cwd=checkout, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def asked_for(
    windows: Windows,
    *,
    n: np.ndarray,
    queries: Queries,
    convention: Convention,
    seed: int,
    batch: int,
) -> dict[str, Any]:
    """The part of the provenance that is known before a model's weights are read: text and
    options.
    """
    return {
        "corpus": {  # it does not change when documents are added
            "name": windows.corpus,
            **({"population": windows.population} if windows.population else {}),
        },
        "length": int(windows.token_ids.shape[1]),
        "n": {
            "count": len(n),
            "smallest": int(n[0]),
            "largest": int(n[-1]),
            "sha256": hashlib.sha256(np.asarray(n, dtype="<i8").tobytes()).hexdigest(),
        },
        "queries": str(queries),
        "convention": convention.value,
        "special_tokens": windows.special_tokens,
        "seed": seed,
        "batch": batch,
    }


def execution(devices: Collection[str], measure: str) -> str:
    """Return where layers that live on `devices` are measured, as the provenance has it: "cpu",
    "device", or "auto" where some of them live on the CPU and some do not.
    """
    if measure != "auto":
        return measure
    on_cpu = {device == "cpu" for device in devices}
    return "auto" if len(on_cpu) > 1 else "cpu" if on_cpu == {True} else "device"


def provenance(
    source: Described,
    windows: Windows,
    *,
    measure: str,
    settings: Mapping[str, Any],
    **options: Any,
) -> dict[str, Any]:
    """Everything a store's root says of its run; plain JSON types. measure: as `execution` tells
    it; options: as in `asked_for`.
    """
    own, *others = versions().items()
    return {
        "schema_version": SCHEMA_VERSION,
        "geostat_version": own[1],
        "git_commit": git_commit(),
        "versions": dict(others),
        "model": source.provenance(),
        **asked_for(windows, **options),
        "measure": measure,
        "settings": dict(settings),
    }


def versions() -> dict[str, str]:
    """Return the versions of what can move a measured number: geostat's, then the libraries'."""
    try:
        own = version("attention-geostat")
    except PackageNotFoundError:
        own = "unknown"
    return {"geostat": own} | {name: version(name) for name in LIBRARIES}


def refuse_other(store: StoredRun, recorded: Mapping[str, Any], windows: Windows) -> None:
    """Refuse a run that is not the one `recorded`, or holds other documents than the first of
    `windows`: two runs are never mixed in one store.

    Raises:
        InputError: naming what differs.
    """
    held, names, does = store.documents, windows.names, None
    for name, old, new in differing(store.attributes, recorded):
        if name == FINGERPRINT:
            does = new  # told last: where the text differs, so does what a model makes of it
            continue
        raise InputError(
            f"{store.path}: was measured with {name} = {old}, this run has {new}. Use --fresh"
            " to measure again, or another --out."
        )
    if len(held) > len(names):
        raise InputError(
            f"{store.path}: holds {len(held)} documents, this run asks for {len(names)}. "
            f"Use --documents {len(held)} or more, --fresh, or another --out."
        )
    for row, name, digest in zip(held, names, windows.sha256, strict=False):
        if digest and row["sha256"] != digest:
            seen = f"holds document {row['name']!r} where this run reads {name!r} with other tokens"
            raise InputError(f"{store.path}: {seen}. Use --fresh, or another --out.")
    if does is not None:
        raise InputError(
            f"{store.path}: was measured with a model that computes other numbers from the same"
            f" tokens ({does}), as where a hook, a module or code was changed. Use --fresh to"
            " measure again, or another --out."
        )


def differing(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """What bars a resume: (name, stored, asked) of each entry of the provenance asked for that
    differs, innermost name first.
    """
    out = []
    for name, new in asked.items():
        old = stored.get(name, UNTOLD.get(name))
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            out += _differing_within(name, old, new)
        elif old != new and name != RECORDED_ONLY:
            out.append((name, old, new))
    return out


def _differing_within(
    name: str, stored: Mapping[str, Any], asked: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """As `differing`, of the entries of one; a fingerprint last, for others say more."""
    out, last = [], []
    for key in sorted({*stored, *asked}):
        old, new, whole = stored.get(key), asked.get(key), f"{name}.{key}"
        if whole == FINGERPRINT and old and new:
            where = other_output(old, new, str(asked.get("dtype")))
            last += [(whole, "one", f"another from {where} on")] if where else []
        elif old != new and not (key in UNTOLD_OF_MODEL and old is None):
            out.append((whole, old, new))
    return out + last


def machine() -> dict[str, Any]:
    """What may differ between equal runs: host, processor, threads. It goes to run.json beside
    the store, never into it.
    """
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch_threads": torch.get_num_threads(),
    }
