"""Figures and tables of a what-if study: what says nothing is n/a and said to be, shares of L
and moved Grams are named.
"""

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import QuadMesh

import geostat as gs
from reports.what_if.figure import draw_study, unreadable
from reports.what_if.table import table_of_study


def study(values, **axes):
    """A printed study that holds a bound on R and the one on F that follows."""
    recall = np.asarray(values, dtype=float)
    dims = tuple(axes)
    about = {"side": "lower", "units": "1"}
    found = xr.Dataset(
        {
            "recall_lower": (dims, recall, about | {"symbol": "R"}),
            "f_inner_lower": (
                dims,
                2 * recall / (1 + recall),
                about | {"symbol": "F", "readable_range": [0.0, 1.0]},
            ),
            "feasible": ((), True, {"units": "1"}),
        },
        coords={
            name: (name, values, {"long_name": name, "units": "1", "symbol": name})
            for name, values in axes.items()
        },
    )
    found.attrs = {
        "edition": "printed",
        "gram": "exponential",
        "kind": "as printed",
        "fixed_L": 64.0,
        "fixed_T1": "0.5L",
    }
    return found


MIXED = [-3.0, -0.5, 0.25, 0.75]


def test_only_bounds_on_f_that_follow_from_a_negative_one_say_nothing():
    values = np.array([-0.5, 0.0, 0.4, 1.0, 1.5, np.nan])
    found = gs.whatif({"N": [2, 3, 4, 5, 6, 7]}, base={"L": 16, "d": 16})
    assert unreadable(found["f_inner_lower"].copy(data=values)).tolist() == [
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert not any(
        unreadable(found[name].copy(data=values)).any()
        for name in found
        if str(name).endswith("er") and name != "f_inner_lower"
    )


def test_a_table_shows_them_as_not_available_and_says_why():
    table = table_of_study(study(MIXED, N=np.arange(1, 5)))
    cells = [[cell.plain for cell in row] for row in table.rows]
    assert [row[2] for row in cells] == ["n/a", "n/a", "0.400", "0.857"]
    assert [row[1] for row in cells] == ["-3", "-0.500", "0.250", "0.750"]
    assert table.caption.endswith(
        "Not available on F(r_min) where the bound on R(r_min) is negative."
    )
    assert (
        "Not available"
        not in table_of_study(study([0.1, 0.2, 0.3, 0.4], N=np.arange(1, 5))).caption
    )


def test_lines_leave_them_out_and_say_why():
    axes = draw_study(study(MIXED, N=np.arange(1, 5))).axes[0]
    line = next(line for line in axes.lines if "F" in str(line.get_label()))
    assert np.isnan(line.get_ydata()[:2]).all()
    np.testing.assert_allclose(line.get_ydata()[2:], [0.4, 6 / 7])
    assert "n/a where the bound on $R$ is negative" in axes.get_title(loc="left") + axes.get_title()
    whole = draw_study(study([0.1, 0.2, 0.3, 0.4], N=np.arange(1, 5))).axes[0]
    assert "n/a" not in whole.get_title(loc="left") + whole.get_title()


def test_a_map_leaves_them_white_and_says_why():
    values = np.linspace(-2, 0.9, 36).reshape(6, 6)
    figure = draw_study(
        study(values, N=np.arange(1, 7), beta=np.linspace(0.1, 1, 6)), "f_inner_lower"
    )
    axes = figure.axes[0]
    mesh = next(item for item in axes.collections if isinstance(item, QuadMesh))
    assert np.ma.getmaskarray(mesh.get_array()).sum() == (values < 0).sum()
    assert (
        "white: n/a, the bound on $R$ is negative" in axes.get_title(loc="left") + axes.get_title()
    )


def test_what_stood_still_and_what_was_moved_is_said():
    found = study(MIXED, N=np.arange(1, 5))
    assert "Fixed: L = 64, T1 = 0.5L." in table_of_study(found).caption
    found.attrs |= {"gram": "measured", "projection": "nearest", "projection_distance": 0.12345}
    caption = table_of_study(found).caption
    assert "under the measured, projected Gram" in caption
    assert "moved to the nearest that some have, by 0.1235" in caption
    axes = draw_study(found).axes[0]
    assert "measured, projected Gram" in axes.get_title(loc="left") + axes.get_title()


def text_boxes(figure):
    """The boxes of what is written, in pixels."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        for title in (axes.title, axes._left_title):
            if title.get_text():
                yield title.get_window_extent(renderer)
    if figure._suptitle is not None:
        yield figure._suptitle.get_window_extent(renderer)


@pytest.mark.parametrize("axes", [("N",), ("N", "few"), ("N", "beta"), ("N", "beta", "d")])
def test_titles_fit_the_figure(axes):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    sizes = {"N": 6, "few": 3, "beta": 6, "d": 4}
    values = np.linspace(-2, 0.019, int(np.prod([sizes[name] for name in axes]))).reshape(
        [sizes[name] for name in axes]
    )
    found = study(values, **{name: np.linspace(1, 2, sizes[name]) for name in axes})
    hidden = np.zeros(sizes["N"], dtype=bool)
    found["feasible"] = ("N", hidden)
    found["margin"] = ("N", np.linspace(-1, 1, sizes["N"]), {"units": "1"})
    found.attrs |= {
        "edition": "conditional",
        "gram": "measured",
        "projection": "nearest",
        "projection_distance": 0.1,
    }
    figure = draw_study(found, "f_inner_lower")
    FigureCanvasAgg(figure)
    for box in text_boxes(figure):
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
