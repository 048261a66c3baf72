"""What stands under the figure of predicted curves. Imports nothing that draws."""

from __future__ import annotations

import numpy as np

from reports.figures.captions.caption import Caption, Numbers
from reports.run import Run
from reports.text.number import count

PREDICTED_FROM = {
    "exponential": "with the exponential fit",
    "offset": "with the offset",
    "all but weights": "with only the weights fitted",
    "measured": "with all measured",
    "heads": "by the mean of the other heads",
}
"""How the findings tell what a curve was predicted from."""


def predictive(run: Run) -> Caption:
    """Caption of predicted against measured curves."""
    data = run.needed("predictive")
    sizes = data["n_predicted"].values
    text = (
        f"Measured Precision and Recall of {run.counted('head')} (means of"
        f" {run.counted('document')}) at {count(len(sizes), 'size')} N from {sizes[0]} to"
        f" {sizes[-1]}, against what Model G expects of the head: from its fitted weights, norms"
        " and similarity (Assumptions 1 to 3; printed exponential, or decay to an offset), from"
        " fitted weights with its own norms and mean cosines by lag, and from its own weights too."
        " Look for: the coloured line on the dashed one. Where it lies above, the theory predicts"
        " too little."
    )
    say, parts = Numbers(), []
    for name, word in (("precision", "Precision"), ("recall", "Recall")):
        misses = [
            f"{say.figures(f'{name}, {source}', miss)} {words}"
            for source, words in PREDICTED_FROM.items()
            if source in data["source"].values
            and np.isfinite(miss := float(data[f"{name}_pooled_mae"].sel(source=source)))
        ]
        if misses:
            parts.append(f"{word} is missed by {', '.join(misses)}")
    finding = f"Mean distance of predicted from measured: {'; '.join(parts)}." if parts else ""
    return Caption(text, finding, say.all)
