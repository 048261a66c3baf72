"""The page: whole, self-contained, escaped, equal for equal runs, and without a missing float."""

import hashlib
import re
from html import unescape
from html.parser import HTMLParser

import pytest
import xarray as xr
from matplotlib.figure import Figure
from support.pages import page_html
from support.reports_tree import SENTENCES, run_tree, with_kinds

from reports.errors import InputError
from reports.figures.every import draw, plans
from reports.page import page as page_module
from reports.page.explorer.explorer import vega_bundle
from reports.page.header import duration, entries, header, parity, warnings
from reports.page.page import template, write_page
from reports.page.svg import inline_svg, panels
from reports.run import Run
from reports.tables.cells import text, whole
from reports.tables.table import Table

FOREIGN = "<b>$x_1$&"
ALWAYS = plans(Run.of(run_tree()))
"""The figures of a run that holds no experiments."""
VOID = {"meta", "link", "input", "br", "path", "use", "rect"}


class Reader(HTMLParser):
    """Collects ids, references, visible text, and checks that tags close."""

    def __init__(self):
        super().__init__()
        self.ids, self.references, self.words, self.open, self.mark = [], [], [], [], {}

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in {"src", "href", "xlink:href", "data", "poster", "srcset", "action"}:
                self.references.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in {"style", "script"}:
            self.words.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    return write_page(run_tree(model=FOREIGN), out, seconds={"capture": 61.2, "fit": 8.31})


@pytest.fixture(scope="module")
def html(written):
    return written.read_text(encoding="utf-8")


def test_files_lie_beside_the_page(written):
    assert written.name == "report.html"
    beside = {path.name for path in written.parent.iterdir()}
    assert beside == {"report.html", "report.json", "figures", "tables"}
    assert (written.parent / "figures" / "separability.pdf").exists()
    assert (written.parent / "tables" / "coverage.tex").exists()


def test_every_section_stands_once(html):
    reader = read(html)
    assert len(reader.ids) == len(set(reader.ids))
    for name in (
        "verdict",
        "idea",
        "about-norms",
        "about-bounds",
        "heads",
        "errata",
        "provenance",
        *(f"figure-{plan.name}" for plan in ALWAYS),
    ):
        assert name in reader.ids
    for sentence in SENTENCES:
        assert sentence in "".join(reader.words)


def test_each_sentence_is_short_and_unfolds_in_full(html):
    shown = html[html.index('<ol class="verdict">') :]
    shown = shown[: shown.index("</ol>")]
    plain = (unescape(re.sub(r"<[^>]+>", " ", one)) for one in shown.split("<li>")[1:])
    items = [" ".join(one.split()) for one in plain]
    assert len(items) == len(SENTENCES) == 5
    for item, in_full in zip(items, SENTENCES, strict=True):
        short, rest = item.split(" Show how ")
        assert rest.startswith(in_full)
        assert 20 < len(short) < 200
    assert items[1].startswith("Assumption 1, value vectors of one length: within a document")
    assert "12.3% (95%: 10.0% to 20.0%) of its mean; tolerated: 5.0%." in items[1]
    assert items[2].endswith("commands")  # leads to its topic


@pytest.mark.usefixtures("one_figure")
def test_without_key_results_the_sentences_stand_in_full():
    tree = run_tree()
    summary = tree["summary"].to_dataset()
    summary.attrs = {name: one for name, one in summary.attrs.items() if name != "key_results"}
    html = page_html(tree.assign({"summary": xr.DataTree(summary)}))
    assert "Show how" not in html
    assert all(sentence.split(",")[0] in html for sentence in SENTENCES)


def test_the_header_says_what_was_measured(html):
    words = " ".join(" ".join(read(html).words).split())
    for fact in (
        "made-up text",
        "Documents 3",
        "Tokens a document 64",
        "Tokens in all 192",
        "Time 1 min 10 s (capture 1 min 01 s, fit 8.3 s)",
    ):
        assert fact in words


def test_the_header_says_which_texts_and_of_what_they_are_a_sample():
    facts = dict(header(Run.of(with_kinds(run_tree())), None))
    assert facts["Population"] == "two kinds in turn"
    assert facts["Kinds of text"] == "$code$ 2, topics 1"
    assert facts["SHA-256 of the texts"] == hashlib.sha256(b"c" * 192).hexdigest()
    assert not {"Population", "Kinds of text", "SHA-256 of the texts"} & set(
        dict(header(Run.of(run_tree()), None))
    )


@pytest.mark.usefixtures("one_figure")
@pytest.mark.parametrize(
    ("documents", "said"), [(1, ["One document"]), (3, ["3 documents, fewer than 8"]), (8, [])]
)
def test_the_page_warns_once_of_few_documents(documents, said):
    run = Run.of(run_tree(documents=documents))
    assert [line.split(":")[0] for line in warnings(run)] == said
    words = " ".join(read(page_html(run_tree(documents=documents))).words)
    assert words.count("Measure more with --documents.") == len(said)


@pytest.mark.parametrize(("window", "said"), [(63, False), (64, True), (None, False)])
def test_the_page_says_when_no_sliding_window_closes(window, said):
    tree = run_tree(documents=8)
    tree.attrs["model"]["sliding_window"] = window
    told = [line for line in warnings(Run.of(tree)) if "never closes" in line]
    assert bool(told) == said


def test_the_page_refers_to_nothing_outside(html):
    reader = read(html)
    assert not [
        reference for reference in reader.references if not re.match(r"#|data:|figures/", reference)
    ]
    own = html.replace(vega_bundle(), "")  # which can load data, and is given none to load
    assert not re.search(r"@import|url\((?!#)|<script[^>]+src|fetch\(|XMLHttpRequest", own)


def test_links_within_the_page_lead_somewhere(html):
    reader = read(html)
    assert {reference[1:] for reference in reader.references if reference.startswith("#")} <= set(
        reader.ids
    )


def test_foreign_text_is_escaped(html):
    assert "<b>" not in html
    assert "&lt;b&gt;$x_1$&amp;" in html


@pytest.mark.usefixtures("one_figure")
@pytest.mark.parametrize(
    "options", [{"documents": 1, "window": 30, "null": False}, {"documents": 2}]
)
def test_no_missing_float_is_printed(options):
    html = page_html(run_tree(**options))
    assert not re.search(
        r"\bnan\b|\binf(inity)?\b|\bnone\b(?!\s+is)", " ".join(read(html).words), re.IGNORECASE
    )
    assert (
        "nan"
        not in re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
        .lower()
        .replace("provenance", "")
        .split("<svg")[0]
    )
    if options.get("documents") == 1:
        assert "n/a" in html


@pytest.mark.slow
def test_a_run_of_which_little_is_known_is_still_reported():
    tree = run_tree()
    for name in ("norms", "similarity", "weights"):  # no head could be fitted
        fits = tree[name].to_dataset()
        tree[name] = xr.DataTree(
            fits.map(
                lambda values: values * float("nan") if values.dtype.kind == "f" else values,
                keep_attrs=True,
            )
        )
    for name in ("envelope", "summary"):  # one bound only, no verdict, no errata
        tree[name] = xr.DataTree(
            tree[name].to_dataset().sel(edition=["sharp"], gram=["measured"]).drop_attrs()
        )
    tree.attrs = {}
    words = " ".join(read(page_html(tree)).words)
    assert "unnamed model" in words
    assert "n/a" in words
    assert not re.search(r"\bnan\b", words, re.IGNORECASE)


@pytest.mark.slow
def test_equal_runs_give_equal_pages(html):
    assert page_html(run_tree(model=FOREIGN), seconds={"capture": 61.2, "fit": 8.31}) == html


def test_time_is_left_out_where_it_is_not_known():
    assert [name for name, _ in header(Run.of(run_tree()), None)][-1] == "Tokens in all"


def test_figures_on_one_page_share_no_names():
    svg = (
        b'<?xml version="1.0"?><svg width="1" viewBox="0 0 1 1"><g id="a"><use'
        b' xlink:href="#a"/><path clip-path="url(#a)"/></g></svg>'
    )
    inline = str(inline_svg(svg, "first", 'about "a" & <b>'))
    assert inline.count("first-a") == 3
    assert 'aria-label="about &#34;a&#34; &amp; &lt;b&gt;"' in inline
    assert "width=" not in inline


def test_provenance_is_flat_and_tolerant():
    shown = dict(
        entries(
            {
                "a": {"b": None, "c": [1, 2]},
                "d": [{"name": "x", "e": True}],
                "f": float("nan"),
                "g": list(range(100)),
                "h": 1e-7,
            }
        )
    )
    assert shown == {
        "a › b": "n/a",
        "a › c": "1, 2",
        "d › x › e": "yes",
        "d › x › name": "x",
        "f": "n/a",
        "g": "100 values, 0 … 99",
        "h": "1e-07",
    }


def test_times_are_for_people():
    assert [duration(x) for x in (0.04, 8.31, 42.0, 125.2, 3725.0)] == [
        "0.0 s",
        "8.3 s",
        "42 s",
        "2 min 05 s",
        "1 h 02 min",
    ]


def test_a_folder_that_cannot_be_written_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        page_module.replaced(tmp_path / "file" / "report.html", "x")


def test_words_are_explained_before_the_verdict(html):
    before = " ".join(html[: html.index('<ol class="verdict">')].split())
    for word in (
        "Precision P, Recall R",
        "sink",
        "CV",
        "Gram matrix",
        "edition",
        "cell",
        "jackknife",
        "value head",
        "middle half",
        "value norm",
    ):
        assert word in before, word


def test_panels_side_by_side_are_shown_one_by_one_in_a_narrow_window(html):
    two = [plan.name for plan in ALWAYS if plan.grid == (1, 2)]
    assert len(two) == 5
    assert html.count('class="plot stacked"') == len(two)
    for name in two:
        whole = re.search(rf'<svg id="drawn-{name}" [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"', html)
        views = re.findall(
            r'viewBox="([\d.]+) 0 ([\d.]+) ([\d.]+)" aria-hidden="true"><use'
            rf' xlink:href="#drawn-{name}" width="([\d.]+)"',
            html,
        )
        assert len(views) == 2
        (start, width, height, full), (after, rest, _, _) = (
            [float(number) for number in view] for view in views
        )
        assert start == 0
        assert after == pytest.approx(width, abs=0.011)
        assert width + rest == pytest.approx(full, abs=0.011)
        assert (full, height) == pytest.approx((float(whole[1]), float(whole[2])), abs=0.01)
        assert 0.35 < width / full < 0.65


def test_a_figure_is_cut_between_its_panels():
    for plan in ALWAYS:
        figure = draw(plan, Run.of(run_tree()))
        views = panels(figure, plan.name)
        assert bool(views) == (plan.grid == (1, 2))
        if views:
            cut = float(re.search(r'viewBox="([\d.]+)', views[1])[1]) * figure.dpi / 72
            left, right = (axes.get_tightbbox() for axes in figure.axes)
            assert cut - left.x1 == pytest.approx(right.x0 - cut, abs=0.02)


def test_panels_that_overlap_are_not_cut():
    figure = Figure(figsize=(4, 2))
    for left in (0.1, 0.4):
        figure.add_axes((left, 0.2, 0.5, 0.7))
    assert panels(figure, "x") == []
    assert panels(Figure(), "x") == []


def test_a_table_of_sentences_names_its_columns_in_every_cell_and_one_of_numbers_does_not(html):
    errata = html[html.index('<section id="errata">') : html.index('<section id="provenance">')]
    assert 'class="sortable cards"' in errata
    assert errata.count('data-label="why it matters here"') == 1
    heads = html[html.index('<section id="heads"') : html.index('<section id="errata">')]
    assert "cards" not in heads
    assert "data-label" not in heads


@pytest.mark.parametrize(("rows", "tall"), [(30, False), (40, False), (41, True), (3060, True)])
def test_only_a_long_table_stands_in_a_box_that_scrolls_down_and_says_so(rows, tall):
    cells = [[text("a"), whole(float(row))] for row in range(rows)]
    table = Table(
        name="t",
        title="t",
        caption="c",
        headers=[text("word"), text("number")],
        rows=cells,
        align="lr",
    )
    shown = str(template("parts.html").module.grid(table))
    assert ('class="scroll tall"' in shown) == tall
    assert (f"{rows:,} rows: scroll within the table" in shown) == tall
    assert shown.count("<tr>") == rows + 1


def test_the_parity_check_is_shown_in_words_and_not_hidden(html):
    shown = html[html.index('<section id="provenance">') :]
    shown = shown[: shown.index("<details>")]
    words = " ".join(" ".join(read(shown.partition(">")[2]).words).split())
    assert "attention weights α, largest |Δα| 1.0×10⁻⁷" in words
    assert "largest |Δ log α| n/a" in words


@pytest.mark.usefixtures("one_figure")
def test_parity_is_what_the_store_keeps_and_absence_is_told():
    kept = {
        "weights": 2.0563e-6,
        "log_weights": 3.81e-5,
        "hidden": 2.07e-6,
        "invisible": 0.0,
        "layer": 14,
    }
    assert [value for _, value in parity({"parity": kept})] == [
        "2.1×10⁻⁶",
        "3.8×10⁻⁵",
        "2.1×10⁻⁶",
        "0",
        "14",
    ]
    assert parity({}) == parity({"parity": None}) == []
    tree = run_tree()
    del tree.attrs["parity"]
    assert "keeps no parity check" in page_html(tree)
    tree.attrs["parity"] = {"checked": False}  # of tensors from elsewhere
    text = page_html(tree)
    assert "keeps no parity check" not in text
    assert text.count("Not parity-checked: weights and values were made by another program") == 2
    assert parity(tree.attrs) == []


@pytest.mark.usefixtures("one_figure")
def test_the_commands_stand_on_the_page_to_be_copied(tmp_path):
    command = "geostat run 'a <b>' --out x"
    page = write_page(run_tree(), tmp_path, commands=[command]).read_text(encoding="utf-8")
    assert 'aria-label="Copy geostat run &#39;a &lt;b&gt;&#39; --out x"' in page
    assert "<code>geostat run &#39;a &lt;b&gt;&#39; --out x</code>" in page
