"""Tables of what the model loses where heads are cut: what tells it over heads, budgets, regimes.
Imports this room's cells, numbers and run.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from reports.run import Run
from reports.tables.cells import Cell, header, interval, mixed, number, text, whole
from reports.tables.table import Table
from reports.text.number import count

KNOWN: Final = {
    "precision": "Precision $P$ at $N$",
    "recall": "Recall $R$ at $N$",
    "f_outer": r"$F(r_{\max})$ at $N$",
    "f_inner": r"$F(r_{\min})$ at $N$",
    "sharp_f_lower": r"sharp lower bound on $F(r_{\max})$",
    "lam": r"$\lambda$",
    "rho0": r"$\rho_0$",
    "retriever": "is a Retriever head",
    "mixer": "is a Mixer head",
    "reset": "is a Reset head",
    "kept_mass": "kept mass at $N$",
    "entropy": "entropy of the weights",
}
WAYS: Final = {
    "uniform": "all heads alike",
    "mass": "equal kept mass",
    "entropy": "by entropy",
    "geometry": r"by $1-F(r_{\max})$",
    "geometry reversed": r"by $F(r_{\max})$",
    "greedy": "by measured losses",
}


def ablation_tables(run: Run) -> list[Table]:
    """Those that the run has numbers for."""
    data = run.ablation
    if data is None:
        return []
    return [
        *([_function(run, data), _told(run, data)] if "rank_correlation" in data else []),
        *([_budgets(data)] if "budget_rise" in data else []),
        *([_regimes(data)] if "regime_rise" in data else []),
    ]


def _of(data: xr.Dataset, name: str) -> Cell:
    return number(float(data[name]), float(data[f"{name}_se"]))


def _limits(data: xr.Dataset, name: str) -> Cell:
    return interval(float(data[f"{name}_lower"]), float(data[f"{name}_upper"]))


def _function(run: Run, data: xr.Dataset) -> Table:
    """One row a mode and what is known of a head."""
    primary = str(data.attrs["primary"])
    rows = []
    for mode in data["mode"].values:
        for known in data["known"].values:
            at = data.sel(mode=mode, known=known, outcome=primary)
            if np.isfinite(at["rank_correlation"].values).any():
                each = [
                    _of(at.sel(given=given), "rank_correlation") for given in data["given"].values
                ]
                rows.append([text(mode), mixed(KNOWN[str(known)]), *each])
    caption = (
        "Rank correlation (Spearman) over heads of what is known of a head with the relative rise"
        f" of the loss where it alone keeps N = {primary.rpartition('= ')[2]} tokens a query, by"
        " itself; given the share of the weights that these tokens hold and the entropy of the"
        " weights (a control is not given itself); and given the layer too. Over"
        f" {run.counted('head')}, ± standard error over"
        f" {count(data.sizes['document'], 'document')} (jackknife)."
    )
    headers = header("mode", "known of a head", "by itself", "given weights", "and the layer")
    title = "What is known of a head, and what the model loses by it"
    return Table("head_function", title, caption, headers, rows, "llrrr", keys=2)


def _told(run: Run, data: xr.Dataset) -> Table:
    """One row a mode and outcome."""
    rows = []
    for mode in data["mode"].values:
        for outcome in data["outcome"].values:
            at = data.sel(mode=mode, outcome=outcome)
            if not np.isfinite(at["told"].values).any():
                continue
            each = [_of(at.sel(told_by=by), "told") for by in data["told_by"].values]
            adds = _limits(at.sel(told_by="geometry adds"), "told")
            rows.append([text(mode), text(outcome), *each, adds])
    tau = float(data.attrs["tau"])
    caption = (
        "Share R² of the variance of the ranks of what the model loses by a head that is told for"
        " layers left out, each predicted from the others by least squares on ranks: from kept mass"
        " and entropy (weights), from P, R, F, the sharp bound on F, λ, ρ₀ and regime (geometry),"
        " from both; and what geometry adds, with its 95% interval. Below 0: worse than the mean of"
        f" the other layers. N*: from which of the N tried on the loss rises by at most {tau:.1%}."
        f" Over {run.counted('head')}, ± standard error over"
        f" {count(data.sizes['document'], 'document')} (jackknife)."
    )
    headers = header("mode", "loss", "weights", "geometry", "both", "geometry adds", "95%")
    title = "Does geometry tell what weights do not?"
    return Table("head_told", title, caption, headers, rows, "llrrrrr", keys=2)


def _budgets(data: xr.Dataset) -> Table:
    """One row a mode, budget and way to share it."""
    rows = []
    for place in np.ndindex(data["budget_rise"].shape):
        at = data.isel(dict(zip(("mode", "budget", "way"), place, strict=True)))
        if not np.isfinite(at["budget_rise"]):
            continue
        way = str(at["way"].item())
        same = way == "mass"
        rows.append(
            [
                text(at["mode"].item()),
                whole(float(at["budget"])),
                mixed(WAYS[way]),
                _of(at, "budget_rise"),
                number(float("nan")) if same else _of(at, "budget_less_mass"),
                interval(float("nan"), float("nan")) if same else _limits(at, "budget_less_mass"),
            ]
        )
    caption = (
        "Every head keeps so many tokens a query in the mean over heads, shared out among heads:"
        " by how much the mean loss rises, and how that differs from equal kept mass, paired over"
        f" {count(data.sizes['document'], 'document')}, ± standard error, with its 95% interval."
        " Each document’s shares are made from the other documents’ means. By measured losses: of"
        f" heads cut one by one at N = {data.attrs['greedy_sizes']}."
    )
    headers = header("mode", "budget", "shared out", "rise of the loss", "less equal mass", "95%")
    title = "Budgets of tokens, by how they are shared out"
    return Table("budgets", title, caption, headers, rows, "lrlrrr", keys=3)


def _regimes(data: xr.Dataset) -> Table:
    """One row a regime and cut."""
    rows = []
    for place in np.ndindex(data["regime_rise"].shape):
        at = data.isel(dict(zip(("regime", "cut"), place, strict=True)))
        drawn = at["drawn_rise"].values
        rows.append(
            [
                text(str(at["regime"].item()).capitalize()),
                whole(float(at["regime_heads"])),
                text(at["cut"].item()),
                _of(at, "regime_rise"),
                number(float(np.median(drawn))),
                interval(float(drawn.min()), float(drawn.max())),
                number(float(at["drawn_p"])),
            ]
        )
    caption = (
        "Heads of one regime (by sizes) keep so many tokens a query, or are taken out, the others"
        " stay as they are: by how much the mean loss rises, ± standard error over"
        f" {count(data.sizes['document'], 'document')}. Beside it as many heads drawn from all:"
        f" median and range of {int(data.attrs['draws'])} draws, and p, the share of draws, the"
        " regime among them, that lie as far from the median."
    )
    headers = header("regime", "heads", "cut", "rise of the loss", "drawn", "from, to", "p")
    title = "Heads of a regime cut, and as many drawn ones"
    return Table("regime_cuts", title, caption, headers, rows, "lrlrrrr", keys=3)
