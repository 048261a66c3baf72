"""Table of the normaliser's statements beside a model's heads. Imports this room's cells, numbers
and run.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import xarray as xr

from reports.run import Run
from reports.tables.cells import Cell, header, interval, missing, mixed, number, text
from reports.tables.table import Table
from reports.text.number import count

COLD: Final = (0.1, 1.0)
"""Temperatures T that have a row."""


def normaliser_tables(run: Run) -> list[Table]:
    """That of the run, if it has the numbers."""
    return [] if run.normaliser is None else [_statements(run, run.normaliser)]


def size_of_paper(data: xr.Dataset, share: float) -> int:
    """Return the size N nearest to a share of L."""
    n = data["n"].values
    return int(n[np.abs(n - share * data.attrs["tokens"]).argmin()])


def _statements(run: Run, data: xr.Dataset) -> Table:
    """A row for each statement: what was measured, its bound, what chance gives, what is
    reported.
    """
    paper = run.display.attrs["paper_normaliser"]
    size = size_of_paper(data, paper["critical_share"])
    whole, near = data.isel(length=-1), data.sel(n=size)
    fixed = int(data.attrs["size"])
    rows = [
        _row("power $\\gamma$", _mean(data, "power")),
        _row(
            f"$\\tilde d$, $N = {fixed}$",
            _mean(whole, "distance"),
            _mean(whole, "distance_bound"),
        ),
        _row(
            f"$\\tilde d$, $N = {size}$",
            _mean(near, "distance_by_n"),
            _mean(near, "distance_bound_by_n"),
            _mean(near, "distance_chance"),
        ),
        _row(
            "critical $N/L$",
            _mean(data, "critical_share"),
            paper=text(f"near {paper['critical_share']:g}"),
        ),
        _row(
            f"$N_s/N$, $N = {size}$",
            _mean(near, "within"),
            interval(float(near["within_sharp_lower"]), float(near["within_sharp_upper"])),
            _mean(near, "within_chance"),
            interval(*paper["within"]),
        ),
        _row(
            "the same, flat weights",
            _mean(near, "within"),
            interval(float(near["within_lower"]), float(near["within_upper"])),
            number(float(near["within_flat"])),
            interval(*paper["within"]),
        ),
        *(
            _row(
                f"response, $T = {cold:g}$",
                _mean(at, "response"),
                number(float(at["norm_limit"])),
            )
            for cold in COLD
            for at in [data.sel(temperature=cold)]
        ),
    ]
    headers = header("quantity", "measured", "bound", "by chance", paper["model"])
    return Table(
        "normaliser",
        "The normaliser’s statements",
        _caption(data, paper),
        headers,
        rows,
        "lrrrr",
        keys=1,
    )


def _caption(data: xr.Dataset, paper: dict[str, Any]) -> str:
    """Return what the columns are."""
    tokens = int(data.attrs["tokens"])
    heads = count(int(data.attrs["heads"]), "head")
    return (
        f"Statements on the normaliser ({paper['source']}) beside {heads}: means over heads and"
        f" {count(int(data.attrs['documents']), 'document')}, ± standard error over documents."
        f" γ: the largest weight falls as L to the power −γ, L up to {tokens}; the paper expects 1."
        " d̃: distances of the tokens that are not selected from the sum of the N largest"
        " contributions, summed, over the head’s summed effective weight; by chance: of N random"
        " tokens. Critical N: the least at which the two are not told apart (Kolmogorov-Smirnov"
        " over heads, 5%); it depends on how many heads there are. N_s/N: share of the selected"
        " that lie nearer to the sum than a token without weight does; its bounds (sharp above,"
        " printed below) and what chance gives are of random directions, with the head’s weights"
        " above, flat ones below; the bounds at the measured length of the sum, chance at its own,"
        " so it may lie outside them. Response: change of the weights by a small change of the"
        " logits in the steepest direction; its bound is 1/(2T), not the printed 1/(4T). Last"
        f" column: as reported of {paper['model']}."
    )


def _row(
    name: str,
    measured: Cell,
    bound: Cell | None = None,
    chance: Cell | None = None,
    paper: Any = None,
) -> list[Cell]:
    label = mixed(name) if "$" in name else text(name)
    return [label, measured, bound or missing(), chance or missing(), paper or missing()]


def _mean(at: xr.Dataset, name: str) -> Cell:
    return number(float(at[name]), float(at[f"{name}_se"]))
