"""Figures and tables of a what-if study: void bounds are n/a, with a reason."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh

import geostat as gs
from reports.what_if import draw_study, table_of_study, unreadable

N = np.arange(1, 5)


def study(values, **axes):
    """A study of the printed edition with a bound on R and the resulting bound on F."""
    recall, units = np.asarray(values, dtype=float), {"units": "1"}
    of_f = units | {"side": "lower", "symbol": "F", "readable_range": [0.0, 1.0]}
    data = {
        "recall_lower": (tuple(axes), recall, units | {"side": "lower", "symbol": "R"}),
        "f_inner_lower": (tuple(axes), 2 * recall / (1 + recall), of_f),
        "feasible": ((), True, units),
    }
    coords = {
        name: (name, axis, units | {"long_name": name, "symbol": name})
        for name, axis in axes.items()
    }
    attrs = {"edition": "printed", "gram": "exponential", "kind": "as printed"}
    return xr.Dataset(data, coords, attrs | {"fixed_L": 64.0, "fixed_T1": "0.5L"})


def title(axes) -> str:
    return axes.get_title(loc="left") + axes.get_title()


@pytest.fixture
def mixed():
    """A study whose first two bounds on R are negative."""
    return study([-3.0, -0.5, 0.25, 0.75], N=N)


READABLE = study([0.1, 0.2, 0.3, 0.4], N=N)


def test_only_bounds_on_f_from_a_negative_bound_are_unreadable():
    values = np.array([-0.5, 0.0, 0.4, 1.0, 1.5, np.nan])
    dataset = gs.whatif({"N": [2, 3, 4, 5, 6, 7]}, base={"L": 16, "d": 16})
    marked = unreadable(dataset["f_inner_lower"].copy(data=values))
    assert marked.tolist() == [True, False, False, False, True, False]
    others = [name for name in dataset if str(name).endswith("er") and name != "f_inner_lower"]
    assert not any(unreadable(dataset[name].copy(data=values)).any() for name in others)


def test_a_table_marks_unreadable_bounds_with_a_reason(mixed):
    table = table_of_study(mixed)
    assert [[cell.plain for cell in row[1:3]] for row in table.rows] == [
        *(["-3", "n/a"], ["-0.500", "n/a"], ["0.250", "0.400"], ["0.750", "0.857"])
    ]
    reason = "Not available on F(r_min) where the bound on R(r_min) is negative."
    assert table.caption.endswith(reason)
    assert "Not available" not in table_of_study(READABLE).caption


def test_lines_omit_unreadable_bounds_with_a_reason(mixed):
    axes = draw_study(mixed).axes[0]
    line = next(line for line in axes.lines if "F" in str(line.get_label()))
    np.testing.assert_allclose(line.get_ydata(), [np.nan, np.nan, 0.4, 6 / 7])
    assert "n/a where the bound on $R$ is negative" in title(axes)
    assert "n/a" not in title(draw_study(READABLE).axes[0])


def test_a_map_leaves_unreadable_bounds_white_with_a_reason():
    values = np.linspace(-2, 0.9, 36).reshape(6, 6)
    dataset = study(values, N=np.arange(1, 7), beta=np.linspace(0.1, 1, 6))
    axes = draw_study(dataset, "f_inner_lower").axes[0]
    mesh = next(item for item in axes.collections if isinstance(item, QuadMesh))
    assert np.ma.getmaskarray(mesh.get_array()).sum() == (values < 0).sum()
    assert "white: n/a, the bound on $R$ is negative" in title(axes)


def test_fixed_parameters_and_projection_are_stated(mixed):
    assert "Fixed: L = 64, T1 = 0.5L." in table_of_study(mixed).caption
    mixed.attrs |= {"gram": "measured", "projection": "nearest", "projection_distance": 0.12345}
    caption = table_of_study(mixed).caption
    assert "under the measured, projected Gram" in caption
    assert "projected to the nearest PSD matrix, at distance 0.1235" in caption
    assert "measured, projected Gram" in title(draw_study(mixed).axes[0])


@pytest.mark.parametrize("axes", [("N",), ("N", "beta", "d")])
def test_titles_fit_the_figure(axes):
    sizes = {"N": 6, "beta": 6, "d": 4}
    shape = [sizes[name] for name in axes]
    values = np.linspace(-2, 0.019, int(np.prod(shape))).reshape(shape)
    dataset = study(values, **{name: np.linspace(1, 2, sizes[name]) for name in axes})
    dataset["feasible"] = ("N", np.zeros(sizes["N"], dtype=bool))
    dataset["margin"] = ("N", np.linspace(-1, 1, sizes["N"]), {"units": "1"})
    dataset.attrs |= {"edition": "conditional", "gram": "measured"}
    dataset.attrs |= {"projection": "nearest", "projection_distance": 0.1}
    figure = draw_study(dataset, "f_inner_lower")
    FigureCanvasAgg(figure).draw()
    titles = [title for axes in figure.axes for title in (axes.title, axes._left_title)]
    titles += [figure._suptitle] if figure._suptitle is not None else []
    boxes = [title.get_window_extent() for title in titles if title.get_text()]
    assert boxes
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
