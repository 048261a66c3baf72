"""Records of topics: claims with tolerances, statements of the paper with findings, key results.

Also the functions that topics share to make them, and numbers in sentences: medians with quartiles,
shares, tolerances, intervals. Imports numpy, xarray, and reports for number formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

import numpy as np
import xarray as xr

from geostat.datasets.parts import PART
from geostat.datasets.variable import known
from geostat.statistics.equivalence import ANSWERS, Side
from reports.text.number import percent


def sees_sink(fits: xr.Dataset) -> bool:
    """Return whether the analysed query sees the sink in at least one layer."""
    return "sink_visible" not in fits or bool(fits["sink_visible"].any())


def sink_missing(fits: xr.Dataset, quantity: str, reason: str = "") -> str:
    """Say why a quantity of the sink is missing in every head, with the reason if known."""
    if not sees_sink(fits):
        return "The sink at position 0 is not visible to the last token"
    return f"The sink's {quantity} has no estimate" + (f" ({reason})" if reason else "")


def part_in_words(tree: xr.DataTree) -> str:
    """Return a prefix that names the layers of a part of a run; "" for a whole run."""
    part = tree.attrs.get(PART)
    if part is None:
        return ""
    return f"Layers that see {part['tokens']:,} tokens, {part['layers']} of {part['of']}: "


def quartiles(values: xr.DataArray | np.ndarray) -> tuple[float, float, float, int]:
    """Return the median, lower quartile, upper quartile and count of the finite values."""
    finite = np.asarray(values, dtype=np.float64).ravel()
    finite = finite[np.isfinite(finite)]
    values = np.quantile(finite, [0.25, 0.5, 0.75]) if finite.size else np.full(3, np.nan)
    low, middle, high = map(float, values)
    return middle, low, high, finite.size


def spread(
    values: xr.DataArray, show: Callable[[float], str], *, over: str = "", reason: str = ""
) -> str:
    """Return the median of the finite values, `over`, and the interquartile range as text."""
    middle, low, high, count = quartiles(values)
    if not count:
        return f"n/a{over} (no estimate{f': {reason}' if reason else ''})"
    return f"{show(middle)}{over} (interquartile range {show(low)} to {show(high)})"


def two_decimals(value: float) -> str:
    """Return a number with two decimals; "n/a" if it is not finite.

    >>> two_decimals(-0.25), two_decimals(-0.001), two_decimals(float("nan"))
    ('−0.25', '0.00', 'n/a')
    """
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−") if np.isfinite(value) else "n/a"


def in_percent(share: float) -> str:
    """Return a share in percent: without decimals from 10% on, otherwise with one."""
    return percent(share, 0 if not np.isfinite(share) or share >= 0.0995 or share == 0 else 1)


def exact(tolerance: float) -> str:
    """Return a tolerance with two decimals, or with more if two would round it."""
    text = f"{tolerance:.2f}"
    return text if float(text) == tolerance else f"{tolerance:g}"


def with_interval(value: float, low: float, high: float) -> str:
    """Return a number with its interval in brackets, two decimals each.

    >>> with_interval(0.5, 0.25, 0.75), with_interval(0.5, float("nan"), float("nan"))
    ('0.50 (0.25 to 0.75)', '0.50')
    """
    known = np.isfinite(low) and np.isfinite(high)
    limits = f" ({two_decimals(low)} to {two_decimals(high)})" if known else ""
    return two_decimals(value) + limits


def functional_sinks(tree: xr.DataTree) -> str:
    """Say in what share of heads the strongest functional sink is at position 0, and in what
    share elsewhere; "" if the run has no /sinks_found.
    """
    if "sinks_found" not in tree.children:
        return ""
    sinks = tree["sinks_found"].to_dataset()
    quoted = []
    for case in ("acts at position 0", "acts elsewhere"):
        share, error = (float(sinks[name].sel(case=case)) for name in ("share", "share_se"))
        quoted.append(percent(share, 1) + (f" ± {percent(error, 1)}" if error > 0 else ""))
    return (
        f" The strongest functional sink (norm at most {sinks.attrs['compressed']:g} times the"
        f" median, attention weight at least {sinks.attrs['much']:g}/T) is at position 0 in"
        f" {quoted[0]} of heads and at another position in {quoted[1]}."
    )


Unit = Literal["kv_head", "head"]
UNITS: Final[tuple[Unit, ...]] = ("kv_head", "head")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of a claim, and the source of its value."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement about one effect of every head, in units of `units`.

    The estimate of the effect is the variable /`group`/`variable` at `select`; `x_se`, `x_skew` and
    `x_without` are its standard error, skewness and leave-one-document-out values. For bounds it is
    /envelope at an edition and a Gram. `side`: the effect is at most or at least the tolerance, or
    its absolute value is within it.
    """

    key: str
    says: str
    variable: str
    tolerance: Tolerance = field(kw_only=True)
    side: Side = "at_most"
    select: Mapping[str, str] = field(default_factory=dict)
    short: str = ""
    """Short label for an axis or a narrow column."""
    presence: str | None = None
    """Variable with the p-value of the effect's presence, if the estimate exists only where a
    search identified the effect.
    """
    flat: str | None = None
    """Variable with the p-value of a held-out loss that is not below a flat form's, if the claim is
    on a form that must predict better than a flat one; otherwise it holds trivially.
    """

    @property
    def group(self) -> str:
        """Group of the run that contains the effect; the first part of the key."""
        topic = self.key.partition(".")[0]
        return "envelope" if topic == "bounds" else topic

    @property
    def bounds(self) -> bool:
        """Whether the claim is about bounds, which are compared with measured curves at every N."""
        return self.group == "envelope"

    @property
    def of(self) -> Unit:
        """Unit of analysis: KV heads or query heads."""
        return unit_of(self.key)

    @property
    def units(self) -> str:
        """Physical unit of the effect: nat for weights, otherwise 1."""
        return "nat" if self.group == "weights" else "1"


Answer = Literal[
    "confirmed", "holds trivially", "contradicted", "mixed", "undetermined", "not testable here"
]
"""Answers that a run can give on a statement of the paper. "Holds trivially" confirms nothing: a
flat form predicts as well, or a null baseline has the property too.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer on a statement, the numbers behind it, and a line of explanation."""

    answer: Answer
    here: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the paper that a run can test, with the function that applies its rule.

    Attributes:
        claim: the statement, in our words.
        where: sections and figures of the paper.
        paper: the paper's number.
        rule: the rule by which a run confirms (contradicts) it.
        null: what the statement is compared with: the null hypothesis or the rival of its rule.
        answer: the function that applies the rule; its name is the key of the statement.
    """

    claim: str
    where: str
    paper: str
    rule: str
    null: str
    answer: Callable[[xr.DataTree], Finding]

    def __call__(self, tree: xr.DataTree) -> Finding:
        """Return the answer of a run."""
        return self.answer(tree)

    @property
    def key(self) -> str:
        """Name of the statement in a scoreboard."""
        return self.answer.__name__


def statement(claim: str, where: str, paper: str, rule: str, *, null: str) -> partial[Statement]:
    """Decorate the function that applies the rule of a statement of the paper."""
    return partial(Statement, claim, where, paper, rule, null)


def by_rule(*, confirmed: bool | np.bool_, contradicted: bool | np.bool_) -> Answer:
    """Return the answer by a rule whose two conditions exclude each other."""
    return "confirmed" if confirmed else "contradicted" if contradicted else "undetermined"


def by_majority(confirming: int, contradicting: int, heads: int) -> Answer:
    """Return "confirmed" or "contradicted" if more than half of the heads agree on it.

    >>> by_majority(60, 30, 100), by_majority(50, 50, 100)
    ('confirmed', 'undetermined')
    """
    return by_rule(confirmed=2 * confirming > heads, contradicted=2 * contradicting > heads)


def by_verdict(tree: xr.DataTree, claim: str, measured: str = "", why: str = "") -> Finding:
    """Answer a statement by the verdicts on a claim; shares are of all heads.

    "Holds trivially": more than half of the heads hold, but only if trivial ones count. "Mixed":
    more than half of the heads hold or fail, but neither is a majority. The counts of verdicts are
    quoted after `measured`.
    """
    counts = counts_of(tree, claim)
    within = counts.holds + counts.holds_trivially
    answer = by_majority(counts.holds, counts.fails, counts.total)
    if answer == "undetermined" and 2 * (within + counts.fails) > counts.total:
        answer = "holds trivially" if 2 * within > counts.total else "mixed"
    trivially = f", holds trivially in {counts.holds_trivially}" * (counts.holds_trivially > 0)
    missing = f", no estimate in {counts.no_estimate}" * (counts.no_estimate > 0)
    quoted = (
        f"holds in {counts.holds}{trivially}, fails in {counts.fails}{missing} of {counts.total}"
        f" {counts.of}"
    )
    return Finding(answer, f"{measured}; {quoted}" if measured else quoted, why)


def unit_of(claim: str) -> Unit:
    """Return the unit of analysis of a claim: KV heads or query heads."""
    return "kv_head" if claim.partition(".")[0] in ("norms", "similarity") else "head"


def median(values: xr.DataArray) -> float:
    """Return the median of the finite values; NaN if there are none."""
    return float(np.nanmedian(values)) if np.isfinite(values).any() else float("nan")


Settled = Literal["holds", "holds trivially", "fails", "mixed", "undetermined"]
"""Answers of key results. Mixed: most heads hold or fail, but neither is a majority. Holds
trivially: most heads hold, but only if those in which a flat form predicts as well count.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number with its 95% interval over documents (bounds: over KV heads); None if unknown."""

    of: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    expected: float | None = None
    """Value expected if the assumptions were true as fitted."""
    tolerated: float | None = None
    """Tolerance of the claim for a single head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of heads, or of values, by verdict."""

    of: str
    holds: int = 0
    holds_trivially: int = 0
    fails: int = 0
    undetermined: int = 0
    no_estimate: int = 0

    @property
    def total(self) -> int:
        """Sum of all counts."""
        return sum(getattr(self, name) for name in ANSWER_CODES)


@dataclass(frozen=True, slots=True)
class KeyResult:
    """The answer of a topic, with its number and counts; `claim` is the claim counted, if any."""

    key: str
    answer: Settled
    verdict: str
    number: Number
    counts: Counts
    claim: str = ""
    tokens: int | None = None
    """Visible tokens T of its layers, if layers see different numbers of tokens."""
    also: tuple[Number, ...] = ()
    """The same number at other sizes N."""


SETTLED: Final[Mapping[str, Settled]] = {
    "confirmed": "holds",
    "holds trivially": "holds trivially",
    "contradicted": "fails",
    "mixed": "mixed",
    "undetermined": "undetermined",
}
"""Answer of a key result by the answer on the statement."""


def of_assumption(
    tree: xr.DataTree, key: str, claim: str, verdicts: dict[str, str], number: Number
) -> KeyResult:
    """Return the key result of an assumption, answered by the majority of all heads.

    `verdicts` holds a sentence for each answer.
    """
    answer = SETTLED[by_verdict(tree, claim).answer]
    return KeyResult(key, answer, verdicts[answer], number, counts_of(tree, claim), claim)


ANSWER_CODES: Final = {word.replace(" ", "_"): code for code, word in ANSWERS.items()}
"""Codes of the answers in /verdicts, by the name of the variable that counts the answer."""


def counts_of(tree: xr.DataTree, claim: str) -> Counts:
    """Return the counts of heads by verdict on a claim; 0 for an answer unknown to an older run."""
    selected = tree["verdicts"].to_dataset().sel(claim=claim)
    of = "KV heads" if unit_of(claim) == "kv_head" else "heads"
    return Counts(of=of, **{name: int(selected.get(name, 0)) for name in ANSWER_CODES})


def pooled(tree: xr.DataTree, name: str, of: str, *, claim: str, **select: str) -> Number:
    """Return an estimate pooled over heads, and the tolerance of its claim."""
    limit = known(tree["verdicts"].to_dataset()["tolerance"].sel(claim=claim))
    if "pooled" not in tree.children:
        return Number(of=of, value=None, tolerated=limit)
    return replace(number_of(tree["pooled"].to_dataset().sel(select), name, of), tolerated=limit)


def number_of(data: xr.Dataset, name: str, of: str) -> Number:
    """Return a stored non-negative number with its interval, the lower limit cut to 0."""
    value, lower, upper = (known(data[f"{name}{end}"]) for end in ("", "_lower", "_upper"))
    return Number(of=of, value=value, lower=None if lower is None else max(lower, 0.0), upper=upper)


def unmeasured(key: str, verdict: str) -> KeyResult:
    """Return an undetermined key result without a measurement."""
    number = Number(of="Measured", value=None)
    return KeyResult(key, "undetermined", verdict, number, Counts(of="heads"))
