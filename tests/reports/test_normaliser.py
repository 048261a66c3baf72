"""Figure, caption, table and topic of the normaliser's statements: they show the dataset's numbers,
and a run may lack it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.figures import assert_labels_stand_apart, shown_alone
from support.latex import compiled, complaints, needs_latex
from support.reports_tree import POSITIONS, run_tree

from geostat.experiments.normaliser_dataset import normaliser_dataset
from geostat.experiments.normaliser_numbers import (
    BY_LENGTH,
    BY_SIZE,
    SIZE,
    TEMPERATURES,
    power,
    sizes_of,
)
from reports.errors import InputError
from reports.figures.captions.normaliser import normaliser as caption
from reports.figures.every import FIGURES
from reports.figures.normaliser import figure_normaliser
from reports.page.page import write_page
from reports.run import Run
from reports.tables.normaliser import normaliser_tables
from reports.tables.paper.document import document

PLAN = next(plan for plan in FIGURES if plan.name == "normaliser")
LENGTHS = [16, 32, POSITIONS]


def measured(documents: int = 3) -> xr.Dataset:
    """What a model gives whose largest weight falls as L^−0.3, and more of which documents differ
    in than that.
    """
    n, cold = sizes_of(POSITIONS), np.array(TEMPERATURES)
    each = []
    for document_ in range(documents):
        lift = 1 + 0.1 * document_
        numbers = {name: lift * np.linspace(1, 3, len(LENGTHS)) for name in BY_LENGTH}
        numbers["distance_bound"] = 4 * numbers["distance"]
        numbers["log_largest"] = -0.3 * np.log(LENGTHS) - 0.1 * document_
        numbers["power"] = power(LENGTHS, numbers["log_largest"])
        share = np.linspace(1, 0.8, len(n)) - 0.01 * document_
        for place, name in enumerate(BY_SIZE):
            numbers[name] = (
                share * (0.6 + 0.04 * place) if "within" in name else share * (9 + place)
            )
        numbers["ks"], numbers["critical_share"] = share, np.array(0.5)
        numbers["response"], numbers["response_most"] = 0.1 * lift / cold, 0.4 / cold
        each.append(numbers)
    told = {"tokens": POSITIONS, "size": SIZE, "heads": 12, "dimension": 8}
    return normaliser_dataset(
        each, lengths=LENGTHS, n=n, flat=np.linspace(1, 0.6, len(n)), told=told
    )


def with_normaliser(data: xr.Dataset) -> xr.DataTree:
    tree = run_tree().copy()
    tree["normaliser"] = xr.DataTree(data)
    return tree


RUN = Run.of(with_normaliser(measured()))


@pytest.mark.parametrize("documents", [1, 3])
def test_labels_stand_apart(documents: int) -> None:
    run = Run.of(with_normaliser(measured(documents)))
    for width, look in ((None, "paper"), (3.25, "paper"), (None, "slides")):
        assert_labels_stand_apart(PLAN, run, width, look)


def test_the_curves_drawn_are_those_of_the_dataset() -> None:
    axes = Figure().subplots(1, 2)
    assert figure_normaliser(axes, RUN) is axes
    data = RUN.normaliser
    drawn = [
        {one.get_label(): one.lines[0] for one in axis.containers}
        | {line.get_label(): line for line in axis.get_lines()}
        for axis in axes
    ]
    for panel, label, x, y in (
        (0, "measured weight, geometric mean", data["length"], np.exp(data["log_largest"])),
        (1, "measured share", data["n"], data["within"]),
        (1, "random directions", data["n"], data["within_chance"]),
        (1, "random directions, flat weights", data["n"], data["within_flat"]),
    ):
        np.testing.assert_allclose(drawn[panel][label].get_xdata(), x, err_msg=label)
        np.testing.assert_allclose(drawn[panel][label].get_ydata(), y, err_msg=label)
    fall = drawn[0]["falling as $1/L$"].get_ydata()
    np.testing.assert_allclose(fall[0], np.exp(data["log_largest"][0]))
    np.testing.assert_allclose(fall[0] / fall[-1], LENGTHS[-1] / LENGTHS[0])
    assert list(drawn[1]["GPT-2 in arXiv 2508.17821"].get_ydata()) == [0.70, 0.70]
    (bars,) = axes[1].containers[0].lines[2]
    value, error = (float(data[name][0]) for name in ("within", "within_se"))
    np.testing.assert_allclose(bars.get_segments()[0][:, 1], [value - error, value + error])


def test_the_caption_s_finding_is_of_the_numbers() -> None:
    found = caption(RUN)
    assert found.finding == (
        f"The largest weight falls as L to the power −0.30 from L = 16 to {POSITIONS}."
    )
    assert [quoted.value for quoted in found.numbers] == pytest.approx([16, POSITIONS, 0.3])
    data = measured()
    data["power"] = data["power"] * np.nan
    assert caption(Run.of(with_normaliser(data))).finding == ""


def test_the_table_holds_what_was_measured_its_bounds_and_what_is_reported() -> None:
    (table,) = normaliser_tables(RUN)
    frame, data = table.frame(), RUN.normaliser
    rows = {row[0]: row[1:] for row in frame.itertuples(index=False)}
    near = data.sel(n=round(0.06 * POSITIONS))
    assert rows[r"power $\gamma$"][0].startswith("0.30")
    assert rows["critical $N/L$"][0].startswith("0.50")
    assert rows["critical $N/L$"][3] == "near 0.06"
    flat = rows["the same, flat weights"]
    assert float(flat[2]) == pytest.approx(float(near["within_flat"]), abs=1e-3)
    assert flat[3] == "0.70 to 0.85"
    share = rows[f"$N_s/N$, $N = {int(near['n'])}$"]
    for place, name in ((0, "within"), (2, "within_chance")):
        assert float(share[place].split(" ± ")[0]) == pytest.approx(float(near[name]), abs=0.01)
    cold = rows["response, $T = 0.1$"]
    assert float(cold[1]) == 5
    assert float(cold[0].split(" ± ")[0]) == pytest.approx(float(data["response"][1]), abs=0.05)
    assert normaliser_tables(Run.of(run_tree())) == []


@needs_latex
def test_latex_sets_the_table(tmp_path: Path) -> None:
    log = compiled(tmp_path, document(normaliser_tables(RUN)))
    assert complaints(log) == []


def test_a_topic_of_the_page_shows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown_alone(monkeypatch, "normaliser")
    page = write_page(with_normaliser(measured()), tmp_path).read_text(encoding="utf-8")
    assert "What does the normaliser do: how do weights fall" in page
    assert 'id="table-normaliser"' in page
    assert (tmp_path / "figures/normaliser.pdf").exists()
    assert (tmp_path / "tables/normaliser.tex").exists()
    plain = write_page(run_tree(), tmp_path / "plain").read_text(encoding="utf-8")
    assert "What does the normaliser do" not in plain
    with pytest.raises(InputError, match="Measure them with `geostat normaliser`"):
        figure_normaliser(Figure().subplots(1, 2), Run.of(run_tree()))
