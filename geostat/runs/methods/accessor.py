"""Methods of a run, `run.geostat`: an accessor of xarray's trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr

from geostat.errors import one_error, shown_whole
from geostat.runs import answers
from geostat.runs.methods import selection, shown

if TYPE_CHECKING:
    from geostat.runs.methods.summary import RunSummary


@one_error
def summary(run: xr.DataTree, fits: xr.DataTree | None = None) -> RunSummary:
    """Return a run's summary in the manner of statsmodels: what was measured, the fitted parameters
    of each assumption with standard errors, 95% intervals and goodness of fit, the claims with
    counts of heads, and notes. It prints itself; `as_text()`, `as_html()`, `as_latex()` (which
    needs the package booktabs) and `as_csv()` write it.

    Args:
        run: captured, fitted or confronted.
        fits: what `fit` or `confront` returned, where the run does not hold it.

    Raises:
        InputError: for what is no run.

    >>> import geostat as gs
    >>> print(summary(gs.open("report")).tables[1].as_text().splitlines()[0].strip())
    Assumption 1: norms of value vectors
    """
    from geostat.runs.methods.summary import summarised

    with shown_whole("the run"):
        return summarised(run, fits)


@xr.register_datatree_accessor("geostat")
class RunMethods:
    """Methods of a run, once a function of geostat was named: `run.geostat` shows itself, in a
    notebook with its claims and curves; `run.geostat.head("L5H3")`, `.claims()`, `.summary()` and
    `.sel(layer=3)`.

    An accessor, as xarray advises: a class below DataTree would lose its methods in `filter`, in
    `map_over_datasets` and in arithmetic, which return plain trees.

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
            return shown.in_words(self._run)

    def _repr_html_(self) -> str:
        """The run in a notebook."""
        with shown_whole("the run"):
            return shown.in_notebook(self._run)

    def head(self, name: str) -> xr.Dataset:
        """The numbers of one head: `geostat.head`."""
        return one_error(answers.head)(self._run, name)

    def claims(self) -> pd.DataFrame:
        """Every claim of a confronted run as a row: `geostat.claims`."""
        return one_error(answers.claims)(self._run)

    def summary(self) -> RunSummary:
        """Tables in the manner of statsmodels: `geostat.summary`."""
        return summary(self._run)

    def sel(self, **labels: Any) -> xr.DataTree:
        """A part of a run by the labels of `document`, `layer`, `head` or `kv_head`; see
        `geostat.runs.methods.selection.selected`.

        >>> import geostat as gs
        >>> part = gs.open("report").geostat.sel(layer=slice(1, 2))
        >>> part["weights"].sizes["layer"]
        2
        """
        return one_error(selection.selected)(self._run, **labels)
