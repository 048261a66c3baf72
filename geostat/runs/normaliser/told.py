"""What a /normaliser dataset says, the paper's figures beside it: lines for a terminal, records for
a program. Imports xarray.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.display.tree import PAPER
from geostat.experiments.normaliser_dataset import VARIABLES
from geostat.experiments.normaliser_numbers import PAPER_SHARE

REPORTED: Final[dict[str, Any]] = PAPER["paper_normaliser"]
"""What the authors report."""
THEIRS: Final = f"{REPORTED['model']} in {REPORTED['source']}"


def told(data: xr.Dataset, *, everything: bool = False) -> dict[str, Any]:
    """Return what was found as lines, or, if `everything`, every estimate as a record."""
    if everything:
        return {"normaliser": records(data), "paper": dict(REPORTED)}
    return {"normaliser": lines(data)}


def lines(data: xr.Dataset) -> list[str]:
    """Return a line for each of the paper's four claims."""
    first, last = (int(data["length"][at]) for at in (0, -1))
    near, whole = data.sel(n=size_of_paper(data)), data.isel(length=-1)
    cold = data.sel(temperature=0.1)
    low, high = REPORTED["within"]
    largest = float(data["n"].max()) / last
    return [
        (
            f"weights: the largest falls as L^-{_number(data, 'power')} from L = {first} to {last},"
            " where the paper expects L^-1 (Lemma 1)"
            if np.isfinite(data["power"])
            else f"weights: how the largest falls is not determined from L = {first} to {last}"
        ),
        (
            f"distance: at N = {data.attrs['size']} and L = {last} it is"
            f" {_number(whole, 'distance')} times the summed effective weight, its bound"
            f" {_number(whole, 'distance_bound')}"
        ),
        (
            f"critical N: {_number(data, 'critical_share')} of L ({THEIRS}:"
            f" {REPORTED['critical_share']:.2f}); mean over the documents that have one among the N"
            f" tried, at most {largest:.3f} of L, {int(data.attrs['heads'])} heads each"
        ),
        (
            f"separability at N = {int(near['n'])}: {_number(near, 'within')} of the selected"
            f" within ‖s‖; for random directions {_number(near, 'within_chance')}, with flat"
            f" weights {float(near['within_flat']):.3f} ({THEIRS}: {low:.2f} to {high:.2f})"
        ),
        (
            f"response at T = 0.1: {_number(cold, 'response')}, at most"
            f" {_number(cold, 'response_most')}; 1/(4T) = {float(cold['entry_limit']):.3g}, 1/(2T)"
            f" = {float(cold['norm_limit']):.3g}"
        ),
    ]


def size_of_paper(data: xr.Dataset) -> int:
    """Return the size N nearest to the paper's share of L."""
    n = data["n"].values
    return int(n[np.abs(n - PAPER_SHARE * data.attrs["tokens"]).argmin()])


def records(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return every mean with its standard error, None where it is not determined."""
    out = []
    for name in (one.name for one in VARIABLES if one.estimated):
        for place in np.ndindex(data[name].shape):
            value = data[name][place]
            at = {str(dim): value[dim].item() for dim in data[name].dims}
            limits = {part: data[f"{name}_{part}"][place] for part in ("se", "lower", "upper")}
            numbers = {"value": value, **limits}
            out.append(
                {"quantity": name, **at}
                | {part: float(x) if np.isfinite(x) else None for part, x in numbers.items()}
            )
    return out


def _number(at: xr.Dataset, name: str) -> str:
    """A mean with its standard error, where there is one."""
    value, error = float(at[name]), float(at[f"{name}_se"])
    if not np.isfinite(value):
        return "not determined"
    return f"{value:.3f}" + (f" ± {error:.3f}" if np.isfinite(error) else "")
