"""What stands under the figure of the normaliser's statements. Imports nothing that draws."""

from __future__ import annotations

import numpy as np

from reports.figures.captions.caption import Caption, Numbers
from reports.run import Run
from reports.text.number import count


def normaliser(run: Run) -> Caption:
    """Caption of weights over lengths and separability over N."""
    data = run.needed("normaliser")
    paper = run.display.attrs["paper_normaliser"]
    text = (
        f"Means over {count(int(data.attrs['heads']), 'head')} and"
        f" {count(int(data.attrs['documents']), 'document')}; bars: standard error over documents."
        " Left: the largest weight of a query that sees L tokens, beside a fall as 1/L from the"
        " least L. Right: share of the selected that lie nearer to the sum of the N largest"
        " contributions than a token without weight does; band: its bounds for random directions at"
        " the measured radius; green and dashed: random directions at a radius of their own;"
        f" dotted: the range that the authors report of {paper['model']}. Look for: how far the"
        " measured share lies from what random directions give."
    )
    say = Numbers()
    power = float(data["power"])
    if not np.isfinite(power):
        return Caption(text)
    first, last = (say.whole(f"L {at}", float(data["length"][at])) for at in (0, -1))
    finding = (
        f"The largest weight falls as L to the power −{say.figures('power', power)} from L ="
        f" {first} to {last}."
    )
    return Caption(text, finding, say.all)
