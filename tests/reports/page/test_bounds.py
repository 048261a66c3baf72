"""Bounds in words: with an offset beside exponential decay, and what each fit costs."""

from dataclasses import replace

import pytest
from support.reports_tree import run_tree
from support.spine import Finished

from geostat.display.tree import with_display
from reports.page import bounds
from reports.run import Run
from reports.text.number import percent


def test_bounds_with_an_offset_are_told_beside_exponential_decay_and_what_was_expected():
    run = Run.of(run_tree())
    summary = run.summary.copy(deep=True)
    for score, shares in {"recall": (0.5, 0.25), "precision": (0.75, 0.125)}.items():
        for gram, inside in zip(("exponential", "offset"), shares, strict=True):
            at = {"edition": "sharp", "gram": gram}
            summary[f"{score}_inside"].loc[at], summary[f"{score}_width"].loc[at] = inside, inside
    [told] = bounds.with_offset(replace(run, summary=summary))
    assert told == (
        "With similarity that decays to a constant, not to 0: 25% of Recall (expected 90%) lie"
        " inside, not 50% (expected 90%), in bounds 0.25 wide, not 0.50; 12% of Precision (expected"
        " 90%) lie inside, not 75% (expected 90%), in bounds 0.12 wide, not 0.75."
    )
    unknown = summary.drop_vars(["recall_drawn_inside", "precision_drawn_inside"])
    [told] = bounds.with_offset(replace(run, summary=unknown))
    assert "expected" not in told
    printed = run.envelope.sel(gram=["exponential"])
    assert bounds.with_offset(replace(run, envelope=printed)) == []


def test_every_cost_stands_with_its_interval_the_largest_first(finished: Finished):
    run = Run.of(with_display(finished.tree))
    data = run.needed("ingredients")
    [told] = bounds.every_cost(run)
    costs = {
        words: 100 * float(data["recall_cost"].sel(swap=f"all but {name}"))
        for name, words in bounds.FITTED.items()
    }
    places = [told.index(words) for words in sorted(costs, key=lambda words: -costs[words])]
    assert places == sorted(places)
    for words, value in costs.items():
        after = told.partition(f"{words} ")[2].partition(" (")[0]
        assert float(after.replace("−", "-")) == pytest.approx(value, abs=0.06)
    assert told.count("with what each document has of its own") == 1
    for name, words in bounds.FITTED.items():
        in_short, own = bounds.cost_in_short(run, name), "with what each document has of its own"
        assert in_short.startswith("Cost to bounds")
        assert (own in in_short) == (name == "weights")
        value, limits = in_short.rpartition(": ")[2].split(" ", 1)
        assert f"{words} {value} {limits[:-1]}" in told
    assert bounds.cost_in_short(run, "bounds") == ""
    assert bounds.cost_in_short(replace(run, ingredients=None), "norms") == ""
    inside = float(data["recall_inside"].sel(swap="all"))
    assert told.startswith(f"Where all is measured {percent(inside)} lie inside (N = 2, ")
    assert bounds.every_cost(replace(run, ingredients=None)) == []
    unknown = data.assign(recall_cost=data["recall_cost"] * float("nan"))
    assert bounds.every_cost(replace(run, ingredients=unknown)) == []
