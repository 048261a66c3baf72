"""Tables of separability: Precision and Recall at round sizes, and whether they lie above null
baselines.

Imports this room's cells, numbers and run.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from reports.run import NULLS, Run, at_size, notes
from reports.tables.cells import header, interval, mixed, number, p_value, text, whole
from reports.tables.table import Table

SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Sizes N of the table of separability."""

SIZES_AGAINST_CHANCE = (2, 3, 4, 6, 8, 16, 64, 256, 1024, 4096)
"""Sizes N of the table against null baselines, of which a run shows those it holds below its T."""

PARTS = (
    "gain",
    "gain_se",
    "gain_band_lower",
    "gain_band_upper",
    "p_holm",
    "above",
    "more",
    "less",
    "heads",
)
"""What the table against null baselines asks of each statistic."""


def separability(run: Run) -> Table:
    """Precision and Recall at round sizes, with baselines and bounds."""
    summary = run.summary
    nulls = [str(name) for name in summary["null"].values] if "precision_null" in summary else []
    of_p, of_r = (
        [f"${short}$ measured"] + [f"${short}$, {name.replace('_', ' ')}" for name in nulls]
        for short in ("P", "R")
    )
    headers = header("N", *of_p, "floor of $P$, $N/T$", *of_r)
    rows = []
    for index, size in enumerate(summary["n"].values):
        if int(size) not in SIZES or not np.isfinite(summary["precision_mean"].values[index]):
            continue
        row, point = [whole(float(size))], summary.isel(n=index)
        for statistic in ("precision", "recall"):
            row.append(number(float(point[f"{statistic}_mean"]), float(point[f"{statistic}_se"])))
            row += [
                number(float(point[f"{statistic}_null"].sel(null=name)), digits=2) for name in nulls
            ]
            row += [number(float(point["floor"]), digits=2)] if statistic == "precision" else []
        rows.append(row)
    words = (
        f"± standard error over {run.counted('document')}"
        if run.documents > 1
        else "one document: no standard error"
    )
    caption = (
        f"Precision P and Recall R (shares, no unit), mean over {run.counted('head')} of each"
        f" document, then over documents; {words}. Random selection, random directions: null"
        " baselines of each."
    )
    return Table(
        "separability",
        "Separability by number of selected tokens",
        caption,
        headers,
        rows,
        "r" * len(headers),
    )


def against_chance(run: Run, data: xr.Dataset) -> Table:
    """One row a statistic, null and size."""
    sizes = [n for n in SIZES_AGAINST_CHANCE if n in data["n"].values and n < run.tokens]
    rows = []
    for statistic in ("precision", "recall"):
        for null in (str(name) for name in data["null"].values):
            at = data.sel(null=null)
            if not np.isfinite(at[f"{statistic}_gain"].values).any():
                continue
            for n in sizes:
                value = {name: at_size(at[f"{statistic}_{name}"], n) for name in PARTS}
                rows.append(
                    [
                        text(statistic.capitalize()),
                        mixed(NULLS.get(null, null.replace("_", " "))),
                        whole(n),
                        number(value["gain"], value["gain_se"]),
                        interval(value["gain_band_lower"], value["gain_band_upper"]),
                        p_value(value["p_holm"]),
                        *(whole(value[name]) for name in ("above", "more", "less", "heads")),
                    ]
                )
    rate = f"{float(data.attrs['false_discovery_rate']):g}"
    caption = (
        f"Measured minus null, mean over heads ± standard error over {run.counted('document')}."
        f" Interval: 95% for all N of one null at once (Bonferroni), t({run.documents - 1}). p:"
        " two-sided, Holm over all 1 < N < T, which tells more than the interval. Heads above:"
        " those whose mean is higher, tested or not. More, less: heads told apart from chance one"
        " by one (exact sign-flip test over documents, Benjamini-Hochberg over heads at each N, q"
        f" = {rate}). "
        if run.documents > 1
        else "Measured minus null, mean over heads. "
    )
    headers = [
        "statistic",
        "null",
        "N",
        "measured − null",
        "95%, all N",
        "p",
        "heads above",
        "more",
        "less",
        "of",
    ]
    return Table(
        "separable",
        "More separable than chance?",
        (caption + beyond_nulls(data) + " " + notes(data)).strip(),
        header(*headers),
        rows,
        "llrrrrrrrr",
        keys=3,
    )


def beyond_nulls(data: xr.Dataset) -> str:
    """At which sizes the measured mean lies beyond each null, all N taken together; empty
    without tests.
    """
    lines = []
    n = data["n"].values
    for statistic in ("precision", "recall"):
        for null in (str(name) for name in data["null"].values if str(name) != "floor"):
            side = data[f"{statistic}_side"].sel(null=null).values
            tested = n[np.isfinite(side)]
            if not tested.size:
                continue
            parts = [
                f"{word} it at N = {_runs(n[side == sign], tested)}"
                for word, sign in (("above", 1), ("below", -1))
                if (side == sign).any()
            ]
            words = " and ".join(parts) or "not told apart from it at any N"
            lines.append(f"{statistic.capitalize()} against {NULLS.get(null, null)}: {words}.")
    return " ".join(lines)


def _runs(chosen: np.ndarray, tested: np.ndarray) -> str:
    """Sizes as stretches of neighbours among those tested: `2 to 3, 5 to 995`."""
    kept = np.isin(tested, chosen)
    stretches = np.split(tested, np.flatnonzero(np.diff(kept)) + 1)
    return ", ".join(
        str(part[0]) if part.size == 1 else f"{part[0]} to {part[-1]}"
        for part in stretches
        if part[0] in chosen
    )
