"""Small stores for tests: a plan of three variables, documents of random numbers, one result
group.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

from empirical.schema import Variable
from empirical.store.layout import GroupPlan
from empirical.store.shards import chunks_in, parts
from empirical.store.store import Store

WORDS = {"long_name": "a measured thing", "units": "1", "symbol": "x", "equation": "(1)"}
PLAN = {
    "capture": GroupPlan(
        variables={
            "token_id": Variable(dims=("position",), dtype="int32", **WORDS),
            "weight": Variable(dims=("layer", "position"), **WORDS),
            "count": Variable(dims=("layer",), dtype="int32", **WORDS),
        },
        coordinates={
            "layer": xr.Variable("layer", np.arange(2), {"long_name": "layer", "units": "1"}),
            "tokens": xr.Variable(
                "layer", np.array([5, 3]), {"long_name": "visible tokens", "units": "1"}
            ),
            "label": xr.Variable(
                "layer", np.array(["a", "bb"]), {"long_name": "label", "units": "1"}
            ),
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


def small_store(path: Path) -> Store:
    """A store with room for three documents and two in it, settled."""
    made = Store.create(path, provenance={"model": {"model": "m"}}, plan=PLAN, documents=3)
    made.append(row("one"), arrays(1))
    made.append(row("two, longer"), arrays(2))
    made.settle()
    return made


def chunks_changed(shard: Path, change: Callable[[list[bytes]], list[bytes]], *, held: int) -> None:
    """Write a shard anew, its chunks changed and its table sound."""
    shard.write_bytes(b"".join(parts(change(list(chunks_in(shard.parent, shard.name, held))))))


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())
