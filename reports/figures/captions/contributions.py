"""What stands under the sphere picture and the contributions. Imports nothing that draws."""

from __future__ import annotations

import numpy as np

from reports.figures.captions.caption import Caption, Numbers
from reports.figures.captions.experiments import NOUNS
from reports.run import Run, notes
from reports.statistics import flat, median


def sphere(run: Run) -> Caption:
    """Caption of the counterpart of Figure 9."""
    data = run.needed("sphere")
    if data.attrs["of"] == "components":
        shown, named = data.sizes["panel"], int(data.attrs["named"])
        heads = "heads" if shown == named else f"first {shown} of {named} heads"
        what = (
            f"Contributions of the {heads} that were named at the capture, each scaled to length 1"
            " in the space of their first three principal components: a point on the sphere."
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
    say = Numbers()
    shares = [
        f"{say.percent(f'share held, {name}', float(held), 0)} ({name})"
        for name, held in zip(data["name"].values, data["held"].values, strict=True)
        if np.isfinite(held)
    ]
    finding = f"{share} {', '.join(shares)} of the tokens’ squared length." if shares else ""
    return Caption(text, finding, say.all)


def contributions(run: Run) -> Caption:
    """Caption of the counterpart of Figure 10."""
    data, regimes = run.needed("contributions"), run.needed("regimes")
    text = (
        "Contribution of each token, ‖α_i v_i‖, to one head of each regime: the heads of the figure"
        f" of regimes, at the last query of {run.counted('document')}. Tokens stand in the order of"
        " their weight: at N, those from the left end up to N are the selected ones. Colour: cosine"
        " of the token’s value with the last one’s, v_L."
        f" {data.sizes['rank']} ranks are drawn, and of every document the sink (triangle) and the"
        " last token (star). As the paper has them, a Retriever’s star stands above all else, a"
        " Mixer’s between triangle and crowd, a Reset’s in the crowd."
    )
    say, both = Numbers(), regimes["heads"].sel(criterion="both")
    numbers = ", ".join(
        f"{say.whole(noun, float(both.sel(regime=name)))} {noun}" for name, noun in NOUNS.items()
    )
    every, finding = int(both.sum()), ""
    if every:
        finding = f"Of {say.counted('heads', every, 'head')}: {numbers}. "
    places = []
    for name, noun in NOUNS.items():
        if name in data["regime"].values and flat(data["last_place"].sel(regime=name)).size:
            place = median(data["last_place"].sel(regime=name))
            said = say.place(f"place of the last token, {name}", place)
            places.append(f"{said} in the {noun.removesuffix('s')}’s")
    if places:
        finding += (
            "By size of contribution the last token’s place in the median document is"
            f" {', '.join(places)} head, of"
            f" {say.counted('tokens', int(data.attrs['tokens']), 'token')}."
        )
    return Caption(text, f"{finding}{notes(regimes)}".strip(), say.all)
