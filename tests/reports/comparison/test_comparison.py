"""The page, tables and figures of runs side by side: labels never touch, what the paper reports
is labelled, foreign names are escaped.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation, Text
from support.comparisons import compared, of_many, shorter
from support.spine import Finished

from reports.comparison.figures import plans
from reports.comparison.labels import spaced
from reports.comparison.page import write_comparison
from reports.comparison.shared import REPORTED
from reports.comparison.tables import comparison_tables
from reports.figures import style
from reports.figures.every import draw


@pytest.fixture
def data(finished: Finished, model_folder: Path, text_folder: Path) -> xr.Dataset:
    return compared(finished.store, shorter(finished.store, model_folder, text_folder))


@given(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=8), st.floats(0.01, 0.3))
def test_labels_keep_their_distance_their_order_and_the_line(wanted: list[float], gap: float):
    places = spaced(wanted, gap, 0.0, 1.0)
    kept = min(gap, 1 / max(len(wanted) - 1, 1))
    assert (np.diff(np.sort(places)) >= kept - 1e-9).all()
    assert places.min() >= -1e-9
    assert places.max() <= 1 + 1e-9
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(places[order]) >= 0).all()


def test_labels_that_have_room_stay_where_their_curves_end():
    np.testing.assert_allclose(spaced([0.9, 0.1, 0.5], 0.1, 0, 1), [0.9, 0.1, 0.5])
    np.testing.assert_allclose(spaced([0.5, 0.5], 0.1, 0, 1), [0.45, 0.55])


@pytest.mark.parametrize("runs", [pytest.param(2, marks=pytest.mark.slow), 6])
def test_no_two_labels_of_a_figure_overlap(data: xr.Dataset, runs: int):
    many = of_many(data, runs)  # equal curves: labels would stand in one place
    seen = 0
    for plan in plans(many):
        figure = draw(plan, many)
        with style.context():
            FigureCanvasAgg(figure).draw()
        for axes in figure.axes:
            boxes = [
                Text.get_window_extent(text) for text in axes.texts if isinstance(text, Annotation)
            ]  # without the line that leads there
            ticks = [
                label.get_window_extent() for label in axes.get_yticklabels() if label.get_text()
            ]
            for group in (boxes, ticks):
                seen += len(group)
                assert not [
                    (a, b) for place, a in enumerate(group) for b in group[:place] if a.overlaps(b)
                ], plan.name
            assert all(
                box.x1 <= figure.bbox.x1 and box.x0 >= figure.bbox.x0 for box in (*boxes, *ticks)
            )
    assert seen > 5 * runs


def test_what_the_paper_reports_is_labelled_and_stands_in_no_column_of_ours(data: xr.Dataset):
    tables = comparison_tables(data)
    ours = [
        str(cell.plain)
        for table in tables.values()
        for row in table.rows
        for cell, head in zip(row, table.headers, strict=True)
        if head.plain != REPORTED
    ]
    theirs = [
        cell.plain
        for table in tables.values()
        for row in table.rows
        for cell, head in zip(row, table.headers, strict=True)
        if head.plain == REPORTED
    ]
    for words in (
        "0.02 to 0.03",
        "0.09 on average",
        "about 0.6 near N = 3",
        "about 0.25 near N = 6",
        "N in [1, 4]",
    ):
        assert [cell for cell in theirs if words in cell]
        assert not [cell for cell in ours if words in cell]
    assert all(cell.startswith("reported: ") for cell in theirs if cell != "–")
    beside = {row[0].plain: row[-1].plain for row in tables["comparison_numbers"].rows}
    assert "reported: 0.02 to 0.03" in next(
        cell for words, cell in beside.items() if words.startswith("CV of value norms averaged")
    )
    assert (
        next(cell for words, cell in beside.items() if words.startswith("CV of value norms within"))
        == "–"
    )  # of another kind
    kinds = [row[-1].plain for row in tables["comparison_reported"].rows]
    assert "read as the CV of the averaged profile" in kinds[0]


def test_a_difference_within_noise_is_said_to_be(data: xr.Dataset):
    clear = data.copy(deep=True)
    clear["p_holm"][:] = np.linspace(0, 1, data.sizes["quantity"])
    rows = comparison_tables(clear)["comparison_differences"].rows
    told = {row[4].sort: row[5].plain for row in rows}
    assert {word for p, word in told.items() if float(p) <= 0.05} == {"yes"}
    assert {word for p, word in told.items() if float(p) > 0.05} == {"not told apart"}
    assert any("lengths" in row[6].plain for row in rows)


def test_the_page_holds_all_escapes_names_and_fetches_nothing(data: xr.Dataset, tmp_path: Path):
    page = write_comparison(of_many(data, 3), tmp_path)
    html = page.read_text(encoding="utf-8")
    assert "<b>&_$" not in html
    assert html.count("model A &lt;b&gt;&amp;_$") > 3
    for note in data.attrs["notes"]:
        assert note.replace("'", "&#39;") in html
    assert not re.search(r'(?:src|href)="(?:https?:)?//', html)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', html.partition("<script>")[0])) <= set(ids)
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {"comparison_numbers.tex", "comparison_numbers.md", "comparison_reported.tex"} <= names
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".pdf", ".png"}
    assert not list(tmp_path.rglob(".*draft"))
    latex = (tmp_path / "tables" / "comparison_runs.tex").read_text(encoding="utf-8")
    assert r"\&\_\$" in latex
