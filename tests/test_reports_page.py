"""The page: whole, self-contained, escaped, equal for equal runs, and without a missing float."""

import re
from html.parser import HTMLParser

import pytest
import xarray as xr
from reports_tree import SENTENCES, run_tree

from reports import page as page_module
from reports.errors import InputError
from reports.figures import FIGURES
from reports.page import inline_svg, page_html, write_page
from reports.pooled import Run
from reports.provenance import duration, entries, header

FOREIGN = "<b>$x_1$&"
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
    return write_page(run_tree(model=FOREIGN, window=40), out, seconds={"capture": 61.2, "fit": 8.31})


@pytest.fixture(scope="module")
def html(written):
    return written.read_text(encoding="utf-8")


def test_files_lie_beside_the_page(written):
    assert written.name == "report.html"
    assert {path.name for path in written.parent.iterdir()} == {"report.html", "figures", "tables"}
    assert (written.parent / "figures" / "separability.pdf").exists()
    assert (written.parent / "tables" / "coverage.tex").exists()


def test_every_section_stands_once(html):
    reader = read(html)
    assert len(reader.ids) == len(set(reader.ids))
    for name in ("verdict", "idea", "figures", "tables", "heads", "errata", "provenance", *(f"figure-{plan.name}" for plan in FIGURES)):
        assert name in reader.ids
    for sentence in SENTENCES:
        assert sentence in "".join(reader.words)


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


def test_the_page_refers_to_nothing_outside(html):
    reader = read(html)
    assert not [reference for reference in reader.references if not re.match(r"#|data:|figures/", reference)]
    assert not re.search(r"@import|url\((?!#)|<script[^>]+src|fetch\(|XMLHttpRequest", html)


def test_links_within_the_page_lead_somewhere(html):
    reader = read(html)
    assert {reference[1:] for reference in reader.references if reference.startswith("#")} <= set(reader.ids)


def test_foreign_text_is_escaped(html):
    assert "<b>" not in html
    assert "&lt;b&gt;$x_1$&amp;" in html


@pytest.mark.parametrize("options", [{"documents": 1, "window": 30, "null": False}, {"documents": 2}])
def test_no_missing_float_is_printed(options):
    html = page_html(run_tree(**options))
    assert not re.search(r"\bnan\b|\binf(inity)?\b|\bnone\b(?!\s+is)", " ".join(read(html).words), re.IGNORECASE)
    assert "nan" not in re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL).lower().replace("provenance", "").split("<svg")[0]
    if options.get("documents") == 1:
        assert "n/a" in html


def test_a_run_of_which_little_is_known_is_still_reported():
    tree = run_tree()
    for name in ("norms", "similarity", "weights"):  # no head could be fitted
        fits = tree[name].to_dataset()
        tree[name] = xr.DataTree(fits.map(lambda values: values * float("nan") if values.dtype.kind == "f" else values, keep_attrs=True))
    for name in ("envelope", "summary"):  # one bound only, no verdict, no errata
        tree[name] = xr.DataTree(tree[name].to_dataset().sel(edition=["sharp"], gram=["measured"]).drop_attrs())
    tree.attrs = {}
    words = " ".join(read(page_html(tree)).words)
    assert "unnamed model" in words
    assert "n/a" in words
    assert not re.search(r"\bnan\b", words, re.IGNORECASE)


def test_equal_runs_give_equal_pages(html):
    assert page_html(run_tree(model=FOREIGN, window=40), seconds={"capture": 61.2, "fit": 8.31}) == html


def test_time_is_left_out_where_it_is_not_known():
    assert [name for name, _ in header(Run.of(run_tree()), None)][-1] == "Tokens in all"


def test_figures_on_one_page_share_no_names():
    svg = b'<?xml version="1.0"?><svg width="1" viewBox="0 0 1 1"><g id="a"><use xlink:href="#a"/><path clip-path="url(#a)"/></g></svg>'
    inline = str(inline_svg(svg, "first", 'about "a" & <b>'))
    assert inline.count("first-a") == 3
    assert 'aria-label="about &#34;a&#34; &amp; &lt;b&gt;"' in inline
    assert "width=" not in inline


def test_provenance_is_flat_and_tolerant():
    shown = dict(
        entries({"a": {"b": None, "c": [1, 2]}, "d": [{"name": "x", "e": True}], "f": float("nan"), "g": list(range(100)), "h": 1e-7})
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
    assert [duration(x) for x in (0.04, 8.31, 42.0, 125.2, 3725.0)] == ["0.0 s", "8.3 s", "42 s", "2 min 05 s", "1 h 02 min"]


def test_a_folder_that_cannot_be_written_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        page_module.replaced(tmp_path / "file" / "report.html", "x")
