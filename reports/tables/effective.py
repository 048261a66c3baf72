"""Tables of effective attention set sizes: N* by what is intervened on, rule and mode, and the sets
that sparse alternatives to softmax keep. Imports this room's cells, numbers and run.
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
    missing,
    mixed,
    number,
    share,
    text,
    whole,
    whole_with_limits,
)
from reports.tables.table import Table
from reports.text.number import count, percent

STATISTICS: Final = {
    "precision": "Precision $P$",
    "recall": "Recall $R$",
    "f_outer": r"$F(r_{\max})$",
    "f_inner": r"$F(r_{\min})$",
}


def effective_tables(run: Run) -> list[Table]:
    """Those that the run has numbers for."""
    data = run.effective
    if data is None:
        return []
    return [
        *([_stars(run, data)] if "n_star" in data else []),
        *([_sets(data)] if "set_loss" in data else []),
        *([_over_sizes(run, data)] if "rank_correlation" in data else []),
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
        cells += [whole_with_limits(at.isel(tau=index), "n_star") for index in range(len(taus))]
        rows.append([*cells, _steps_up(at)])
    same = np.isclose(taus, paper["tau"])
    for mode in ("deletion", "renormalisation") if same.any() else ():
        reported = [whole(paper[mode]) if told else missing() for told in same]
        words = [paper["model"], "attention", mode]
        rows.append([*map(text, words), *reported, missing()])
    over = count(data.sizes["document"], "document")
    caption = (
        "Effective attention set size N*: from this N on, at every N that was tried, the mean loss"
        f" of {_targets(data)} of a window of {int(data.attrs['tokens'])} lies at most a share"
        " τ above the model’s own. Tried: powers of two, then halves of the gap down to the"
        " integer. In brackets 95% intervals: jackknife"
        f" over {over} of the place where the mean rise crosses τ, on the scale of log N. Steps up:"
        " neighbouring N that were tried between which the loss rises with N, and the largest such"
        " rise."
    )
    if same.any():
        caption += f" Last rows: as the authors’ later paper reports ({paper['source']})."
    columns = [f"$N^*$, $\\tau = {tau:.3g}$" for tau in taus]
    headers = header("cut", "rule", "mode", *columns, "steps up")
    return Table(
        "effective",
        "Effective attention set sizes",
        caption,
        headers,
        rows,
        "lll" + "r" * len(taus) + "r",
        keys=3,
    )


def _targets(data: xr.Dataset) -> str:
    """Which tokens of a window are predicted."""
    if data.attrs["target"] == "all":
        return "all tokens but the first"
    return f"the last {count(int(data.attrs['targets']), 'token')}"


def _steps_up(at: xr.Dataset) -> Cell:
    count_, largest = int(at["steps_up"]), float(at["largest_step_up"])
    return whole(0) if not count_ else share(float(count_), f"{count_} ({percent(largest, 2)})")


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
    headers = header("cut", "set", "mode", "tokens kept", "rise of the loss", "95%")
    title = "Sets that sparse alternatives to softmax would keep"
    return Table("effective_sets", title, caption, headers, rows, "lllrrr", keys=3)


def _over_sizes(run: Run, data: xr.Dataset) -> Table:
    """One row a mode, statistic and range of N."""
    paper = run.display.attrs["paper_effective"]
    rows = []
    for place in np.ndindex(data["rank_correlation"].shape):
        at = data.isel(dict(zip(("mode", "statistic", "range"), place, strict=True)))
        if np.isfinite(at["rank_correlation"]):
            rows.append(
                [
                    text(at["mode"].item()),
                    mixed(STATISTICS[at["statistic"].item()]),
                    text(at["range"].item()),
                    whole(float(at["sizes"])),
                    number(float(at["rank_correlation"]), float(at["rank_correlation_se"])),
                ]
            )
    caption = (
        "Does separability fall with N as the loss does, where every query keeps the N tokens of"
        " largest weight? Rank correlation (Spearman) over N, powers of two, of both, each a mean"
        f" over {count(data.sizes['document'], 'document')}, separability also over"
        f" {run.counted('head')}; ± standard error over documents (jackknife; 0 where none changes"
        " the order). Two curves that both fall with N have a correlation of 1 by that alone: a"
        " value says how the curves run, not that one tells the other. The"
        f" authors’ later paper reports {paper['rank_correlation']:.2f}"
        f" ({paper['rank_correlation_said']})."
    )
    headers = header("mode", "separability", "N", "sizes", "rank correlation")
    title = "Separability and loss over N"
    return Table("effective_curves", title, caption, headers, rows, "lllrr", keys=3)
