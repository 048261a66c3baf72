"""Tables: every number with its error and unit, and text that LaTeX, HTML and Markdown take as
text.
"""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from support.places import DOCS
from support.reports_tree import HEADS, KV_HEADS, LAYERS, run_tree, with_kinds

from geostat.display.tree import with_display
from reports.errors import InputError
from reports.figures.captions import separability
from reports.run import Run
from reports.tables.cells import Cell, mixed, number, text, whole
from reports.tables.every import tables, write_tables
from reports.tables.table import Table
from reports.text.number import MISSING, percent
from theory.paper_tables.settled import settled_tables

MADE = tables(run_tree())
SETTLED = ("paper_table_1", "paper_table_2")


def test_every_table_is_named_where_the_tutorial_lists_them():
    page = (DOCS / "tutorial" / "tables_in_your_paper.md").read_text(encoding="utf-8")
    rows = "".join(line.partition(" | ")[0] for line in page.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) >= set(MADE)


def test_foreign_text_is_escaped_in_every_form():
    cell = text("<b>$x_1$& 100%|*")
    assert cell.latex == r"$<$b$>$\$x\_1\$\& 100\%$|$*"
    assert str(cell.html) == "&lt;b&gt;$x_1$&amp; 100%|*"
    table = Table(name="t", title="t", caption="c", headers=[text("a_b")], rows=[[cell]], align="l")
    assert r"\<b\>\$x\_1\$& 100%\|\*" in table.markdown()


def test_parameters_carry_errors_units_and_counts():
    frame = MADE["norms"].frame()
    assert list(frame.columns) == [
        "parameter",
        "meaning (unit); source",
        "median [quartiles]",
        "typical ±",
        "heads",
    ]
    assert frame.iloc[0].tolist() == [
        "$C$",
        "made-up quantity (value units); Assumption 1",
        "1 [0.850, 1.15]",
        "0.10",
        "4",
    ]
    assert frame.iloc[1].tolist()[-2:] == ["0.030", "4"]
    assert "3 documents" in MADE["norms"].caption


def test_every_head_has_a_row_with_its_value_head_s_numbers():
    table = MADE["heads"]
    frame = table.frame()
    assert len(frame) == LAYERS * HEADS
    assert frame["value head"].tolist() == ["0", "0", "1", "1"] * LAYERS
    column = frame["$C$"].tolist()
    assert column[0] == column[1] == "1.10 ± 0.11"
    assert column[2] == "0.90 ± 0.09"
    assert len(MADE["heads_norms"].rows) == LAYERS * KV_HEADS
    assert frame["$\\omega$"].tolist()[0] == MISSING


def test_one_document_prints_n_a_for_every_error():
    made = tables(run_tree(documents=1))
    assert all(row[3].plain == MISSING for row in made["norms"].rows)
    assert all(
        cell.plain.endswith(f"± {MISSING}") for row in made["heads_norms"].rows for cell in row[2:]
    )
    assert "no standard error" in made["separability"].caption


def test_nothing_prints_a_missing_float():
    for table in tables(run_tree(documents=1, null=False, window=30)["30"]).values():
        for form in ("plain", "html", "latex"):
            assert not re.search(
                r"\bnan\b|\binf\b", table.frame(form).to_string(), re.IGNORECASE
            ), table.name


def test_a_table_without_null_baselines_has_none():
    assert [
        str(header.plain) for header in tables(run_tree(null=False))["separability"].headers
    ] == [
        "N",
        "$P$ measured",
        "floor of $P$, $N/T$",
        "$R$ measured",
    ]


def test_errata_keep_their_mathematics():
    assert r"$\kappa d(\Delta/B^2)^2$ \& more" in MADE["errata"].rows[0][3].latex
    assert "<i>κ</i>" in MADE["errata"].rows[0][2].html


def test_every_table_is_written_as_latex_and_markdown(tmp_path):
    paths = write_tables(run_tree(), tmp_path)
    assert {path.suffix for path in paths} == {".tex", ".md"}
    assert {path.stem for path in paths} == set(MADE)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in paths)
    assert not (tmp_path / "heads.tex").exists()


def test_tables_are_written_as_asked(tmp_path):
    asked = {"only": ["weights", "errata"], "formats": ["csv", "json", "html"]}
    paths = write_tables(run_tree(), tmp_path, **asked)
    assert [path.name for path in paths] == [
        f"{name}.{kind}" for name in ("weights", "errata") for kind in ("csv", "json", "html")
    ]
    with pytest.raises(InputError, match="'weight' is no table of this run, expected some of"):
        write_tables(run_tree(), tmp_path, only=["weight"])


def test_values_text_and_pages_hold_what_the_table_shows():
    table = tables(run_tree())["weights"]
    frame = table.frame()
    values = pd.read_csv(io.StringIO(table.csv()), dtype=str, keep_default_na=False)
    assert values.to_numpy().tolist() == frame.to_numpy().tolist()
    told = json.loads(table.json())
    assert [[cell["text"] for cell in row] for row in told["rows"]] == frame.to_numpy().tolist()
    numbers = [cell["value"] for row in told["rows"] for cell in row]
    expected = [
        float(cell.sort) if isinstance(cell.sort, (int, float)) else None
        for row in table.rows
        for cell in row
    ]
    assert numbers == expected
    assert sum(number is not None for number in numbers) > 10
    assert table.html().count("<tr>") == len(table.rows) + 1


@pytest.mark.parametrize("kind", ["csv", "json", "html"])
def test_foreign_names_are_safe_in_every_format(kind):
    hostile = 'a_b%&#{}$<script>,"x"'
    cells = [text(hostile), whole(3.0)]
    table = Table("one", hostile, hostile, [text("name"), text("n")], [cells], "lr")
    written = getattr(table, kind)()
    if kind == "html":
        assert "<script>" not in written
    elif kind == "csv":
        assert pd.read_csv(io.StringIO(written)).iloc[0].tolist() == [hostile, 3]
    else:
        assert json.loads(written)["rows"][0][0]["text"] == hostile


def test_cells_sort_as_numbers():
    assert number(1e-5, 1e-6).sort == 1e-5
    assert number(float("nan"), 1.0).sort == ""
    assert mixed("text").sort == "text"
    assert isinstance(MADE["heads"].rows[0][3], Cell)


def test_a_void_bound_is_told_by_its_erratum_and_not_as_a_share():
    tree = run_tree()
    summary = tree["summary"].to_dataset()
    for name in ("inside", "excess"):
        summary[f"f_inner_{name}"].loc[{"edition": "printed"}] = float("nan")
    summary["f_inner_inside"].loc[{"edition": "sharp", "gram": "measured"}] = float("nan")
    tree["summary"] = xr.DataTree(summary)
    table = tables(tree)["coverage"]
    column = table.frame()[r"$F(r_{\min})$ inside"].tolist()
    assert column[:3] == ["n/a (erratum 18)"] * 3
    assert column[3].endswith(("%", ")"))
    assert column[5] == MISSING
    assert "n/a (erratum 18): " in table.caption
    assert "erratum" not in tables(run_tree())["coverage"].caption


def test_bounds_at_own_cosines_stand_with_the_reason_why_they_test_nothing():
    note = "even heads drawn from the bounds’ own model lie outside."
    tree = run_tree()
    assert note in tables(tree)["coverage"].caption
    assert note in separability.coverage(Run.of(tree)).text
    for name in ("envelope", "summary"):
        tree[name] = xr.DataTree(tree[name].to_dataset().sel(gram=["exponential", "offset"]))
    assert note not in tables(tree)["coverage"].caption


def test_a_coverage_stands_beside_that_of_heads_drawn_from_the_model():
    frame = tables(run_tree())["coverage"].frame()
    fitted = frame["Gram"] != "measured"
    assert set(frame["$P$ drawn inside"][fitted]) == {"90.0% ± 0.9%"}
    assert set(frame["$R$ drawn outside"][fitted]) == {"0.4% ± < 0.1%"}
    assert set(frame["$R$ drawn inside"][~fitted]) == {"n/a"}


def test_the_caption_of_coverage_has_every_fitted_gram_with_what_was_expected():
    run = Run.of(run_tree())
    caption = separability.coverage(run)
    fitted = [pair for pair in run.bounds if pair[1] != "measured"]
    for edition, gram in fitted:
        inside = float(run.summary["recall_inside"].sel(edition=edition, gram=gram))
        told = caption.finding.partition(f"{edition} bounds, {gram} Gram: ")[2].partition(";")[0]
        assert f"Recall {percent(inside)} (90.0%)" in told
        assert inside in [one.value for one in caption.numbers]
    assert "measured Gram" not in caption.finding
    envelope = run.envelope.copy(deep=True)
    envelope["recall_inside_by_size"][:] = 0.5
    missed = separability.coverage(replace(run, envelope=envelope)).finding
    assert "With printed bounds" not in missed
    for gram in ("exponential", "offset"):
        assert f"With sharp bounds and the {gram} Gram Recall is missed most often at N =" in missed
    without = run.summary.drop_vars(["precision_drawn_inside", "recall_drawn_inside"])
    assert "(in brackets" not in separability.coverage(replace(run, summary=without)).finding


def test_what_lies_between_kinds_of_text_stands_with_its_interval_and_what_errors_it_makes():
    table = tables(with_kinds(run_tree()))["kinds"]
    assert table.frame().iloc[0].tolist() == [
        "norm, $C$",
        "4",
        "62%",
        "30% to 81%",
        "0.0095",
        "0.77",
        "1.3",
    ]
    assert "(3 documents of 2 kinds)" in table.caption
    assert "kinds" not in tables(run_tree())


def test_coverage_tells_how_wide_the_bounds_are():
    summary = run_tree()["summary"].to_dataset()
    frame = tables(run_tree())["coverage"].frame()
    assert [float(x) for x in frame["$R$ width"]] == pytest.approx(
        summary["recall_width"].values.ravel(), rel=0.05
    )


def test_compressed_tokens_and_secondary_sinks_are_listed():
    run = run_tree()
    assert "compressed" not in tables(run)
    norms = run["norms"].to_dataset()
    layers, kv_heads = norms["C"].shape
    documents = np.full((layers, kv_heads), 3)
    times = np.zeros((layers, kv_heads, run["capture"].sizes["position"]), dtype=int)
    times[0, 0, 5] = 3
    token = {
        "id": [260, 30],
        "count": [8, 1],
        "occurrences": [16, 10],
        "share": [0.5, 0.1],
        "heads": [4, 0],
    }
    sink = {"position": [5], "heads": [1], "tokens": [2]}
    added = {
        f"compressed_token_{name}": ("compressed_token", values) for name, values in token.items()
    }
    added |= {f"secondary_sink_{name}": ("secondary_sink", values) for name, values in sink.items()}
    added |= {
        "compressed_documents": (("layer", "kv_head", "position"), times),
        "documents": (("layer", "kv_head"), documents),
    }
    run["norms"] = xr.DataTree(norms.assign(added))
    table = tables(with_display(run))["compressed"]
    assert table.frame().to_numpy().tolist() == [
        ["token", "260", "8", "16", "50.0%", "4"],
        ["token", "30", "1", "10", "10.0%", "0"],
        ["position", "5", "3", str(documents.sum()), f"{300 / documents.sum():.1f}%", "1"],
    ]
    assert "1 such position" in table.caption


def test_the_paper_s_tables_stand_as_the_theory_settles_them():
    assert {name for name, one in MADE.items() if one.only_latex} >= set(SETTLED)
    first, second = (MADE[name].frame() for name in SETTLED)
    told = settled_tables()
    assert first["settled"].tolist() == [row["true"] for row in told["table_1"]]
    assert first["printed"].tolist() == [row["printed"] for row in told["table_1"]]
    assert second["verdict"].tolist() == [row["verdict"] for row in told["table_2"]]
    assert first["raised"].tolist()[3:5] == ["$a_0$", r"$a_{\mathrm{min,in}}$"]


def test_a_fit_that_ended_at_a_limit_is_no_estimate_on_page_or_paper():
    tree = run_tree()
    similarity = tree["similarity"].to_dataset()
    bound = xr.zeros_like(similarity["beta"], dtype=bool)
    bound.loc[
        {"gram": "offset", "layer": similarity["layer"][0], "kv_head": similarity["kv_head"][0]}
    ] = True
    tree["similarity"] = xr.DataTree(similarity.assign(beta_at_bound=bound))
    table = tables(tree)["heads_similarity"]
    at = [cell.plain for cell in table.headers].index(r"$\beta$ offset")
    cell, other = table.rows[0][at], table.rows[1][at]
    assert cell.plain.startswith("limit ")
    assert cell.latex.endswith(r"$^\dagger$")
    assert not cell.number
    assert other.number
    assert "†: the fit ended at a limit" in table.caption


def test_a_document_of_no_table_that_paper_holds_is_not_written(tmp_path):
    assert (
        write_tables(run_tree(), tmp_path, only=["heads"], formats=["latex"], standalone=True) == []
    )
