"""The paper's experiments on one run: the sink's similarity, the regimes of heads, separability against its nulls.

Source: arXiv 2602.01893, §4. Imports this room's experiments and xarray.
"""

from __future__ import annotations

import xarray as xr

from geostat.heads import classify_heads
from geostat.separable import compare_with_nulls
from geostat.sink import correlate_with_sink

__all__ = ["experiments"]


def experiments(tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Make every experiment of a run.

    Args:
        tree: a run with /capture and, if measured, /null.

    Returns:
        Datasets by the group they are kept in: sink, heads, separable.
    """
    capture = tree["capture"].to_dataset()
    null = tree["null"].to_dataset() if "null" in tree.children else None
    return {"sink": correlate_with_sink(capture), "heads": classify_heads(capture), "separable": compare_with_nulls(capture, null)}
