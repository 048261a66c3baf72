"""Representation of `run.geostat` as text and in a notebook."""

import re
from html.parser import HTMLParser

import pytest
import xarray as xr
from support.spine import Finished

from geostat.display import tree
from geostat.runs import accessor
from geostat.runs.groups import tree_of
from reports.page.cards import SYMBOLS

assert accessor.RunMethods

BARE = ("br", "path", "use")
CAPTURED = ("capture", "null", "queries", "sinks", "measured_envelope")
FITTED = ("norms", "similarity", "weights", "pooled")


class Tags(HTMLParser):
    """Tags of an HTML fragment, and those still open at its end."""

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
    groups = {name: run[name].to_dataset() for name in names if name in run.children}
    return tree_of(groups, run.attrs)


def html_of(run: xr.DataTree) -> str:
    return run.geostat._repr_html_()


@pytest.fixture(scope="module")
def html(finished: Finished) -> str:
    return html_of(finished.tree)


def test_a_confronted_run_shows_its_answers_with_symbols(finished: Finished, html: str):
    lines = str(finished.tree.geostat).splitlines()
    for word, sign in SYMBOLS.items():
        answers = [line for line in lines if f" {word}  " in line[17:37]]
        assert all(line.startswith(f"  {sign} ") for line in answers)
        assert html.count(f'"answer">{sign} {word}<') == len(answers)
    assert "In five sentences" in html
    assert finished.tree["summary"].attrs["sentences"][3][:40] in html
    assert html.count("<svg") == 6
    assert "Fitted parameters" in html
    for claim in finished.tree.geostat.claims()["says"]:
        assert claim.replace("'", "&#39;") in html


def test_html_is_well_formed_small_and_self_contained(html: str):
    tags = Tags(html)
    assert tags.open == []
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert re.findall(r'(?:src|href)="(?!#)[^"]*"', html) == []
    assert "@import" not in html
    assert len(html.encode()) < 200_000


def test_colours_are_inherited_from_the_notebook(html: str):
    style = html[html.index("<style>") : html.index("</style>")]
    assert "color: inherit" in style
    assert not re.search(r"#[0-9a-f]{3,6}\b", style)
    rules = re.findall(r"^([^{}\n]+)\{", style, re.MULTILINE)
    selectors = [selector.strip() for rule in rules for selector in rule.split(",")]
    assert selectors
    assert all(selector.startswith(".geostat-run") for selector in selectors)


def test_two_runs_in_a_notebook_share_no_id(finished: Finished, html: str):
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    other = finished.tree.copy()
    other.attrs = dict(finished.tree.attrs) | {"seed": 99}
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', html_of(other)))


@pytest.mark.parametrize(
    ("names", "state", "call", "curves"),
    [
        (CAPTURED, "Captured.", "fits = geostat.fit(run)", 5),
        ((*CAPTURED, *FITTED), "Captured, fitted.", "env = geostat.confront(run, run)", 5),
        (FITTED, "Fitted.", "env = geostat.confront(run, fits)", 0),
        (("envelope", "verdicts", "summary"), "Confronted.", "geostat.report(run, fits, env)", 0),
        (("null",), "Not a run: holds /null.", "", 0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_shows_its_stages_and_the_next_call(
    finished: Finished, names, state: str, call: str, curves: int
):
    part = only(finished.tree, *names)
    lines, html = str(part.geostat).splitlines(), html_of(part)
    assert lines[1] == state
    assert (lines[-1].startswith("Next: ") and call in lines[-1]) if call else len(lines) == 2
    assert Tags(html).open == []
    assert call in html
    assert html.count("<svg") == curves
    assert ("Fitted parameters" in html) == ("norms" in names)
    assert ("✗ fails" in html) == ("summary" in names)


def test_a_selection_shows_counts_but_no_key_results(finished: Finished):
    part = finished.tree.geostat.sel(layer=1)
    html, claims = html_of(part), part.geostat.claims()
    assert "A part of a run (layer 1): results do not describe the whole run." in html
    assert "sentences" not in html
    assert html.count("<svg") == 5
    counts = f"✓ {claims['holds'].iloc[0]} hold, ✗ {claims['fails'].iloc[0]} fail"
    assert f"{claims.index[0]:24} {counts}" in str(part.geostat)


def test_display_is_computed_once(finished: Finished, monkeypatch: pytest.MonkeyPatch):
    calls = []
    monkeypatch.setitem(tree.GROUPS, "head_curves", lambda groups: calls.append(1) or xr.Dataset())
    html_of(finished.tree)
    assert len(calls) == 1
