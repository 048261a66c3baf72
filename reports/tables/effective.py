"""Tables of effective attention set sizes: N* by what is intervened on, rule and mode, and the sets
that sparse alternatives to softmax keep. Imports this room's cells, numbers and run.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from reports.run import Run
from reports.tables.cells import Cell, header, interval, missing, number, text, whole
from reports.tables.table import Table
from reports.text.number import count


def effective_tables(run: Run) -> list[Table]:
    """Those that the run has numbers for."""
    data = run.effective
    if data is None:
        return []
    return [
        *([_stars(run, data)] if "n_star" in data else []),
        *([_sets(data)] if "set_loss" in data else []),
    ]


def _stars(run: Run, data: xr.Dataset) -> Table:
    """One row a scope, rule and mode that was settled."""
    paper, taus = run.display.attrs["paper_effective"], data["tau"].values
    rows = []
    for place in np.ndindex(data["n_star"].shape[:-1]):
        at = data.isel(dict(zip(("scope", "rule", "mode"), place, strict=True)))
        if not np.isfinite(at["n_star"].values).any():
            continue
        cells = [text(at[name].item()) for name in ("scope", "rule", "mode")]
        for index in range(len(taus)):
            cells += _star(at.isel(tau=index))
        rows.append([*cells, whole(float(at["steps_up"])), number(float(at["largest_step_up"]))])
    for mode in ("deletion", "renormalisation"):
        cells = [text(f"{paper['model']}, {paper['source']}"), text("attention"), text(mode)]
        for tau in taus:
            known = bool(np.isclose(tau, paper["tau"]))
            cells += [whole(paper[mode]) if known else missing(), missing()]
        rows.append([*cells, missing(), missing()])
    over = count(data.sizes["document"], "document")
    caption = (
        "Effective attention set size N*: from this N on, at every N that was tried, the mean loss"
        f" of the last {count(int(data.attrs['targets']), 'token')} of a window of"
        f" {int(data.attrs['tokens'])} lies at most a share τ above the model’s own. Tried: powers"
        f" of two, then halves of the gap down to the integer. 95% intervals: jackknife over {over}"
        " of the place where the mean rise crosses τ, on the scale of log N. Steps up: neighbouring"
        " N that were tried between which the loss rises with N, and the largest such rise. Last"
        " rows: what the authors’ later paper reports."
    )
    columns = [part for tau in taus for part in (f"$N^*$, $\\tau = {tau:.3g}$", "95%")]
    headers = header("intervened on", "rule", "mode", *columns, "steps up", "largest")
    return Table(
        "effective",
        "Effective attention set sizes",
        caption,
        headers,
        rows,
        "lll" + "rr" * len(taus) + "rr",
        keys=3,
    )


def _star(at: xr.Dataset) -> list[Cell]:
    value = float(at["n_star"])
    low, high = float(at["n_star_lower"]), float(at["n_star_upper"])
    limits = interval(round(low), round(high)) if np.isfinite([low, high]).all() else missing()
    return [whole(value) if np.isfinite(value) else missing(), limits]


def _sets(data: xr.Dataset) -> Table:
    """One row a scope, rule and mode."""
    rows = []
    for place in np.ndindex(data["set_loss_rise"].shape):
        at = data.isel(dict(zip(("scope", "set_rule", "mode"), place, strict=True)))
        if np.isfinite(at["set_loss_rise"]):
            rows.append(
                [
                    *(text(at[name].item()) for name in ("scope", "set_rule", "mode")),
                    number(float(at["set_size"].mean())),
                    number(float(at["set_loss_rise"]), float(at["set_loss_rise_se"])),
                    interval(float(at["set_loss_rise_lower"]), float(at["set_loss_rise_upper"])),
                ]
            )
    caption = (
        "Every query keeps the tokens that sparsemax or 1.5-entmax of the same logits would give"
        " any weight, with the weights of softmax: how many these are, mean over queries, heads,"
        " layers"
        f" and {count(data.sizes['document'], 'document')}, and by which share the loss rises, ±"
        " standard error over documents, with its 95% interval."
    )
    headers = header("intervened on", "set", "mode", "tokens kept", "rise of the loss", "95%")
    title = "Sets that sparse alternatives to softmax would keep"
    return Table("effective_sets", title, caption, headers, rows, "lllrrr", keys=3)
