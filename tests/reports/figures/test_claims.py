"""The figure of the claims by layer, and what stands under it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from support.figures import assert_labels_stand_apart
from support.spine import Finished

from geostat.display.tree import with_display
from reports.figures import style
from reports.figures.captions.verdicts import claims
from reports.figures.every import FIGURES
from reports.figures.verdicts import HEIGHT, WIDTH, figure_claims
from reports.run import Run


@pytest.fixture(scope="module")
def run(finished: Finished) -> Run:
    return Run.of(with_display(finished.tree))


def area(axes, colour: str) -> float:
    """The area in cells that a colour fills."""
    boxes = [
        path.vertices
        for collection in axes.collections
        if isinstance(collection, PolyCollection)
        and tuple(collection.get_facecolor()[0]) == to_rgba(colour)
        for path in collection.get_paths()
    ]
    return sum(float(np.prod(np.ptp(box, axis=0))) for box in boxes) / (HEIGHT * WIDTH)


def test_areas_are_the_shares_of_heads_that_hold_and_fail(run: Run):
    axes = Figure().subplots()
    figure_claims(axes, run)
    shares = {"holds": 0.0, "fails": 0.0}
    for claim in json.loads(run.verdicts.attrs["claims"]):
        heads = run.capture.sizes[claim["of"]]
        for answer in shares:
            shares[answer] += float(run.verdicts[answer].sel(claim=claim["key"])) / heads
    assert area(axes, style.GREEN) == pytest.approx(shares["holds"])
    assert area(axes, style.VERMILLION) == pytest.approx(shares["fails"])
    cells = run.verdicts.sizes["claim"] * run.capture.sizes["layer"]
    assert area(axes, style.PALE) == pytest.approx(cells - sum(shares.values()))


def test_no_label_covers_another_or_leaves_the_figure(run: Run):
    plan = next(plan for plan in FIGURES if plan.name == "claims")
    assert_labels_stand_apart(plan, run)
    assert_labels_stand_apart(plan, run, 3.25)
    assert_labels_stand_apart(plan, run, look="slides")


def test_every_claim_is_named_in_a_few_words(run: Run):
    axes = Figure().subplots()
    figure_claims(axes, run)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert len(set(names)) == len(names) == run.verdicts.sizes["claim"]
    assert all(len(name) < 46 for name in names)


def test_the_caption_names_what_most_heads_say(run: Run):
    data = run.verdicts.copy(deep=True)
    data["holds"][:], data["fails"][:] = 0, 0
    half = run.kv_heads // 2  # the first claims are of value heads
    data["fails"][0], data["holds"][1], data["holds"][2] = half + 1, half + 1, half

    def finding(verdicts: xr.Dataset) -> str:
        return claims(replace(run, verdicts=verdicts)).finding

    first, second, _, *rest = (claim["short"] for claim in json.loads(data.attrs["claims"]))
    settled, grey = finding(data).split(" Settled in no head, neither way: ")
    assert settled == f"Fail in most heads: {first}. Hold in most heads: {second}."
    assert grey == f"{'; '.join(rest)}."
    data["fails"][:], data["holds"][:] = 1, 0
    assert finding(data) == "No claim holds, and none fails, in most heads."
