"""Accessor `run.geostat` of xarray's DataTree, and the representation of a run.

The representation, as text or HTML, lists stages, key results, claims and the next call. Imports
xarray, and `reports` on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import xarray as xr

from geostat.display.tree import with_display
from geostat.errors import one_error, printable, shown_whole
from geostat.runs import answers
from geostat.runs.groups import ASSUMPTIONS, tree_of
from geostat.runs.selection import SELECTION, selected, selection_note
from geostat.topics.summary import as_line
from geostat.topics.verdicts import counted_claims

if TYPE_CHECKING:
    from geostat.runs.summary import RunSummary


@one_error
def summary(run: xr.DataTree, fits: xr.DataTree | None = None) -> RunSummary:
    """Return the summary of a run, a statsmodels `Summary`.

    Its tables hold the measurement, the fitted parameters of each assumption with standard errors,
    95% intervals and goodness of fit, the claims with counts of heads, and notes. `as_text()`,
    `as_html()`, `as_latex()` (needs the package booktabs) and `as_csv()` render it.

    Args:
        run: a captured, fitted or confronted run.
        fits: result of `fit` or `confront`, if the run does not hold it.

    Raises:
        InputError: if `run` is not a run.

    >>> import geostat as gs
    >>> print(summary(gs.open("report")).tables[1].as_text().splitlines()[0].strip())
    Assumption 1: norms of value vectors
    """
    from geostat.runs.summary import summarised

    with shown_whole("the run"):
        return summarised(run, fits)


@xr.register_datatree_accessor("geostat")
class RunMethods:
    """Methods of a run, registered on first use of a geostat function.

    `run.geostat` shows the run, in a notebook with claims and curves. Methods are
    `run.geostat.head("L5H3")`, `.claims()`, `.summary()` and `.sel(layer=3)`.

    xarray recommends an accessor: a subclass of DataTree loses its methods in `filter`,
    `map_over_datasets` and arithmetic, which return plain trees.

    >>> import geostat as gs
    >>> run = gs.open("report")
    >>> run.geostat.head("L0H2").attrs["kv_head"], len(run.geostat.claims()) > 5
    (1, True)
    >>> print(str(run.geostat).splitlines()[1])
    Captured, fitted, confronted.
    """

    def __init__(self, run: xr.DataTree) -> None:
        self._run = run

    def __repr__(self) -> str:
        with shown_whole("the run"):
            return as_text(self._run)

    def _repr_html_(self) -> str:
        """Return the representation of the run in a notebook."""
        with shown_whole("the run"):
            return as_html(self._run)

    def head(self, name: str) -> xr.Dataset:
        """Return the numbers of one head: `geostat.head`."""
        return one_error(answers.head)(self._run, name)

    def claims(self) -> pd.DataFrame:
        """Return every claim of a confronted run as a row: `geostat.claims`."""
        return one_error(answers.claims)(self._run)

    def summary(self) -> RunSummary:
        """Return the summary tables: `geostat.summary`."""
        return summary(self._run)

    def sel(self, **labels: Any) -> xr.DataTree:
        """Select a part of a run by labels of `document`, `layer`, `head` or `kv_head`.

        See `geostat.runs.selection.selected`.

        >>> import geostat as gs
        >>> part = gs.open("report").geostat.sel(layer=slice(1, 2))
        >>> part["weights"].sizes["layer"]
        2
        """
        return one_error(selected)(self._run, **labels)


STAGES: Final = {
    "captured": ("capture",),
    "fitted": ASSUMPTIONS,
    "confronted": ("envelope", "verdicts", "summary"),
}
"""Groups written by each stage."""
NEXT: Final = {
    ("captured",): ["fits = geostat.fit(run)", "env = geostat.confront(run, fits)"],
    ("fitted",): ["env = geostat.confront(run, fits)"],
    ("captured", "fitted"): ["env = geostat.confront(run, run)"],
    ("confronted",): ["geostat.report(run, fits, env)"],
    tuple(STAGES): ["geostat.report(run, run, run)"],
}
"""Next calls for a run with these stages."""


def stages(run: xr.DataTree) -> list[str]:
    """Return the stages whose groups a run holds.

    >>> stages(xr.DataTree.from_dict({"/capture": xr.Dataset()}))
    ['captured']
    """
    return [name for name, groups in STAGES.items() if set(groups) <= set(run.children)]


def as_text(run: xr.DataTree) -> str:
    """Return the text representation: measurement, key results or counts of claims, next call."""
    from reports.page.cards import SYMBOLS
    from reports.run import key_results

    lines = [": ".join(filter(None, (_title(run), _facts(run)))), _state(run)]
    lines += [note] if (note := selection_note(run)) else []
    results = key_results(run["summary"].attrs) if "summary" in run.children else []
    lines += [f"  {SYMBOLS[result['answer']]:2} {as_line(result)}" for result in results]
    if not results:
        lines += map(_counts, _claims(run))
    lines += [f"Next: {', then '.join(calls)}"] if (calls := _next(run)) else []
    return "\n".join(map(printable, lines))


def _counts(row: Mapping[str, Any]) -> str:
    """Return the counts of heads of a claim; trivial answers only if there are any."""
    trivially = f" = {row['holds_trivially']} trivially," if row["holds_trivially"] else ""
    return (
        f"  {row['key']:24} ✓ {row['holds']} hold,{trivially} ✗ {row['fails']} fail,"
        f" ? {row['undetermined']} undetermined"
    )


def as_html(run: xr.DataTree) -> str:
    """Return the representation as an HTML fragment; see `reports.page.notebook`."""
    from geostat.runs.summary import summarised
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
            warnings=[note] if (note := selection_note(run)) else [],
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

    def counted(dim: str, noun: str) -> str:
        number = sizes.get(dim, 0)
        return f"{number:,} {noun}{'' if number == 1 else 's'}"

    documents = f"{counted('document', 'document')} of {sizes.get('position', 0):,} tokens"
    shared = sizes.get("head") != sizes.get("kv_head")
    kv_heads = f" ({counted('kv_head', 'KV head')})" if shared else ""
    return f"{documents}, {counted('layer', 'layer')} of {counted('head', 'head')}{kv_heads}"


def _state(run: xr.DataTree) -> str:
    completed = stages(run)
    if not completed:
        groups = ", ".join(f"/{name}" for name in run.children) or "nothing"
        return f"Not a run: holds {groups}."
    return f"{', '.join(completed).capitalize()}."


def _next(run: xr.DataTree) -> list[str]:
    """Return the next calls for a run; a selection is confronted again."""
    completed = stages(run)
    if SELECTION in run.attrs and "fitted" in completed:
        return ["geostat.confront(run, run)"]
    return NEXT.get(tuple(completed), [])


def _claims(run: xr.DataTree) -> list[dict[str, Any]]:
    return counted_claims(run["verdicts"].to_dataset()) if "verdicts" in run.children else []
