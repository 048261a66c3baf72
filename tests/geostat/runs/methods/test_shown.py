"""`run.geostat` shows itself: in words, and in a notebook."""

import re
from html.parser import HTMLParser

import pytest
import xarray as xr
from support.spine import Finished

from geostat.display import tree
from geostat.runs.groups import tree_of
from geostat.runs.methods import accessor

assert accessor.RunMethods

HOSTILE = "m<script>alert(1)</script>\x1b[31m\u202e\n&"
BARE = ("br", "path", "use")
CAPTURED = ("capture", "null", "queries", "sinks", "measured_envelope")
FITTED = ("norms", "similarity", "weights", "pooled")


class Tags(HTMLParser):
    """Every tag of a fragment, and those that are open at its end."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in BARE:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in BARE:
            assert self.open.pop() == tag


def only(run: xr.DataTree, *names: str) -> xr.DataTree:
    held = {name: run[name].to_dataset() for name in names if name in run.children}
    return tree_of(held, run.attrs)


@pytest.fixture(scope="module")
def html(finished: Finished) -> str:
    return finished.tree.geostat._repr_html_()


def test_a_finished_run_shows_its_answers_with_signs_and_words(finished: Finished, html: str):
    for word, sign in (("holds", "✓"), ("fails", "✗"), ("undetermined", "?"), ("mixed", "✓✗")):
        said = [
            line for line in str(finished.tree.geostat).splitlines() if f" {word} " in line[17:32]
        ]
        assert all(line.startswith(f"  {sign} ") for line in said)
        assert html.count(f'"answer">{sign} {word}<') == len(said)
    assert "In five sentences" in html
    assert finished.tree["summary"].attrs["sentences"][3][:40] in html
    assert html.count("<svg") == 6
    assert "Fitted parameters" in html
    for claim in finished.tree.geostat.claims()["says"]:
        assert claim.replace("'", "&#39;") in html


def test_it_is_whole_small_and_fetches_nothing(html: str):
    tags = Tags(html)
    assert tags.open == []
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', html) == []
    assert "@import" not in html
    assert len(html.encode()) < 200_000


def test_colours_are_those_of_the_notebook(html: str):
    style = html[html.index("<style>") : html.index("</style>")]
    assert "color: inherit" in style
    assert not re.search(r"#[0-9a-f]{3,6}\b", style)
    own = re.findall(r"^([^{}\n]+)\{", style, re.MULTILINE)
    assert own
    assert all(one.strip().startswith(".geostat-run") for each in own for one in each.split(","))


def test_two_runs_of_a_notebook_share_no_id(finished: Finished, html: str):
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    other = finished.tree.copy()
    other.attrs = dict(finished.tree.attrs) | {"seed": 99}
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', other.geostat._repr_html_()))


@pytest.mark.parametrize(
    ("names", "state", "call", "curves"),
    [
        (CAPTURED, "Captured.", "fits = geostat.fit(run)", 5),
        ((*CAPTURED, *FITTED), "Captured, fitted.", "env = geostat.confront(run, run)", 5),
        (FITTED, "Fitted.", "env = geostat.confront(run, fits)", 0),
        (("envelope", "verdicts", "summary"), "Confronted.", "geostat.report(run, fits, env)", 0),
        (("null",), "Holds /null: no run.", "", 0),
    ],
)
def test_a_run_shows_what_it_has_and_what_to_call_next(
    finished: Finished, names, state: str, call: str, curves: int
):
    part = only(finished.tree, *names)
    lines = str(part.geostat).splitlines()
    assert lines[1] == state
    assert (lines[-1].startswith("Next: ") and call in lines[-1]) if call else len(lines) == 2
    html = part.geostat._repr_html_()
    assert Tags(html).open == []
    assert call.replace("'", "&#39;") in html
    assert html.count("<svg") == curves
    assert ("Fitted parameters" in html) == ("norms" in names)
    assert ("✗ fails" in html) == ("summary" in names)


def test_a_part_shows_counts_and_no_answer_about_the_whole(finished: Finished):
    part = finished.tree.geostat.sel(layer=1)
    html = part.geostat._repr_html_()
    assert "A part of a run (layer 1): nothing here speaks of the whole." in html
    assert "sentences" not in html
    assert html.count("<svg") == 5
    claims = part.geostat.claims()
    key = claims.index[0]
    told = f"{key:24} ✓ {claims['holds'].iloc[0]} hold, ✗ {claims['fails'].iloc[0]} fail"
    assert told in str(part.geostat)


def test_foreign_names_are_escaped(finished: Finished):
    run = finished.tree.copy()
    run.attrs = dict(finished.tree.attrs) | {"model": {"id": HOSTILE}}
    for part in (run, only(run, *CAPTURED)):
        html, words = part.geostat._repr_html_(), str(part.geostat)
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
        assert r"\x1b[31m\u202e\n" in words
        assert words.splitlines()[0].endswith("(2 value heads)")


def test_display_is_made_once(finished: Finished, monkeypatch: pytest.MonkeyPatch):
    made = []
    monkeypatch.setattr(tree, "head_curves", lambda groups: made.append(1) or xr.Dataset())
    finished.tree.geostat._repr_html_()
    assert len(made) == 1
