"""Statements on the normaliser: figure, caption and table show the dataset's numbers."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.optional_groups import LENGTHS, normaliser, run_with
from support.reports_tree import POSITIONS

from reports.run import Run
from reports.topics.normaliser import caption_normaliser, figure_normaliser, tables


@pytest.fixture(scope="module")
def run() -> Run:
    return run_with(normaliser=normaliser())


def test_drawn_curves_equal_the_dataset(run: Run) -> None:
    axes, data = Figure().subplots(1, 2), run.optional["normaliser"]
    assert figure_normaliser(axes, run) is axes
    decays, shares = (
        {container.get_label(): container.lines[0] for container in axis.containers}
        | {line.get_label(): line for line in axis.get_lines()}
        for axis in axes
    )
    largest = np.exp(data["log_largest"].values)
    for panel, label, x, y in (
        (decays, "measured weight, geometric mean", data["length"], largest),
        (decays, "decay as $1/L$", data["length"], largest[0] * LENGTHS[0] / np.array(LENGTHS)),
        (shares, "measured share", data["n"], data["within"]),
        (shares, "random directions", data["n"], data["within_chance"]),
        (shares, "random directions, flat weights", data["n"], data["within_flat"]),
    ):
        np.testing.assert_allclose(panel[label].get_xdata(), x, err_msg=label)
        np.testing.assert_allclose(panel[label].get_ydata(), y, err_msg=label)
    assert list(shares["GPT-2 in arXiv 2508.17821"].get_ydata()) == [0.70, 0.70]
    (bars,) = axes[1].containers[0].lines[2]
    value, error = (float(data[name][0]) for name in ("within", "within_se"))
    np.testing.assert_allclose(bars.get_segments()[0][:, 1], [value - error, value + error])


def test_the_finding_quotes_the_numbers(run: Run) -> None:
    caption = caption_normaliser(run)
    assert caption.finding == (
        f"The largest weight decays as L to the power −0.30 from L = 16 to {POSITIONS}."
    )
    assert [quoted.value for quoted in caption.numbers] == pytest.approx([16, POSITIONS, 0.3])
    unknown = normaliser().assign(power=np.nan * run.optional["normaliser"]["power"])
    assert caption_normaliser(run_with(normaliser=unknown)).finding == ""


def test_the_table_contains_measured_values_bounds_and_reported_values(run: Run) -> None:
    (table,) = tables(run)
    rows, data = (
        {row[0]: row[1:] for row in table.frame().itertuples(index=False)},
        run.optional["normaliser"],
    )
    near = data.sel(n=round(0.06 * POSITIONS))
    share, response = rows[f"$N_s/N$, $N = {int(near['n'])}$"], rows["response, $T = 0.1$"]
    assert rows[r"power $\gamma$"][0].startswith("0.30")
    assert rows["critical $N/L$"][0].startswith("0.50")
    assert rows["critical $N/L$"][3] == "near 0.06"
    assert rows["the same, flat weights"][3] == "0.70 to 0.85"
    assert response[1] == "5"
    for shown, expected, tolerance in (
        (rows["the same, flat weights"][2], near["within_flat"], 1e-3),
        (share[0], near["within"], 0.01),
        (share[2], near["within_chance"], 0.01),
        (response[0], data["response"][1], 0.05),
    ):
        assert float(shown.split(" ± ")[0]) == pytest.approx(float(expected), abs=tolerance)
