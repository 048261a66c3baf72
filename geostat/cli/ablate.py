"""`geostat ablate`: its options, and the command. Imports typer, also through `options`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from geostat.cli import output
from geostat.cli.measuring import how_to_measure
from geostat.cli.options import MEASURING, Options, option
from geostat.runs.ablation.defaults import DOCUMENTS, LENGTH

_OWN = {"cluster", "head", "documents", "length", "out", "model"}
ABLATE: Final[Options] = {
    "model": MEASURING["model"],
    "part": (
        option(
            str,
            "What is measured: heads, budgets, regimes, context, with commas between.",
            "--part",
        ),
        "heads,budgets,regimes",
    ),
    "mode": (
        option(str, "What becomes of tokens that are not kept: renormalisation, deletion or both."),
        "renormalisation",
    ),
    "sizes": (option(str, "N that a head keeps where it alone is cut."), "1,8,64"),
    "tau": (option(float, "Share by which the loss may rise at a head's own N*."), 0.001),
    "budgets": (
        option(str, "Mean N over heads; the smallest is what a regime's heads keep."),
        "8,16,32",
    ),
    "draws": (option(int, "As many heads as a regime has are drawn so many times."), 20),
    "contexts": (
        option(str, "Of part context: so many last tokens of a window are all the context."),
        "64,128,256",
    ),
    "target": (option(str, "Which tokens are predicted: all, or last:K."), "all"),
    "documents": (MEASURING["documents"][0], DOCUMENTS),
    "length": (MEASURING["length"][0], LENGTH),
    "out": (MEASURING["out"][0], Path("ablation")),
    **{name: entry for name, entry in MEASURING.items() if name not in _OWN},
}


def ablate_command(
    part: str,
    mode: str,
    sizes: str,
    tau: float,
    budgets: str,
    draws: int,
    contexts: str,
    target: str,
    **given: object,
) -> None:
    """Find what the model loses where heads are cut, and whether their geometry tells it."""
    from geostat.runs.ablation.ablation import GROUP, ablate
    from geostat.runs.ablation.asked import Asked
    from geostat.runs.ablation.told import told
    from geostat.runs.settings import of_options

    asked = Asked(
        parts=part,
        mode=mode,
        sizes=sizes,
        tau=tau,
        budgets=budgets,
        draws=draws,
        contexts=contexts,
        target=target,
    )
    settings = of_options({**given, "head": None, "cluster": None})
    out = given["out"]
    assert isinstance(out, Path)
    store = ablate(settings, asked, out, **how_to_measure(given))
    found = told(store.read(GROUP), everything=bool(given["as_json"]))
    output.write(
        found | {"run": str(store.path)},
        as_json=bool(given["as_json"]),
        quiet=bool(given["quiet"]),
    )
