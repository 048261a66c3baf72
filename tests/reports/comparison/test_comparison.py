"""Page, tables and figures of a comparison, with values of the paper in their own columns."""

import re
from itertools import combinations
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

from reports import comparison
from reports.comparison import REPORTED, comparison_tables, plans, spaced, write_comparison
from reports.figures import style
from reports.figures.plan import draw

CV = "CV of value norms"


@pytest.fixture
def data(finished: Finished, model_folder: Path, text_folder: Path) -> xr.Dataset:
    return compared(finished.store, shorter(finished.store, model_folder, text_folder))


@given(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=8), st.floats(0.01, 0.3))
def test_spaced_labels_keep_distance_order_and_range(wanted: list[float], gap: float):
    heights = spaced(wanted, gap, 0.0, 1.0)
    smallest = min(gap, 1 / max(len(wanted) - 1, 1))
    assert (np.diff(np.sort(heights)) >= smallest - 1e-9).all()
    assert heights.min() >= -1e-9
    assert heights.max() <= 1 + 1e-9
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(heights[order]) >= 0).all()


def test_labels_with_enough_space_stay_at_the_ends_of_curves():
    np.testing.assert_allclose(spaced([0.9, 0.1, 0.5], 0.1, 0, 1), [0.9, 0.1, 0.5])
    np.testing.assert_allclose(spaced([0.5, 0.5], 0.1, 0, 1), [0.45, 0.55])


def test_no_two_labels_of_a_figure_overlap(data: xr.Dataset):
    many, counted = of_many(data, 6), 0  # equal curves: labels would coincide
    for plan in plans(many):
        figure = draw(plan, many)
        with style.context():
            FigureCanvasAgg(figure).draw()
        for axes in figure.axes:
            letters = [text for text in axes.texts if isinstance(text, Annotation)]
            boxes = [Text.get_window_extent(text) for text in letters]  # without lines to curves
            ticks = [tick.get_window_extent() for tick in axes.get_yticklabels() if tick.get_text()]
            for group in (boxes, ticks):
                counted += len(group)
                for box, other in combinations(group, 2):
                    assert not box.overlaps(other), plan.name
                assert all(box.x0 >= figure.bbox.x0 and box.x1 <= figure.bbox.x1 for box in group)
    assert counted > 30


def test_values_of_the_paper_are_only_in_labelled_columns(data: xr.Dataset):
    tables = comparison_tables(data)
    by_column: dict[bool, list[str]] = {True: [], False: []}
    for table in tables.values():
        for row in table.rows:
            for cell, head in zip(row, table.headers, strict=True):
                by_column[head.plain == REPORTED].append(str(cell.plain))
    for words in (
        *("0.02 to 0.03", "0.09 on average", "about 0.6 near N = 3", "about 0.25 near N = 6"),
        "N in [1, 4]",
    ):
        assert [cell for cell in by_column[True] if words in cell]
        assert not [cell for cell in by_column[False] if words in cell]
    assert all(cell.startswith("reported: ") for cell in by_column[True] if cell != "–")
    numbers = tables["comparison_numbers"].rows
    reported = {row[0].plain.split(" (")[0]: row[-1].plain for row in numbers}
    (averaged,) = (reported[name] for name in reported if name.startswith(f"{CV} averaged"))
    (within,) = (reported[name] for name in reported if name.startswith(f"{CV} within"))
    assert "reported: 0.02 to 0.03" in averaged
    assert within == "–"  # a different quantity
    kind = tables["comparison_reported"].rows[0][-1].plain
    assert "compared with the CV of the averaged profile" in kind


def test_an_insignificant_difference_is_marked(data: xr.Dataset):
    clear = data.copy(deep=True)
    clear["p_holm"][:] = np.linspace(0, 1, data.sizes["quantity"])
    rows = comparison_tables(clear)["comparison_differences"].rows
    significant = {(float(row[4].sort) <= 0.05, row[5].plain) for row in rows}
    assert significant == {(True, "yes"), (False, "no")}
    assert any("lengths" in row[6].plain for row in rows)


def test_the_page_is_complete_escapes_names_and_fetches_nothing(
    data: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(comparison, "plans", lambda many: plans(many)[:1])
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
    assert r"\&\_\$" in (tmp_path / "tables/comparison_runs.tex").read_text(encoding="utf-8")
