"""Groups that a run may lack: who makes them, and N* of single layers, taken out of /effective.
Imports numpy and xarray.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import xarray as xr

MAKERS: Final = {
    "predictive": "predicted curves. Confront it again with --predict.",
    "effective": "effective set sizes. Measure them with `geostat effective`.",
    "effective_layers": "effective set sizes of single layers. Measure them with"
    " `geostat effective --each layer`.",
    "ablation": "losses under cuts of heads. Measure them with `geostat ablate`.",
    "heads_cut": "losses under cuts of heads. Measure them with `geostat ablate`.",
    "normaliser": "statements. Measure them with `geostat normaliser`.",
}
"""What is expected where a group is missing, and the remedy."""
STARS: Final = ["n_star", "n_star_lower", "n_star_upper"]


def single_layers(data: xr.Dataset) -> xr.Dataset | None:
    """Return N* by weight where one layer alone is cut, with its limits, (layer, mode, tau); None
    where fewer than two layers were settled.
    """
    if "n_star" not in data or "attention" not in data["rule"].values:
        return None
    documents = np.arange(data.sizes["document"])
    scopes = [str(scope) for scope in data["scope"].values]
    alone = [scope for scope in scopes if re.fullmatch(r"layer \d+", scope)]
    alone.sort(key=lambda scope: int(scope.split()[1]))
    data = data.sel(scope=alone, rule="attention")[STARS]
    known = data["n_star"].notnull().any(("mode", "tau"))
    data = data.isel(scope=np.flatnonzero(known.values))
    if data.sizes["scope"] < 2:
        return None
    layers = [int(str(scope).split()[1]) for scope in data["scope"].values]
    data = data.drop_vars("scope").rename(scope="layer").assign_coords(layer=layers)
    return data.assign_coords(document=documents)


def heads_cut(data: xr.Dataset) -> xr.Dataset | None:
    """Return /ablation where heads were cut one by one, or budgets shared out; its attribute
    `shown` is the mode that is drawn of either.
    """
    names = [name for name in ("head_rise", "budget_rise") if name in data]
    return data.assign_attrs(shown={name: _mode(data[name]) for name in names}) if names else None


def _mode(data: xr.DataArray) -> str:
    """Which mode is drawn: renormalisation, or, where that was not measured, the first that was."""
    known = data.notnull().any([dim for dim in data.dims if dim != "mode"])
    modes = [str(mode) for mode in data["mode"].values[known.values]]
    return "renormalisation" if "renormalisation" in modes else modes[0]
