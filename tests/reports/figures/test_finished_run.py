"""Figures of claims, rival forms, costs and the ladder of predictions equal the run; numbers of
findings are recorded without rounding.
"""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from support.figures import assert_labels_stand_apart
from support.reports_tree import run_tree

from reports.figures import style
from reports.figures.plan import PLANS
from reports.run import SCORES, Run, notes
from reports.text.number import MISSING, percent
from reports.topics.bounds import (
    COST_LINES,
    caption_costs,
    caption_coverage,
    costs,
    figure_costs,
    figure_coverage,
)
from reports.topics.listed import plans, tables
from reports.topics.predictive import caption_ladder, figure_ladder
from reports.topics.rivals import caption_rivals, figure_rivals
from reports.topics.verdicts import HEIGHT, WIDTH, caption_claims, figure_claims

OURS = re.compile(r"95%|\bL\d+H\d+\b|\bL\d+, KV head \d+|(?:5 ≤ )?N [≤>] \d+")
"""Numbers that are not results: levels of intervals, names of heads, ranges of N."""
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@pytest.fixture(scope="module")
def predicted(run: Run) -> Run:
    sources = ["exponential", "offset", "all but weights", "measured", "heads"]
    data = {
        f"{score}_pooled_mae{part}": ("source", level + shift + 0.1 * np.arange(5.0)[::-1])
        for score, level in (("precision", 0.2), ("recall", 0.1))
        for part, shift in (("", 0.0), ("_lower", -0.05), ("_upper", 0.07))
    }
    return replace(run, predictive=xr.Dataset(data, coords={"source": sources}))


@pytest.mark.parametrize(
    ("width", "look"),
    [(None, "paper"), (3.25, "paper"), pytest.param(None, "slides", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", ["claims", "rivals", "coverage", "costs", "ladder"])
def test_labels_do_not_overlap_or_leave_the_figure(predicted: Run, name: str, width, look: str):
    assert_labels_stand_apart(PLANS[name], predicted, width, look)


@pytest.fixture(scope="module")
def claims(run: Run):
    axes = Figure().subplots()
    figure_claims(axes, run)
    return axes


def area(axes, colour: str) -> float:
    """The area of a colour, in cells."""
    boxes = [
        path.vertices
        for collection in axes.collections
        if isinstance(collection, PolyCollection)
        and tuple(collection.get_facecolor()[0]) == to_rgba(colour)
        for path in collection.get_paths()
    ]
    return sum(float(np.prod(np.ptp(box, axis=0))) for box in boxes) / (HEIGHT * WIDTH)


def test_areas_equal_the_shares_of_heads_that_hold_and_fail(claims, run: Run):
    shares = {"holds": 0.0, "holds_trivially": 0.0, "fails": 0.0}
    for claim in json.loads(run.verdicts.attrs["claims"]):
        heads = run.capture.sizes[claim["of"]]
        for answer in shares:
            shares[answer] += float(run.verdicts[answer].sel(claim=claim["key"])) / heads
    cells = run.verdicts.sizes["claim"] * run.capture.sizes["layer"]
    assert area(claims, style.GREEN) == pytest.approx(shares["holds"])
    assert area(claims, style.SKY) == pytest.approx(shares["holds_trivially"])
    assert shares["holds_trivially"] > 0
    assert area(claims, style.VERMILLION) == pytest.approx(shares["fails"])
    assert area(claims, style.PALE) == pytest.approx(cells - sum(shares.values()))


def test_every_claim_has_a_short_name(claims, run: Run):
    names = [label.get_text() for label in claims.get_yticklabels()]
    assert len(set(names)) == len(names) == run.verdicts.sizes["claim"]
    assert all(len(name) < 46 for name in names)


def test_the_caption_names_claims_by_the_majority_of_heads(run: Run):
    data = run.verdicts.copy(deep=True)
    data["holds"][:], data["holds_trivially"][:], data["fails"][:] = 0, 0, 0
    half = run.kv_heads // 2  # the first claims are of KV heads
    data["fails"][0], data["holds"][1], data["holds"][2] = half + 1, half + 1, half
    data["holds"][3], data["holds_trivially"][3] = half, 1
    first, second, _, fourth, *rest = (claim["short"] for claim in json.loads(data.attrs["claims"]))
    assert caption_claims(replace(run, verdicts=data)).finding == (
        f"Fail in most heads: {first}. Hold in most heads: {second}."
        f" Hold in most heads, counting trivial ones: {fourth}."
        f" Undetermined in every head: {'; '.join(rest)}."
    )
    data["fails"][:], data["holds"][:], data["holds_trivially"][:] = 1, 0, 0
    finding = caption_claims(replace(run, verdicts=data)).finding
    assert finding == "No claim holds, and none fails, in most heads."


def test_bars_and_markers_equal_the_counts(run: Run):
    axes = Figure().subplots(1, 2)
    assert figure_rivals(axes, run) is axes
    for axis, data, code in (
        (axes[0], run.similarity, "chosen"),
        (axes[1], run.weights, "preferred"),
    ):
        bars = {bar.get_label(): [patch.get_width() for patch in bar] for bar in axis.containers}
        marks = {line.get_label(): line.get_xdata().tolist() for line in axis.get_lines()}
        assert bars["lowest held-out loss"] == data["lowest_loss"].values.tolist()
        assert bars["clearly lowest"] == data["clearly_lowest"].values.tolist()
        assert marks["lowest BIC"] == data["lowest_bic"].values.tolist()
        simplest = [int((data[code] == form).sum()) for form in range(len(marks["lowest BIC"]))]
        assert marks["simplest within 1 SE"] == simplest


def test_the_caption_counts_the_best_and_the_printed_form(run: Run):
    data = run.similarity.copy(deep=True)
    data["lowest_loss"][:], data["clearly_lowest"][:] = [1, 5, 0, 0, 0, 2], [0, 3, 0, 0, 0, 0]
    finding = caption_rivals(replace(run, similarity=data)).finding
    assert finding.startswith(
        f"For similarity, “exponential with an offset” has the lowest loss in 5 of {run.kv_heads}"
        " KV heads (clearly in 3); the printed form in 1. For weights,"
    )


def test_costs_are_drawn_at_each_n_with_their_intervals(run: Run):
    axes = Figure().subplots(1, 2)
    figure_costs(axes, run)
    data = run.needed("costs_by_n")
    for axis, score in zip(axes, ("precision", "recall"), strict=True):
        for (level, _, (bars,)), swap in zip(axis.containers, COST_LINES, strict=True):
            selected = data.sel(swap=swap)
            np.testing.assert_allclose(level.get_ydata(), selected[f"{score}_cost_by_n"])
            ends = np.array([segment[:, 1] for segment in bars.get_segments()])
            for index, end in enumerate(("lower", "upper")):
                np.testing.assert_allclose(ends[:, index], selected[f"{score}_cost_by_n_{end}"])
    assert "(" in caption_costs(run).finding


def test_expected_and_measured_shares_inside_are_drawn_with_their_bands(run: Run):
    axes = Figure().subplots(2, 3)
    figure_coverage(axes, run)
    recall = axes[1, 0]
    shares = run.summary["recall_by_n"].sel(edition="sharp", gram="exponential")
    for label, measure in {"measured": "inside", "expected": "drawn_inside"}.items():
        [line] = [x for x in recall.lines if x.get_label() == f"{label}, sharp bounds"]
        drawn = shares.sel(measure=measure, n_envelope=line.get_xdata().astype(int))
        np.testing.assert_allclose(line.get_ydata(), drawn)
    assert len([x for x in recall.collections if isinstance(x, PolyCollection)]) == 2
    finding = caption_coverage(run).finding
    for label, edition in (("N ≤ 4", "sharp"), ("5 ≤ N ≤ 64", "printed")):
        share, expected = (
            float(
                run.summary["recall_by_range"].sel(
                    edition=edition, gram="offset", size_range=label, measure=measure
                )
            )
            for measure in ("inside", "drawn_inside")
        )
        part = finding.partition(f"{edition} bounds, offset Gram: Recall ")[2].partition(";")[0]
        assert f"{percent(share, 0)} ({percent(expected, 0)}) at {label}" in part


def test_tables_have_every_range_and_every_size_of_the_costs(run: Run, tree: xr.DataTree):
    by_name = tables(tree)
    ranges = by_name["coverage_by_range"].frame()
    known = [label for label in run.summary["size_range"].values if label != "N > 64"]
    assert ranges["N"].tolist() == known * (len(ranges) // 2)  # 64 tokens: none above 64
    means = run.summary["recall_by_range"].sel(edition="printed", gram="exponential")
    of_first = means.sel(size_range=known[0])
    assert ranges["inside"][0] == percent(float(of_first.sel(measure="inside")))
    score = float(of_first.sel(measure="score"))
    assert float(ranges["interval score"][0]) == pytest.approx(score, rel=0.05)
    costs = by_name["costs_by_n"].frame()
    sizes = run.needed("costs_by_n")["n_envelope"].values
    assert costs["N"].tolist() == [str(size) for size in sizes] * 2
    assert all(f"N = {size}" in by_name["costs_by_n"].caption for size in sizes)


@pytest.mark.parametrize(
    ("leads", "words"),
    [
        ([0.1, 0.2], "fitted similarity at N = 2 (40.0 percentage points), fitted similarity at"),
        ([-0.1, 0.2], "no assumption clearly at N = 2, fitted similarity at N = 16"),
    ],
)
def test_the_highest_cost_is_named_at_each_n(run: Run, leads: list[float], words: str):
    swaps = ["all", "all but weights", "all but norms", "all but similarity", "none"]
    data = {}
    for part, values in {"": [0, 0.2, 0, 0.4, 0.5], "_lower": [0, 0.1, -0.1, 0.3, 0.4]}.items():
        rows = np.repeat(np.array(values, dtype=float)[:, None], 2, axis=1)
        data |= {f"{score}_cost_by_n{part}": (("swap", "n_envelope"), rows) for score in SCORES}
    for score in SCORES:
        data |= {f"{score}_lead_by_n_lower": ("n_envelope", leads)}
        data |= {f"{score}_lead_by_n_se": ("n_envelope", [0.1, 0.1])}
    made_up = xr.Dataset(data, {"swap": swaps, "n_envelope": [2, 16]})
    made_up["recall_cost"] = ("swap", [0.0] * 5)
    recall, _ = costs(replace(run, ingredients=made_up))
    assert recall.startswith(f"Highest cost for Recall: {words}")


def test_the_ladder_has_a_rung_for_each_source(predicted: Run):
    axes = Figure().subplots()
    figure_ladder(axes, predicted)
    np.testing.assert_allclose(axes.containers[0][0].get_xdata(), [0.5, 0.4, 0.3, 0.2, 0.1])
    assert caption_ladder(predicted).finding.endswith(
        "0.10 by the mean of the other heads. 0 rungs of 4 are better than the mean of the other"
        " heads."
    )


def test_a_run_without_the_groups_has_no_such_figures(run: Run):
    bare = replace(run, ingredients=None, similarity=run.similarity.drop_vars("lowest_bic"))
    assert {"rivals", "costs", "ladder"} & {plan.name for plan in plans(bare)} == set()


def read(text: str) -> float:
    if text == MISSING:
        return math.nan
    mantissa, _, power = text.strip("<> ").replace(",", "").partition("×10")
    scale = 10.0 ** int(power.translate(SUPERSCRIPTS) or 0)
    return float(mantissa.removesuffix("%")) * scale / (100 if mantissa.endswith("%") else 1)


@pytest.mark.parametrize("documents", [None, 3, 1], ids=["finished", "made up", "one document"])
def test_every_number_of_a_finding_is_recorded_without_rounding(run: Run, documents: int | None):
    run = run if documents is None else Run.of(run_tree(documents=documents))
    printed, exact = [], []
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
        printed += [read(number.text) for number in caption.numbers]
        exact += [number.value for number in caption.numbers]
    assert len(printed) > 20
    assert printed == pytest.approx(exact, rel=0.06, abs=0.006, nan_ok=True)
