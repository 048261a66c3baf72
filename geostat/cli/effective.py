"""`geostat effective`: its options, and the command. Imports typer, also through `options`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from geostat.cli import output
from geostat.cli.measuring import how_to_measure
from geostat.cli.options import MEASURING, Options, option
from geostat.runs.effective.defaults import DOCUMENTS, LENGTH

_RULE = (
    "Which tokens a query keeps: attention, contribution, sink-orthogonal, recent, sink-recent,"
    " greedy, random, sparsemax or entmax15; with commas between, or repeated. attention when left"
    " out."
)
_OWN = {"cluster", "head", "documents", "length", "out"}
EFFECTIVE: Final[Options] = {
    "model": MEASURING["model"],
    "tau": (option(str, "Shares by which the loss may rise, with commas between."), ".01,.05,.10"),
    "rule": (option(list[str] | None, _RULE, "--rule"), None),
    "mode": (
        option(str, "What becomes of the others: deletion, renormalisation or both."),
        "both",
    ),
    "target": (option(str, "Which tokens are predicted: all, or last:K."), "all"),
    "layers": (option(str, "Layers that are intervened on: all, or such as 0,3,5-8."), "all"),
    "head": (
        option(
            list[str] | None,
            "Or heads that are intervened on, such as L5H3,L7H0, or repeated.",
            "--head",
        ),
        None,
    ),
    "regime": (
        option(
            list[str] | None,
            "Or the heads of a regime: retriever, mixer or reset; with commas between, or"
            " repeated.",
            "--regime",
        ),
        None,
    ),
    "each": (
        option(str, "together, or each layer or head by itself, the rest as they are."),
        "together",
    ),
    "documents": (MEASURING["documents"][0], DOCUMENTS),
    "length": (MEASURING["length"][0], LENGTH),
    "out": (MEASURING["out"][0], Path("effective")),
    **{name: entry for name, entry in MEASURING.items() if name not in {*_OWN, "model"}},
}


def effective_command(
    tau: str,
    rule: list[str] | None,
    mode: str,
    target: str,
    layers: str,
    head: list[str] | None,
    regime: list[str] | None,
    each: Any,
    **given: Any,
) -> None:
    """Find how few tokens each query may keep before the next-token loss rises: the effective
    attention set size.
    """
    from geostat.runs.effective.asked import Asked
    from geostat.runs.effective.effective import GROUP, effective
    from geostat.runs.effective.told import told
    from geostat.runs.settings import of_options

    asked = Asked(
        rules=_each(rule) or ("attention",),
        mode=mode,
        tau=tau,
        target=target,
        layers=layers,
        heads=_each(head),
        regimes=_each(regime),
        each=each,
    )
    settings = of_options({**given, "head": None, "cluster": None})
    store = effective(settings, asked, given["out"], **how_to_measure(given))
    found = told(store.read(GROUP), everything=given["as_json"])
    output.write(found | {"run": str(store.path)}, as_json=given["as_json"], quiet=given["quiet"])


def _each(values: list[str] | None) -> tuple[str, ...]:
    """What an option names, repeated or with commas between."""
    return tuple(",".join(values).split(",")) if values else ()
