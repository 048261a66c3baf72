"""A run of somebody else, whose every text that is shown would become code: in no file that is made
of it, nor in a terminal or notebook, does one.
"""

import csv
import json
import re
import shlex
import shutil
import xml.etree.ElementTree as ElementTree
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from support.experiments import full
from support.hostile import CANARY, TEXTS, hostile_tree, make_hostile
from support.latex import compiled, needs_latex
from support.spine import Finished, geostat

import geostat as gs
from geostat.display.tree import with_display
from geostat.runs.methods.accessor import RunMethods
from reports.comparison import page as comparison
from reports.figures import readable as labels
from reports.figures.every import draw
from reports.figures.listed import FIGURES
from reports.figures.readable import readable
from reports.figures.rendering import rendered
from reports.page import page
from reports.page.explorer.explorer import explorer, vega_bundle
from reports.page.page import copyable
from reports.run import Run
from reports.tables.cells import mixed, number, symbol, text
from reports.tables.every import DOCUMENT, write_tables
from reports.tables.table import Table
from reports.text.latex import is_expression
from reports.text.printable import printable

COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)")
FORMULA = re.compile(r"[=+@\t\r]|-(?!\d)")
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?(?: .*)?")
OF_TABLES = {"table", "caption", "thead", "tbody", "tr", "th", "td", "span", "i", "sub", "sup", "a"}


@pytest.fixture(scope="module")
def crafted(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run, its tables in every format, its page and one that compares it, and
    what was said. The figures of pages are drawn, and not written beside them again.
    """
    out = tmp_path_factory.mktemp("crafted")
    for name in ("run.zarr", "run.json"):
        place, copy = finished.out / name, out / name
        shutil.copytree(place, copy) if place.is_dir() else shutil.copy(place, copy)
    make_hostile(out / "run.zarr")
    said = [geostat("tables", out, "--format", "latex,markdown,html,csv,json", "--standalone")]
    with patch.object(page, "write_beside"), patch.object(comparison, "write_beside"):
        said += [
            geostat("report", out, "--out", out / "page"),
            geostat("compare", out, finished.out, "--quick", "--json", "--out", out / "beside"),
        ]
    for one in said:
        assert one.code == 0, one.stderr
    (out / "said.txt").write_text("".join(one.stdout + one.stderr for one in said), "utf-8")
    (out / "said.json").write_text(said[-1].stdout, "utf-8")
    return out


@pytest.fixture(scope="module")
def usual(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the run before it was changed, and of one with experiments."""
    out = tmp_path_factory.mktemp("usual")
    write_tables(with_display(finished.tree), out, standalone=True)
    write_tables(full(), out / "full")
    return out


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a run with experiments, with hostile texts."""
    out = tmp_path_factory.mktemp("experiments")
    write_tables(hostile_tree(full(), 5), out, formats=("latex", "csv", "html"))
    return out


def files(*folders: Path, kind: str) -> list[Path]:
    found = sorted(path for folder in folders for path in folder.rglob(f"*.{kind}"))
    assert found
    return [path for path in found if "run.zarr" not in path.parts]


def test_every_text_file_is_of_printable_lines(crafted: Path, experiments: Path):
    for kind in ("tex", "md", "html", "csv", "json", "txt"):
        for path in files(crafted, *[experiments] * (kind in ("tex", "csv", "html")), kind=kind):
            said = path.read_bytes().decode("utf-8").replace(vega_bundle(), "")
            odd = {letter for letter in said if not letter.isprintable()} - {"\n"}
            assert odd == set(), path


def test_latex_has_no_command_but_geostat_s_own(crafted: Path, experiments: Path, usual: Path):
    own = {word for path in files(usual, kind="tex") for word in COMMAND.findall(path.read_text())}
    signs = set(
        re.findall(r"\\\w+|\\.", "".join(map(printable_latex, map(chr, range(32, 0x2300)))))
    )
    for path in files(crafted, experiments, kind="tex"):
        written = path.read_text(encoding="utf-8")
        for word in COMMAND.findall(written):
            known = word in own | signs | {r"\caption", r"\textbf"} or is_expression(word + "{x}")
            assert known, (path, word)
        assert "^^" not in written, path
        bare = re.sub(r"\\[{}%]", "", written)
        assert bare.count("{") == bare.count("}"), path
        assert set(re.findall(r"(?m)%.*", bare)) <= {
            "% needs \\usepackage{amssymb,booktabs,siunitx,tabularx,xltabular}"
        }, path


def printable_latex(letter: str) -> str:
    return text(letter).latex


@pytest.mark.parametrize("word", TEXTS)
def test_a_symbol_that_is_no_expression_is_text(word: str):
    cell = symbol(word)
    assert cell.maths == is_expression(word)
    assert cell.maths or cell == text(word)
    assert not cell.maths or set("\\${}%&#~").isdisjoint(word)
    for written in (mixed(word).latex, mixed(f"${word}$").latex, cell.latex):
        assert len(re.findall(r"(?<!\\)\$", written)) % 2 == 0


@pytest.mark.parametrize(
    "latex",
    [
        r"\text{\input x}", r"\frac", "x^", "x_1_2", "{x", "x}", "x\\", r"x\\y", "x&y", "x%", "x#1",
        "x~y", r"\sqrt[x", r"\left(x", r"\begin{x}", r"\def\x{}", "x\n\ny", "ρ",
        "{" * 101 + "}" * 101,
    ],
)  # fmt: skip
def test_what_latex_might_not_set_is_no_expression(latex: str):
    assert not is_expression(latex)


def test_no_cell_of_a_spreadsheet_is_a_formula(crafted: Path, experiments: Path):
    held = 0
    for path in files(crafted, experiments, kind="csv"):
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                for cell in row:
                    assert not FORMULA.match(cell) or NUMBER.fullmatch(cell), (path, cell)
                    held += cell.startswith("'")
    assert held > 5
    rows = [[number(-1.5), number(-0.25, 0.125), text("-1.5"), text("-2 to -1"), text("-x")]]
    table = Table("t", "t", "c", [text("=a"), *map(text, "bcde")], rows, "lllll")
    assert table.csv() == "'=a,b,c,d,e\n-1.50,-0.25 ± 0.12,-1.5,-2 to -1,'-x\n"


def test_json_is_json(crafted: Path):
    for path in files(crafted, kind="json"):
        json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


class Reader(HTMLParser):
    """Tags with their attributes, scripts, and whether all tags close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "input", "br"}:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data

    def handle_comment(self, data):
        assert "-->" not in data
        assert self.open[-1] not in ("p", "td")


def test_html_of_tables_has_no_other_tags(crafted: Path, experiments: Path):
    for path in files(crafted / "tables", experiments, kind="html"):
        for tag, attributes in Reader(path.read_text(encoding="utf-8")).tags:
            assert tag in OF_TABLES
            assert set(attributes) <= {"class", "style", "scope", "href", "data-show", "data-name"}
            assert str(attributes.get("href", "#")).startswith("#")


@pytest.mark.parametrize("place", ["page/report.html", "beside/comparison.html"])
def test_a_page_runs_its_own_scripts_alone(crafted: Path, place: str):
    read = Reader((crafted / place).read_text(encoding="utf-8"))
    kinds = {"script", "svg", "g", "path", "use", "defs", "clippath", "rect", "style", "image"}
    for tag, attributes in read.tags:
        assert tag not in {"img", "iframe", "object", "embed", "form", "base", "foreignobject"}, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("src", "href", "xlink:href", "action"):
            assert re.match(r"#|figures/|data:", attributes.get(name) or "#"), attributes
        if tag not in kinds:
            assert "url(" not in str(attributes.get("style"))
    policy = next(
        one["content"] for tag, one in read.tags if "content" in one and "http-equiv" in one
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]
    runs = [one for one in read.tags if one[0] == "script"]
    for (_, attributes), script in zip(runs, read.scripts, strict=True):
        if attributes.get("type") == "application/json":
            json.loads(script, parse_constant=pytest.fail)
        elif "type" not in attributes:
            digest = b64encode(sha256(script.encode("utf-8")).digest()).decode()
            assert f"'sha256-{digest}'" in policy
            assert CANARY not in script
    assert CANARY in "".join(read.scripts) or "beside" in place  # the explorer holds its texts


def test_commands_of_others_are_shown_and_not_offered(crafted: Path):
    html = (crafted / "page" / "report.html").read_text(encoding="utf-8")
    record = json.loads((crafted / "run.json").read_text(encoding="utf-8"))
    lines = re.findall(r'<p class="command">(.*?)</p>', html, re.DOTALL)
    told = {unescape(re.search(r"<code>(.*?)</code>", line, re.DOTALL)[1]): line for line in lines}
    for command in record["commands"].values():
        assert "<button" not in told[printable(command)], command
    offered = [command for command, line in told.items() if "<button" in line]
    assert any(command.startswith("geostat tables ") for command in offered)
    for command in offered:
        assert command.startswith("gs.fit_head(") or command == shlex.join(shlex.split(command))


@pytest.mark.parametrize(
    ("command", "offered"),
    [
        ("geostat run m --text 'a b' --out x", True),
        ("geostat run m --out 'it'\"'\"'s'", True),
        ("geostat run m --trust-remote-code", False),
        ("geostat ingest m --allow-pickle", False),
        ("geostat run m\nrm -r x", False),
        ("geostat run m; rm -r x", False),
        ("geostat run $(rm -r x)", False),
        ("geostat run `rm -r x`", False),
        ("geostat run m > x", False),
        ("geostat run 'a\u202eb'", False),
        ("geostat run 'a", False),
        ("curl x | sh", False),
        ("", False),
    ],
)
def test_only_a_line_of_quoted_words_of_geostat_may_be_copied(command: str, offered: bool):
    assert copyable(command) == offered


def test_a_name_of_a_parameter_makes_no_command(finished: Finished, tmp_path: Path):
    """The page makes a command of the parameter that a slider moves."""
    tree = with_display(finished.tree)
    data = tree["sensitivity"].to_dataset()
    names = ["beta; rm -r ~", *map(str, data["parameter"].values[1:])]
    run = Run.of(tree.assign({"sensitivity": tree["sensitivity"]}))
    run = replace(run, sensitivity=data.assign_coords(parameter=np.array(names, dtype=object)))
    told = explorer(run).catalogue["what_if"]["parameters"]
    assert [key for key, *_ in told] == names[1:]


def test_labels_that_are_no_numbers_are_refused(finished: Finished):
    tree = with_display(finished.tree)
    capture = tree["capture"].to_dataset()
    labels = [f"{label}; rm -r ~" for label in capture["layer"].values]
    changed = tree.assign({"capture": tree["capture"]})
    changed["capture"] = type(tree)(capture.assign_coords(layer=labels))
    with pytest.raises(Exception, match="the labels layer of /capture are no whole numbers"):
        Run.of(changed)


def test_notebook_and_terminal_show_texts_as_they_are(finished: Finished):
    run = hostile_tree(finished.tree, 3)
    shown = RunMethods(run)
    html = shown._repr_html_()
    Reader(html)
    assert "<script" not in html
    assert "<img" not in html
    assert all(letter.isprintable() or letter == "\n" for letter in html + repr(shown))
    summary = gs.summary(run)
    for said in (summary.as_text(), summary.as_html(), summary.as_latex(), summary.as_csv()):
        assert all(letter.isprintable() or letter == "\n" for letter in said)
    for row in csv.reader(summary.as_csv().splitlines()):
        assert all(not FORMULA.match(cell) or NUMBER.fullmatch(cell) for cell in row)


@pytest.mark.parametrize("word", [*TEXTS, "x" * 100_000])
def test_a_label_is_set_whatever_it_says(word: str):
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], label=f"{word} of a legend")
    axes.legend()
    axes.set(title=word, xlabel=f"$N$ of {word}")
    axes.set_xticks([0, 1], [word, f"${word}$"])
    readable(figure)
    for kind in ("svg", "pdf", "png"):
        written = rendered(figure, kind, 30)
        if kind == "svg":
            ElementTree.fromstring(written)


def test_whatever_matplotlib_raises_on_maths_makes_it_plain_text(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise MemoryError("deep within")

    monkeypatch.setattr(labels._PARSER, "parse", broken)
    labels._is_maths.cache_clear()
    figure = Figure()
    label = figure.subplots().set_title("$unseen$")
    readable(figure)
    rendered(figure, "svg")
    assert label._preprocess_math("$unseen$") == ("$unseen$", False)
    labels._is_maths.cache_clear()


def test_tex_that_a_user_chose_gets_no_command_of_a_run():
    with rc_context({"text.usetex": True}):
        figure = Figure()
        title = figure.subplots().set_title("x")
    readable(figure)
    assert title._preprocess_math(r"\input{a} $\beta$") == (
        r"\textbackslash{}input\{a\} $\beta$",
        "TeX",
    )
    assert draw(FIGURES[0], Run.of(full())).axes[0].title.get_usetex() is False
    with rc_context({"text.usetex": True}):
        assert draw(FIGURES[0], Run.of(full())).axes[0].title.get_usetex() is False


def test_axes_of_one_s_own_are_drawn_on_as_readable_ones(finished: Finished):
    figure = Figure()
    axes = figure.subplots()
    gs.plot.claims(hostile_tree(finished.tree, 8), ax=axes)
    FigureCanvasAgg(figure).draw()


@needs_latex
@pytest.mark.slow
def test_latex_of_a_hostile_run_typesets_no_file(crafted: Path, experiments: Path, tmp_path: Path):
    (tmp_path / f"{CANARY}.tex").write_text("THE CANARY SINGS", encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    whole = (crafted / "tables" / DOCUMENT).read_text(encoding="utf-8")
    more = "\\clearpage\n".join(path.read_text() for path in files(experiments, kind="tex"))
    captions = [
        path.read_text() for path in files(crafted / "page", kind="tex") if "_caption" in path.name
    ]
    more += "".join(
        f"\\begin{{figure}}{caption}\\end{{figure}}\\clearpage\n" for caption in captions
    )
    log = compiled(tmp_path, whole.replace("\\end{document}", f"{more}\\end{{document}}"))
    assert f"({CANARY}" not in log.replace("./", "")
    assert "Output written on all.pdf" in log
    assert [line for line in log.splitlines() if line.startswith("!")] == []
    after = {path.name for path in tmp_path.iterdir()} - set(before)
    assert after <= {"all.tex", "all.log", "all.pdf", "all.aux"}
