"""LaTeX of every table compiles in papers of one and two columns, with hostile names."""

import re
from itertools import count, cycle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support import optional_groups
from support.comparisons import compared, of_many, shorter
from support.experiments import full
from support.latex import compiled, complaints, needs_latex, pages
from support.places import ROOT
from support.reports_tree import plain_tree, run_tree, with_groups
from support.spine import Finished
from support.verdicts import verdicts

import geostat as gs
from empirical.store.store import Store
from geostat.display.tree import with_display
from reports.comparison import comparison_tables
from reports.run import Run, parts
from reports.tables.paper import PACKAGES, document, latex
from reports.tables.table import Table, mixed, number, percentage, text, whole
from reports.topics import separability, sink_and_regimes
from reports.topics.listed import tables
from reports.what_if import table_of_elasticities, table_of_study

REPORT = ROOT / "report" / "run.zarr"
HOSTILE = r"a_b%&#{}\$<script>"
ERRATA_OF_PRINT = mixed("e^{−κd(Δ/B)²} for a_min_in ≲ ½: 𝔼 P")
NUMBERS = [
    *((float("nan"), 1.0), (-0.0, None), (1e-12, 1e-13), (0.5, float("nan"))),
    *((-12345.6, 78.0), (1.0, 0.5)),
]


def in_both_papers(test):
    return needs_latex(pytest.mark.slow(pytest.mark.parametrize("columns", [1, 2])(test)))


def odd_table() -> Table:
    """Return a table with special characters and names longer than a line."""
    words = [HOSTILE, "[a] star", "*", "ü «ř» 中 \n", "x" * 90, "org/name_of_a_model-" * 6]
    shares = [0, 1e-9, 0.5, np.nan, 1, 0.25]
    columns = zip(words, NUMBERS, shares, range(6), strict=True)
    rows = [
        [text(word), number(*pair), percentage(share), whole(value), ERRATA_OF_PRINT, text(word)]
        for word, pair, share, value in columns
    ]
    headers = [text(HOSTILE), *map(mixed, ("$x_1$", "share", "[n]", "e^{x}")), text("")]
    return Table("odd_one", f"Odd {HOSTILE}?", f"{HOSTILE} {words[-1]}", headers, rows, "prrrpp")


def hostile_run() -> xr.DataTree:
    """Return a run of one head with a hostile name, and fits with missing, negative zero and tiny
    numbers.
    """
    tree = plain_tree(model=HOSTILE).copy(deep=True)
    tree = tree.isel(layer=[0], head=[0], kv_head=[0], missing_dims="ignore")
    values = [np.nan, -0.0, 1e-12, 12345.678, -0.5]
    for group in ("norms", "similarity", "weights"):
        data = tree[group].to_dataset()
        names = [name for name in data if data[name].dtype.kind == "f" and data[name].ndim < 3]
        changed = {
            name: data[name] * 0 + value for name, value in zip(names, cycle(values), strict=False)
        }
        tree[group] = xr.DataTree(data.assign(changed))
    return with_display(tree)


def of_run(tree: xr.DataTree) -> list[Table]:
    every = [table for part in parts(tree).values() for table in tables(part).values()]
    return [table for table in every if not table.only_page]


@pytest.fixture(scope="module")
def all_tables(
    finished: Finished, tree: xr.DataTree, model_folder: Path, text_folder: Path
) -> list[Table]:
    names = ("ablation", "effective", "normaliser", "predictive")
    optional = {name: getattr(optional_groups, name)() for name in names}
    study = gs.whatif({"N": [2, 4], "beta": [0.5, 1.0]}, base={"L": 16, "d": 16}, edition="sharp")
    both = compared(finished.store, shorter(finished.store, model_folder, text_folder))
    many = of_many(both, 6).copy(deep=True)
    many["spread"][:] = np.array([-0.0553, -0.00895, 0.0341])
    many = many.assign_coords(run=[f"{HOSTILE} {index}" for index in range(6)])
    return [
        odd_table(),
        *of_run(tree),
        *of_run(hostile_run()),
        *of_run(with_groups(verdicts=verdicts(), **optional)),
        *sink_and_regimes.tables(Run.of(full())),
        *separability.tables(Run.of(full())),
        table_of_study(study),
        table_of_elasticities(gs.elasticities(base={"L": 16, "d": 16, "N": 4})),
        *comparison_tables(both).values(),
        *comparison_tables(many).values(),
    ]


def together(tables_of_runs: list[Table], columns: int) -> str:
    """Return a document of tables of several runs, with unique labels."""
    counter, written = count(), document(tables_of_runs, columns)
    return re.sub(r"\\label\{", lambda match: f"{match[0]}{next(counter)}:", written)


@in_both_papers
def test_every_table_compiles_in_a_paper(tmp_path: Path, all_tables: list[Table], columns: int):
    log = compiled(tmp_path, together(all_tables, columns))
    assert complaints(log) == []
    assert pages(log) >= len(all_tables) / 2


@in_both_papers
def test_a_table_too_wide_is_scaled_to_the_line(tmp_path: Path, columns: int):
    wide = Table("t", "t", "c", [text("h")], [[text("m" * 60 * columns)]], "l")
    written = document([wide], columns)
    assert complaints(compiled(tmp_path, written)) == []
    unscaled = re.sub(r"\\(?:begin|end)\{adjustbox\}(?:\{.*\})?", "", written)
    assert any("Overfull" in line for line in complaints(compiled(tmp_path, unscaled)))


@in_both_papers
def test_two_passes_leave_no_warning(tmp_path: Path, columns: int):
    log = compiled(tmp_path, together(of_run(with_wide_numbers()), columns), passes=2)
    assert complaints(log, last=True) == []


def with_wide_numbers() -> xr.DataTree:
    """Return a run with errors of 1.1%: four digits and an error of two."""
    tree = run_tree(model=HOSTILE, window=40)
    for part in tree.children.values():
        for name in ("norms", "similarity", "weights"):
            fits = part[name].to_dataset()
            names = [key.removesuffix("_se") for key in map(str, fits) if key.endswith("_se")]
            errors = {f"{key}_se": abs(fits[key]) * 0.011 for key in names}
            part[name] = xr.DataTree(fits.assign(errors))
    return tree


@pytest.mark.skipif(not REPORT.exists(), reason="no run in report/: `make report` makes one")
@in_both_papers
def test_the_tables_of_the_built_in_run_compile(tmp_path: Path, columns: int):
    tree = with_display(Store.open(REPORT).tree())
    log = compiled(tmp_path, document(of_run(tree), columns), passes=2)
    assert complaints(log, last=True) == []
    assert pages(log) > 20


def test_a_file_names_its_packages(all_tables: list[Table]):
    for table in all_tables:
        written = latex(table)
        assert written.startswith(f"% needs \\usepackage{{{','.join(PACKAGES)}}}\n")
        assert re.search(rf"\\label{{tab:geostat-{table.name.replace('_', '-')}}}", written)


def test_maths_is_never_nested(all_tables: list[Table]):
    """A dollar sign within the braces of an index ends maths mode unless amsmath is loaded, and
    LaTeX may then recover without end.
    """
    for table in all_tables:
        lines = [line for line in latex(table).splitlines() if not line.startswith("%")]
        for line in lines:
            for formula in re.findall(r"(?<!\\)\$(.*?)(?<!\\)\$", line):
                assert formula.count("{") == formula.count("}"), (table.name, formula)
