"""Cards of key results at the top of the page."""

from dataclasses import replace
from math import nan

import pytest
from support.reports_tree import KEY_RESULTS, run_tree

from reports.errors import InputError
from reports.figures.shapes import sparkline
from reports.page.cards import ENTRY_OF, cards
from reports.run import Run, key_results


@pytest.fixture(scope="module")
def run() -> Run:
    return Run.of(run_tree())


def drawn(key, run):
    return sparkline(lambda axes: ENTRY_OF[key].curve(axes, run))


def test_a_card_has_the_text_of_its_key_result(run):
    by_key = {card.key: card for card in cards(run)}
    assert list(by_key) == [result["key"] for result in KEY_RESULTS]
    for result in KEY_RESULTS:
        card = by_key[result["key"]]
        assert (card.answer, card.verdict) == (result["answer"], result["verdict"])
        assert [part[1:3] for part in card.strip] == [("✓", 5), ("✗", 2), ("–", 1)]
    assert by_key["norms"].number == "Number of norms: 0.123 (0.1 to 0.2); tolerated 0.05"
    assert by_key["similarity"].number == "Number of similarity: 0.123"
    assert (by_key["norms"].symbol, by_key["similarity"].symbol) == ("✗", "?")


@pytest.mark.parametrize(
    "wrong", [True, 3, {"norms": 1}, ["no JSON"], ["[1]"], ['{"key": "norms"}']]
)
def test_an_invalid_key_result_is_refused_with_the_remedy(wrong):
    with pytest.raises(InputError, match=r"key_results.* expected .* `geostat confront`"):
        key_results({"key_results": wrong})


def test_a_run_without_the_attribute_has_no_key_results():
    assert key_results({}) == key_results({"key_results": []}) == []


@pytest.mark.parametrize("key", ENTRY_OF)
def test_every_key_result_has_a_curve_of_known_points(run, key):
    (axes,) = drawn(key, run).axes
    assert len(axes.lines[0].get_xydata()) > 5
    assert len(axes.lines) > 1  # the comparison


def test_a_long_curve_keeps_its_ends(run):
    summary = run.summary.interp(n=range(1, 64))
    long = summary.isel(n=[0] * 300 + list(range(63))).assign_coords(n=range(1, 364))
    (axes,) = drawn("separability", replace(run, summary=long)).axes
    n = axes.lines[0].get_xdata()
    assert (n[:3].tolist(), n[-3:].tolist()) == ([1, 2, 3], [361, 362, 363])
    assert len(n) == 256


def test_a_missing_fit_or_baseline_has_no_empty_curve(run):
    unknown = run.display.assign(weight=run.display["weight"] * nan).assign_attrs(norms_head=None)
    without = replace(run, display=unknown, summary=run.summary.sel(null=["random_selection"]))
    for key in ("norms", "weights", "geometry"):
        assert drawn(key, without) is None, key
