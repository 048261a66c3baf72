"""Key results: six answers of a run, each in a few words, with one number and its interval, and
how many heads say so.

What ends `geostat run`, what `--json` gives, and what a page begins with. Made from the fits and
the confrontation alone; imports numpy, scipy and xarray.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from geostat.datasets.parts import PART
from geostat.datasets.tokens import most_tokens
from geostat.statistics.jackknife import LEVEL
from geostat.verdicts.scoreboard.finding import UNITS, by_verdict
from geostat.verdicts.scoreboard.records import Answer, Counts, KeyResult, Number

ANSWERS: Final[Mapping[str, Answer]] = {
    "confirmed": "holds",
    "contradicted": "fails",
    "mixed": "mixed",
    "undetermined": "undetermined",
}
"""What the heads say of an assumption."""
ALIKE: Final = 0.10
"""By how much a share may be less than the expected one and still be as expected; ours."""


def key_results(tree: xr.DataTree) -> list[str]:
    """Return the six key results of a run with /verdicts and /summary, each as a line of JSON."""
    makers = (_norms, _similarity, _weights, _separability, _bounds, _directions)
    tokens = tree.attrs.get(PART, {}).get("tokens")
    made = [asdict(maker(tree)) | {"tokens": tokens} for maker in makers]
    return [json.dumps(one, ensure_ascii=False, allow_nan=False) for one in made]


def _norms(tree: xr.DataTree) -> KeyResult:
    return _of_assumption(
        tree,
        "norms",
        "norms.cv",
        {
            "holds": "In most heads value vectors of a document are of nearly one length.",
            "fails": "In most heads value vectors of a document differ in length.",
            "mixed": "Value vectors are of nearly one length in some heads, not in others.",
            "undetermined": "Whether value vectors of a document differ in length is undetermined.",
        },
        _pooled(tree, "whole", "CV in a document, pooled", claim="norms.cv", parameter="cv_token"),
    )


def _similarity(tree: xr.DataTree) -> KeyResult:
    claim, name = "similarity.exponential", "overall_mae_by_lag"
    verdicts = {
        "holds": "In most heads mean similarity lies near an exponential decay with distance.",
        "fails": "In most heads similarity does not decay exponentially with distance.",
        "mixed": "Similarity decays exponentially in some heads, not in others.",
        "undetermined": "Whether similarity decays exponentially is undetermined.",
    }
    exponential, offset = _counts(tree, claim), _counts(tree, "similarity.offset")
    # the fewest heads that can be both
    if 2 * (exponential.fails + offset.holds - exponential.total) > exponential.total:
        verdicts["fails"] = "In most heads similarity decays to a constant, not exponentially to 0."
    number = _pooled(tree, name, "Error, heads pooled", claim=claim, gram="exponential")
    return _of_assumption(tree, "similarity", claim, verdicts, number)


def _weights(tree: xr.DataTree) -> KeyResult:
    claim = "weights.shape_position"
    limit = _known(tree["verdicts"].to_dataset()["tolerance"].sel(claim=claim))
    close = "" if limit is None else f" within a factor of {math.exp(limit):.2g}"
    near = close or " near those"
    return _of_assumption(
        tree,
        "weights",
        claim,
        {
            "holds": f"In most heads weights lie on average{near} of four phases.",
            "fails": "In most heads weights do not follow the four phases.",
            "mixed": "Weights follow the four phases in some heads, not in others.",
            "undetermined": "Whether weights follow the four phases is undetermined.",
        },
        _number(
            tree["verdicts"].to_dataset().sel(claim=claim),
            "true_share",
            f"Estimated share{close}",
        ),
    )


def _separability(tree: xr.DataTree) -> KeyResult:
    return _of_gain(
        tree,
        "separability",
        "random_selection",
        {
            "holds": "Selected tokens stand apart more than tokens chosen at random.",
            "fails": "Selected tokens stand apart less than tokens chosen at random.",
            "undetermined": "Whether selected tokens stand apart more than random ones is"
            " undetermined.",
        },
    )


def _directions(tree: xr.DataTree) -> KeyResult:
    """Whether separability is more than weights and lengths alone give: against values of random
    direction.
    """
    verdicts = {
        "holds": "Directions of values add to separability.",
        "fails": "Directions of values take separability away.",
        "undetermined": "Whether directions of values add to separability is undetermined.",
    }
    gains = _gains(tree, "random_directions")
    if gains is not None:
        below = gains["precision_gain_band_upper"].values < 0
        ends = int(np.argmin(below)) if not below.all() else below.size  # how many from the least
        if ends:
            first, last = (int(gains["n"][at]) for at in (0, ends - 1))
            span = f"{first}" if first == last else f"{first} to {last}"
            verdicts["mixed"] = (
                f"Directions of values add to separability, but take away at N = {span}."
            )
    return _of_gain(tree, "directions", "random_directions", verdicts)


def _bounds(tree: xr.DataTree) -> KeyResult:
    """Answered by Recall under the sharp bounds of the printed decay: by how much fewer values lie
    inside than of heads drawn from the bounds' own model, value head by value head.
    """
    at = tree["summary"].to_dataset()
    if "sharp" not in at["edition"].values or not float(
        at["recall_cells"].sel(edition="sharp", gram="exponential")
    ):
        return _unmeasured("bounds", "The sharp bounds of these assumptions were not evaluated.")
    sharp = at.sel(edition="sharp", gram="exponential")
    inside, cells = float(sharp["recall_inside"]), int(sharp["recall_cells"])
    outside = _known(sharp["recall_outside"]) or 0.0
    error, gap, gap_error, expected = (
        _known(sharp[f"recall_{name}"]) if f"recall_{name}" in sharp else None
        for name in ("inside_se", "drawn_gap", "drawn_gap_se", "drawn_inside")
    )
    capture = tree["capture"].sizes
    if capture["document"] < 2:  # no value is then known to lie outside
        error = gap_error = None
    clusters = _value_heads(tree)
    half = float(stdtrit(max(clusters - 1, 1), 0.5 + LEVEL / 2))
    answer: Answer = "undetermined"
    if gap is not None and gap_error:  # of no spread nothing is known
        if gap - half * gap_error > ALIKE:
            answer = "fails"
        elif gap + half * gap_error < ALIKE:
            answer = "holds"
    verdicts = {
        "holds": "Recall lies within the sharp bounds at least about as often as expected.",
        "fails": "Recall lies outside the sharp bounds of the assumptions too often.",
        "undetermined": "Whether Recall lies within the sharp bounds as often as expected is"
        " undetermined.",
    }
    within, beyond = round(inside * cells), round(outside * cells)
    return KeyResult(
        key="bounds",
        answer=answer,
        verdict=verdicts[answer],
        number=Number(
            of="Recall inside sharp bounds, exponential decay",
            value=inside,
            lower=None if error is None else max(inside - half * error, 0.0),
            upper=None if error is None else min(inside + half * error, 1.0),
            expected=expected,
        ),
        counts=Counts(
            of="values of heads and N",
            holds=within,
            fails=beyond,
            undetermined=cells - within - beyond,
        ),
    )


def _value_heads(tree: xr.DataTree) -> int:
    """How many value heads have a measured value of Recall beside a sharp bound."""
    data = tree["envelope"].to_dataset().sel(edition="sharp", gram="exponential")
    known = data["recall_excess"].notnull().any("n_envelope")
    return int(known.groupby("kv_head_of_head").any().sum())


def _of_assumption(
    tree: xr.DataTree, key: str, claim: str, verdicts: dict[str, str], number: Number
) -> KeyResult:
    """Answered by more than half of all heads; `verdicts` has words for some that hold beside some
    that fail, too.
    """
    counts, answer = _counts(tree, claim), ANSWERS[by_verdict(tree, claim)[0]]
    return KeyResult(key, answer, verdicts[answer], number, counts, claim)


def _of_gain(tree: xr.DataTree, key: str, null: str, verdicts: dict[str, str]) -> KeyResult:
    """Answered by the gain of mean Precision over a null baseline, at the N where it is largest, by
    its band over all N.
    """
    gains = _gains(tree, null)
    if gains is None:
        return _unmeasured(key, "Not compared with chance at any N between 1 and T.")
    at = gains.isel(n=int(gains["precision_gain"].argmax("n")))
    low, high = (float(at[f"precision_gain_band_{side}"]) for side in ("lower", "upper"))
    answer: Answer = "holds" if low > 0 else "fails" if high < 0 else "undetermined"
    if answer == "holds" and verdicts.get("mixed"):
        answer = "mixed"
    known = bool(np.isfinite([low, high]).all())
    number = Number(
        of=f"Largest gain in Precision, at N = {int(at['n'])}",
        value=float(at["precision_gain"]),
        lower=max(low, -1.0) if known else None,
        upper=min(high, 1.0) if known else None,
    )
    return KeyResult(key, answer, verdicts[answer], number, _above(at))


def _counts(tree: xr.DataTree, claim: str) -> Counts:
    at = tree["verdicts"].to_dataset().sel(claim=claim)
    names = ("holds", "fails", "undetermined", "no_estimate")
    return Counts(of=UNITS[claim], **{name: int(at[name]) for name in names})


def _gains(tree: xr.DataTree, null: str) -> xr.Dataset | None:
    """Gains of mean Precision over a null baseline at N between 1 and T; None without them."""
    if "separable" not in tree.children:
        return None
    at = tree["separable"].to_dataset()
    if null not in at["null"].values:
        return None
    at = at.sel(null=null)
    between = (at["n"] > 1) & (at["n"] < most_tokens(tree["capture"].to_dataset()))
    at = at.isel(n=np.flatnonzero(between & at["precision_gain"].notnull()))
    return at if at.sizes["n"] else None


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
    """A stored number with its interval; none of them can be negative."""
    value, lower, upper = (_known(at[f"{name}{end}"]) for end in ("", "_lower", "_upper"))
    return Number(of=of, value=value, lower=None if lower is None else max(lower, 0.0), upper=upper)


def _known(value: xr.DataArray) -> float | None:
    return float(value) if np.isfinite(value) else None


def _unmeasured(key: str, verdict: str) -> KeyResult:
    return KeyResult(
        key=key,
        answer="undetermined",
        verdict=verdict,
        number=Number(of="Measured", value=None),
        counts=Counts(of="heads"),
    )
