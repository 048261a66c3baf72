"""Numbers in sentences: medians with their quartiles, shares, tolerances. Imports numpy, xarray,
and reports for numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from geostat.datasets.parts import PART
from reports.text.number import percent, rounded


def sees_sink(fits: xr.Dataset) -> bool:
    """Whether the analysed query sees the sink in some layer."""
    return "sink_visible" not in fits or bool(fits["sink_visible"].any())


def without_sink(fits: xr.Dataset, what: str, reason: str = "") -> str:
    """Say why a number of the sink is missing in every head: no layer sees the sink, or `what` has
    no estimate, with the reason as far as it is known.
    """
    if not sees_sink(fits):
        return "the sink at position 0 is not visible to the last token"
    return f"the sink's {what} has no estimate" + (f" ({reason})" if reason else "")


def part_in_words(tree: xr.DataTree) -> str:
    """Say, before a sentence, of which layers it speaks, where others see another number of
    tokens (`geostat.datasets.parts`).
    """
    part = tree.attrs.get(PART)
    if part is None:
        return ""
    return f"Layers that see {part['tokens']:,} tokens, {part['layers']} of {part['of']}: "


def quartiles(values: xr.DataArray | np.ndarray) -> tuple[float, float, float, int]:
    """Median, lower and upper quartile, and how many finite values they rest on."""
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[np.isfinite(known)]
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75]) if known.size else np.full(3, np.nan)
    return float(middle), float(low), float(high), known.size


def spread(values: xr.DataArray, show: Callable[[float], str], reason: str = "") -> tuple[str, str]:
    """The median of the finite values, and their quartiles as words in brackets; n/a, and the
    reason as far as it is known, where there are none.
    """
    middle, low, high, known = quartiles(values)
    return (
        (show(middle), f"(middle half {show(low)} to {show(high)})")
        if known
        else ("n/a", f"(no estimate: {reason})" if reason else "(no estimate)")
    )


def hundredths(value: float) -> str:
    """A number with two decimals; n/a where it is unknown."""
    return f"{value:.2f}" if np.isfinite(value) else "n/a"


def in_percent(share: float) -> str:
    """A share as percent: whole from 10% on, else with one decimal."""
    return percent(share, 0 if not np.isfinite(share) or share >= 0.0995 or share == 0 else 1)


def exactly(tolerance: float) -> str:
    """A tolerance with two decimals, or as many as it has."""
    text = f"{tolerance:.2f}"
    return text if float(text) == tolerance else f"{tolerance:g}"


def plus_minus(mean: xr.DataArray, error: xr.DataArray) -> str:
    """A mean and its error, rounded together; two decimals where there is no error."""
    return rounded(float(mean), float(error)).plain if np.isfinite(error) else f"{float(mean):.2f}"


def with_interval(value: float, low: float, high: float) -> str:
    """A number with its interval in brackets, two decimals; what is unknown of it is left out.

    >>> with_interval(0.5, 0.25, 0.75), with_interval(0.5, float("nan"), float("nan"))
    ('0.50 (0.25 to 0.75)', '0.50')
    """
    limits = f" ({low:.2f} to {high:.2f})" if np.isfinite(low) and np.isfinite(high) else ""
    return hundredths(value) + limits


def share_of(share: xr.DataArray, error: xr.DataArray) -> str:
    """A share and its error, where it has one, in percent."""
    return percent(float(share), 1) + (f" ± {percent(float(error), 1)}" if error > 0 else "")


def acting_sinks(tree: xr.DataTree) -> str:
    """In what share of heads a run has a sink by what it does, and where the strongest stands;
    nothing where it did not look for them.
    """
    if "sinks_found" not in tree.children:
        return ""
    found = tree["sinks_found"].to_dataset()
    here, elsewhere = (
        share_of(found["share"].sel(case=case), found["share_se"].sel(case=case))
        for case in ("acts at position 0", "acts elsewhere")
    )
    return (
        f"; a token that acts as a sink (a norm of at most {found.attrs['compressed']:g} times the"
        f" median, a weight of at least {found.attrs['much']:g}/T) is there, strongest at position"
        f" 0, in {here} of heads and, strongest elsewhere, in {elsewhere}"
    )
