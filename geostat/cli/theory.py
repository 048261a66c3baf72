"""`geostat theory`: the statements of the theory room as text, LaTeX, Python or JSON. Imports
theory only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from geostat.errors import InputError, refuse_unknown
from theory.errors import InputError as TheoryError
from theory.statements import catalogue, rendering

if TYPE_CHECKING:
    from geostat.runs.console import Console

Style = Literal["text", "latex", "python", "json"]


def statement(name: str | None, *, style: str = "text", errata: bool = False) -> str:
    """Render one statement by its name, equation number or place in the paper, such as "erratum
    17", or without a name the list of all.

    With `errata` print the errata instead: all, or with `name` the one of that number.

    Raises:
        InputError: for an unknown style, name or erratum; unknown equation numbers are refused by
            the catalogue.

    >>> print(statement("erratum 17").splitlines()[0])
    17. N = L, (12), (14) [false]
    """
    refuse_unknown(style, get_args(Style), f"--as {style}:", verb="Use")
    chosen = cast(Style, style)
    if name and (
        numbered := re.fullmatch(
            r"errat(?:um|a)(?:\s*\W?\s*(\d+))?", name.strip(), flags=re.IGNORECASE
        )
    ):
        name, errata = numbered[1], True
    if errata:
        listed = catalogue.errata() if name is None else [catalogue.find_erratum(name)]
        parts = [rendering.render_erratum(erratum, chosen) for erratum in listed]
        if not name and chosen == "latex":
            parts = [r"\begin{description}", *parts, r"\end{description}"]
        if not name and chosen in ("text", "latex"):
            parts = [rendering.preface(chosen), *parts]
        return _joined(parts, chosen)
    if name is None and style == "text":
        width = max(len(entry.name) for entry in catalogue.entries())
        lines = [
            f"{entry.name:<{width}}  {_place(entry):<20} {entry.edition:<11} {entry.title}"
            for entry in catalogue.entries()
        ]
        return "\n".join(
            [
                *lines,
                "",
                (
                    "geostat theory NAME prints one, by name or equation number; --errata what is"
                    " wrong in print."
                ),
            ]
        )
    entries = catalogue.entries() if name is None else _found(name)
    if not entries:  # a figure, or a section that states nothing
        concern = catalogue.errata_at(name or "")
        return _joined([rendering.render_erratum(erratum, chosen) for erratum in concern], chosen)
    parts = [rendering.render(entry, chosen) for entry in entries]
    return _joined(
        [*parts, *(_verdicts(entries) if name is not None and chosen == "text" else [])], chosen
    )


def _verdicts(entries: Sequence[catalogue.Entry]) -> list[str]:
    """What has been found of Table 1 or 2, where all its rows are asked for."""
    for number, duration in ((1, "about a minute of simulation"), (2, "at once")):
        if tuple(entries) == catalogue.find(f"Table {number}"):
            from theory.paper_tables import table_1, table_2

            recorded = table_1.settled() if number == 1 else table_2.markdown()
            return [
                f"Put to the test (`geostat theory table {number} --test` does it anew,"
                f" {duration}):\n\n{recorded}"
            ]
    return []


def _found(name: str) -> tuple[catalogue.Entry, ...]:
    """The statements of a name or number, none for a part that only errata concern; of an unknown
    name the nearest are named, however far they are.
    """
    try:
        return catalogue.find(name)
    except TheoryError as error:
        if catalogue.errata_at(name):
            return ()
        if not any(letter.isalpha() for letter in name):  # an equation number
            raise
        names = {
            known.lower(): known
            for entry in catalogue.entries()
            for known in (entry.part, entry.name)
            if known
        }
        near = [
            names[key]
            for key in get_close_matches(catalogue.part_of(name).lower(), names, n=3, cutoff=0.0)
        ]
        raise InputError(
            f"no statement is called {name!r}. Near it: {', '.join(near)}. `geostat theory` lists"
            " all."
        ) from error


def _place(entry: catalogue.Entry) -> str:
    """Return the equation's number, or the part of the paper that holds the statement."""
    named = ("Assumption", "Table", "Definition", "Normaliser")
    part = entry.part if entry.part.startswith(named) else "–"
    return f"({entry.equation})" if entry.equation else part.split(" row")[0]


def _joined(parts: list[str], style: Style) -> str:
    if style == "json":
        return parts[0] if len(parts) == 1 else "[" + ",\n".join(parts) + "]"
    if style == "python" and len(parts) > 1:  # the imports of all stand once, before them
        lines = [line for part in parts for line in part.splitlines()]
        imports = [line for line in dict.fromkeys(lines) if line.startswith("import ")]
        rest = [
            "\n".join(line for line in part.splitlines() if line not in imports) for part in parts
        ]
        return "\n\n".join(["\n".join(imports), *rest] if imports else rest)
    return "\n\n".join(parts)


def trial(name: str | None, *, draws: int, console: Console) -> str:
    """Put Table 1 to the test by simulation, or Table 2 by its numbers, and write it down as
    Markdown.

    Raises:
        InputError: for another name, or fewer than two draws.
    """
    from theory.paper_tables import table_1, table_2

    part = catalogue.part_of(name or "")
    if part == "Table 2":
        return table_2.markdown()
    if part != "Table 1":
        raise InputError(
            f"--test {name or 'without a name'}: expected table 1 or table 2. Use `geostat theory"
            " table 1 --test`."
        )
    if draws < 2:
        raise InputError(f"--draws {draws}: expected at least 2. Change the number.")
    result = table_1.effects(
        table_1.POINTS, draws, progress=lambda done: console.fraction("table 1", done)
    )
    return table_1.markdown(result, table_1.POINTS, draws).rstrip("\n")


def audited(
    *, draws: int, every: int, seed: int, workers: int, console: Console, out: Path | None = None
) -> str:
    """Audit every edition against simulation and write the counts down as a Markdown document, into
    the file `out` too.

    Raises:
        InputError: for fewer than two draws, a negative seed, a step or a number of workers below
            one, or a file that cannot be written, which is told before the minutes of work.
    """
    from theory.audit.document import document
    from theory.audit.summary import all_samples

    if draws < 2 or min(every, workers) < 1 or seed < 0:
        raise InputError(
            f"--draws {draws} --every {every} --seed {seed} --workers {workers}: expected at least"
            " 2 draws, a step and a number of workers of at least 1, and a seed >= 0. Change the"
            " number."
        )
    if out is not None and (
        out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK)
    ):
        raise InputError(
            f"--out {out}: cannot be written, expected a file in a folder that is there. Name"
            " another."
        )
    result = all_samples(
        draws,
        seed=seed,
        every=every,
        workers=workers,
        progress=lambda share: console.fraction("audit", share),
    )
    written = document(result, every=every)
    if out is not None:
        out.write_text(written, encoding="utf-8")
    return written
