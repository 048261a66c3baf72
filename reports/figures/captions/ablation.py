"""What stands under the figures of cuts of heads and of single layers. Imports nothing that
draws.
"""

from __future__ import annotations

import numpy as np

from reports.figures.captions.caption import Caption, Numbers
from reports.run import Run
from reports.text.number import count


def ablation(run: Run) -> Caption:
    """Caption of rank correlations over heads, and of budgets."""
    data = run.needed("heads_cut")
    documents = count(data.sizes["document"], "document")
    left = right = ""
    if "told" in data:
        size = str(data.attrs["primary"]).rpartition("= ")[2]
        left = (
            f" Left: each head alone keeps N = {size} tokens a query"
            f" ({data.attrs['shown']['head_rise']}), the others stay as they are. Rank correlation"
            " over heads of what is known of a head with the relative rise of the loss, by itself"
            " and given the share of the weights that is kept and their entropy; bars: 95% over"
            f" {documents} and layers. Look for: filled marks away from 0."
        )
    if "budget_rise" in data:
        others = "each document’s from the others’ numbers"
        if data.sizes["document"] == 1:
            others = "from the document’s own numbers"
        right = (
            " Right: all heads at once keep so many tokens in the mean"
            f" ({data.attrs['shown']['budget_rise']}), shared out in six ways, {others}; bars: 95%"
            f" over {documents}. Rises below 0.1% are drawn there. Look for: whether geometry’s"
            " lines lie below that of kept mass; paired differences are in the table of budgets."
        )
    return Caption((left + right).strip(), " ".join(data.attrs["answers"]), Numbers().all)


def effective_layers(run: Run) -> Caption:
    """Caption of N* of single layers."""
    data = run.needed("effective_layers")
    text = (
        "One layer’s queries keep N tokens, chosen by weight, the other layers stay as they are."
        " Marks: N*, from which on the loss rises by at most τ at every N that was tried; bars: 95%"
        f" over {count(data.sizes['document'], 'document')}. Look for: layers that need more."
    )
    say = Numbers()
    return Caption(text, _most(run, say), say.all)


def _most(run: Run, say: Numbers) -> str:
    """Name the layer that needs most, at the smallest τ."""
    data = run.needed("effective_layers")
    star = data["n_star"].isel(tau=0, mode=0)
    if not np.isfinite(star.values).any():
        return ""
    most = int(np.nanargmax(star.values))
    tokens = say.counted("largest N* of a layer", int(star[most]), "token")
    tau = say.percent("tau", float(data["tau"][0]), 1)
    ends = [float(data[f"n_star_{side}"][most, 0, 0]) for side in ("lower", "upper")]
    between = ""
    if np.isfinite(ends).all():
        low, high = (say.whole("its limit", one) for one in ends)
        between = f" ({low} to {high})"
    return (
        f"By {data['mode'].values[0]} at {tau}, layer {int(data['layer'][most])} needs most:"
        f" {tokens}{between}."
    )
