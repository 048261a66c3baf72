"""Tables of quantities: one row of text for each variable of a group."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from empirical.schema import Quantity


def table(
    rows: str,
    *,
    dims: tuple[str, ...],
    equation: str = "",
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Quantity]:
    r"""Return the records of a table by name, in the order of its rows.

    A row is `name | unit | symbol | meaning`, with `-` for no symbol. Further cells are `estimated`
    or `tested` (estimated, and tested by a claim); an equation that replaces the table's, or
    `none`; dims that replace the table's, as `dims: layer head` or `dims: none`; and attributes, as
    `note: text`. An indented line continues the row above. `more` holds attributes that are not
    literal, by name.

    >>> record = table(r"lam | 1 | \lambda | sink norm over C | tested", dims=("layer",))["lam"]
    >>> record.symbol, record.estimated, record.tested
    ('\\lambda', True, True)
    """
    out = {}
    for row in re.split(r"\n(?! )", textwrap.dedent(rows).strip()):
        name, units, symbol, meaning, *rest = re.split(r" \| ", " ".join(row.split()))
        kinds = [cell for cell in rest if cell in ("estimated", "tested")]
        attributes = dict(cell.split(": ", 1) for cell in rest if ": " in cell)
        own = [cell for cell in rest if cell not in kinds and ": " not in cell]
        own_dims = attributes.pop("dims", " ".join(dims)).removesuffix("none")
        out[name] = Quantity(
            name,
            meaning,
            units,
            "" if symbol == "-" else symbol,
            (own[0] if own[0] != "none" else "") if own else equation,
            attributes | dict((more or {}).get(name, {})),
            tuple(own_dims.split()),
            estimated=bool(kinds),
            tested="tested" in kinds,
        )
    return out


def quantities(rows: str, **table_options: Any) -> tuple[Quantity, ...]:
    """Return the records of `table`, in the order of its rows."""
    return tuple(table(rows, **table_options).values())
