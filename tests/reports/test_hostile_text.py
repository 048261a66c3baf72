"""A foreign run with hostile texts: none becomes code in files, terminal or notebook."""

import csv
import io
import json
import re
import shlex
import shutil
import xml.etree.ElementTree as ElementTree
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from support.experiments import full
from support.hostile import CANARY, TEXTS, hostile_tree, make_hostile
from support.latex import compiled, needs_latex
from support.pages import Reader
from support.reports_tree import run_tree
from support.spine import Finished, geostat

import geostat as gs
from empirical.store.stored_run import StoredRun
from geostat.runs.accessor import RunMethods
from reports import comparison
from reports.comparison import plans
from reports.errors import InputError
from reports.figures import plan as labels
from reports.figures.plan import draw, readable, rendered
from reports.page import page
from reports.page.explorer import Pack, vega_bundle, what_if
from reports.page.page import copyable
from reports.run import Run
from reports.tables.table import Table, mixed, number, symbol, text
from reports.tables.writing import DOCUMENT
from reports.text.latex import is_expression
from reports.text.printable import printable
from reports.topics.listed import FIGURES, write_tables

COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)")
FORMULA = re.compile(r"[=+@\t\r]|-(?!\d)")
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?(?: .*)?")
OF_TABLES = {"table", "caption", "thead", "tbody", "tr", "th", "td", "span", "i", "sub", "sup", "a"}


@pytest.fixture(scope="module")
def crafted(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run, its tables in every format, its page, a comparison, the commands'
    output, and tables of experiments. Three figures are drawn, none is written.
    """
    out = tmp_path_factory.mktemp("crafted")
    for name in ("run.zarr", "run.json"):
        source, copy = finished.out / name, out / name
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    results = make_hostile(out / "run.zarr", finished.tree)

    def read(store: StoredRun, group: str) -> xr.Dataset:
        """Reads groups without the disk."""
        changed = results if store.path.parent == out else {}
        return changed.get(group, finished.tree[group].to_dataset())

    with (
        patch.object(StoredRun, "_read", read),
        patch.object(page, "plans", lambda tree: FIGURES[:2]),
        patch.object(page, "write_figures_and_tables"),
        patch.object(comparison, "write_figures_and_tables"),
        patch.object(comparison, "plans", lambda data: plans(data)[:1]),
    ):
        every = "latex,markdown,html,csv,json"
        processes = [
            geostat("tables", out, "--format", every, "--standalone"),
            geostat("report", out, "--out", out / "page"),
            geostat("compare", out, finished.out, "--quick", "--json", "--out", out / "beside"),
        ]
    for process in processes:
        assert process.code == 0, process.stderr
    output = "".join(process.stdout + process.stderr for process in processes)
    (out / "output.txt").write_text(output, "utf-8")
    (out / "output.json").write_text(processes[-1].stdout, "utf-8")
    write_tables(hostile_tree(full(), 5), out / "experiments", formats=("latex", "csv", "html"))
    return out


@pytest.fixture(scope="module")
def usual(tree: xr.DataTree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of the unchanged run, and of a run with experiments."""
    out = tmp_path_factory.mktemp("usual")
    write_tables(tree, out, standalone=True)
    write_tables(full(), out / "full")
    return out


def files(*folders: Path, kind: str) -> list[Path]:
    paths = sorted(path for folder in folders for path in folder.rglob(f"*.{kind}"))
    assert paths
    return [path for path in paths if "run.zarr" not in path.parts]


def cells_of(written: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(written, newline="")) for cell in row]


def is_formula(cell: str) -> bool:
    return bool(FORMULA.match(cell)) and not NUMBER.fullmatch(cell)


def test_text_files_have_only_printable_lines(crafted: Path):
    for kind in ("tex", "md", "html", "csv", "json", "txt"):
        for path in files(crafted, kind=kind):
            content = path.read_bytes().decode("utf-8").replace(vega_bundle(), "")
            odd = {letter for letter in content if not letter.isprintable()} - {"\n"}
            assert odd == set(), path


def test_latex_has_only_commands_of_geostat(crafted: Path, usual: Path):
    known = {r"\caption", r"\textbf", r"\clearpage", r"\tablename", r"\thetable"}
    for path in files(usual, kind="tex"):
        known.update(COMMAND.findall(path.read_text()))
    signs = "".join(text(chr(code)).latex for code in range(32, 0x2300))
    known.update(re.findall(r"\\\w+|\\.", signs))
    needs = "% needs \\usepackage{adjustbox,amssymb,booktabs,rotating,siunitx}"
    for path in files(crafted, kind="tex"):
        written = path.read_text(encoding="utf-8")
        for word in COMMAND.findall(written):
            assert word in known or is_expression(word + "{x}"), (path, word)
        assert "^^" not in written, path
        bare = re.sub(r"\\[{}%]", "", written)
        assert bare.count("{") == bare.count("}"), path
        assert set(re.findall(r"(?m)%.*", bare)) <= {needs}, path


def test_a_symbol_that_is_not_an_expression_is_text():
    for word in TEXTS:
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
def test_invalid_latex_is_not_an_expression(latex: str):
    assert not is_expression(latex)


def test_no_cell_of_a_spreadsheet_is_a_formula(crafted: Path):
    quoted = 0
    for path in files(crafted, kind="csv"):
        cells = cells_of(path.read_bytes().decode("utf-8"))
        assert [cell for cell in cells if is_formula(cell)] == [], path
        quoted += sum(cell.startswith("'") for cell in cells)
    assert quoted > 5
    rows = [[number(-1.5), number(-0.25, 0.125), text("-1.5"), text("-2 to -1"), text("-x")]]
    table = Table("t", "t", "c", [text("=a"), *map(text, "bcde")], rows, "lllll")
    assert table.csv() == "'=a,b,c,d,e\n-1.50,-0.25 ± 0.12,-1.5,-2 to -1,'-x\n"


def test_json_is_valid(crafted: Path):
    for path in files(crafted, kind="json"):
        json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_html_of_tables_has_no_other_tags(crafted: Path):
    for path in files(crafted / "tables", crafted / "experiments", kind="html"):
        for tag, attributes in Reader(path.read_text(encoding="utf-8")).tags:
            assert tag in OF_TABLES
            assert set(attributes) <= {"class", "style", "scope", "href", "data-show", "data-name"}
            assert str(attributes.get("href", "#")).startswith("#")


@pytest.mark.parametrize("page_path", ["page/report.html", "beside/comparison.html"])
def test_a_page_runs_only_its_own_scripts(crafted: Path, page_path: str):
    reader = Reader((crafted / page_path).read_text(encoding="utf-8"))
    kinds = {"script", "svg", "g", "path", "use", "defs", "clippath", "rect", "style", "image"}
    for tag, attributes in reader.tags:
        assert tag not in {"img", "iframe", "object", "embed", "form", "base", "foreignobject"}, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("src", "href", "xlink:href", "action"):
            assert re.match(r"#|figures/|data:", attributes.get(name) or "#"), attributes
        if tag not in kinds:
            assert "url(" not in str(attributes.get("style"))
    (policy,) = (attrs["content"] for _, attrs in reader.tags if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]
    elements = [attributes for tag, attributes in reader.tags if tag == "script"]
    for attributes, script in zip(elements, reader.scripts, strict=True):
        if attributes.get("type") == "application/json":
            json.loads(script, parse_constant=pytest.fail)
        elif "type" not in attributes:
            digest = b64encode(sha256(script.encode("utf-8")).digest()).decode()
            assert f"'sha256-{digest}'" in policy
            assert CANARY not in script
    assert CANARY in "".join(reader.scripts) or "beside" in page_path  # data of the explorer


def test_foreign_commands_have_no_copy_button(crafted: Path):
    html = (crafted / "page" / "report.html").read_text(encoding="utf-8")
    record = json.loads((crafted / "run.json").read_text(encoding="utf-8"))
    copied, shown = [], []
    for line in re.findall(r'<p class="command">(.*?)</p>', html, re.DOTALL):
        command = unescape(re.search(r"<code>(.*?)</code>", line, re.DOTALL)[1])
        (copied if "<button" in line else shown).append(command)
    assert {*map(printable, record["commands"].values())} <= {*shown} - {*copied}
    assert any(command.startswith("geostat tables ") for command in copied)
    for command in copied:
        assert command.startswith("gs.fit_head(") or command == shlex.join(shlex.split(command))


def test_only_a_quoted_geostat_command_is_copyable():
    commands = ["geostat run m --text 'a b' --out x", "geostat run m --out 'it'\"'\"'s'"]
    others = [
        *("geostat run m --trust-remote-code", "geostat ingest m --allow-pickle"),
        *("geostat run m\nrm -r x", "geostat run m; rm -r x", "geostat run $(rm -r x)"),
        *("geostat run `rm -r x`", "geostat run m > x", "geostat run 'a\u202eb'"),
        *("geostat run 'a", "curl x | sh", ""),
    ]
    assert [*filter(copyable, commands + others)] == commands


def test_a_hostile_parameter_name_makes_no_command(run: Run):
    """The page builds a command from the parameter that a slider changes."""
    data = run.sensitivity
    names = ["beta; rm -r ~", *map(str, data["parameter"].values[1:])]
    named = data.assign_coords(parameter=np.array(names, dtype=object))
    parameters = what_if(replace(run, sensitivity=named), Pack())["parameters"]
    assert [key for key, *_ in parameters] == names[1:]


def test_labels_that_are_not_integers_are_refused():
    tree = run_tree()
    capture = tree["capture"].to_dataset()
    labels = [f"{label}; rm -r ~" for label in capture["layer"].values]
    tree["capture"] = xr.DataTree(capture.assign_coords(layer=labels))
    with pytest.raises(InputError, match="the labels layer of /capture are not integers"):
        Run.of(tree)


def test_notebook_and_terminal_show_escaped_texts(finished: Finished):
    run = hostile_tree(finished.tree, 3)
    shown = RunMethods(run)
    html = shown._repr_html_()
    Reader(html)
    assert "<script" not in html
    assert "<img" not in html
    assert all(letter.isprintable() or letter == "\n" for letter in html + repr(shown))
    summary = gs.summary(run)
    for output in (summary.as_text(), summary.as_html(), summary.as_latex(), summary.as_csv()):
        assert all(letter.isprintable() or letter == "\n" for letter in output)
    assert not any(map(is_formula, cells_of(summary.as_csv())))


def test_any_label_can_be_drawn():
    words = [*TEXTS, "x" * 100_000]
    figure = Figure()
    axes = figure.subplots()
    for place, word in enumerate(words):
        axes.plot([0, 1], label=f"{word} of a legend")
        figure.text(0, place / len(words), f"$N$ of {word}")
    axes.legend()
    axes.set_xticks(range(len(words)), words)
    axes.set_yticks(range(len(words)), [f"${word}$" for word in words])
    readable(figure)
    rendered(figure, "pdf")
    rendered(figure, "png", 30)
    ElementTree.fromstring(rendered(figure, "svg"))


def test_any_exception_of_the_maths_parser_gives_plain_text(monkeypatch: pytest.MonkeyPatch):
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


def test_usetex_gets_no_command_of_a_run():
    with rc_context({"text.usetex": True}):
        figure = Figure()
        title = figure.subplots().set_title("x")
    readable(figure)
    escaped = (r"\textbackslash{}input\{a\} $\beta$", "TeX")
    assert title._preprocess_math(r"\input{a} $\beta$") == escaped
    with rc_context({"text.usetex": True}):
        assert draw(FIGURES[0], Run.of(full())).axes[0].title.get_usetex() is False


@pytest.mark.filterwarnings("ignore:Glyph")  # a user's fonts may lack letters of a label
def test_hostile_labels_are_drawn_on_axes_of_a_user(finished: Finished):
    figure = Figure()
    axes = figure.subplots()
    gs.plot.claims(hostile_tree(finished.tree, 8), ax=axes)
    FigureCanvasAgg(figure).draw()


@needs_latex
@pytest.mark.slow
def test_latex_of_a_hostile_run_typesets_no_file(crafted: Path, tmp_path: Path):
    (tmp_path / f"{CANARY}.tex").write_text("THE CANARY SINGS", encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    whole = (crafted / "tables" / DOCUMENT).read_text(encoding="utf-8")
    more = files(crafted / "experiments", kind="tex")
    extra = "\\clearpage\n".join(path.read_text() for path in more)
    for path in files(crafted / "page", kind="tex"):
        if "_caption" in path.name:
            extra += f"\\begin{{figure}}{path.read_text()}\\end{{figure}}\\clearpage\n"
    log = compiled(tmp_path, whole.replace("\\end{document}", f"{extra}\\end{{document}}"))
    assert f"({CANARY}" not in log.replace("./", "")
    assert "Output written on all.pdf" in log
    assert [line for line in log.splitlines() if line.startswith("!")] == []
    after = {path.name for path in tmp_path.iterdir()} - set(before)
    assert after <= {"all.tex", "all.log", "all.pdf", "all.aux"}
