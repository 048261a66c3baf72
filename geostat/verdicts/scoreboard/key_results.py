"""Key results: six answers of a run, each in a few words, with one number and its interval, and
how many heads say so.

What ends `geostat run`, what `--json` gives, and what a page begins with. Made from the fits and
the confrontation alone; imports numpy and xarray.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

import numpy as np
import xarray as xr

from geostat.datasets.parts import PART
from geostat.datasets.tokens import most_tokens
from geostat.verdicts.scoreboard.finding import UNITS, by_verdict

Answer = Literal["holds", "fails", "open"]
ANSWERS: Final[Mapping[str, Answer]] = {
    "confirmed": "holds",
    "contradicted": "fails",
    "undecided": "open",
}
"""What a majority of heads says of an assumption; of no majority the answer is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number with its 95% interval over documents: None for what is not known."""

    of: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    expected: float | None = None
    """What it would be if the assumptions were true as fitted, where that is known."""
    tolerated: float | None = None
    """Up to where the claim asks a head's own number to lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many of what is counted hold, fail, or are undetermined; no_estimate: have no number."""

    of: str
    holds: int = 0
    fails: int = 0
    undetermined: int = 0
    no_estimate: int = 0


@dataclass(frozen=True, slots=True)
class KeyResult:
    """One answer. claim: the verdict that its heads are counted by, where there is one."""

    key: str
    answer: Answer
    verdict: str
    number: Number
    counts: Counts
    claim: str = ""
    tokens: int | None = None
    """T of the layers it is of, where layers see different numbers of tokens."""


def key_results(tree: xr.DataTree) -> list[str]:
    """Return the six key results of a run with /verdicts and /summary, each as a line of JSON."""
    makers = (_norms, _similarity, _weights, _separability, _bounds, _directions)
    tokens = tree.attrs.get(PART, {}).get("tokens")
    made = [asdict(maker(tree)) | {"tokens": tokens} for maker in makers]
    return [json.dumps(one, ensure_ascii=False, allow_nan=False) for one in made]


def _norms(tree: xr.DataTree) -> KeyResult:
    verdicts = {
        "holds": "Value vectors are of nearly one length behind the sink.",
        "fails": "Value vectors are not of one length within a document.",
        "open": "Whether value vectors are of one length is open in many heads.",
    }
    answer, counts = _majority(tree, "norms.cv")
    number = _pooled(tree, "whole", "CV, heads pooled", claim="norms.cv", parameter="cv_token")
    return KeyResult("norms", answer, verdicts[answer], number, counts, "norms.cv")


def _similarity(tree: xr.DataTree) -> KeyResult:
    answer, counts = _majority(tree, "similarity.exponential")
    verdicts = {
        "holds": "Similarity of values decays exponentially with distance.",
        "fails": "Similarity of values does not decay exponentially with distance.",
        "open": "Whether similarity of values decays exponentially is open in many heads.",
    }
    if answer == "fails" and by_verdict(tree, "similarity.offset")[0] == "confirmed":
        verdicts["fails"] = "Similarity of values decays to a constant, not exponentially to 0."
    number = _pooled(
        tree,
        "overall_mae_by_lag",
        "Error, heads pooled",
        claim="similarity.exponential",
        gram="exponential",
    )
    claim = "similarity.exponential"
    return KeyResult("similarity", answer, verdicts[answer], number, counts, claim)


def _weights(tree: xr.DataTree) -> KeyResult:
    answer, counts = _majority(tree, "weights.shape_position")
    verdicts = {
        "holds": "Attention weights follow the four phases in most heads.",
        "fails": "Attention weights do not follow the four phases in most heads.",
        "open": "Attention weights follow the four phases in some heads only.",
    }
    at = tree["verdicts"].to_dataset().sel(claim="weights.shape_position")
    number = _number(at, "true_share", "Share of heads")
    claim = "weights.shape_position"
    return KeyResult("weights", answer, verdicts[answer], number, counts, claim)


def _separability(tree: xr.DataTree) -> KeyResult:
    verdicts = {
        "holds": "Selected tokens stand apart, more than tokens chosen at random.",
        "fails": "Selected tokens stand apart less than tokens chosen at random.",
        "open": "Selected tokens stand apart no more than chance may explain.",
    }
    found = _gain(tree, "random_selection")
    if found is None:
        return _unmeasured(
            "separability", "Chance was not measured, so nothing is compared with it."
        )
    answer, at = found
    return KeyResult(
        key="separability",
        answer=answer,
        verdict=verdicts[answer],
        number=_gained(at, "above chance"),
        counts=_above(at),
    )


def _bounds(tree: xr.DataTree) -> KeyResult:
    """Answered by Recall under the sharp bounds of the printed decay, against heads drawn from the
    bounds' own model: fewer inside by more than two standard errors of the difference of two such
    shares fail.
    """
    at = tree["summary"].to_dataset()
    if "sharp" not in at["edition"].values or not float(
        at["recall_cells"].sel(edition="sharp", gram="exponential")
    ):
        return _unmeasured("bounds", "The sharp bounds of these assumptions were not evaluated.")
    sharp = at.sel(edition="sharp", gram="exponential")
    inside, cells = float(sharp["recall_inside"]), int(sharp["recall_cells"])
    outside = _known(sharp["recall_outside"]) or 0.0
    expected = _known(sharp["recall_drawn_inside"]) if "recall_drawn_inside" in sharp else None
    answer: Answer = "open"
    if expected is not None:
        # if the assumptions are true as fitted, measured and drawn heads scatter alike
        reach = 2 * np.sqrt(2) * (_known(sharp["recall_drawn_inside_se"]) or 0.0)
        answer = "fails" if inside < expected - reach else "holds"
    verdicts = {
        "holds": "Recall lies within the bounds that the assumptions imply, as often as expected.",
        "fails": "Recall lies outside the bounds that the assumptions imply, too often.",
        "open": "How often Recall should lie within its bounds is not known.",
    }
    within, beyond = round(inside * cells), round(outside * cells)
    return KeyResult(
        key="bounds",
        answer=answer,
        verdict=verdicts[answer],
        number=Number(of="Share inside", value=inside, expected=expected),
        counts=Counts(
            of="values of heads and N",
            holds=within,
            fails=beyond,
            undetermined=cells - within - beyond,
        ),
    )


def _directions(tree: xr.DataTree) -> KeyResult:
    """Whether separability is more than weights and lengths alone give: against values of random
    direction.
    """
    found = _gain(tree, "random_directions")
    if found is None:
        return _unmeasured("directions", "Values of random direction were not measured.")
    answer, at = found
    gain = tree["separable"].to_dataset()["precision_gain"].sel(null="random_directions")
    first = gain.isel(n=np.flatnonzero((gain["n"] > 1) & gain.notnull()))[0]
    verdicts = {
        "holds": "Directions of values add to separability.",
        "fails": "Directions of values take separability away, at every N.",
        "open": "Directions of values add no separability that stands out of the noise.",
    }
    if answer == "holds" and float(first) < 0:
        verdicts["holds"] = (
            f"Directions of values add to separability, but not at N = {int(first['n'])}."
        )
    return KeyResult(
        key="directions",
        answer=answer,
        verdict=verdicts[answer],
        number=_gained(at, "gained"),
        counts=_above(at),
    )


def _majority(tree: xr.DataTree, claim: str) -> tuple[Answer, Counts]:
    """The answer of more than half of all heads, and the counts behind it."""
    at = tree["verdicts"].to_dataset().sel(claim=claim)
    names = ("holds", "fails", "undetermined", "no_estimate")
    return ANSWERS[by_verdict(tree, claim)[0]], Counts(
        of=UNITS[claim], **{name: int(at[name]) for name in names}
    )


def _gain(tree: xr.DataTree, null: str) -> tuple[Answer, xr.Dataset] | None:
    """The gain of mean Precision over a null baseline at the N between 1 and T where it is largest,
    and whether the bands over all these N leave out 0 there; None without that baseline.
    """
    if "separable" not in tree.children:
        return None
    at = tree["separable"].to_dataset()
    if null not in at["null"].values:
        return None
    at = at.sel(null=null)
    between = (at["n"] > 1) & (at["n"] < most_tokens(tree["capture"].to_dataset()))
    at = at.isel(n=np.flatnonzero(between & at["precision_gain"].notnull()))
    if not at.sizes["n"]:
        return None
    best = at.isel(n=int(at["precision_gain"].argmax("n")))
    answer: Answer = "open"
    if float(best["precision_gain_band_lower"]) > 0:
        answer = "holds"
    elif float(best["precision_gain_band_upper"]) < 0:
        answer = "fails"
    return answer, best


def _gained(at: xr.Dataset, words: str) -> Number:
    return Number(
        of=f"Precision {words} at N = {int(at['n'])}",
        value=_known(at["precision_gain"]),
        lower=_known(at["precision_gain_band_lower"]),
        upper=_known(at["precision_gain_band_upper"]),
    )


def _above(at: xr.Dataset) -> Counts:
    """Heads whose Precision is clearly above the baseline, clearly below, and neither."""
    heads = int(at["precision_heads"])
    if not np.isfinite([at["precision_more"], at["precision_less"]]).all():  # not tested
        return Counts(of="heads", no_estimate=heads)
    more, less = int(at["precision_more"]), int(at["precision_less"])
    return Counts(of="heads", holds=more, fails=less, undetermined=heads - more - less)


def _pooled(tree: xr.DataTree, name: str, of: str, *, claim: str, **at: str) -> Number:
    """A number of all heads pooled, and the tolerance of the claim it speaks of; n/a of fits that
    pooled none.
    """
    limit = _known(tree["verdicts"].to_dataset()["tolerance"].sel(claim=claim))
    if "pooled" not in tree.children:
        return Number(of=of, value=None, tolerated=limit)
    return replace(_number(tree["pooled"].to_dataset().sel(at), name, of), tolerated=limit)


def _number(at: xr.Dataset, name: str, of: str) -> Number:
    """A stored number with its interval."""
    value, lower, upper = (_known(at[f"{name}{end}"]) for end in ("", "_lower", "_upper"))
    return Number(of=of, value=value, lower=lower, upper=upper)


def _known(value: xr.DataArray) -> float | None:
    return float(value) if np.isfinite(value) else None


def _unmeasured(key: str, verdict: str) -> KeyResult:
    return KeyResult(
        key=key,
        answer="open",
        verdict=verdict,
        number=Number(of="Measured", value=None),
        counts=Counts(of="heads"),
    )
