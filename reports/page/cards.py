"""Key results as cards: what a page begins with.

Everything on a card is a key result of the run (`key_results` of /summary, JSON); only its curve
is drawn here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import xarray as xr
from markupsafe import Markup

from reports.figures.rendering import rendered
from reports.figures.sparkline import WORDS, sparkline
from reports.page import header
from reports.page.bounds import cost_in_short
from reports.page.svg import inline_svg
from reports.run import Run, key_results
from reports.text.key_result import limits_in_words, number_in_words, sentence, states

TITLES: Final = {
    "norms": "Value norms",
    "similarity": "Similarity",
    "weights": "Weights",
    "separability": "Separability",
    "bounds": "Bounds",
    "directions": "Directions",
}
SYMBOLS: Final = {"holds": "✓", "fails": "✗", "mixed": "✓✗", "undetermined": "?"}
STATES: Final = {"holds": "✓", "undetermined": "?", "fails": "✗", "no_estimate": "–"}
"""How heads of a strip are marked."""
ANSWERED: Final = {
    "confirmed": "✓",
    "contradicted": "✗",
    "mixed": "✓✗",
    "undetermined": "?",
    "not testable here": "–",
}
"""How answers of the scoreboard are marked."""


@dataclass(frozen=True, slots=True)
class Card:
    """A key result as a page shows it."""

    key: str
    title: str
    answer: str
    symbol: str
    verdict: str
    number: str
    limits: str
    """Ends of the number's interval; empty where it has none."""
    strip: list[tuple[str, str, int, str]]
    """State, symbol, how many, and what they are called."""
    of: str
    curve: Markup | None
    words: str
    shown: str
    """Id of the topic that shows how."""
    cost: str
    """What the fit costs the bounds; empty of what is no assumption."""
    sentence: str
    """The answer as a sentence to be quoted."""

    @property
    def neither(self) -> str:
        """How many are undetermined, of how many; empty for none."""
        counted = {state: number for state, _, number, _ in self.strip}
        if not counted.get("undetermined") or self.key == "bounds":  # these lie outside
            return ""
        return f"Of {sum(counted.values()):,} {self.of} {counted['undetermined']:,} are"


def cards(run: Run, folder: str = "") -> list[Card]:
    """The key results of a run, or of a part with files in `folder`; none of one confronted before
    there were any.
    """
    suffix = f"-{folder}" if folder else ""
    return [_card(result, run, suffix) for result in key_results(run.summary.attrs)]


def cards_without_curves(summary: xr.Dataset) -> list[Card]:
    """The key results of a /summary that came without the run behind it."""
    return [_card(result, None, "") for result in key_results(summary.attrs)]


def curve_of(key: str, run: Run, name: str = "curve") -> Markup | None:
    """The curve behind a key result, whose ids begin with `name`; None where there is none."""
    figure = sparkline(key, run)
    if figure is None:
        return None
    return inline_svg(rendered(figure, "svg"), f"{name}-{key}", WORDS.get(key, ""))


def _card(result: dict[str, Any], run: Run | None, suffix: str) -> Card:
    key, counts = result["key"], result["counts"]
    return Card(
        key=key,
        title=TITLES.get(key, key),
        answer=result["answer"],
        symbol=SYMBOLS[result["answer"]],
        verdict=result["verdict"],
        number=number_in_words(result["number"]),
        limits=limits_in_words(result["number"]),
        strip=[
            (state, symbol, counts[state], states(counts["of"])[state])
            for state, symbol in STATES.items()
            if counts[state]
        ],
        shown=f"about-{key}{suffix}",
        cost=cost_in_short(run, key) if run else "",
        sentence=sentence(result, header.model_name(run) if run else "this model"),
        of=counts["of"],
        curve=curve_of(key, run, f"curve{suffix}") if run else None,
        words=WORDS.get(key, ""),
    )
