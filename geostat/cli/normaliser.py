"""`geostat normaliser`: its options, and the command. Imports typer, also through `options`."""

from __future__ import annotations

from typing import Any, Final

from geostat.cli import output
from geostat.cli.measuring import how_to_measure
from geostat.cli.options import MEASURING, Options, option

_LENGTHS = (
    "Tokens L that a query sees, at which heads are looked at, such as 64,128,256; powers of two"
    " from 64 when left out, in windows under 128 from 16."
)
_LEFT_OUT = {"cluster", "head"}
OPTIONS: Final[Options] = {
    "model": MEASURING["model"],
    "lengths": (option(str, _LENGTHS), ""),
    **{name: entry for name, entry in MEASURING.items() if name not in {*_LEFT_OUT, "model"}},
}


def normaliser_command(lengths: str, **given: Any) -> None:
    """Lay the normaliser's statements (arXiv 2508.17821) beside every head: weights, distances,
    separability and slopes.
    """
    from geostat.runs.normaliser.normaliser import GROUP, normaliser
    from geostat.runs.normaliser.told import told
    from geostat.runs.settings import of_options

    settings = of_options({**given, "head": None, "cluster": None})
    store = normaliser(settings, lengths, given["out"], **how_to_measure(given))
    found = told(store.read(GROUP), everything=given["as_json"])
    output.write(found | {"run": str(store.path)}, as_json=given["as_json"], quiet=given["quiet"])
