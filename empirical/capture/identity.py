"""Identity of a run: provenance that must agree for two runs to be the same, and the comparison of
two runs.

Imports the versions of the numerical libraries. Only `machine` changes from run to run.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from empirical.capture.source import Described
from empirical.capture.versions import MEASURING, versions
from empirical.errors import InputError
from empirical.measure.selection import Convention
from empirical.schema import SCHEMA_VERSION
from empirical.sources.identity import other_output
from empirical.sources.queries import Queries
from empirical.sources.windows import Windows
from empirical.store.stored_run import StoredRun

UNTOLD_OF_MODEL = frozenset({"config_sha256", "code_sha256", "fingerprint", "quantization"})
"""Model entries that older provenance may lack; any value then matches."""

FINGERPRINT = "model.fingerprint"
"""Model fingerprint in the provenance, compared within rounding."""

RECORDED_ONLY = "git_commit"
"""Entry that may differ; all other provenance must agree before documents are added to a store."""


def git_commit() -> str:
    """Return the commit of this package's checkout, with +changes if modified; else empty."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return ""
    # --exclude: never a tag in place of the commit
    describe = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
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
    """Return the provenance that is known before a model is loaded: text and options."""
    return {
        "corpus": {  # unchanged when documents are added
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
    """Return where layers on `devices` are measured: "cpu", "device", or "auto" (some of each)."""
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
    """Return a store's provenance, in JSON types; options: those of `asked_for`."""
    found = versions(MEASURING)
    return {
        "schema_version": SCHEMA_VERSION,
        "geostat_version": found.pop("geostat"),
        "git_commit": git_commit(),
        "versions": found,
        "model": source.provenance(),
        **asked_for(windows, **options),
        "measure": measure,
        "settings": dict(settings),
    }


def refuse_other(store: StoredRun, recorded: Mapping[str, Any], windows: Windows) -> None:
    """Refuse by an InputError a run with other provenance than `recorded`, or whose documents are
    not the first of `windows`: two runs are never mixed in one store.
    """
    documents, names, fingerprint_difference = store.documents, windows.names, None
    for name, old, new in differing(store.attributes, recorded):
        if name == FINGERPRINT:
            fingerprint_difference = new  # reported last: another text also changes the fingerprint
            continue
        raise InputError(
            f"{store.path}: was measured with {name} = {old}, this run has {new}. Use --fresh"
            " to measure again, or another --out."
        )
    if len(documents) > len(names):
        raise InputError(
            f"{store.path}: holds {len(documents)} documents, this run has {len(names)}. "
            f"Use --documents {len(documents)} or more, --fresh, or another --out."
        )
    for row, name, digest in zip(documents, names, windows.sha256, strict=False):
        if digest and row["sha256"] != digest:
            seen = f"holds document {row['name']!r}, but this run reads {name!r} with other tokens"
            raise InputError(f"{store.path}: {seen}. Use --fresh, or another --out.")
    if fingerprint_difference is not None:
        raise InputError(
            f"{store.path}: was measured with a model that computes other numbers from the same"
            f" tokens ({fingerprint_difference}); a hook, a module or code may have changed. Use"
            " --fresh to measure"
            " again, or another --out."
        )


def differing(stored: Mapping[str, Any], expected: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the differences that prevent a resume: (name, stored, expected) of each entry of the
    new provenance that differs, by innermost name.
    """
    out = []
    for name, new in expected.items():
        old = stored.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            out += _differing_within(name, old, new)
        elif old != new and name != RECORDED_ONLY:
            out.append((name, old, new))
    return out


def _differing_within(
    name: str, stored: Mapping[str, Any], expected: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """Return `differing` within one entry; a fingerprint last, because others say more."""
    out, last = [], []
    for key in sorted({*stored, *expected}):
        old, new, full_name = stored.get(key), expected.get(key), f"{name}.{key}"
        if full_name == FINGERPRINT and old and new:
            if place := other_output(old, new, str(expected.get("dtype"))):
                last = [(full_name, "one", f"another from {place} on")]
        elif old != new and not (key in UNTOLD_OF_MODEL and old is None):
            out.append((full_name, old, new))
    return out + last


def machine() -> dict[str, Any]:
    """Return what may differ between equal runs, for run.json: host, processor, threads."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch_threads": torch.get_num_threads(),
    }
