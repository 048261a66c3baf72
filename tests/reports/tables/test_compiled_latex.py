"""LaTeX of every kind of table: it compiles with the packages its comment names, and ends with
an error without them, in one column and in two.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.comparisons import compared, shorter
from support.experiments import FULL
from support.reports_tree import run_tree
from support.spine import Finished

import geostat as gs
from geostat.display.tree import with_display
from reports.comparison.page import comparison_tables
from reports.run import Run
from reports.tables.cells import mixed
from reports.tables.every import tables
from reports.tables.experiments import experiment_tables
from reports.tables.table import PACKAGES, Table
from reports.what_if.table import table_of_elasticities, table_of_study

BY_ITSELF = set(
    re.findall(
        r"\w+",
        """
        S alpha arraystretch bar begin begingroup beta bottomrule cdot chi circ cos csname Delta
        delta emptyset end endcsname endgroup epsilon eta exp footnotesize frac gamma ge hat infty
        ell in kappa lambda langle ldots le left let ll log Lambda max mathcal mathit mathrm mbox
        medskip midrule min mu ne newcommand omega Omega par parindent partial Phi phi pi Pi pm
        psi raggedleft raggedright rangle renewcommand rho right setlength setminus shortstack
        sigma Sigma sim sqrt sum surd tabcolsep tabularnewline tau textasciicircum textasciitilde
        textbackslash theta times to toleft toprule top toright varepsilon xi zeta
        """,
    )
)
"""Commands of LaTeX itself, of booktabs, and of the table's own."""
OF_AMSSYMB = {"mathbb", "lesssim", "gtrsim"}
SECONDS = 30
ERRATA_OF_PRINT = mixed("e^{−κd(Δ/B)²} for a_min_in ≲ ½: 𝔼 P")


def odd_table(header: str) -> Table:
    """One that has every kind of index and sign."""
    return Table(
        name="odd",
        title="odd",
        caption="odd",
        headers=[mixed(header)],
        rows=[[ERRATA_OF_PRINT]],
        align="p",
        widths={0: "2cm"},
    )


@pytest.fixture(scope="module")
def made(finished: Finished, model_folder: Path, text_folder: Path) -> dict[str, str]:
    """LaTeX of all tables by name."""
    study = gs.whatif({"N": [2, 4], "beta": [0.5, 1.0]}, base={"L": 16, "d": 16}, edition="sharp")
    found = [
        *tables(with_display(finished.tree)).values(),
        *tables(run_tree(window=40)["40"]).values(),
        *experiment_tables(Run.of(FULL)),
        odd_table("what"),
    ]
    found += [
        table_of_study(study),
        table_of_elasticities(gs.elasticities(base={"L": 16, "d": 16, "N": 4})),
    ]
    found += comparison_tables(
        compared(finished.store, shorter(finished.store, model_folder, text_folder))
    ).values()
    return {
        f"{place}_{table.name}": table.latex()
        for place, table in enumerate(found)
        if not table.only_page
    }


def needed(latex: str) -> list[str]:
    """What a table's comment says it needs."""
    match = re.search(r"^% needs \\usepackage\{(.*)\}$", latex, re.MULTILINE)
    assert match is not None
    return match[1].split(",")


def test_every_command_is_one_of_latex_itself_or_of_a_package_that_is_named(made: dict[str, str]):
    for name, latex in made.items():
        named, lines = (
            needed(latex),
            [line for line in latex.splitlines() if not line.startswith(("%", r"\ifdefined"))],
        )
        used = set(re.findall(r"\\([A-Za-z]+)", "\n".join(lines)))
        assert used <= BY_ITSELF | (OF_AMSSYMB if "amssymb" in named else set()), (
            name,
            used - BY_ITSELF,
        )
        assert named == ["booktabs", "amssymb"][: 1 + bool(used & OF_AMSSYMB)]
        assert [line for line in latex.splitlines() if line.startswith(r"\ifdefined")] == [
            rf"\ifdefined\{PACKAGES[one][0]}\else\errmessage{{This table needs"
            rf" \string\usepackage{{{one}}}}}\endinput\fi"
            for one in named
        ]
        assert latex.index(r"\ifdefined") < latex.index(r"\begingroup")


def test_no_mathematics_stands_within_mathematics(made: dict[str, str]):
    """A dollar sign within the braces of an index ends the mathematics there unless amsmath's
    text takes it up, and LaTeX mends that for ever.
    """
    for name, latex in made.items():
        for line in latex.splitlines():
            for formula in re.findall(
                r"(?<!\\)\$(.*?)(?<!\\)\$", "" if line.startswith("%") else line
            ):
                assert formula.count("{") == formula.count("}"), (name, formula)


needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="no LaTeX is installed (pdflatex)"
)


def compile_all(
    folder: Path, made: dict[str, str], columns: str, packages: list[str]
) -> tuple[int, str]:
    """Set all tables in a bare article; exit status and output. TimeoutExpired where LaTeX does
    not end by itself.
    """
    for name, latex in made.items():
        (folder / f"{name}.tex").write_text(latex, encoding="utf-8")
    loaded = "".join(rf"\usepackage{{{one}}}" for one in packages)
    inputs = "\n\n".join(rf"\input{{{name}}}" for name in made)
    (folder / "all.tex").write_text(
        rf"\documentclass[{columns}]{{article}}{loaded}\begin{{document}}start"
        rf" {inputs}\end{{document}}",
        encoding="utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "all.tex"]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout.decode("latin-1")


@needs_latex
@pytest.mark.parametrize("columns", ["", "twocolumn"])
@pytest.mark.parametrize(
    "packages", [["booktabs", "amssymb"], ["booktabs"], ["amssymb"], []], ids="+".join
)
def test_latex_always_ends_with_tables_or_with_the_package_that_lacks(
    tmp_path: Path, made: dict[str, str], columns: str, packages: list[str]
):
    code, said = compile_all(tmp_path, made, columns, packages)
    lacking = [
        needed(latex)[0] if "booktabs" not in packages else "amssymb"
        for latex in made.values()
        if not set(needed(latex)) <= set(packages)
    ]
    assert re.findall(r"^! (.*)$", said, re.MULTILINE) == [
        rf"This table needs \usepackage{{{one}}}." for one in lacking
    ]
    assert (code == 0) == (not lacking)
    assert "Output written on all.pdf" in said
