"""Report page: complete, self-contained, escaped, equal for equal runs, and without printed NaN."""

import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from html import unescape

import jsonschema
import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.pages import Reader, page_html
from support.reports_tree import SENTENCES, group, run_tree, with_kinds

from reports.figures.plan import PLANS, draw, write_figure
from reports.page import page as page_module
from reports.page.explorer import vega_bundle
from reports.page.header import duration, entries, header, parity, warnings
from reports.page.page import template, write_page
from reports.page.record import SCHEMA
from reports.page.svg import inline_svg, panels
from reports.run import Run
from reports.tables.table import Table, text, whole
from reports.topics.listed import plans

FOREIGN = "<b>$x_1$&"
OPTIONS = {
    "seconds": {"capture": 61.2, "fit": 8.31},
    "commands": ["geostat run 'a <b>' --out x"],
}
NAN = re.compile(r"\b(nan|inf|infinity)\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page with every figure, of which one is written to files."""

    def write_one(name, *where):
        if name == "separability":
            write_figure(name, *where)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "write_figure", write_one)
        return write_page(run_tree(model=FOREIGN), tmp_path_factory.mktemp("report"), **OPTIONS)


@pytest.fixture(scope="module")
def html(written):
    return written.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reader(html):
    return Reader(html)


@pytest.fixture(scope="module")
def run() -> Run:
    return Run.of(run_tree())


def words_of(html: str) -> str:
    return " ".join(" ".join(Reader(html).words).split())


def between(html: str, first: str, after: str) -> str:
    return html.partition(first)[2].partition(after)[0]


def test_files_are_in_the_folder_of_the_page(written):
    assert written.name == "report.html"
    names = {path.name for path in written.parent.iterdir()}
    assert names == {"report.html", "report.json", "figures", "tables"}
    assert (written.parent / "figures" / "separability.pdf").exists()
    assert (written.parent / "tables" / "coverage.tex").exists()


def test_every_section_appears_once_and_links_have_targets(reader, run):
    assert len(reader.ids) == len(set(reader.ids))
    sections = {"verdict", "idea", "about-norms", "about-bounds", "heads", "errata", "provenance"}
    assert sections | {f"figure-{plan.name}" for plan in plans(run)} <= set(reader.ids)
    assert "claims" not in reader.ids  # the run has no verdicts
    assert all(sentence in "".join(reader.words) for sentence in SENTENCES)
    assert " ".join(reader.words).count("Measure more with --documents.") == 1  # the warning
    targets = {reference[1:] for reference in reader.references if reference.startswith("#")}
    assert targets <= set(reader.ids)


def test_the_page_starts_with_its_cards(html):
    first = html.partition('id="verdict"')[0]
    assert first.count('<article class="result ') == first.count('role="img"') == 6
    assert "What is said of norms, with a &lt; b." in first
    for svg in re.findall(r"<svg.*?</svg>", first, re.DOTALL):
        ElementTree.fromstring(svg)
    shares = re.findall(r'<span class="(\w+)" style="flex-grow: (\d+)"', first)
    assert shares[:3] == [("holds", "5"), ("fails", "2"), ("no_estimate", "1")]


def test_each_sentence_is_short_and_unfolds(html):
    shown = between(html, '<ol class="verdict">', "</ol>").split("<li>")[1:]
    plain = (unescape(re.sub(r"<[^>]+>", " ", item)) for item in shown)
    items = [" ".join(item.split()) for item in plain]
    assert len(items) == len(SENTENCES) == 5
    for item, in_full in zip(items, SENTENCES, strict=True):
        short, rest = item.split(" Details ")
        assert rest.startswith(in_full)
        assert 20 < len(short) < 200
    assert items[1].startswith("Assumption 1, constant norm of value vectors: the coefficient")
    assert "12.3% (95%: 10.0% to 20.0%); tolerated: 5.0%." in items[1]
    assert items[2].endswith("commands")  # links to its topic


def test_the_header_lists_the_main_facts(html):
    words = words_of(html)
    for fact in (
        *("made-up text", "Documents 3", "Tokens per document 64", "Total tokens 192"),
        "Time 1 min 10 s (capture 1 min 01 s, fit 8.3 s)",
    ):
        assert fact in words


def test_the_header_lists_what_is_known_of_texts_and_time(run):
    facts = dict(header(Run.of(with_kinds(run_tree())), None))
    known = {
        "Population": "two kinds in turn",
        "Kinds of text": "$code$ 2, topics 1",
        "SHA-256 of the texts": hashlib.sha256(b"c" * 192).hexdigest(),
    }
    assert known.items() <= facts.items()
    plain = dict(header(run, None))
    assert {*known, "Time"} & set(plain) == set()


def test_the_header_states_quantised_weights(run):
    tree = run_tree()
    tree.attrs["model"] = {"id": "m", "quantization": "4-bit quantised weights (Q4_1)"}
    assert dict(header(Run.of(tree), None))["Weights"] == "4-bit quantised weights (Q4_1)"
    assert "Weights" not in dict(header(run, None))


def test_few_documents_give_a_warning():
    for documents, words in ((1, "One document:"), (3, "3 documents, fewer than 8:")):
        (line,) = warnings(Run.of(run_tree(documents=documents)))
        assert line.startswith(words)
        assert "Measure more with --documents." in line


@pytest.mark.parametrize(("window", "expected"), [(63, 0), (64, 1), (None, 0)])
def test_the_only_warning_of_many_documents_is_of_a_sliding_window_longer_than_these(
    window, expected
):
    tree = run_tree(documents=8)
    tree.attrs["model"]["sliding_window"] = window
    lines = warnings(Run.of(tree))
    assert len(lines) == sum("see the whole document" in line for line in lines) == expected


def test_the_page_has_no_external_references(html, reader):
    assert all(re.match(r"#|data:|figures/", reference) for reference in reader.references)
    without_vega = html.replace(vega_bundle(), "")  # it can load data, but gets no URL
    assert not re.search(r"@import|url\((?!#)|<script[^>]+src|fetch\(|XMLHttpRequest", without_vega)


def test_foreign_text_is_escaped(html):
    assert "<b>" not in html
    assert "&lt;b&gt;$x_1$&amp;" in html
    assert 'aria-label="Copy geostat run &#39;a &lt;b&gt;&#39; --out x"' in html


@pytest.mark.usefixtures("one_figure")
def test_nan_is_never_printed_and_the_record_of_one_document_is_valid(html, tmp_path):
    of_one = page_html(run_tree(documents=1, window=30, null=False), out=tmp_path)
    for page in (html, of_one):
        words = " ".join(Reader(page).words)
        assert not NAN.search(words)
        assert not re.search(r"\bnone\b(?!\s+is)", words, re.IGNORECASE)
        plain = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL).split("<svg")[0]
        assert "nan" not in plain.lower().replace("provenance", "")
    assert "n/a" in words
    record = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(record, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert [part["tokens"] for part in record["parts"]] == [64, 30]


@pytest.mark.slow
def test_a_run_with_few_results_is_reported():
    tree = run_tree()
    for name in ("norms", "similarity", "weights"):  # no head could be fitted
        fits = tree[name].to_dataset()
        unknown = {key: fits[key] * float("nan") for key in fits if fits[key].dtype.kind == "f"}
        tree[name] = xr.DataTree(fits.assign(unknown))
    for name in ("envelope", "summary"):  # one bound, no verdicts, no errata
        bounds = tree[name].to_dataset().sel(edition=["sharp"], gram=["measured"])
        tree[name] = xr.DataTree(bounds.drop_attrs())
    tree.attrs = {}
    words = " ".join(Reader(page_html(tree)).words)
    assert "unnamed model" in words
    assert "n/a" in words
    assert not NAN.search(words)


@pytest.mark.usefixtures("one_figure")
def test_equal_runs_give_equal_pages_and_records_for_any_wall_time(tmp_path):
    first, second = (
        page_html(run_tree(), out=tmp_path / str(fit), seconds={"fit": fit}) for fit in (1.0, 2.0)
    )
    assert first.replace("<dd>1.0 s</dd>", "<dd>2.0 s</dd>") == second
    records = [path.read_bytes() for path in tmp_path.glob("*/report.json")]
    assert records[0] == records[1]


def test_figures_on_one_page_share_no_ids():
    svg = (
        b'<?xml version="1.0"?><svg width="1" viewBox="0 0 1 1"><g id="a"><use'
        b' xlink:href="#a"/><path clip-path="url(#a)"/></g></svg>'
    )
    inline = str(inline_svg(svg, "first", 'about "a" & <b>'))
    assert inline.count("first-a") == 3
    assert 'aria-label="about &#34;a&#34; &amp; &lt;b&gt;"' in inline
    assert "width=" not in inline


def test_provenance_is_flat_and_tolerant():
    given = {"a": {"b": None, "c": [1, 2]}, "d": [{"name": "x", "e": True}]}
    given |= {"f": float("nan"), "g": list(range(100)), "h": 1e-7}
    assert dict(entries(given)) == {
        **{"a › b": "n/a", "a › c": "1, 2", "d › x › e": "yes", "d › x › name": "x"},
        **{"f": "n/a", "g": "100 values, 0 … 99", "h": "1e-07"},
    }


def test_durations_are_formatted():
    assert [duration(seconds) for seconds in (0.04, 42.0, 3725.0)] == [
        "0.0 s",
        "42 s",
        "1 h 02 min",
    ]


def test_the_glossary_precedes_the_sentences(html):
    before = " ".join(html[: html.index('<ol class="verdict">')].split())
    for word in (
        *("Precision P, Recall R", "sink", "CV", "Gram matrix", "edition", "cell", "jackknife"),
        *("KV head", "middle half", "value norm"),
    ):
        assert word in before, word


def test_panels_are_separate_in_a_narrow_window(html, run):
    two = [plan.name for plan in plans(run) if plan.grid == (1, 2)]
    assert len(two) == 5
    assert html.count('class="plot stacked"') == len(two)
    for name in two:
        full_view = re.search(rf'<svg id="drawn-{name}" [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"', html)
        views = re.findall(
            r'viewBox="([\d.]+) 0 ([\d.]+) ([\d.]+)" aria-hidden="true"><use'
            rf' xlink:href="#drawn-{name}" width="([\d.]+)"',
            html,
        )
        (start, width, height, full), (after, rest, *_) = ([*map(float, view)] for view in views)
        assert start == 0
        assert after == pytest.approx(width, abs=0.011)
        assert width + rest == pytest.approx(full, abs=0.011)
        assert (full, height) == pytest.approx(tuple(map(float, full_view.groups())), abs=0.01)
        assert 0.35 < width / full < 0.65


def test_a_figure_is_split_half_way_between_its_panels(run):
    figure = draw(PLANS["norms"], run)
    views = panels(figure, "norms")
    split = float(re.search(r'viewBox="([\d.]+)', views[1])[1]) * figure.dpi / 72
    left, right = (axes.get_tightbbox() for axes in figure.axes)
    assert split - left.x1 == pytest.approx(right.x0 - split, abs=0.02)


def test_overlapping_panels_are_not_split():
    figure = Figure(figsize=(4, 2))
    for left in (0.1, 0.4):
        figure.add_axes((left, 0.2, 0.5, 0.7))
    assert panels(figure, "x") == []
    assert panels(Figure(), "x") == []


def test_cells_of_a_table_of_sentences_name_their_columns(html):
    errata = between(html, '<section id="errata">', '<section id="provenance">')
    assert 'class="sortable cards"' in errata
    assert errata.count('data-label="relevance to this report"') == 1
    heads = between(html, '<section id="heads"', '<section id="errata">')
    assert "cards" not in heads
    assert "data-label" not in heads


@pytest.mark.parametrize(("rows", "tall"), [(40, False), (41, True)])
def test_only_a_long_table_scrolls_vertically(rows, tall):
    cells = [[text("a"), whole(float(row))] for row in range(rows)]
    table = Table("t", "t", "c", [text("word"), text("number")], cells, "lr")
    shown = str(template("parts.html").module.grid(table))
    assert ('class="scroll tall"' in shown) == tall
    assert (f"{rows} rows: scroll within the table" in shown) == tall
    assert shown.count("<tr>") == rows + 1


def test_the_parity_check_is_visible(html):
    shown = between(html, '<section id="provenance">', "<details>")
    words = words_of(shown)
    assert "attention weights α, largest |Δα| 1.0×10⁻⁷" in words
    assert "largest |Δ log α| n/a" in words


@pytest.mark.usefixtures("one_figure")
def test_parity_comes_from_the_store_and_absence_is_stated():
    stored = {"weights": 2.0563e-6, "log_weights": 3.81e-5, "hidden": 2.07e-6}
    shown = parity({"parity": stored | {"invisible": 0.0, "layer": 14}})
    assert [value for _, value in shown] == ["2.1×10⁻⁶", "3.8×10⁻⁵", "2.1×10⁻⁶", "0", "14"]
    tree = run_tree()
    del tree.attrs["parity"]
    assert "has no parity check" in page_html(tree)
    tree.attrs["parity"] = {"checked": False}  # of tensors from elsewhere
    text = page_html(tree)
    assert "has no parity check" not in text
    assert text.count("Not parity-checked: weights and values come from another program") == 2
    for attrs in ({}, {"parity": None}, tree.attrs):
        assert parity(attrs) == []


@pytest.mark.usefixtures("one_figure")
def test_without_key_results_there_are_full_sentences_and_no_cards():
    tree, summary = run_tree(), group("summary")
    del summary.attrs["key_results"]
    tree["summary"] = xr.DataTree(summary)
    html = page_html(tree)
    assert "<summary>Details" not in html
    assert all(sentence.split(",")[0] in html for sentence in SENTENCES)
    assert "<article" not in html
