"""Cards of key results, at the top of the page.

All text of a card comes from the key results of the run (`key_results` of /summary, JSON); this
module draws only the curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import xarray as xr
from markupsafe import Markup

from reports.figures.plan import rendered
from reports.figures.shapes import sparkline
from reports.page import header
from reports.page.svg import inline_svg
from reports.run import Run, key_results
from reports.text.key_result import (
    limits_in_words,
    numbers_in_words,
    sentence,
    states,
    untrained_in_words,
)
from reports.topics.bounds import cost_in_short
from reports.topics.listed import ENTRIES

ENTRY_OF: Final = {entry.key: entry for entry in ENTRIES if entry.card}
SYMBOLS: Final = {
    "holds": "✓",
    "holds trivially": "=",
    "fails": "✗",
    "mixed": "✓✗",
    "undetermined": "?",
}
STATES: Final = {
    "holds": "✓",
    "holds_trivially": "=",
    "undetermined": "?",
    "fails": "✗",
    "no_estimate": "–",
}
"""Symbols of states in a strip."""
ANSWERED: Final = {
    "confirmed": "✓",
    "holds trivially": "=",
    "contradicted": "✗",
    "mixed": "✓✗",
    "undetermined": "?",
    "not testable here": "–",
}
"""Symbols of the scoreboard's answers."""


@dataclass(frozen=True, slots=True)
class Card:
    """A key result as shown on the page."""

    key: str
    title: str
    answer: str
    symbol: str
    verdict: str
    number: str
    limits: str
    """Limits of the number's interval; empty without an interval."""
    strip: list[tuple[str, str, int, str]]
    """State, symbol, count and label."""
    of: str
    curve: Markup | None
    words: str
    shown: str
    """Id of the topic with details."""
    cost: str
    """Cost of the fit to the bounds; empty if the topic is not an assumption."""
    sentence: str
    """The answer as a sentence to quote."""
    untrained: str
    """The answer of the untrained model; empty without a control."""

    @property
    def undetermined(self) -> str:
        """Sentence with the number of undetermined heads; empty for none."""
        counts = {state: number for state, _, number, _ in self.strip}
        undetermined = counts.get("undetermined", 0)
        if not undetermined or self.key == "bounds":  # these values lie outside
            return ""
        verb = "is" if undetermined == 1 else "are"
        return f"{undetermined:,} of {sum(counts.values()):,} {self.of} {verb} undetermined."


def cards(run: Run, folder: str = "") -> list[Card]:
    """Return the cards of a run, or of the part in `folder`; empty without key results."""
    suffix = f"-{folder}" if folder else ""
    return [_card(result, run, suffix) for result in key_results(run.summary.attrs)]


def cards_without_curves(summary: xr.Dataset) -> list[Card]:
    """Return the cards of a /summary without its run."""
    return [_card(result, None, "") for result in key_results(summary.attrs)]


def curve_of(key: str, run: Run, name: str = "curve") -> Markup | None:
    """Return the sparkline of a key result, with ids that start with `name`, or None."""
    entry = ENTRY_OF.get(key)
    if entry is None or (draw := entry.curve) is None:
        return None
    figure = sparkline(lambda axes: draw(axes, run))
    if figure is None:
        return None
    return inline_svg(rendered(figure, "svg"), f"{name}-{key}", entry.curve_words)


def _card(result: dict[str, Any], run: Run | None, suffix: str) -> Card:
    key, counts = result["key"], result["counts"]
    entry = ENTRY_OF.get(key)
    return Card(
        key=key,
        title=entry.card if entry else key,
        answer=result["answer"],
        symbol=SYMBOLS[result["answer"]],
        verdict=result["verdict"],
        number=numbers_in_words(result),
        limits=limits_in_words(result["number"]),
        strip=[
            (state, symbol, counts[state], states(counts["of"])[state])
            for state, symbol in STATES.items()
            if counts.get(state)
        ],
        shown=f"about-{key}{suffix}",
        cost=cost_in_short(run, key) if run else "",
        sentence=sentence(result, header.model_name(run) if run else "this model"),
        untrained=untrained_in_words(result).strip(),
        of=counts["of"],
        curve=curve_of(key, run, f"curve{suffix}") if run else None,
        words=entry.curve_words if entry else "",
    )
