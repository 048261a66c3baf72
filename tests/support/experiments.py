"""A made-up run with every experiment, and made-up measurements."""

from functools import cache

import numpy as np
import xarray as xr
from support.reports_tree import POSITIONS, N, plain_tree

from empirical.schema import CAPTURE, coordinates
from geostat.datasets.parts import by_part
from geostat.display.tree import with_display
from geostat.runs.stages import analyses

CURVES = (
    "representative_norm",
    "representative_norm_without_sink",
    "representative_norm_without_last",
)


def experimented(**options):
    """A synthetic run with its analyses, not shared with other tests; `options` as below. `like`:
    heads whose sink resembles the others have more Recall.
    """
    return _made(**options).copy(deep=True)


def captured(values, records=CAPTURE, **coords):
    """Return arrays, (document, …), as /capture has them; `coords` are sequences."""
    dims = {name: ("document", *records[name].dims) for name in values}
    labels = coordinates(**{name: np.asarray(labels) for name, labels in coords.items()})
    return xr.Dataset({name: (dims[name], array) for name, array in values.items()}, labels)


@cache
def _made(*, documents=6, window=POSITIONS, seed=0, like=True):
    tree = plain_tree(documents=documents, window=window, seed=seed)
    rng = np.random.default_rng(seed)
    capture = tree["capture"].to_dataset()
    shape = capture["recall"].shape
    added = {name: np.sort(rng.uniform(0.2, 1, shape), axis=-1) for name in CURVES}
    for name in ("cosine_to_sink", "cosine_to_last"):
        mean = np.broadcast_to(rng.uniform(-0.3, 0.9, (*shape[1:3], 1)), shape)
        added[name] = mean + 0.01 * rng.normal(size=shape)
    known = np.where(capture["sink_visible"].values, 0.0, np.nan)[:, None]
    similarity = np.linspace(-0.4, 0.6, 4).reshape(2, 2) + known
    cosine = similarity[..., None] + 0.02 * rng.normal(size=(documents, 2, 2, POSITIONS))
    cosine[..., 0] = np.nan
    to_last = np.random.default_rng(seed + 1).uniform(-0.4, 0.4, cosine.shape)
    to_last[..., 0], to_last[..., -1] = cosine[..., -1], 1.0
    added |= {"sink_cosine": cosine, "cosine_to_last_value": to_last}
    capture = capture.assign(captured(added))
    if like:
        noise = rng.normal(size=(1, *shape[1:3], 1))
        effect = np.repeat(np.nan_to_num(similarity), 2, axis=1)[..., None]
        capture["recall"] = capture["recall"] + (0.04 * noise + 0.05 * effect) * (N > 1)
    groups = {f"/{name}": node.to_dataset() for name, node in tree.children.items()}
    whole = xr.DataTree.from_dict(groups | {"/capture": capture})
    whole.attrs = tree.attrs
    for name, group in by_part(analyses, whole).items():
        whole[f"/{name}"] = xr.DataTree(group)
    return with_display(whole)


@cache
def full():
    """Return the run with all experiments; not to be modified."""
    return experimented()


@cache
def with_typical_heads():
    """Return the run with a Retriever (layer 1, head 2) and a Reset (layer 0, head 3) marked
    typical.
    """
    tree = full().copy(deep=True)
    heads = tree["heads"].to_dataset()
    heads["typical_layer"][:], heads["typical_head"][:] = [-1, 1, -1, 0], [-1, 2, -1, 3]
    tree["heads"] = xr.DataTree(heads)
    return with_display(tree)
