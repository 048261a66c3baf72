"""Options of `geostat whatif`. Imports no library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from geostat.options import PrintOptions, option


@dataclass(frozen=True, kw_only=True)
class WhatIfOptions(PrintOptions, in_python=False):
    """Options of `geostat whatif`; names are checked by the study."""

    sets: tuple[str, ...] = option(
        (),
        "Values of a parameter: VALUE, V1,V2,… or FROM:TO:COUNT[:log]. A prefix x multiplies the"
        " base value (beta=x2). A suffix L gives T1 and T2 as shares of L (T1=0.5L). Ranges of"
        " integer parameters are rounded, without duplicates (N=2:3:10 is 2 and 3). Repeatable."
        " Names: N, L, d, kappa, beta, rho0, c, stretch, c1, cinf, gamma, lam, p_sink, p_base, eta,"
        " growth, omega, T1, T2, C.",
        "--set",
        metavar="NAME=VALUES",
    )
    edition: str = option(
        "sharp", "Edition: sharp, printed, repaired, conditional or predicted.", metavar="NAME"
    )
    gram: str = option(
        "exponential",
        "Gram: exponential, offset, stretched or power (by lag); rank (by rank of the weight);"
        " measured (cosines of --head); or a .npy, .npz or .csv file of cosines.",
        metavar="NAME|FILE",
    )
    bounds: tuple[str, ...] = option(
        (),
        "Bound: precision, recall, f_outer or f_inner with _lower or _upper, such as recall_lower."
        " Repeatable; the four lower bounds by default.",
        "--bound",
        metavar="NAME",
    )
    run: Path | None = option(
        None, "Fitted run that provides the base values, with --head.", "--from", metavar="RUN"
    )
    head: str | None = option(
        None, "Head of --from that provides the base values, such as L5H3.", metavar="HEAD"
    )
    find: str | None = option(
        None,
        "Find the value of a parameter (N, d, beta=0.1:2, …) at which a bound reaches --target;"
        " writes nothing.",
        metavar="NAME[=LOW:HIGH]",
    )
    target: float | None = option(None, "Target value of the bound, for --find.", metavar="NUMBER")
    elasticity: bool = option(
        False,
        "Compute elasticities at one point: percentage change of each bound when a parameter"
        " changes by 1%.",
    )
    project: bool = option(
        False,
        "If a Gram is not positive semidefinite, move rho0 to its feasible edge, or the cosines of"
        " a file to the nearest feasible ones, and flag the point; by default such points are"
        " omitted and such files refused.",
    )
    figures: bool = option(True, "Draw the figure.", "--figures/--no-figures")
    out: Path = option(
        Path("whatif"), "Folder for the dataset, figure and tables.", metavar="FOLDER"
    )
