"""Tables of what the model loses where heads are cut: what tells it over heads, budgets, regimes.
Imports this room's cells, numbers and run.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xarray as xr

from reports.run import Run
from reports.tables.cells import (
    Cell,
    header,
    interval,
    mixed,
    number,
    text,
    whole,
    whole_with_limits,
)
from reports.tables.table import Table
from reports.text.number import count

KNOWN: Final = {
    "precision": "Precision $P$ at $N$",
    "recall": "Recall $R$ at $N$",
    "f_outer": r"$F(r_{\max})$ at $N$",
    "f_inner": r"$F(r_{\min})$ at $N$",
    "sharp_f_lower": r"sharp lower bound on $F(r_{\max})$",
    "sharp_f_margin": r"$F(r_{\max})$ less that bound",
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
        *([_needs(data)] if _known(data, "head_share_of_one") else []),
        *([_budgets(data)] if "budget_rise" in data else []),
        *([_regimes(data)] if "regime_rise" in data else []),
        *([_contexts(data)] if "context_n_star" in data else []),
    ]


def _known(data: xr.Dataset, name: str) -> bool:
    return name in data and bool(data[name].notnull().any())


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
        f" {count(data.sizes['document'], 'document')} and over layers (jackknives); λ, ρ₀, the"
        " sharp bound and regimes are those of all documents together, the bound between the N that"
        " it was evaluated at linear in log N."
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
            rows.append([text(mode), text(outcome), whole(float(at["told_heads"])), *each, adds])
    caption = (
        "Share R² of the variance of the ranks of what the model loses by a head that is told for"
        " layers left out, each predicted from the others by least squares on ranks and their"
        " squares: from kept mass at each N tried and entropy (weights), from P, R, F, the"
        " sharp bound on F, λ, ρ₀ and regime (geometry), from both; and what geometry adds, with"
        " its 95% interval. Below 0: worse than the mean of the other layers."
        f" N*: from which N on, of those tried, the loss rises by at most {_share(data)}, before it"
        f" is rounded up. Over heads of which all is known, of {run.counted('head')}; ± standard"
        " error over"
        f" {count(data.sizes['document'], 'document')} and over layers (jackknives)."
    )
    headers = header("mode", "loss", "heads", "weights", "geometry", "both", "geometry adds", "95%")
    title = "Does geometry tell what weights do not?"
    return Table("head_told", title, caption, headers, rows, "llrrrrrr", keys=2)


def _needs(data: xr.Dataset) -> Table:
    """One row a mode and group of heads, where every head's search is over."""
    rows = []
    for mode in data["mode"].values:
        for group in data["group"].values:
            at = data.sel(mode=mode, group=group)
            if np.isfinite(at["head_share_of_one"]):
                needed = [
                    whole_with_limits(at.isel(quantile=place), "head_needed") for place in (0, 1)
                ]
                counted = whole(float(at["group_heads"]))
                ones = _of(at, "head_share_of_one"), _limits(at, "head_share_of_one")
                rows.append([text(mode), text(str(group).capitalize()), counted, *ones, *needed])
    documents = count(data.sizes["document"], "document")
    caption = (
        "A head's own N*: from how many tokens a query on, of those tried, the mean loss rises by"
        f" at most {_share(data)} where that head alone keeps so many and the others stay as they"
        " are. Which share of the heads needs one token, ± standard error, with its 95% interval;"
        " and the N* that half of the heads and nine of ten do not exceed, with 95% intervals."
        f" Over {documents} (jackknives, those of N* on the scale of log N), for these heads. By"
        " regime (sizes)."
    )
    headers = header("mode", "heads of", "heads", "$N^*=1$", "95%", "half within", "9 of 10 within")
    title = "Tokens that single heads need"
    return Table("head_needs", title, caption, headers, rows, "llrrrrr", keys=2)


def _share(data: xr.Dataset) -> str:
    return f"{100 * float(data.attrs['tau']):.3g}%"


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
    rows, counts = [], set()
    for place in np.ndindex(data["regime_rise"].shape):
        at = data.isel(dict(zip(("regime", "cut"), place, strict=True)))
        drawn = at["drawn_rise"].values
        drawn = drawn[np.isfinite(drawn)]
        if not drawn.size or not np.isfinite(at["regime_rise"]):
            continue
        counts.add(drawn.size)
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
        f" median and range of {' or '.join(map(str, sorted(counts)))} draws, and the two-sided p"
        " of the regime among them: twice the share of draws, itself among them, on its side."
    )
    headers = header("regime", "heads", "cut", "rise of the loss", "drawn", "from, to", "p")
    title = "Heads of a regime cut, and as many drawn ones"
    return Table("regime_cuts", title, caption, headers, rows, "lrlrrrr", keys=3)


def _contexts(data: xr.Dataset) -> Table:
    """One row a mode and context."""
    rows = []
    for place in np.ndindex(data["context_n_star"].shape):
        at = data.isel(dict(zip(("mode", "context"), place, strict=True)))
        if np.isfinite(at["context_n_star"]):
            rows.append(
                [
                    text(at["mode"].item()),
                    whole(float(at["context"])),
                    number(float(at["context_loss"].mean())),
                    whole(float(at["context_n_star"])),
                    _limits(at, "context_n_star"),
                    _of(at, "context_power"),
                ]
            )
    caption = (
        "The window’s last L tokens are all the context, with the same"
        f" {count(int(data.attrs['targets']), 'target')}: the model’s own mean loss in nats; N*,"
        f" from which on the loss lies at most {float(data.attrs['context_tau']):.0%} above it"
        " where every query keeps N tokens, with its 95% interval; and γ of N* ∝ L^γ, by least"
        f" squares of logarithms. Over {count(data.sizes['document'], 'document')}, ± standard"
        " error (jackknife). Where all windows begin with one token that stays the first."
    )
    headers = header("mode", "$L$", "loss", "$N^*$", "95%", r"power $\gamma$")
    return Table(
        "contexts", "Tokens needed, by the context", caption, headers, rows, "lrrrrr", keys=2
    )
