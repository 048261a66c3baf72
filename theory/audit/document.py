"""An audit written down: what was drawn, whether each target is met, the tables. Imports numpy;
nothing of it is typed by hand.

`python -m theory.audit docs/studies/audit.md` writes docs/studies/audit.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from theory.audit import heads
from theory.audit.rows import Audit
from theory.audit.simulate import FOLLOWUP, FOLLOWUP_RECALL
from theory.audit.summary import (
    SMALL_N,
    Accuracy,
    accuracy,
    relative_width,
    sharp_beyond_repaired,
    table,
)
from theory.audit.truth import (
    AGAIN,
    AGAIN_IN_DOUBT,
    IN_DOUBT,
    LADDER,
    LARGE_ERROR,
    NEAR,
    SIGMAS,
)
from theory.head.results import QUANTITIES

WORDS = {
    "precision": "E P(r_max)",
    "recall": "E R(r_min)",
    "f_outer": "E F(r_max)",
    "f_inner": "E F(r_min)",
    FOLLOWUP_RECALL: "E R, follow-up",
    FOLLOWUP: "E F, follow-up",
}
"""Every quantity as the tables name it; the last two are of strict inner balls, F is 2PR/(P+R)."""

ROWS_LEAST, CELLS_LEAST = 2000, 4000
WIDTH_SMALL = {"precision": 0.20, "recall": 0.15}
WIDTH_RELATIVE = 0.6
ERROR_MEDIAN, ERROR_NINTH_DECILE = 0.005, 0.02
"""The targets."""

COMMAND = ".venv/bin/python -m theory.audit docs/studies/audit.md --workers 2"

NAMES = {"grid": "Grid", "random": "Random heads", "small": "Small heads"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target and what an audit says of it."""

    target: str
    seen: str
    met: bool


def verdicts(audit: Audit) -> list[Verdict]:
    """Return every target with what was seen; the number of rows is asked of the grid and of the
    small heads, widths not of these.
    """
    lines = {(line.edition, line.quantity): line for line in table(audit)}
    listed = [] if audit.sample == "random" else [_rows(audit)]
    for edition in ("sharp", "conditional"):
        count = sum(
            line.violated_lower + line.violated_upper
            for line in lines.values()
            if line.edition == edition
        )
        listed.append(Verdict(f"`{edition}` against Model G: no violation", f"{count}", count == 0))
    of_predicted = _of_predicted(accuracy(audit))
    if audit.sample == "small":
        return listed + of_predicted[-1:]
    lower = sum(line.violated_lower for line in lines.values() if line.edition == "repaired")
    listed.append(
        Verdict("`repaired`, lower, against unit directions: no violation", f"{lower}", lower == 0)
    )
    silent = sum(sharp_beyond_repaired(audit, quantity) for quantity in QUANTITIES)
    target = "`sharp` says something (lower) wherever `repaired` does, in all four quantities"
    listed.append(Verdict(target, f"{silent} rows where it does not", silent == 0))
    for quantity, most in WIDTH_SMALL.items():
        width = lines["conditional", quantity].width_small
        target = (
            f"`conditional`, median width of {WORDS[quantity]} at N ≤ {SMALL_N}: at most {most:.2f}"
        )
        listed.append(Verdict(target, f"{width:.3f}", width <= most))
    for quantity in WIDTH_SMALL:
        ratio = relative_width(audit, quantity)
        target = (
            f"`conditional`, median width of {WORDS[quantity]} over that of `sharp`, all N: at most"
            f" {WIDTH_RELATIVE}"
        )
        listed.append(Verdict(target, f"{ratio:.2f}", ratio <= WIDTH_RELATIVE))
    return listed + of_predicted


def _rows(audit: Audit) -> Verdict:
    rows = max(len(one.n) for one in audit.rows.values())
    if audit.sample == "small":
        return Verdict(
            f"At least {CELLS_LEAST:,} cells: rows in two conventions",
            f"{2 * rows:,}",
            2 * rows >= CELLS_LEAST,
        )
    return Verdict(f"At least {ROWS_LEAST:,} rows", f"{rows:,}", rows >= ROWS_LEAST)


def _of_predicted(rows: list[Accuracy]) -> list[Verdict]:
    listed = []
    for where, error, most in (
        ("in the median", max(row.median for row in rows), ERROR_MEDIAN),
        ("at the 90th percentile", max(row.ninth_decile for row in rows), ERROR_NINTH_DECILE),
    ):
        listed.append(
            Verdict(
                f"`predicted`, error {where}: at most {most}",
                f"{error:.4f} (the worst quantity)",
                error <= most,
            )
        )
    missed, distrusted = (
        sum(row.missed for row in rows),
        max(row.distrusted / row.rows for row in rows),
    )
    target = f"`predicted`, errors above {LARGE_ERROR} that its flag does not catch: none"
    return [
        *listed,
        Verdict(target, f"{missed}; it distrusts {distrusted:.0%} of the rows", missed == 0),
    ]


def document(audits: list[Audit], *, every: int = 1) -> str:
    """Return the audits as a Markdown document."""
    lines = [
        "# Every edition against simulation",
        "",
        f"Written by `{COMMAND}` (`geostat theory --audit` prints it).",
        "",
        *_how(audits, every),
        "",
        "## Targets",
        "",
        "| target | " + " | ".join(NAMES[one.sample].lower() + " |  " for one in audits) + "|",
        "|---|" + "---|---|" * len(audits),
        *_target_lines(audits),
    ]
    for one in audits:
        lines += ["", f"## {NAMES[one.sample]}", "", *tables(one)]
    return "\n".join(lines) + "\n"


def _target_lines(audits: list[Audit]) -> list[str]:
    """Return a line for each target, with a cell for what was seen and a cell for the verdict of
    each audit.
    """
    listed = [{verdict.target: verdict for verdict in verdicts(one)} for one in audits]
    lines = []
    for target in dict.fromkeys(target for one in listed for target in one):
        cells = [
            (
                f"{one[target].seen} | {'met' if one[target].met else '**missed**'}"
                if target in one
                else "– | –"
            )
            for one in listed
        ]
        lines.append(f"| {target} | {' | '.join(cells)} |")
    return lines


def _how(audits: list[Audit], every: int) -> list[str]:
    """Return what is drawn, how it is judged, and what the columns mean."""
    first = audits[0]
    return [
        (
            "A row is one head at one N: its bounds beside E P, E R and E F of simulated heads with"
            " its weights, norms and Gram."
        ),
        "",
        *_samples(every),
        (
            f"- **Judges.** {first.draws:,} draws for each head and kind of directions, seed"
            f" {first.seed}: Model G for `sharp`, `conditional` and `predicted`, exactly unit"
            " directions for `printed` and `repaired`, which speak of them."
        ),
        (
            f"- **Violated**: beyond {SIGMAS:g} standard errors of the simulated mean on the wrong"
            " side, a standard error never taken below one part in the number of draws. Where a"
            f" claimed bound is, the row is drawn again with {AGAIN} times the draws, and counts if"
            " it then is. Printed values, and the upper values of `repaired`, are claimed by"
            " nobody here (an approximation each) and counted as first drawn. Small heads are"
            f" drawn again, {_listed(LADDER)} times as often, wherever a claimed bound lies within"
            f" {NEAR:g} standard errors of the mean, or beyond it."
        ),
        (
            "- **Vacuous**: a lower bound no better than what holds of any head (P ≥ N/T, F(r_max)"
            " ≥ 2N/(T+N), else 0), an upper bound of 1."
        ),
        (
            "- **Width**: upper less lower, the median over rows of which neither side is violated;"
            " gaps to the truth likewise. **Relative**: median width over that of `sharp`."
        ),
        (
            "- **`predicted`** is no bound: its error is tabulated, over all rows. A row that its"
            f" flag trusts and that lies within {IN_DOUBT:g} standard errors of an error of"
            f" {LARGE_ERROR} is drawn again with {AGAIN_IN_DOUBT} times the draws. Its other errors"
            " hold the noise of the simulation too."
        ),
    ]


def _samples(every: int) -> list[str]:
    """Return a paragraph on each sample of heads."""
    thinned = "" if every == 1 else f" Only every {every}th head is taken here."
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
            f" {_listed(heads.OFFSETS)}; {len(heads.PROFILES)} weight profiles (no sink to speak"
            f" of, a usual one, a dominant one with a steep tail); N {_listed(heads.SIZES)} as far"
            f" as N ≤ L. Heads whose Gram no vectors have are left out.{thinned}"
        ),
        (
            f"- **Random heads.** Every parameter is drawn on its own: log-uniform from {low} to"
            f" {high}; offset 0 for a third of the heads, else up to 0.6; ρ₀ up to 95% of its"
            " feasible edge, of either sign; p_sink up to 0.8, η up to 1, ω up to π; T₁ up to 0.6"
            f" L, T₂ from there to L; {heads.SIZES_OF_ONE} values of N up to {heads.LARGEST_N}."
            " They guard against a grid that suits the bounds: another `--seed` gives others."
        ),
        (
            f"- **Small heads.** {small}, log-uniform; Dirichlet weights; norms 1 or lognormal; up"
            f" to {heads.SIZES_OF_ONE} values of N below T; cosines, a sixth of the heads each, of"
            " random vectors, of vectors in one to four dimensions, of clusters, with tokens that"
            " are equal (cosine 1, the same weight), with parallel ones (cosine 1, other weights),"
            " and with tokens of no weight or no norm. Both conventions."
        ),
    ]


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}".replace("-", "−") for value in values)


def tables(audit: Audit) -> list[str]:
    """Return the tables of one audit, violations first."""
    lines = [
        f"{audit.heads} heads, {max(len(one.n) for one in audit.rows.values()):,} rows.",
        "",
        (
            "| edition | of | violated, lower | upper | by at most | vacuous, lower | upper | gap"
            " to truth, lower | upper | width, N ≤ 8 | all N | relative |"
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
                "| predicted | error, median | 90% | largest | largest trusted | distrusted |"
                " errors above .05 | of these trusted |"
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
    """Return a number, or a dash for one without rows."""
    return f"{value:.{digits}f}".replace("-", "−") if math.isfinite(value) else "–"
