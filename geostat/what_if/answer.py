"""`geostat whatif`: evaluate a study and write its files. Imports the store and reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import xarray as xr

from geostat.errors import InputError, shown_whole
from geostat.what_if.options import WhatIfOptions
from geostat.what_if.start import from_head, is_file, measured_of_head, parse, read_gram
from geostat.what_if.studies import elasticities, find_value, lines_of, whatif
from theory.what_if.crossing import Crossing
from theory.what_if.parameters import BOUNDS, LOWER, Decay

MEASURED: Final = "measured"
ASSUMED: Final = "exponential"
MOST_VALUES: Final = 6
"""Maximum number of listed values of a parameter; longer axes are thinned evenly."""


def answer(options: WhatIfOptions) -> dict[str, Any]:
    """Run a study and return the lines to print.

    A study evaluates bounds over a grid, solves for a target, or computes elasticities. Grids and
    elasticities are written to files.

    Raises:
        InputError: for invalid options or an invalid study.
    """
    settings = [parse(text) for text in options.sets]
    counts = Counter(setting.name for setting in settings)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise InputError(
            f"--set {repeated[0]} was given more than once, expected once for each parameter. Put"
            " its values in one --set."
        )
    if options.target is not None and options.find is None:
        raise InputError(
            "--target was given without --find, expected both. Use for example --find N --target"
            " 0.9."
        )
    if options.elasticity and options.find is not None:
        raise InputError(
            "--elasticity and --find were both given, expected one. Run them one after the other."
        )
    start, source = _start(options)
    axes = {setting.name: setting.of(start["base"]) for setting in settings}
    varying = {name: values for name, values in axes.items() if values.size > 1}
    fixed = {name: values[0].item() for name, values in axes.items() if values.size == 1}
    arguments = start | {"edition": options.edition, "base": start["base"] | fixed}
    if options.find is not None:
        if options.target is None:
            raise InputError(
                "--find was given without --target, expected both. Use for example --find N"
                " --target 0.9."
            )
        for name, values in varying.items():
            raise InputError(
                f"--set {name} takes {values.size} values, but --find needs everything else fixed."
                " Give it one value."
            )
        return {"found": str(_crossing(options.find, options.target, options.bounds, arguments))}
    if options.elasticity and varying:
        raise InputError(
            f"--set {next(iter(varying))} takes several values, but --elasticity needs one point."
            " Give it one value."
        )
    arguments["bounds"] = tuple(options.bounds) or LOWER
    dataset = elasticities(**arguments) if options.elasticity else whatif(varying, **arguments)
    dataset.attrs |= source
    result = {"elasticity": lines_of(dataset)} if options.elasticity else _summary(dataset)
    paths = write(dataset, options.out, figures=options.figures)
    return result | _projection_note(dataset) | {"written": [str(path) for path in paths]}


def _start(options: WhatIfOptions) -> tuple[dict[str, Any], dict[str, str]]:
    """Return base, gram and project of a study, and their source: a head of a run, or a file.

    A head's measured Gram is always projected, because lag means need not be positive semidefinite.
    """
    has_input = options.sets or options.run or options.head or options.gram != ASSUMED
    if not (has_input or options.find or options.elasticity):
        raise InputError(
            "no parameter was given, expected one or more. Use for example geostat"
            " whatif --set beta=0.05:1:20 --set N=8, or --from report --head L5H3 --set N=2:64:63."
        )
    if (options.run is None) != (options.head is None):
        raise InputError(
            "--from and --head were not both given, expected both. Name a run and one of its heads,"
            " such as --from report --head L5H3."
        )
    measured = options.gram == MEASURED
    gram: Any = read_gram(Path(options.gram)) if is_file(options.gram) else options.gram
    source = {"gram_file": options.gram} if is_file(options.gram) else {}
    if options.run is None or options.head is None:
        if measured:
            raise InputError(
                "--gram measured was given without a head, expected one. Add --from RUN --head"
                " L5H3, or name a file: --gram cosines.npy."
            )
        return {"base": {}, "gram": gram, "project": options.project}, source
    from empirical.store.remote import url_of
    from empirical.store.stored_run import StoredRun
    from geostat.runs.files import store_path

    store = StoredRun.open(store_path(options.run))
    run = store.tree(only=("capture", "norms", "similarity", "weights"))
    with shown_whole(store.path):
        base = from_head(
            run, options.head, gram=MEASURED if measured or source else cast(Decay, options.gram)
        )
        gram = measured_of_head(run, options.head) if measured else gram
    source |= {"run": url_of(options.run) or str(options.run), "head": options.head}
    return {"base": base, "gram": gram, "project": options.project or measured}, source


def _crossing(
    find: str, target: float, bounds: Sequence[str], arguments: dict[str, Any]
) -> Crossing:
    if len(bounds) > 1:
        raise InputError(
            f"{len(bounds)} bounds were given, but --find takes one. Give one --bound."
        )
    name, equals, between = find.partition("=")
    limits: tuple[float, float] | None = None
    if equals:
        try:
            low, high = (float(part) for part in between.split(":"))
            if not np.isfinite([low, high]).all():
                raise ValueError(between)
        except ValueError:
            raise InputError(
                f"--find {find}: expected a parameter, or one with the range to search, as in"
                " beta=0.1:2."
            ) from None
        limits = (low, high)
    bound = bounds[0] if bounds else "recall_lower"
    return find_value(name.strip(), target, bound=bound, between=limits, **arguments)


def _summary(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the number of points, of infeasible points, and the range of each bound."""
    points = int(np.prod(list(dataset.sizes.values())))
    infeasible = points - int(np.broadcast_to(dataset["feasible"].values.mean(), ()) * points + 0.5)
    message = f"{points:,}, {infeasible:,} omitted because their Gram is not positive semidefinite"
    if infeasible == points and dataset.attrs.get("gram") == ASSUMED:
        message += "; --gram offset uses the form with an offset, which may be feasible"
    lines: dict[str, Any] = {"points": message}
    for name in (name for name in BOUNDS if name in dataset):
        values = dataset[name].values[np.isfinite(dataset[name].values)]
        low, high = dataset[name].attrs.get("readable_range", (-np.inf, np.inf))
        readable = values[(values >= low) & (values <= high)]
        hidden = values.size - readable.size
        parts = [f"{readable.min():.4g} to {readable.max():.4g}"] if readable.size else []
        if hidden:
            parts.append(f"n/a at {hidden:,} points, where the bound on R is negative")
        lines[name] = "; ".join(parts) or "n/a"
    return lines | by_value(dataset)


def by_value(dataset: xr.Dataset) -> dict[str, Any]:
    """Return bounds, clipped to [0, 1], by value of one parameter.

    It is the varying parameter with the fewest values. Bounds are averaged over the points of the
    other parameters at which they are defined for every value.
    """
    varying = [str(name) for name in dataset.dims if dataset.sizes[name] > 1]
    if not varying:
        return {}
    along = min(varying, key=lambda name: dataset.sizes[name])
    others = [f"{dataset.sizes[name]:,} {name}" for name in varying if name != along]
    rows: dict[str, np.ndarray] = {along: dataset[along].values}
    for name in (name for name in BOUNDS if name in dataset):
        low, high = dataset[name].attrs.get("readable_range", (-np.inf, np.inf))
        values = dataset[name].where((dataset[name] >= low) & (dataset[name] <= high)).clip(0, 1)
        rest = [dim for dim in values.dims if dim != along]
        if rest:
            values = values.where(values.notnull().all(along)).mean(rest)
        rows[name] = values.values
    size = dataset.sizes[along]
    indices = np.unique(np.linspace(0, size - 1, min(size, MOST_VALUES)).round().astype(int))
    return {
        "by_value_of": along + (f", means over {' × '.join(others)}" if others else ""),
        "by_value": [
            {name: _rounded(column[index]) for name, column in rows.items()} for index in indices
        ],
    }


def _rounded(value: np.generic) -> float | int | None:
    """Return a number with four significant digits; None for NaN."""
    if isinstance(value, np.integer):
        return int(value)
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _projection_note(dataset: xr.Dataset) -> dict[str, str]:
    """Return a note on the distance by which a given Gram was projected."""
    if dataset.attrs.get("projection", "none") == "none":
        return {}
    distance = dataset.attrs["projection_distance"]
    return {
        "gram": (
            f"not positive semidefinite; projected to the nearest feasible Gram, {distance:.4g}"
            " away (Frobenius norm)"
        )
    }


def write(dataset: xr.Dataset, out: Path, *, figures: bool = True) -> list[Path]:
    """Write a study below `out` and return the paths.

    Files are the dataset (netCDF), a table (LaTeX, Markdown), and with `figures` a figure (PDF,
    PNG) if the study varies along one to three axes. Elasticities have their own file names and no
    figure. Files of an earlier study that are not replaced are deleted at the end.
    """
    from reports.files import replaced
    from reports.tables.writing import write_table
    from reports.what_if.table import table_of_elasticities, table_of_study

    is_point = "elasticity" in dataset
    table = table_of_elasticities(dataset) if is_point else table_of_study(dataset)
    arrays = dataset.data_vars.items()
    flags = {name: array.astype(np.int8) for name, array in arrays if array.dtype == bool}
    stored = dataset.assign(flags)  # netCDF has no bool
    files = [(f"{table.name}.nc", bytes(stored.to_netcdf(engine="scipy")))]
    if figures and not is_point:
        from reports.figures.rendering import rendered
        from reports.what_if.figure import draw_study, study_axes

        if 1 <= len(study_axes(dataset)) <= 3:
            figure = draw_study(dataset)
            files += [(f"whatif.{kind}", rendered(figure, kind)) for kind in ("pdf", "png")]
    written = [replaced(out / name, content) for name, content in files] + write_table(table, out)
    for kind in ("nc", "pdf", "png", "tex", "md"):  # all files of a study
        if (old := out / f"{table.name}.{kind}") not in written and old.is_file():
            old.unlink()
    return written
