"""What a run shows of itself, in words and in a notebook: its stages, key results and claims, and
which call leads on. Imports xarray; reports on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import xarray as xr

from geostat.display.tree import with_display
from geostat.errors import printable
from geostat.runs.groups import ASSUMPTIONS, tree_of
from geostat.runs.methods.contents import left_in_words
from geostat.runs.methods.selection import SELECTION
from geostat.verdicts.scoreboard.lines import as_line, counted_claims

STAGES: Final = {
    "captured": ("capture",),
    "fitted": ASSUMPTIONS,
    "confronted": ("envelope", "verdicts", "summary"),
}
"""Groups that each stage leaves."""


def stages(run: xr.DataTree) -> list[str]:
    """The stages whose groups a run holds.

    >>> stages(xr.DataTree.from_dict({"/capture": xr.Dataset()}))
    ['captured']
    """
    return [name for name, groups in STAGES.items() if set(groups) <= set(run.children)]


def in_words(run: xr.DataTree) -> str:
    """Return a run as lines: what was measured, key results or counts of claims, what to call
    next.
    """
    from reports.page.cards import SYMBOLS

    lines = [": ".join(filter(None, (_title(run), _facts(run)))), _state(run)]
    lines += [left] if (left := left_in_words(run)) else []
    results = _key_results(run)
    lines += [f"  {SYMBOLS[one['answer']]:2} {as_line(one)}" for one in results]
    if not results:
        lines += [
            f"  {row['key']:24} ✓ {row['holds']} hold, ✗ {row['fails']} fail,"
            f" ? {row['undetermined']} undetermined"
            for row in _claims(run)
        ]
    lines += [f"Next: {', then '.join(calls)}"] if (calls := _next(run)) else []
    return "\n".join(map(printable, lines))


def in_notebook(run: xr.DataTree) -> str:
    """Return a run as a fragment of HTML; see `reports.page.notebook`."""
    from geostat.runs.methods.summary import summarised
    from reports.page.notebook import Shown, fragment

    fits = {name: run[name].to_dataset() for name in run.children if name != "verdicts"}
    fitted = any(name in fits for name in ASSUMPTIONS)
    return fragment(
        with_display(run),
        Shown(
            title=_title(run),
            facts=_facts(run),
            state=_state(run),
            next=_next(run),
            warnings=[left] if (left := left_in_words(run)) else [],
            claims=_claims(run),
            fitted=summarised(tree_of(fits, run.attrs)).as_html() if fitted else "",
        ),
    )


def _title(run: xr.DataTree) -> str:
    model = run.attrs.get("model")
    name = model.get("id") if isinstance(model, Mapping) else model
    return f"Attention heads of {name}" if name else "Attention heads of a model"


def _facts(run: xr.DataTree) -> str:
    if "capture" not in run.children:
        return ""
    sizes = run["capture"].to_dataset().sizes
    document, layer, head, value_head = (
        _counted(sizes.get(dim, 0), word)
        for dim, word in (
            ("document", "document"),
            ("layer", "layer"),
            ("head", "head"),
            ("kv_head", "value head"),
        )
    )
    shared = "" if sizes.get("head") == sizes.get("kv_head") else f" ({value_head})"
    return f"{document} of {sizes.get('position', 0):,} tokens, {layer} of {head}{shared}"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _state(run: xr.DataTree) -> str:
    known = stages(run)
    if not known:
        groups = ", ".join(f"/{name}" for name in run.children) or "nothing"
        return f"Holds {groups}: no run."
    return f"{', '.join(known).capitalize()}."


def _next(run: xr.DataTree) -> list[str]:
    """Calls that lead on from what a run holds."""
    known = stages(run)
    if SELECTION in run.attrs and "fitted" in known:
        return ["geostat.confront(run, run)"]
    if known == ["captured"]:
        return ["fits = geostat.fit(run)", "env = geostat.confront(run, fits)"]
    if known == ["fitted"]:
        return ["env = geostat.confront(run, fits)"]
    if known == ["captured", "fitted"]:
        return ["env = geostat.confront(run, run)"]
    if known == ["confronted"]:
        return ["geostat.report(run, fits, env)"]
    return ["geostat.report(run, run, run)"] if len(known) == len(STAGES) else []


def _key_results(run: xr.DataTree) -> list[dict[str, Any]]:
    from reports.run import key_results

    return key_results(run["summary"].attrs) if "summary" in run.children else []


def _claims(run: xr.DataTree) -> list[dict[str, Any]]:
    return counted_claims(run["verdicts"].to_dataset()) if "verdicts" in run.children else []
