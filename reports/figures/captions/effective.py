"""What stands under the figure of effective attention set sizes. Imports nothing that draws."""

from __future__ import annotations

import numpy as np
import xarray as xr

from reports.figures.captions.caption import Caption, Numbers
from reports.run import Run
from reports.text.number import count


def effective(run: Run) -> Caption:
    """Caption of the losses by N, and of N*."""
    data = run.needed("effective")
    paper = run.display.attrs["paper_effective"]
    text = (
        f"Every query keeps N tokens, {_where(data)}; the others’ weights are put to 0 (left),"
        " or the kept ones are also rescaled to the sum that all had (right). Lines: by how much"
        f" the mean loss of {count(int(data.attrs['targets']), 'next token')} a document then lies"
        f" above the model’s own, mean over {count(data.sizes['document'], 'document')}. Circles:"
        " N*, from which on the loss rises by at most τ at every N that was tried, of further rules"
        " a little above τ; bars: its 95% interval over documents. Diamond, where the axis reaches"
        " it and all layers are cut: what the authors report of"
        f" {paper['model']} at {paper['tau']:.0%}, {paper['deletion']} and"
        f" {paper['renormalisation']} tokens. Rises below 0.1% are"
        " drawn there. Look for: how far left the lines fall."
    )
    say = Numbers()
    return Caption(text, _finding(data, say), say.all)


def _where(data: xr.Dataset) -> str:
    """Where queries keep as many, of what is drawn."""
    scopes = [str(name) for name in data["scope"].values]
    return "in all layers and heads at once" if "all" in scopes else f"in {scopes[0]} alone"


def _finding(data: xr.Dataset, say: Numbers) -> str:
    """Say how many tokens suffice by weight, at the τ nearest to 5% that is settled."""
    if "n_star" not in data or "attention" not in data["rule"].values:
        return ""
    if "all" not in data["scope"].values:
        return ""
    said = []
    for mode, words in (
        ("deletion", "the others are deleted"),
        ("renormalisation", "kept ones are rescaled"),
    ):
        if mode not in data["mode"].values:
            continue
        stars = data["n_star"].sel(scope="all", rule="attention", mode=mode)
        known = np.flatnonzero(np.isfinite(stars.values))
        if not known.size:
            continue
        place = known[np.argmin(np.abs(data["tau"].values[known] - 0.05))]
        star, tau = float(stars[place]), float(data["tau"].values[place])
        tokens = say.counted(f"N* at {tau:g}, {mode}", int(star), "token")
        share = say.percent(f"tau, {mode}", tau, 0)
        said.append(
            f"{tokens} a query keep{'s' * (star == 1)} the loss within {share} where {words}"
        )
    return f"Chosen by weight, {', and '.join(said)}." if said else ""
