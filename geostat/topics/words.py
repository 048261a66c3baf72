"""Numbers in sentences: medians with quartiles, shares, tolerances, intervals.

Imports numpy, xarray, and reports for number formats.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from geostat.datasets.parts import PART
from reports.text.number import percent


def sees_sink(fits: xr.Dataset) -> bool:
    """Return whether the analysed query sees the sink in at least one layer."""
    return "sink_visible" not in fits or bool(fits["sink_visible"].any())


def sink_missing(fits: xr.Dataset, quantity: str, reason: str = "") -> str:
    """Say why a quantity of the sink is missing in every head, with the reason if known."""
    if not sees_sink(fits):
        return "The sink at position 0 is not visible to the last token"
    return f"The sink's {quantity} has no estimate" + (f" ({reason})" if reason else "")


def part_in_words(tree: xr.DataTree) -> str:
    """Return a prefix that names the layers of a part of a run; "" for a whole run."""
    part = tree.attrs.get(PART)
    if part is None:
        return ""
    return f"Layers that see {part['tokens']:,} tokens, {part['layers']} of {part['of']}: "


def quartiles(values: xr.DataArray | np.ndarray) -> tuple[float, float, float, int]:
    """Return the median, lower quartile, upper quartile and count of the finite values."""
    finite = np.asarray(values, dtype=np.float64).ravel()
    finite = finite[np.isfinite(finite)]
    values = np.quantile(finite, [0.25, 0.5, 0.75]) if finite.size else np.full(3, np.nan)
    low, middle, high = map(float, values)
    return middle, low, high, finite.size


def spread(
    values: xr.DataArray, show: Callable[[float], str], *, over: str = "", reason: str = ""
) -> str:
    """Return the median of the finite values, `over`, and the interquartile range as text."""
    middle, low, high, count = quartiles(values)
    if not count:
        return f"n/a{over} (no estimate{f': {reason}' if reason else ''})"
    return f"{show(middle)}{over} (interquartile range {show(low)} to {show(high)})"


def two_decimals(value: float) -> str:
    """Return a number with two decimals; "n/a" if it is not finite."""
    return f"{value:.2f}" if np.isfinite(value) else "n/a"


def in_percent(share: float) -> str:
    """Return a share in percent: without decimals from 10% on, otherwise with one."""
    return percent(share, 0 if not np.isfinite(share) or share >= 0.0995 or share == 0 else 1)


def exact(tolerance: float) -> str:
    """Return a tolerance with two decimals, or with more if two would round it."""
    text = f"{tolerance:.2f}"
    return text if float(text) == tolerance else f"{tolerance:g}"


def with_interval(value: float, low: float, high: float) -> str:
    """Return a number with its interval in brackets, two decimals each.

    >>> with_interval(0.5, 0.25, 0.75), with_interval(0.5, float("nan"), float("nan"))
    ('0.50 (0.25 to 0.75)', '0.50')
    """
    limits = f" ({low:.2f} to {high:.2f})" if np.isfinite(low) and np.isfinite(high) else ""
    return two_decimals(value) + limits


def functional_sinks(tree: xr.DataTree) -> str:
    """Say in what share of heads the strongest functional sink is at position 0, and in what
    share elsewhere; "" if the run has no /sinks_found.
    """
    if "sinks_found" not in tree.children:
        return ""
    sinks = tree["sinks_found"].to_dataset()
    quoted = []
    for case in ("acts at position 0", "acts elsewhere"):
        share, error = (float(sinks[name].sel(case=case)) for name in ("share", "share_se"))
        quoted.append(percent(share, 1) + (f" ± {percent(error, 1)}" if error > 0 else ""))
    return (
        f" The strongest functional sink (norm at most {sinks.attrs['compressed']:g} times the"
        f" median, attention weight at least {sinks.attrs['much']:g}/T) is at position 0 in"
        f" {quoted[0]} of heads and at another position in {quoted[1]}."
    )
