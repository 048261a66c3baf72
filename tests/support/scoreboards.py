"""Runs made up for the scoreboard: groups beside a capture of one layer."""

import numpy as np
import xarray as xr

N = np.array([1, 2, 3, 4, 8, 16, 32, 64])
TOKENS = 128


def tree(**groups: xr.Dataset) -> xr.DataTree:
    capture = xr.Dataset(coords={"position": np.arange(TOKENS), "tokens": ("layer", [TOKENS])})
    return xr.DataTree.from_dict(
        {"/capture": capture, **{f"/{name}": data for name, data in groups.items()}}
    )
