"""Findings of captions: every number is recorded without rounding."""

import math
import re

import pytest
import xarray as xr
from support.reports_tree import run_tree

from reports.run import Run, notes
from reports.text.number import MISSING
from reports.topics.listed import plans

OURS = re.compile(r"95%|\bL\d+H\d+\b|\bL\d+, KV head \d+")
"""Numbers that are not results: levels of intervals, and names of heads."""
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@pytest.fixture(params=["finished", "made up", "one document"])
def run(request: pytest.FixtureRequest, tree: xr.DataTree) -> Run:
    if request.param == "finished":
        return Run.of(tree)
    return Run.of(run_tree(documents=1 if request.param == "one document" else 3))


def read(text: str) -> float:
    """Parse a printed number."""
    if text == MISSING:
        return math.nan
    mantissa, _, power = text.strip("<> ").replace(",", "").partition("×10")
    scale = 10.0 ** int(power.translate(SUPERSCRIPTS) or 0)
    return float(mantissa.removesuffix("%")) * scale / (100 if mantissa.endswith("%") else 1)


def test_every_number_of_a_finding_is_recorded(run: Run):
    for plan in plans(run):
        if plan.name == "claims":  # its finding names claims, without numbers
            continue
        caption = plan.caption(run)
        rest = OURS.sub("", caption.finding)
        for group in (run.sink, run.regimes):
            rest = rest.replace(notes(group), "") if group is not None and notes(group) else rest
        for text in sorted({number.text for number in caption.numbers}, key=len, reverse=True):
            assert text in caption.finding
            rest = re.sub(rf"(?<![\d.,]){re.escape(text)}(?![.,]?\d)", "", rest)
        assert not re.search(r"\d", rest), (plan.name, rest)


def test_recorded_numbers_equal_printed_numbers(run: Run):
    numbers = [number for plan in plans(run) for number in plan.caption(run).numbers]
    assert len(numbers) > 20
    printed = [read(number.text) for number in numbers]
    exact = [number.value for number in numbers]
    assert printed == pytest.approx(exact, rel=0.06, abs=0.006, nan_ok=True)
