"""Report page: complete, self-contained, escaped, equal for equal runs, and without printed NaN."""

import hashlib
import re
import xml.etree.ElementTree as ElementTree
from html import unescape

import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.pages import Reader, page_html
from support.reports_tree import SENTENCES, group, run_tree, with_kinds

from reports.errors import InputError
from reports.figures.plan import draw
from reports.page import page as page_module
from reports.page.explorer import vega_bundle
from reports.page.header import duration, entries, header, parity, warnings
from reports.page.page import template, write_page
from reports.page.svg import inline_svg, panels
from reports.run import Run
from reports.tables.table import Table, text, whole
from reports.topics.listed import plans

FOREIGN = "<b>$x_1$&"
OPTIONS = {
    "seconds": {"capture": 61.2, "fit": 8.31},
    "commands": ["geostat run 'a <b>' --out x"],
}
ALWAYS = plans(Run.of(run_tree()))
"""Figures of a run without experiments."""
NAN = re.compile(r"\b(nan|inf|infinity)\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    return write_page(run_tree(model=FOREIGN), out, **OPTIONS)


@pytest.fixture(scope="module")
def html(written):
    return written.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reader(html):
    return Reader(html)


def words_of(html: str) -> str:
    return " ".join(" ".join(Reader(html).words).split())


def between(html: str, first: str, after: str) -> str:
    """What stands from `first` to `after`."""
    return html.partition(first)[2].partition(after)[0]


def test_files_are_in_the_folder_of_the_page(written):
    assert written.name == "report.html"
    names = {path.name for path in written.parent.iterdir()}
    assert names == {"report.html", "report.json", "figures", "tables"}
    assert (written.parent / "figures" / "separability.pdf").exists()
    assert (written.parent / "tables" / "coverage.tex").exists()


def test_every_section_appears_once_and_links_have_targets(reader):
    assert len(reader.ids) == len(set(reader.ids))
    sections = {"verdict", "idea", "about-norms", "about-bounds", "heads", "errata", "provenance"}
    assert sections | {f"figure-{plan.name}" for plan in ALWAYS} <= set(reader.ids)
    assert "claims" not in reader.ids  # the run has no verdicts
    assert all(sentence in "".join(reader.words) for sentence in SENTENCES)
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


def test_the_header_lists_what_is_known_of_texts_and_time():
    facts = dict(header(Run.of(with_kinds(run_tree())), None))
    known = {
        "Population": "two kinds in turn",
        "Kinds of text": "$code$ 2, topics 1",
        "SHA-256 of the texts": hashlib.sha256(b"c" * 192).hexdigest(),
    }
    assert known.items() <= facts.items()
    plain = dict(header(Run.of(run_tree()), None))
    assert {*known, "Time"} & set(plain) == set()


@pytest.mark.parametrize(
    ("documents", "expected"), [(1, ["One document"]), (3, ["3 documents, fewer than 8"]), (8, [])]
)
def test_few_documents_give_a_warning(documents, expected):
    lines = warnings(Run.of(run_tree(documents=documents)))
    assert [line.split(":")[0] for line in lines] == expected
    assert all("Measure more with --documents." in line for line in lines)


def test_the_page_shows_a_warning_once(reader):
    assert " ".join(reader.words).count("Measure more with --documents.") == 1


@pytest.mark.parametrize(("window", "expected"), [(63, False), (64, True), (None, False)])
def test_the_page_warns_of_documents_shorter_than_the_sliding_window(window, expected):
    tree = run_tree(documents=8)
    tree.attrs["model"]["sliding_window"] = window
    assert any("see the whole document" in line for line in warnings(Run.of(tree))) == expected


def test_the_page_has_no_external_references(html, reader):
    assert all(re.match(r"#|data:|figures/", reference) for reference in reader.references)
    without_vega = html.replace(vega_bundle(), "")  # it can load data, but gets no URL
    assert not re.search(r"@import|url\((?!#)|<script[^>]+src|fetch\(|XMLHttpRequest", without_vega)


def test_foreign_text_is_escaped(html):
    assert "<b>" not in html
    assert "&lt;b&gt;$x_1$&amp;" in html


@pytest.mark.usefixtures("one_figure")
@pytest.mark.parametrize(
    "options", [{"documents": 1, "window": 30, "null": False}, {"documents": 2}]
)
def test_nan_is_never_printed(options):
    html = page_html(run_tree(**options))
    words = " ".join(Reader(html).words)
    assert not NAN.search(words)
    assert not re.search(r"\bnone\b(?!\s+is)", words, re.IGNORECASE)
    before_figures = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL).split("<svg")[0]
    assert "nan" not in before_figures.lower().replace("provenance", "")
    assert "n/a" in words or options["documents"] > 1


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


@pytest.mark.slow
def test_equal_runs_give_equal_pages(html):
    assert page_html(run_tree(model=FOREIGN), **OPTIONS) == html


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
    shown = [duration(seconds) for seconds in (0.04, 8.31, 42.0, 125.2, 3725.0)]
    assert shown == ["0.0 s", "8.3 s", "42 s", "2 min 05 s", "1 h 02 min"]


def test_a_folder_that_cannot_be_written_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written.*Choose another folder"):
        page_module.replaced(tmp_path / "file" / "report.html", "x")


def test_the_glossary_precedes_the_sentences(html):
    before = " ".join(html[: html.index('<ol class="verdict">')].split())
    for word in (
        *("Precision P, Recall R", "sink", "CV", "Gram matrix", "edition", "cell", "jackknife"),
        *("KV head", "middle half", "value norm"),
    ):
        assert word in before, word


def test_panels_are_separate_in_a_narrow_window(html):
    two = [plan.name for plan in ALWAYS if plan.grid == (1, 2)]
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


def test_a_figure_is_split_between_its_panels():
    for plan in ALWAYS:
        figure = draw(plan, Run.of(run_tree()))
        views = panels(figure, plan.name)
        assert bool(views) == (plan.grid == (1, 2))
        if views:
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


@pytest.mark.parametrize(("rows", "tall"), [(40, False), (41, True), (3060, True)])
def test_only_a_long_table_scrolls_vertically(rows, tall):
    cells = [[text("a"), whole(float(row))] for row in range(rows)]
    table = Table("t", "t", "c", [text("word"), text("number")], cells, "lr")
    shown = str(template("parts.html").module.grid(table))
    assert ('class="scroll tall"' in shown) == tall
    assert (f"{rows:,} rows: scroll within the table" in shown) == tall
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


def test_commands_on_the_page_can_be_copied(html):
    assert 'aria-label="Copy geostat run &#39;a &lt;b&gt;&#39; --out x"' in html
    assert "<code>geostat run &#39;a &lt;b&gt;&#39; --out x</code>" in html


@pytest.mark.usefixtures("one_figure")
def test_without_key_results_there_are_full_sentences_and_no_cards():
    tree, summary = run_tree(), group("summary")
    del summary.attrs["key_results"]
    tree["summary"] = xr.DataTree(summary)
    html = page_html(tree)
    assert "<summary>Details" not in html
    assert all(sentence.split(",")[0] in html for sentence in SENTENCES)
    assert "<article" not in html
