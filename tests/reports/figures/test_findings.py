"""Findings under figures: every number in one is kept beside it in full."""

import math
import re

import pytest
from support.reports_tree import run_tree
from support.spine import Finished

from geostat.display.tree import with_display
from reports.figures.captions.caption import Quoted
from reports.figures.every import plans
from reports.run import Run, notes
from reports.text.number import MISSING

OURS = re.compile(r"95%|\bL\d+H\d+\b|\bL\d+, value head \d+")
"""Numbers that no run makes: levels of intervals, and names of heads."""
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@pytest.fixture(params=["finished", "made up", "one document"])
def run(request: pytest.FixtureRequest, finished: Finished) -> Run:
    if request.param == "finished":
        return Run.of(with_display(finished.tree))
    return Run.of(run_tree(documents=1 if request.param == "one document" else 3))


def read(text: str) -> float:
    """The number that a text stands for."""
    if text == MISSING:
        return math.nan
    mantissa, _, power = text.strip("<> ").replace(",", "").partition("×10")
    scale = 10.0 ** int(power.translate(SUPERSCRIPTS) or 0)
    return float(mantissa.removesuffix("%")) * scale / (100 if mantissa.endswith("%") else 1)


def test_every_number_of_a_finding_is_kept_in_full(run: Run):
    for plan in plans(run):
        if plan.name == "claims":  # names claims, and no number
            continue
        caption = plan.caption(run)
        rest = OURS.sub("", caption.finding)
        for group in (run.sink, run.regimes):
            rest = rest.replace(notes(group), "") if group is not None and notes(group) else rest
        for text in sorted({one.text for one in caption.numbers}, key=len, reverse=True):
            assert text in caption.finding
            rest = re.sub(rf"(?<![\d.,]){re.escape(text)}(?![.,]?\d)", "", rest)
        assert not re.search(r"\d", rest), (plan.name, rest)


def test_what_is_kept_is_what_is_said(run: Run):
    kept = [one for plan in plans(run) for one in plan.caption(run).numbers]
    assert len(kept) > 20

    def alike(one: Quoted) -> bool:
        said = read(one.text)
        if math.isnan(said):
            return math.isnan(one.value)
        return said == pytest.approx(one.value, rel=0.06, abs=0.006)

    assert [one for one in kept if not alike(one)] == []
