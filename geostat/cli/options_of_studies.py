"""The options of what needs no run: a what-if study, and the theory's statements, each with its
help. Imports typer, also through `options`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from geostat.cli.options import PRINTING, Options, option

_SET = """
Values of a parameter: VALUE, V1,V2,… or FROM:TO:COUNT[:log]. An x before them multiplies the
value there was (beta=x2), an L behind those of T1 and T2 makes them shares of L (T1=0.5L). In a
range of whole numbers values are rounded and repeated ones dropped: N=2:3:10 is 2 and 3.
Repeatable. Names: N, L, d, kappa, beta, rho0, c, stretch, lam, p_sink, p_base, eta, growth,
omega, T1, T2, C.
"""
_GRAM = (
    "exponential, offset, stretched or power; a .npy, .npz or .csv file of cosines; or measured,"
    " those of --head."
)
_BOUND = (
    "precision, recall, f_outer or f_inner with _lower or _upper, such as recall_lower. Repeatable;"
    " the four lower ones when left out."
)
_FIND = "Find the N, d, beta=0.1:2, … at which a bound reaches --target; writes nothing."
_ELASTICITY = (
    "Tell by how many per cent each bound moves when one parameter moves by one, at one point."
)
_PROJECT = """
Where no vectors have the Gram, move rho0 to its edge, or the cosines of a file to the nearest
possible ones, and flag the point; without it, points are left out and files refused.
"""
WHATIF: Final[Options] = {
    "sets": (
        option(list[str] | None, " ".join(_SET.split()), "--set", metavar="NAME=VALUES"),
        None,
    ),
    "edition": (
        option(str, "sharp, printed, repaired, conditional or predicted.", metavar="NAME"),
        "sharp",
    ),
    "gram": (option(str, _GRAM, metavar="NAME|FILE"), "exponential"),
    "bounds": (option(list[str] | None, _BOUND, "--bound", metavar="NAME"), None),
    "run": (
        option(Path | None, "A fitted run to start from, with --head.", "--from", metavar="RUN"),
        None,
    ),
    "head": (
        option(str | None, "The head of --from to start from, such as L5H3.", metavar="HEAD"),
        None,
    ),
    "find": (option(str | None, _FIND, metavar="NAME[=LOW:HIGH]"), None),
    "target": (
        option(float | None, "What the bound is to reach, for --find.", metavar="NUMBER"),
        None,
    ),
    "elasticity": (option(bool, _ELASTICITY, "--elasticity"), False),
    "project": (option(bool, " ".join(_PROJECT.split()), "--project"), False),
    "figures": (option(bool, "Draw the figure too.", "--figures/--no-figures"), True),
    "out": (
        option(Path, "Folder for dataset, figure and tables.", metavar="FOLDER"),
        Path("whatif"),
    ),
    **PRINTING,
}
"""Every option of a what-if study."""

_WORDS = typer.Argument(
    metavar="name",
    help=(
        "Such as 12, theorem 1, table 1, erratum 17 or a statement's name; all are listed when left"
        " out."
    ),
)
THEORY: Final[Options] = {
    "words": (Annotated[list[str] | None, _WORDS], None),
    "style": (option(str, "text, latex, python or json.", "--as"), "text"),
    "errata": (
        option(bool, "Print what is wrong in print, and what is true instead.", "--errata"),
        False,
    ),
    "audit": (
        option(
            bool,
            "Lay every edition over simulated heads and count where it fails (minutes).",
            "--audit",
        ),
        False,
    ),
    "test": (
        option(bool, "Put table 1 to the test by simulation (a minute), or table 2.", "--test"),
        False,
    ),
    "draws": (
        option(int, "Simulated heads of each kind for --audit, of each point for --test."),
        1000,
    ),
    "every": (option(int, "Take each so-many-th head for --audit."), 1),
    "seed": (option(int, "Of the draws and the random heads of --audit."), 0),
    "workers": (option(int, "Processes for --audit; its counts do not depend on them."), 1),
    "out": (option(Path | None, "File that --audit writes to, instead of the terminal."), None),
}
