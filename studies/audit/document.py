"""Audit document: how often each bound is violated or vacuous, its gap to the simulated truth, the
sample, and whether each target is met.

A violation is a bound beyond 4 standard errors of the simulated mean, on its wrong side;
`studies.audit.rows` draws the rows, `studies.audit.heads` the heads. `python -m studies.audit`
writes the whole document.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np

from studies.audit import heads
from studies.audit.heads import Sample
from studies.audit.rows import (
    AGAIN,
    AGAIN_IN_DOUBT,
    BEYOND,
    IN_DOUBT,
    LADDER,
    LARGE_ERROR,
    NEAR,
    SIGMAS,
    Audit,
    Rows,
    audit,
)
from theory.arrays import BoolArray, FloatArray
from theory.evaluate.simulate import FOLLOWUP, FOLLOWUP_RECALL
from theory.head.results import QUANTITIES, UNDER_MODEL_G, Edition

SMALL_N = 8
"""Largest size of the separate column for small N, which the paper studies."""

NOTHING = 1e-9
"""A bound within this distance of the trivial bound is vacuous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table: one edition and one quantity. Widths and gaps are medians over rows
    without a violated bound.

    worst: largest violation (0 if none). vacuous_lower: share of vacuous lower bounds. width_small:
    median width at N ≤ 8. relative: median width divided by that of `sharp`, over rows where
    neither edition is violated; NaN without rows of `sharp`.
    """

    edition: str
    quantity: str
    violated_lower: int
    violated_upper: int
    flagged: int
    worst: float
    vacuous_lower: float
    vacuous_upper: float
    gap_lower: float
    gap_upper: float
    width_small: float
    width: float
    relative: float


def table(audit: Audit) -> list[Line]:
    """Summarise an audit: one line for each quantity and each edition except `predicted`."""
    lines = []
    for (edition, quantity), rows in audit.rows.items():
        if edition == "predicted":
            continue
        unviolated, gaps = (
            _unviolated(rows),
            np.stack([rows.truth - rows.lower, rows.upper - rows.truth]),
        )
        width = rows.upper - rows.lower
        lines.append(
            Line(
                edition=edition,
                quantity=quantity,
                violated_lower=int(rows.violated[0].sum()),
                violated_upper=int(rows.violated[1].sum()),
                flagged=int(rows.flagged.sum()),
                worst=float(np.where(rows.violated, -gaps, 0.0).max(initial=0.0)),
                vacuous_lower=float(_vacuous_below(rows, quantity).mean()),
                vacuous_upper=float((~(rows.upper < 1 - NOTHING)).mean()),
                gap_lower=_median(gaps[0, unviolated]),
                gap_upper=_median(gaps[1, unviolated]),
                width_small=_median(width[unviolated & (rows.n <= SMALL_N)]),
                width=_median(width[unviolated]),
                relative=relative_width(audit, quantity, edition),
            )
        )
    return lines


def _unviolated(rows: Rows) -> BoolArray:
    return np.asarray(~rows.violated.any(axis=0))


def _vacuous_below(rows: Rows, quantity: str) -> BoolArray:
    return np.asarray(~(rows.lower > rows.floor(quantity) + NOTHING))


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if values.size else float("nan")


def relative_width(audit: Audit, quantity: str, edition: str = "conditional") -> float:
    """Return the median width of an edition divided by that of `sharp`, over rows where neither is
    violated; NaN without rows of `sharp`.
    """
    if ("sharp", quantity) not in audit.rows:
        return float("nan")
    both = audit.rows[edition, quantity], audit.rows["sharp", quantity]
    unviolated = _unviolated(both[0]) & _unviolated(both[1])
    width, sharp_width = (_median((rows.upper - rows.lower)[unviolated]) for rows in both)
    return width / sharp_width if sharp_width > 0 else float("nan")


def sharp_beyond_repaired(audit: Audit, quantity: str) -> int:
    """Count rows where the lower bound of `repaired` is informative and that of `sharp` is
    vacuous.
    """
    says, silent = (
        _vacuous_below(audit.rows[edition, quantity], quantity) for edition in ("repaired", "sharp")
    )
    return int((~says & silent).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Error of `predicted` over all rows, and how many large errors its flag misses.

    large: rows with an error above 0.05 (for flagged rows simulation noise may cause it). missed:
    large errors in rows that are not flagged.
    """

    quantity: str
    rows: int
    median: float
    ninth_decile: float
    worst: float
    worst_trusted: float
    distrusted: int
    large: int
    missed: int


def accuracy(audit: Audit) -> list[Accuracy]:
    """Summarise the errors of the edition `predicted`."""
    summaries = []
    for (edition, quantity), rows in audit.rows.items():
        if edition != "predicted":
            continue
        error = np.abs(rows.lower - rows.truth)
        error = np.where(np.isnan(error), np.inf, error)  # no merging order gives a value
        large = error > LARGE_ERROR
        summaries.append(
            Accuracy(
                quantity=quantity,
                rows=len(error),
                median=_median(error),
                ninth_decile=float(np.quantile(error, 0.9)),
                worst=float(error.max()),
                worst_trusted=float(error[rows.reliable].max(initial=0.0)),
                distrusted=int((~rows.reliable).sum()),
                large=int(large.sum()),
                missed=int((large & rows.reliable).sum()),
            )
        )
    return summaries


SAMPLES: tuple[Sample, ...] = get_args(Sample)
"""Audited samples, in order."""

EDITIONS_OF: dict[Sample, tuple[Edition, ...]] = {
    "small": UNDER_MODEL_G,
    "adversarial": ("repaired", "sharp", "predicted"),
}
"""Editions audited on some samples; on the others all."""


def all_samples(
    draws: int = 1000,
    *,
    seed: int = 0,
    every: int = 1,
    workers: int = 1,
    progress: Callable[[float], None] | None = None,
) -> list[Audit]:
    """Audit every sample. `progress` receives the completed share."""
    sizes = [len(heads.heads(sample, seed=seed)[::every]) for sample in SAMPLES]

    def counted_from(before: int) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, _: progress((before + done) / sum(sizes))

    audit_sample = partial(audit, draws=draws, seed=seed, every=every, workers=workers)
    return [
        audit_sample(
            EDITIONS_OF.get(sample, get_args(Edition)),
            sample=sample,
            progress=counted_from(sum(sizes[:index])),
        )
        for index, sample in enumerate(SAMPLES)
    ]


WORDS = {
    "precision": "E P(r_max)",
    "recall": "E R(r_min)",
    "f_outer": "E F(r_max)",
    "f_inner": "E F(r_min)",
    FOLLOWUP_RECALL: "E R, follow-up",
    FOLLOWUP: "E F, follow-up",
}
"""Label of each quantity in the tables. The last two use strict inner balls, with F = 2PR/(P+R)."""

ROWS_LEAST, CELLS_LEAST = 2000, 4000
WIDTH_SMALL = {"precision": 0.20, "recall": 0.15}
WIDTH_RELATIVE = 0.6
ERROR_MEDIAN, ERROR_NINTH_DECILE = 0.005, 0.02
"""Targets of the audit."""

COMMAND = "python -m studies.audit docs/studies/audit.md"

NAMES = {
    "grid": "Grid",
    "random": "Random heads",
    "small": "Small heads",
    "adversarial": "Adversarial heads",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target, the value found by an audit, and whether the target is met."""

    target: str
    seen: str
    met: bool


def verdicts(audit: Audit) -> list[Verdict]:
    """Return every target with the value found. The grid and the small heads have a target for the
    number of rows; only the grid and the random heads have targets for widths.
    """
    lines = {(line.edition, line.quantity): line for line in table(audit)}
    rows, errors = max(len(row.n) for row in audit.rows.values()), accuracy(audit)
    listed: list[Verdict] = []

    def add(target: str, seen: str, met: bool) -> None:
        listed.append(Verdict(target, seen, met))

    def violated(edition: str, *sides: str) -> int:
        of_edition = [line for line in lines.values() if line.edition == edition]
        return sum(getattr(line, f"violated_{side}") for line in of_edition for side in sides)

    if audit.sample == "grid":
        add(f"At least {ROWS_LEAST:,} rows", f"{rows:,}", rows >= ROWS_LEAST)
    if audit.sample == "small":
        cells = 2 * rows
        target = f"At least {CELLS_LEAST:,} cells: rows in two conventions"
        add(target, f"{cells:,}", cells >= CELLS_LEAST)
    for edition in ("sharp", "conditional"):
        count = violated(edition, "lower", "upper")
        if (edition, "recall") in lines:
            add(f"`{edition}` against Model G: no violation", f"{count}", count == 0)
    if audit.sample != "small":
        lower = violated("repaired", "lower")
        add("`repaired`, lower, against unit directions: no violation", f"{lower}", lower == 0)
    if audit.sample in ("grid", "random"):
        silent = sum(sharp_beyond_repaired(audit, quantity) for quantity in QUANTITIES)
        target = "`sharp` is informative (lower) wherever `repaired` is, for all four quantities"
        add(target, f"{silent} rows where it is not", silent == 0)
        width_of = "`conditional`, median width of"
        for quantity, most in WIDTH_SMALL.items():
            width = lines["conditional", quantity].width_small
            target = f"{width_of} {WORDS[quantity]} at N ≤ {SMALL_N}: at most {most:.2f}"
            add(target, f"{width:.3f}", width <= most)
        for quantity in WIDTH_SMALL:
            ratio, of_sharp = relative_width(audit, quantity), "over that of `sharp`, all N"
            target = f"{width_of} {WORDS[quantity]} {of_sharp}: at most {WIDTH_RELATIVE}"
            add(target, f"{ratio:.2f}", ratio <= WIDTH_RELATIVE)
        for where, error, most in (
            ("in the median", max(row.median for row in errors), ERROR_MEDIAN),
            ("at the 90th percentile", max(row.ninth_decile for row in errors), ERROR_NINTH_DECILE),
        ):
            target = f"`predicted`, error {where}: at most {most}"
            add(target, f"{error:.4f} (the worst quantity)", error <= most)
    missed = sum(row.missed for row in errors)
    distrusted = max(row.distrusted / row.rows for row in errors)
    target = f"`predicted`, errors above {LARGE_ERROR} that its flag misses: none"
    add(target, f"{missed}; {distrusted:.0%} of the rows are flagged", missed == 0)
    return listed


def document(audits: list[Audit], *, every: int = 1) -> str:
    """Return the audits as a Markdown document."""
    lines = [
        "# Every edition against simulation",
        "",
        f"Written by `{COMMAND}`.",
        "",
        *_how(audits, every),
        "",
        "## Targets",
        "",
        "| target | " + " | ".join(NAMES[audit.sample].lower() + " |  " for audit in audits) + "|",
        "|---|" + "---|---|" * len(audits),
        *_target_lines(audits),
    ]
    for sample_audit in audits:
        lines += ["", f"## {NAMES[sample_audit.sample]}", "", *tables(sample_audit)]
    return "\n".join(lines) + "\n"


def _target_lines(audits: list[Audit]) -> list[str]:
    """Return one line for each target, with the value found and the verdict of each audit."""
    listed = [{verdict.target: verdict for verdict in verdicts(audit)} for audit in audits]
    lines = []
    for target in dict.fromkeys(target for verdict in listed for target in verdict):
        cells = [
            (
                f"{verdict[target].seen} | {'met' if verdict[target].met else '**missed**'}"
                if target in verdict
                else "– | –"
            )
            for verdict in listed
        ]
        lines.append(f"| {target} | {' | '.join(cells)} |")
    return lines


def _how(audits: list[Audit], every: int) -> list[str]:
    """Return the description of the samples, the tests and the columns."""
    first = audits[0]
    return [
        (
            "A row is one head at one N: its bounds and the E P, E R and E F of simulated heads"
            " with its weights, norms and Gram."
        ),
        "",
        *_samples(every),
        (
            f"- **Reference.** {first.draws:,} draws for each head and kind of directions, seed"
            f" {first.seed}: Model G for `sharp`, `conditional` and `predicted`, exactly unit"
            " directions for `printed` and `repaired`."
        ),
        (
            f"- **Violated**: more than {SIGMAS:g} standard errors beyond the simulated mean, on"
            " the wrong side. The standard error is at least 1/draws. Where a"
            f" claimed bound is violated, the row is simulated again with {AGAIN} times the draws"
            " and counts if it is violated then. Printed values and the upper values of `repaired`"
            " are approximations, not claimed bounds; their first simulation counts. Small heads"
            f" are simulated again with {_listed(LADDER[:-1])} times the draws where a claimed"
            f" bound is within {NEAR:g} standard errors of the mean or beyond it, and with"
            f" {LADDER[-1]} times where it is still beyond it by {BEYOND:g} standard error."
        ),
        (
            "- **Vacuous**: a lower bound no better than the trivial one (P ≥ N/T, F(r_max)"
            " ≥ 2N/(T+N), else 0), an upper bound of 1."
        ),
        (
            "- **Width**: upper minus lower bound, median over rows without a violated side;"
            " gaps to the truth likewise. **Relative**: median width divided by that of `sharp`."
        ),
        (
            "- **`predicted`** is not a bound: its error over all rows is tabulated. An unflagged"
            f" row whose error is within {IN_DOUBT:g} standard errors of"
            f" {LARGE_ERROR} is simulated again with {AGAIN_IN_DOUBT} times the draws. Other errors"
            " include simulation noise."
        ),
    ]


def _samples(every: int) -> list[str]:
    """Return a paragraph on each sample of heads."""
    thinned = "" if every == 1 else f" Only every {every}th head is used here."
    small = ", ".join(
        f"{name} {low} to {high}"
        for name, (low, high) in (("T", heads.SMALL_TOKENS), ("d", heads.SMALL_DIMENSIONS))
    )
    low, high = (
        ", ".join(f"{name} {ends[k]:g}" for name, ends in heads.RANGES.items()) for k in (0, 1)
    )
    return [
        (
            f"- **Grid.** L {_listed(heads.LENGTHS)}; d {_listed(heads.DIMENSIONS)}; β"
            f" {_listed(heads.DECAYS)}; ρ₀ {_listed(heads.SINK_COSINES)}; offset c"
            f" {_listed(heads.OFFSETS)}; {len(heads.PROFILES)} weight profiles (a weak"
            f" sink, a typical one, a dominant one with a steep tail); N {_listed(heads.SIZES)} up"
            f" to L. Heads whose Gram is not PSD are excluded.{thinned}"
        ),
        (
            f"- **Random heads.** Parameters are drawn independently: log-uniform from {low} to"
            f" {high}; offset 0 for a third of the heads, else up to 0.6; ρ₀ up to 95% of its"
            " feasible edge, of either sign; p_sink up to 0.8, η up to 1, ω up to π; T₁ up to 0.6"
            f" L, T₂ from there to L; {heads.SIZES_OF_ONE} values of N up to {heads.LARGEST_N}."
            " They guard against a grid that favours the bounds; another `--seed` gives other"
            " heads."
        ),
        (
            f"- **Small heads.** {small}, log-uniform; Dirichlet weights; norms 1 or lognormal; up"
            f" to {heads.SIZES_OF_ONE} values of N below T; cosines, a sixth of the heads each, of"
            " random vectors, of vectors in one to four dimensions, of clusters, with tokens that"
            " are equal (cosine 1, the same weight), with parallel ones (cosine 1, other weights),"
            " and with tokens of no weight or no norm. Both conventions."
        ),
        (
            "- **Adversarial heads.** Small heads with clustered cosines; in every second one the"
            " values have random signs, so that cosines near −1 occur."
        ),
    ]


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}".replace("-", "−") for value in values)


def tables(audit: Audit) -> list[str]:
    """Return the tables of one audit: violations, then errors of `predicted`."""
    lines = [
        f"{audit.heads} heads, {max(len(row.n) for row in audit.rows.values()):,} rows.",
        "",
        (
            "| edition | quantity | violated, lower | upper | by at most | vacuous, lower | upper |"
            " gap to truth, lower | upper | width, N ≤ 8 | all N | relative |"
        ),
        "|" + "---|" * 12,
    ]
    lines += [
        f"| {line.edition} | {WORDS[line.quantity]} | {line.violated_lower} | {line.violated_upper}"
        f" | {line.worst:.3f} | {line.vacuous_lower:.0%} | {line.vacuous_upper:.0%} |"
        f" {_number(line.gap_lower)} | {_number(line.gap_upper)} | {_number(line.width_small)} |"
        f" {_number(line.width)} | {_number(line.relative, 2)} |"
        for line in table(audit)
    ]
    rows = accuracy(audit)
    if rows:
        lines += [
            "",
            (
                "| predicted | error, median | 90% | largest | largest unflagged | flagged |"
                " errors above .05 | of these unflagged |"
            ),
        ]
        lines.append("|" + "---|" * 8)
    lines += [
        f"| {WORDS[row.quantity]} | {row.median:.4f} | {row.ninth_decile:.4f} | {row.worst:.3f} |"
        f" {row.worst_trusted:.3f} | {row.distrusted / row.rows:.0%} | {row.large} | {row.missed} |"
        for row in rows
    ]
    return lines


def _number(value: float, digits: int = 3) -> str:
    """Return the formatted number, or a dash if it is not finite."""
    return f"{value:.{digits}f}".replace("-", "−") if math.isfinite(value) else "–"
