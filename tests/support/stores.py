"""Small stores: a plan of three variables, documents of random numbers, one result group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from empirical.store.layout import GroupPlan
from empirical.store.shards import DOCUMENTS, chunks_in, parts
from empirical.store.store import Store

MANY = DOCUMENTS + 9
"""More documents than a shard holds."""
WORDS = {"long_name": "a measured thing", "units": "1", "symbol": "x", "equation": "(1)"}


def coordinate(values: Sequence[object], name: str) -> xr.Variable:
    return xr.Variable("layer", np.array(values), {"long_name": name, "units": "1"})


PLAN = {
    "capture": GroupPlan(
        variables={
            "token_id": Quantity("token_id", dims=("position",), dtype="int32", **WORDS),
            "weight": Quantity("weight", dims=("layer", "position"), **WORDS),
            "count": Quantity("count", dims=("layer",), dtype="int32", **WORDS),
        },
        coordinates={
            "layer": coordinate([0, 1], "layer"),
            "tokens": coordinate([5, 3], "visible tokens"),
            "label": coordinate(["a", "bb"], "label"),
        },
        sizes={"layer": 2, "position": 5},
        attributes={"dimension": 4},
    )
}
NORMS = xr.Dataset({"C": ("layer", [1.0, 2.0])})


def arrays(seed: int) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((2, 5)).astype(np.float32)
    weight[1, :2] = np.nan
    return {
        "capture": {
            "token_id": rng.integers(0, 9, 5, dtype=np.int32),
            "weight": weight,
            "count": np.array([0, seed], dtype=np.int32),
        }
    }


def row(name: str) -> dict[str, str]:
    return {"name": name, "sha256": f"hash of {name}"}


def add(store: Store, documents: Iterable[int], *, shift: int = 0) -> None:
    """Append "document 0", "document 1", …; `shift` changes their numbers."""
    for index in documents:
        store.append(row(f"document {index}"), arrays(index + shift))


def store_of(
    path: Path, documents: Sequence[int], *, room: int | None = None, shift: int = 0
) -> Store:
    """Return a store of these documents, with the last ones in the journal."""
    made = Store.create(path, provenance={}, plan=PLAN, documents=room or len(documents))
    add(made, documents, shift=shift)
    return made


def small_store(path: Path) -> Store:
    """Return a store with room for three documents and two in it, settled."""
    made = Store.create(path, provenance={"model": {"model": "m"}}, plan=PLAN, documents=3)
    made.append(row("one"), arrays(1))
    made.append(row("two, longer"), arrays(2))
    made.settle()
    return made


def wide_store(path: Path, documents: int, numbers: int) -> Store:
    """Return a store whose documents have one array of so many numbers, in the journal."""
    variables = {"wide": Quantity("wide", dims=("position",), **WORDS)}
    plan = GroupPlan(variables=variables, coordinates={}, sizes={"position": numbers})
    made = Store.create(path, provenance={}, plan={"capture": plan}, documents=documents)
    for index in range(documents):
        values = np.random.default_rng(index).standard_normal(numbers).astype(np.float32)
        made.append(row(str(index)), {"capture": {"wide": values}})
    return made


def chunks_changed(shard: Path, change: Callable[[list[bytes]], list[bytes]], *, held: int) -> None:
    """Rewrite a shard with changed chunks and a valid table."""
    shard.write_bytes(b"".join(parts(change(list(chunks_in(shard.parent, shard.name, held))))))


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())
