"""LaTeX of every kind of table: it compiles in a paper of one column and of two, without an error,
a warning or a box that stands out, and ends; hostile names and numbers too.
"""

import re
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.comparisons import compared, of_many, shorter
from support.experiments import full
from support.latex import compiled, complaints, needs_latex, pages
from support.reports_tree import plain_tree, run_tree
from support.spine import Finished
from support.verdicts import judged

import geostat as gs
from empirical.store.store import Store
from geostat.display.tree import with_display
from reports.comparison.tables import comparison_tables
from reports.run import Run, parts
from reports.tables.cells import mixed, number, percentage, text, whole
from reports.tables.every import tables
from reports.tables.experiments import experiment_tables
from reports.tables.paper.document import PACKAGES, document, latex
from reports.tables.table import Table
from reports.what_if.table import table_of_elasticities, table_of_study

REPORT = Path(__file__).parents[3] / "report" / "run.zarr"
HOSTILE = r"a_b%&#{}\$<script>"
ERRATA_OF_PRINT = mixed("e^{−κd(Δ/B)²} for a_min_in ≲ ½: 𝔼 P")
NUMBERS = [(float("nan"), 1.0), (-0.0, None), (1e-12, 1e-13), (0.5, float("nan")), (-12345.6, 78.0)]


def odd_table() -> Table:
    """One that has every kind of sign, and names that no line has room for."""
    words = [HOSTILE, "[a] star", "*", "ü «ř» 中 \n", "x" * 90, "org/name_of_a_model-" * 6]
    rows = [
        [text(word), number(*pair), percentage(share), whole(value), ERRATA_OF_PRINT, text(word)]
        for word, pair, share, value in zip(
            words, [*NUMBERS, (1.0, 0.5)], [0, 1e-9, 0.5, np.nan, 1, 0.25], range(6), strict=True
        )
    ]
    headers = [
        text(HOSTILE),
        mixed("$x_1$"),
        mixed("share"),
        mixed("[n]"),
        mixed("e^{x}"),
        text(""),
    ]
    return Table("odd_one", f"Odd {HOSTILE}?", f"{HOSTILE} {words[-1]}", headers, rows, "prrrpp")


def hostile_run() -> xr.DataTree:
    """A run of one head with a hostile name, in whose fits numbers are missing, negative zeros, and
    tiny.
    """
    tree = plain_tree(model=HOSTILE).copy(deep=True)
    tree = tree.isel(layer=[0], head=[0], kv_head=[0], missing_dims="ignore")
    values = [np.nan, -0.0, 1e-12, 12345.678, -0.5]
    for group in ("norms", "similarity", "weights"):
        data = tree[group].to_dataset()
        names = [name for name in data if data[name].dtype.kind == "f" and data[name].ndim < 3]
        for index, name in enumerate(names):
            data[name] = data[name] * 0 + values[index % len(values)]
        tree[group] = xr.DataTree(data)
    return with_display(tree)


def of_run(tree: xr.DataTree) -> list[Table]:
    return [
        table
        for part in parts(tree).values()
        for table in tables(part).values()
        if not table.only_page
    ]


@pytest.fixture(scope="module")
def made(finished: Finished, model_folder: Path, text_folder: Path) -> list[Table]:
    """Tables of a tiny run, of made-up ones, of studies and of comparisons."""
    study = gs.whatif({"N": [2, 4], "beta": [0.5, 1.0]}, base={"L": 16, "d": 16}, edition="sharp")
    both = compared(finished.store, shorter(finished.store, model_folder, text_folder))
    many = of_many(both, 6).copy(deep=True)
    many["spread"][:] = np.array([-0.0553, -0.00895, 0.0341])
    many = many.assign_coords(run=[f"{HOSTILE} {place}" for place in range(6)])
    return [
        odd_table(),
        *of_run(with_display(finished.tree)),
        *of_run(hostile_run()),
        *of_run(judged()),
        *experiment_tables(Run.of(full())),
        table_of_study(study),
        table_of_elasticities(gs.elasticities(base={"L": 16, "d": 16, "N": 4})),
        *comparison_tables(both).values(),
        *comparison_tables(many).values(),
    ]


def together(tables_of_runs: list[Table], columns: int) -> str:
    """A document of tables of several runs, which have labels of their own there."""
    place = count()
    return re.sub(
        r"\\label\{", lambda found: f"{found[0]}{next(place)}:", document(tables_of_runs, columns)
    )


@needs_latex
@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 2])
def test_every_table_compiles_in_a_paper(tmp_path: Path, made: list[Table], columns: int):
    log = compiled(tmp_path, together(made, columns))
    assert complaints(log) == []
    assert pages(log) >= len(made) / 2


@needs_latex
@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 2])
def test_a_table_too_wide_is_noticed(tmp_path: Path, columns: int):
    wide = Table("t", "t", "c", [text("h")], [[text("m" * 60 * columns)]], "l")
    assert any(
        "Overfull" in line for line in complaints(compiled(tmp_path, document([wide], columns)))
    )


@needs_latex
@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 2])
def test_two_passes_leave_no_warning(tmp_path: Path, columns: int):
    """A longtable asks for another pass until its columns keep their widths."""
    log = compiled(tmp_path, together(of_run(with_wide_numbers()), columns), passes=4)
    assert complaints(log, last=True) == []


def with_wide_numbers() -> xr.DataTree:
    """Errors of 1.1%: four digits and an error of two."""
    tree = run_tree(model=HOSTILE, window=40)
    for part in tree.children.values():
        for name in ("norms", "similarity", "weights"):
            fits = part[name].to_dataset()
            errors = {
                key: abs(fits[key.removesuffix("_se")]) * 0.011
                for key in fits
                if str(key).endswith("_se")
            }
            part[name] = xr.DataTree(fits.assign(errors))
    return tree


@needs_latex
@pytest.mark.slow
@pytest.mark.skipif(not REPORT.exists(), reason="no run in report/: `make report` makes one")
@pytest.mark.parametrize("columns", [1, 2])
def test_the_tables_of_the_built_in_run_compile(tmp_path: Path, columns: int):
    tree = with_display(Store.open(REPORT).tree())
    log = compiled(tmp_path, document(of_run(tree), columns), passes=4)
    assert complaints(log, last=True) == []
    assert pages(log) > 20


@needs_latex
@pytest.mark.slow
@pytest.mark.parametrize("lacking", PACKAGES)
def test_latex_ends_where_a_package_lacks(tmp_path: Path, made: list[Table], lacking: str):
    without = document(made, 1).replace(f"\\usepackage{{{lacking}}}", "")
    compiled(tmp_path, without)  # ends within the time that it has


def test_a_file_names_what_it_needs(made: list[Table]):
    for table in made:
        written = latex(table)
        assert written.startswith(f"% needs \\usepackage{{{','.join(PACKAGES)}}}\n")
        assert re.search(rf"\\label{{tab:geostat-{table.name.replace('_', '-')}}}", written)


def test_no_mathematics_stands_within_mathematics(made: list[Table]):
    """A dollar sign within the braces of an index ends the mathematics there unless amsmath's
    text takes it up, and LaTeX mends that for ever.
    """
    for table in made:
        for line in latex(table).splitlines():
            for formula in re.findall(
                r"(?<!\\)\$(.*?)(?<!\\)\$", "" if line.startswith("%") else line
            ):
                assert formula.count("{") == formula.count("}"), (table.name, formula)
