"""Tables: numbers with errors and units, and text escaped for LaTeX, HTML and Markdown."""

import re

import numpy as np
import pytest
import xarray as xr
from support.places import DOCS
from support.reports_tree import HEADS, KV_HEADS, LAYERS, cells, group, run_tree, with_groups

from reports.errors import InputError
from reports.run import Run
from reports.tables.table import Table, mixed, number, text
from reports.text.number import MISSING, percent
from reports.topics.bounds import caption_coverage
from reports.topics.listed import tables, write_tables
from theory.paper_tables.table_1 import corrected_tables


@pytest.fixture(scope="module")
def by_name() -> dict[str, Table]:
    return tables(run_tree())


def test_a_run_has_only_the_tables_of_its_groups_and_the_tutorial_lists_them(by_name):
    assert list(by_name) == [
        *("norms", "similarity", "weights", "separability", "coverage", "heads"),
        *("heads_norms", "heads_similarity", "heads_weights", "errata"),
        *("paper_table_1", "paper_table_2"),
    ]
    page = (DOCS / "tutorial" / "tables_in_your_paper.md").read_text(encoding="utf-8")
    rows = "".join(line.partition(" | ")[0] for line in page.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) >= set(by_name)


def test_foreign_text_is_escaped_in_every_form():
    cell = text("<b>$x_1$& 100%|*")
    assert cell.latex == r"$<$b$>$\$x\_1\$\& 100\%$|$*"
    assert text("中").latex == "[U+4E2D]"
    assert str(cell.html) == "&lt;b&gt;$x_1$&amp; 100%|*"
    table = Table(name="t", title="t", caption="c", headers=[text("a_b")], rows=[[cell]], align="l")
    assert r"\<b\>\$x\_1\$& 100%\|\*" in table.markdown()


def test_every_head_has_a_row_with_numbers_of_its_kv_head(by_name):
    frame = by_name["heads"].frame()
    assert len(frame) == LAYERS * HEADS
    assert frame["KV head"].tolist() == ["0", "0", "1", "1"] * LAYERS
    assert frame["$C$"].tolist()[:3] == ["1.10 ± 0.11", "1.10 ± 0.11", "0.90 ± 0.09"]
    assert frame["$\\omega$"].tolist()[0] == MISSING
    assert len(by_name["heads_norms"].rows) == LAYERS * KV_HEADS


def test_one_document_without_baselines_has_no_errors_no_such_columns_and_no_nan():
    of_one = tables(run_tree(documents=1, null=False, window=30)["30"])
    assert {row[3].plain for row in of_one["norms"].rows} == {MISSING}
    shown = [cell.plain for row in of_one["heads_norms"].rows for cell in row[2:]]
    assert all(cell.endswith((f"± {MISSING}", MISSING)) for cell in shown)
    assert "no standard error" in of_one["separability"].caption
    headers = [header.plain for header in of_one["separability"].headers]  # without baselines
    assert headers == ["N", "$P$ measured", "floor of $P$, $N/T$", "$R$ measured"]
    for name, table in of_one.items():
        for form in ("plain", "html", "latex"):
            shown = table.frame(form).to_string()
            assert not re.search(r"\bnan\b|\binf\b", shown, re.IGNORECASE), name


def test_all_or_selected_tables_are_written(tmp_path, by_name):
    paths = write_tables(run_tree(), tmp_path / "all")
    assert {path.suffix for path in paths} == {".tex", ".md"}
    assert {path.stem for path in paths} == set(by_name)
    assert sorted((tmp_path / "all").iterdir()) == sorted(paths)
    assert not (tmp_path / "all" / "heads.tex").exists()
    options = {"only": ["weights", "errata"], "formats": ["csv", "json", "html"]}
    paths = write_tables(run_tree(), tmp_path, **options)
    assert [path.name for path in paths] == [
        f"{name}.{kind}" for name in ("weights", "errata") for kind in ("csv", "json", "html")
    ]
    with pytest.raises(InputError, match="'weight' is no table of this run, expected some of"):
        write_tables(run_tree(), tmp_path, only=["weight"])
    options = {"only": ["heads"], "formats": ["latex"], "standalone": True}
    assert write_tables(run_tree(), tmp_path, **options) == []  # no document without tables


def test_html_has_every_row(by_name):
    assert by_name["weights"].html().count("<tr>") == len(by_name["weights"].rows) + 1


def test_cells_sort_as_numbers():
    assert number(1e-5, 1e-6).sort == 1e-5
    assert number(float("nan"), 1.0).sort == ""
    assert mixed("text").sort == "text"


def test_a_void_bound_names_its_erratum(by_name):
    summary = group("summary")
    for name in ("inside", "excess"):
        summary[f"f_inner_{name}"].loc[{"edition": "printed"}] = float("nan")
    summary["f_inner_inside"].loc[{"edition": "sharp", "gram": "measured"}] = float("nan")
    table = tables(with_groups(summary=summary))["coverage"]
    column = table.frame()[r"$F(r_{\min})$ inside"].tolist()
    assert column[:3] == ["n/a (erratum 18)"] * 3
    assert column[3].endswith(("%", ")"))
    assert column[5] == MISSING
    assert "n/a (erratum 18): " in table.caption
    assert "erratum" not in by_name["coverage"].caption


def test_bounds_with_the_measured_gram_have_a_note(by_name):
    note = "even heads simulated from the model of the bounds lie outside."
    assert note in by_name["coverage"].caption
    assert note in caption_coverage(Run.of(run_tree())).text
    fitted = {
        name: group(name).sel(gram=["exponential", "offset"]) for name in ("envelope", "summary")
    }
    assert note not in tables(with_groups(**fitted))["coverage"].caption


def test_the_caption_of_a_run_of_an_earlier_version_has_shares_over_all_sizes():
    run = Run.of(run_tree())
    caption = caption_coverage(run)
    for edition, gram in [pair for pair in run.bounds if pair[1] != "measured"]:
        inside = float(run.summary["recall_inside"].sel(edition=edition, gram=gram))
        assert f"{edition} bounds, {gram} Gram: Recall {percent(inside, 0)}" in caption.finding
        assert inside in [quoted.value for quoted in caption.numbers]
    assert "measured Gram" not in caption.finding
    assert "(in brackets" not in caption.finding
    assert {"coverage_by_range", "costs_by_n"} & set(tables(run_tree())) == set()


def test_compressed_tokens_and_secondary_sinks_are_listed():
    norms, positions = group("norms"), group("capture").sizes["position"]
    times = np.zeros((LAYERS, KV_HEADS, positions), dtype=int)
    times[0, 0, 5] = 3
    tokens = {"id": [260, 30], "count": [8, 1], "occurrences": [16, 10]}
    tokens |= {"share": [0.5, 0.1], "heads": [4, 0]}
    sinks = {"position": [5], "heads": [1], "tokens": [2]}
    data = {f"compressed_token_{name}": ("compressed_token", row) for name, row in tokens.items()}
    data |= {f"secondary_sink_{name}": ("secondary_sink", row) for name, row in sinks.items()}
    data["compressed_documents"] = (("layer", "kv_head", "position"), times)
    data["documents"] = (("layer", "kv_head"), np.full((LAYERS, KV_HEADS), 3))
    table = tables(with_groups(norms=norms.assign(data)))["compressed"]
    assert cells(table) == [
        "token | 260 | 8 | 16 | 50.0% | 4",
        "token | 30 | 1 | 10 | 10.0% | 0",
        "position | 5 | 3 | 12 | 25.0% | 1",
    ]
    assert "1 such position" in table.caption


def test_the_corrected_tables_of_the_paper_equal_the_theory(by_name):
    corrected = corrected_tables()
    assert by_name["paper_table_1"].only_latex
    assert by_name["paper_table_2"].only_latex
    first, second = (by_name[f"paper_table_{number}"].frame() for number in (1, 2))
    assert first["correct"].tolist() == [row["true"] for row in corrected["table_1"]]
    assert first["printed"].tolist() == [row["printed"] for row in corrected["table_1"]]
    assert second["verdict"].tolist() == [row["verdict"] for row in corrected["table_2"]]
    assert first["raised"].tolist()[3:5] == ["$a_0$", r"$a_{\mathrm{min,in}}$"]


def test_a_fit_at_a_limit_is_marked_on_page_and_in_latex():
    similarity = group("similarity")
    bound = xr.zeros_like(similarity["beta"], dtype=bool)
    bound.loc[{"gram": "offset"}] = [[True, False], [False, False]]
    similarity = similarity.assign(beta_at_bound=bound)
    table = tables(with_groups(similarity=similarity))["heads_similarity"]
    index = [cell.plain for cell in table.headers].index(r"$\beta$ offset")
    cell, other = table.rows[0][index], table.rows[1][index]
    assert cell.plain.startswith("limit ")
    assert cell.latex.endswith(r"$^\dagger$")
    assert not cell.number
    assert other.number
    assert "†: the fit ended at a limit" in table.caption
