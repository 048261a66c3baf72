"""Key results as cards: what a page begins with."""

import re
import xml.etree.ElementTree as ET

import pytest
import xarray as xr
from support.reports_tree import KEY_RESULTS, run_tree

from reports.errors import InputError
from reports.figures.sparkline import CURVES, sparkline
from reports.page.cards import cards
from reports.page.page import write_page
from reports.run import Run, key_results


@pytest.fixture(scope="module")
def run() -> Run:
    return Run.of(run_tree())


def test_a_card_says_what_its_key_result_says(run):
    made = {card.key: card for card in cards(run)}
    assert list(made) == [one["key"] for one in KEY_RESULTS]
    for one in KEY_RESULTS:
        card = made[one["key"]]
        assert (card.answer, card.verdict) == (one["answer"], one["verdict"])
        assert [count for _, _, count, _ in card.strip] == [5, 2, 1]
        assert [symbol for _, symbol, _, _ in card.strip] == ["✓", "✗", "–"]
    assert made["norms"].number == "Number of norms: 0.123 (0.1 to 0.2); tolerated 0.05"
    assert made["similarity"].number == "Number of similarity: 0.123"
    assert (made["norms"].symbol, made["similarity"].symbol) == ("✗", "?")


@pytest.mark.parametrize(
    "wrong", [True, 3, {"norms": 1}, ["no JSON"], ["[1]"], ['{"key": "norms"}']]
)
def test_what_is_no_key_result_is_refused_with_the_remedy(wrong):
    with pytest.raises(InputError, match=r"key_results.* expected .* `geostat confront`"):
        key_results({"key_results": wrong})


def test_a_run_made_before_there_were_key_results_has_none():
    assert key_results({}) == key_results({"key_results": []}) == []


@pytest.mark.parametrize("key", CURVES)
def test_every_key_result_has_a_curve_of_known_points(run, key):
    figure = sparkline(key, run)
    (axes,) = figure.axes
    measured = axes.lines[0].get_xydata()
    assert len(measured) > 5
    assert len(axes.lines) > 1  # what it is compared with


def test_a_long_curve_keeps_its_ends():
    tree = run_tree()
    run = Run.of(tree)
    summary = run.summary.interp(n=range(1, 64))
    long = summary.isel(n=[0] * 300 + list(range(63))).assign_coords(n=range(1, 364))
    (axes,) = sparkline("separability", Run.of(tree.assign({"summary": xr.DataTree(long)}))).axes
    drawn = axes.lines[0].get_xdata()
    assert (drawn[:3].tolist(), drawn[-3:].tolist()) == ([1, 2, 3], [361, 362, 363])
    assert len(drawn) == 256


def test_without_the_baseline_there_is_no_curve_above_it():
    tree = run_tree()
    without = tree["summary"].to_dataset().sel(null=["random_selection"])
    assert sparkline("directions", Run.of(tree.assign({"summary": xr.DataTree(without)}))) is None


@pytest.mark.usefixtures("one_figure")
def test_a_page_begins_with_its_cards(tmp_path):
    page = write_page(run_tree(), tmp_path).read_text(encoding="utf-8")
    first = page[: page.index('id="verdict"')]
    assert first.count('<article class="result ') == 6
    assert "What is said of norms, with a &lt; b." in first
    assert first.count('role="img"') == 6
    for one in re.findall(r"<svg.*?</svg>", first, re.DOTALL):
        ET.fromstring(one)
    shares = re.findall(r'<span class="(\w+)" style="flex-grow: (\d+)"', first)
    assert shares[:3] == [("holds", "5"), ("fails", "2"), ("no_estimate", "1")]


@pytest.mark.usefixtures("one_figure")
def test_a_run_without_key_results_has_a_page_without_cards(tmp_path):
    tree = run_tree()
    bare = tree["summary"].to_dataset().drop_attrs(deep=False)
    bare.attrs = {
        name: value for name, value in tree["summary"].attrs.items() if name != "key_results"
    }
    page = write_page(tree.assign({"summary": xr.DataTree(bare)}), tmp_path)
    assert "<article" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("key", "name"), [("norms", "cv_token"), ("weights", "weight")])
def test_what_was_not_fitted_has_no_empty_curve(key, name):
    tree = run_tree()
    group = "norms" if key == "norms" else "display"
    without = tree[group].to_dataset()
    without[name] = without[name] * float("nan")
    assert sparkline(key, Run.of(tree.assign({group: xr.DataTree(without)}))) is None
