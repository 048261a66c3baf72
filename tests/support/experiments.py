"""A made-up run with every experiment."""

from functools import cache

import numpy as np
import xarray as xr
from support.reports_tree import POSITIONS, N, plain_tree

from geostat.datasets.parts import by_part
from geostat.display.tree import with_display
from geostat.runs.stages import experiments

CURVES = (
    "representative_norm",
    "representative_norm_without_sink",
    "representative_norm_without_last",
)


def experimented(**options):
    """A made-up run with its experiments, the caller's own; `options` as below. `like`: heads
    whose sink resembles the others have more Recall.
    """
    return _made(**options).copy(deep=True)


@cache
def _made(*, documents=6, window=POSITIONS, seed=0, like=True):
    tree = plain_tree(documents=documents, window=window, seed=seed)
    rng = np.random.default_rng(seed)
    capture = tree["capture"].to_dataset()
    shape = capture["recall"].shape
    dims = ("document", "layer", "head", "n")
    for name in CURVES:
        capture[name] = (dims, np.sort(rng.uniform(0.2, 1, shape), axis=-1))
    for name in ("cosine_to_sink", "cosine_to_last"):
        capture[name] = (
            dims,
            np.broadcast_to(rng.uniform(-0.3, 0.9, (*shape[1:3], 1)), shape)
            + 0.01 * rng.normal(size=shape),
        )
    known = np.where(capture["sink_visible"].values, 0.0, np.nan)[:, None]
    similarity = np.linspace(-0.4, 0.6, 4).reshape(2, 2) + known
    cosine = similarity[..., None] + 0.02 * rng.normal(size=(documents, 2, 2, POSITIONS))
    cosine[..., 0] = np.nan
    capture["sink_cosine"] = (("document", "layer", "kv_head", "position"), cosine)
    to_last = np.random.default_rng(seed + 1).uniform(-0.4, 0.4, cosine.shape)
    to_last[..., 0], to_last[..., -1] = cosine[..., -1], 1.0
    capture["cosine_to_last_value"] = (capture["sink_cosine"].dims, to_last)
    if like:
        capture["recall"] = capture["recall"] + 0.04 * rng.normal(size=(1, *shape[1:3], 1)) * (
            N > 1
        )
        capture["recall"] = capture["recall"] + 0.05 * np.repeat(
            np.nan_to_num(similarity), 2, axis=1
        )[..., None] * (N > 1)
    groups = {name: node.to_dataset() for name, node in tree.children.items()} | {
        "capture": capture
    }
    whole = xr.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    whole.attrs = tree.attrs
    for name, group in by_part(experiments, whole).items():
        whole[f"/{name}"] = xr.DataTree(group)
    return with_display(whole)


@cache
def full():
    """All of it; for tests that leave it as it is."""
    return experimented()


@cache
def with_typical_heads():
    """The same with a Retriever (layer 1, head 2) and a Reset (layer 0, head 3) named typical."""
    tree = full().copy(deep=True)
    heads = tree["heads"].to_dataset()
    heads["typical_layer"][:], heads["typical_head"][:] = [-1, 1, -1, 0], [-1, 2, -1, 3]
    tree["heads"] = xr.DataTree(heads)
    return with_display(tree)
