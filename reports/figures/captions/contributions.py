"""What stands under the sphere picture and the contributions. Imports nothing that draws."""

from __future__ import annotations

import numpy as np

from reports.figures.captions.caption import Caption, figures_of
from reports.figures.captions.experiments import NOUNS
from reports.run import Run, notes
from reports.statistics import flat, median
from reports.text.number import count, percent


def sphere(run: Run) -> Caption:
    """Caption of the counterpart of Figure 9."""
    data = run.needed("sphere")
    if data.attrs["of"] == "components":
        what = (
            "Contributions of the heads that were named at the capture, each scaled to length 1 in"
            " the space of their first three principal components: a point on the sphere."
        )
        share = "The three components hold"
    else:
        what = (
            "Value vectors of the value heads with the lowest, the median and the highest ρ₀, each"
            " scaled to length 1: a point on the sphere. First axis: the last token’s value v_L."
            " Second: the part of the sink’s value v₀ at right angles to it. Third: the length of"
            " all the rest, which has no sign, so that the sphere is a half one. The cosines with"
            " v_L and v₀ place a point without error."
        )
        share = "The plane of v_L and v₀ holds"
    drawn, every = data.sizes["token"], run.positions
    fewer = f" {drawn} of {every:,} tokens are drawn, evenly." if drawn < every else ""
    text = (
        f"{what} One document, the first of {run.counted('document')}; darker points come earlier,"
        f" paler ones lie behind.{fewer} Look for: whether tokens spread over the sphere or gather"
        " on one side of it."
    )
    shares = [
        f"{percent(float(held), 0)} ({name})"
        for name, held in zip(data["name"].values, data["held"].values, strict=True)
        if np.isfinite(held)
    ]
    finding = f"{share} {', '.join(shares)} of the tokens’ squared length." if shares else ""
    return Caption(text, finding)


def contributions(run: Run) -> Caption:
    """Caption of the counterpart of Figure 10."""
    data, regimes = run.needed("contributions"), run.needed("regimes")
    text = (
        "Contribution of each token, ‖α_i v_i‖, to one head of each regime: the heads of the figure"
        f" of regimes, at the last query of {run.counted('document')}. Tokens stand in the order of"
        " their weight: at N, those from the left end up to N are the selected ones. Colour: cosine"
        " of the token’s value with the last one’s, v_L."
        f" {data.sizes['rank']} ranks are drawn, and of every document the sink (triangle) and the"
        " last token (star). Look for: a Retriever’s star above all else, a Mixer’s between"
        " triangle and crowd, a Reset’s in the crowd."
    )
    both = regimes["heads"].sel(criterion="both")
    numbers = ", ".join(f"{int(both.sel(regime=name))} {noun}" for name, noun in NOUNS.items())
    finding = f"Of {count(int(both.sum()), 'head')}: {numbers}. " if int(both.sum()) else ""
    places = [
        f"{figures_place(median(data['last_place'].sel(regime=name)))} in the"
        f" {noun.removesuffix('s')}’s"
        for name, noun in NOUNS.items()
        if name in data["regime"].values and flat(data["last_place"].sel(regime=name)).size
    ]
    if places:
        finding += (
            "By size of contribution the last token’s place in the median document is"
            f" {', '.join(places)} head, of {int(data.attrs['tokens']):,} tokens."
        )
    return Caption(text, f"{finding}{notes(regimes)}".strip())


def figures_place(place: float) -> str:
    """A place in an order, which of an even number of documents may lie between two.

    >>> figures_place(3.0), figures_place(3.5)
    ('3', '3.5')
    """
    return f"{place:g}" if np.isfinite(place) else figures_of(place)
