"""The options of `geostat whatif`, each with its help. Imports typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUES",
        help="Values of a parameter: VALUE, V1,V2,… or FROM:TO:COUNT[:log]. An x before them multiplies the value there was (beta=x2), an L behind "
        "those of T1 and T2 makes them shares of L (T1=0.5L). In a range of whole numbers values are rounded and repeated ones dropped: "
        "N=2:3:10 is 2 and 3. Repeatable. "
        "Names: N, L, d, kappa, beta, rho0, c, stretch, lam, p_sink, p_base, eta, growth, omega, T1, T2, C.",
    ),
]
EditionName = Annotated[str, typer.Option(metavar="NAME", help="printed, repaired, sharp, conditional or predicted.")]
GramName = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE",
        help="exponential, offset, stretched or power; a .npy, .npz or .csv file of cosines; or measured, those of --head.",
    ),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        "--bound",
        metavar="NAME",
        help="precision, recall, f_outer or f_inner with _lower or _upper, such as recall_lower. Repeatable; the four lower ones when left out.",
    ),
]
From = Annotated[Path | None, typer.Option("--from", metavar="RUN", help="A fitted run to start from, with --head.")]
FromHead = Annotated[str | None, typer.Option("--head", metavar="HEAD", help="The head of --from to start from, such as L5H3.")]
Find = Annotated[
    str | None,
    typer.Option(
        "--find", metavar="NAME[=LOW:HIGH]", help="Find the N, d, beta=0.1:2, … at which a bound reaches --target; writes nothing."
    ),
]
Target = Annotated[float | None, typer.Option("--target", metavar="NUMBER", help="What the bound is to reach, for --find.")]
Elasticity = Annotated[
    bool, typer.Option("--elasticity", help="Tell by how many per cent each bound moves when one parameter moves by one, at one point.")
]
Project = Annotated[
    bool,
    typer.Option(
        "--project",
        help="Where no vectors have the Gram, move rho0 to its edge, or the cosines of a file to the nearest possible ones, and flag the point; "
        "without it, points are left out and files refused.",
    ),
]
StudyOut = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for dataset, figure and tables.")]
