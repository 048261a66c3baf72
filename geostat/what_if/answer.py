"""`geostat whatif`: a study from words to files. Imports the studies beside it, the store and the
reports room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import xarray as xr

from geostat.errors import InputError, shown_whole
from geostat.what_if.elasticities import elasticities, lines_of
from geostat.what_if.labelled_study import find_value, whatif
from geostat.what_if.parameter_values import parse
from geostat.what_if.start import from_head, is_file, measured_of_head, read_gram
from theory.what_if.crossing import Crossing
from theory.what_if.parameters import BOUNDS, LOWER, Decay

MEASURED: Final = "measured"
ASSUMED: Final = "exponential"
MOST_VALUES: Final = 6
"""Values of a parameter that are told in the terminal; of more, so many evenly spaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was told; `whatif` and `find_value` check the names. `sets` and `find` are
    words such as "beta=0.1:2:20:log" and "N" or "beta=0.1:2".

    gram: a form of the similarity, a file of cosines, or "measured", which are then those of
    `head`. figures: whether to draw the study, too.
    """

    sets: Sequence[str] = ()
    edition: str = "sharp"
    gram: str = ASSUMED
    bounds: Sequence[str] = ()
    run: Path | None = None
    head: str | None = None
    find: str | None = None
    target: float | None = None
    elasticity: bool = False
    project: bool = False
    figures: bool = True
    out: Path = Path("whatif")


def answer(asked: Asked) -> dict[str, Any]:
    """Evaluate a study and write it, find where a bound reaches a target, or tell the elasticities
    of a point and write them; returns what to print.

    Raises:
        InputError: for words that mean nothing, or a study that cannot be.
    """
    settings = [parse(text) for text in asked.sets]
    twice = sorted(
        {one.name for one in settings if sum(one.name == other.name for other in settings) > 1}
    )
    if twice:
        raise InputError(
            f"--set {twice[0]} was given more than once, expected once for each parameter. Put its"
            " values in one --set."
        )
    if asked.target is not None and asked.find is None:
        raise InputError(
            "--target was given without --find, expected both. Use for example --find N --target"
            " 0.9."
        )
    if asked.elasticity and asked.find is not None:
        raise InputError(
            "--elasticity and --find were both given, expected one. Ask one after the other."
        )
    start, source = _start(asked)
    axes = {one.name: one.of(start["base"]) for one in settings}
    varying = {name: values for name, values in axes.items() if values.size > 1}
    fixed = {name: values[0].item() for name, values in axes.items() if values.size == 1}
    shared = start | {"edition": asked.edition, "base": start["base"] | fixed}
    if asked.find is not None:
        if asked.target is None:
            raise InputError(
                "--find was given without --target, expected both. Use for example --find N"
                " --target 0.9."
            )
        for name, values in varying.items():
            raise InputError(
                f"--set {name} takes {values.size} values, but --find needs everything else fixed."
                " Give it one value."
            )
        return {"found": str(_found(asked.find, asked.target, asked.bounds, shared))}
    if asked.elasticity and varying:
        raise InputError(
            f"--set {next(iter(varying))} takes several values, but --elasticity needs one point."
            " Give it one value."
        )
    shared["bounds"] = tuple(asked.bounds) or LOWER
    dataset = elasticities(**shared) if asked.elasticity else whatif(varying, **shared)
    dataset.attrs |= source
    found = {"elasticity": lines_of(dataset)} if asked.elasticity else _summary(dataset)
    return (
        found
        | _moved(dataset)
        | {"written": [str(path) for path in write(dataset, asked.out, figures=asked.figures)]}
    )


def _start(asked: Asked) -> tuple[dict[str, Any], dict[str, str]]:
    """The base, gram and project that a study starts from, and where they are from: a head of a
    run, a file, or neither.

    A head's measured Gram is always projected: no vectors need have lag means.
    """
    started = asked.sets or asked.run or asked.head or asked.gram != ASSUMED
    if not (started or asked.find or asked.elasticity):
        raise InputError(
            "no parameter was given, expected one or more to vary or fix. Use for example geostat"
            " whatif --set beta=0.05:1:20 --set N=8, or --from report --head L5H3 --set N=2:64:63."
        )
    if (asked.run is None) != (asked.head is None):
        raise InputError(
            "--from and --head go together: name the run and one of its heads, such as --from"
            " report --head L5H3."
        )
    measured = asked.gram == MEASURED
    gram: Any = read_gram(Path(asked.gram)) if is_file(asked.gram) else asked.gram
    source = {"gram_file": asked.gram} if is_file(asked.gram) else {}
    if asked.run is None or asked.head is None:
        if measured:
            raise InputError(
                "--gram measured needs a head whose Gram that is. Add --from RUN --head L5H3, or"
                " name a file: --gram cosines.npy."
            )
        return {"base": {}, "gram": gram, "project": asked.project}, source
    from empirical.store.remote.origin import url_of
    from empirical.store.stored_run import StoredRun
    from geostat.runs.files import store_path

    store = StoredRun.open(store_path(asked.run))
    run = store.tree(only=("capture", "norms", "similarity", "weights"))
    with shown_whole(store.path):
        base = from_head(
            run, asked.head, gram=MEASURED if measured or source else cast(Decay, asked.gram)
        )
        gram = measured_of_head(run, asked.head) if measured else gram
    source |= {"run": url_of(asked.run) or str(asked.run), "head": asked.head}
    return {"base": base, "gram": gram, "project": asked.project or measured}, source


def _found(find: str, target: float, bounds: Sequence[str], where: dict[str, Any]) -> Crossing:
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
    return find_value(name.strip(), target, bound=bound, between=limits, **where)


def _summary(dataset: xr.Dataset) -> dict[str, Any]:
    """Say how many points there are, how many have no Gram, the range of each bound, and the
    bounds by value of a parameter.
    """
    points = int(np.prod(list(dataset.sizes.values())))
    hidden = points - int(np.broadcast_to(dataset["feasible"].values.mean(), ()) * points + 0.5)
    told = f"{points:,}, {hidden:,} of them left out because no vectors have their Gram"
    if hidden == points and dataset.attrs.get("gram") == ASSUMED:
        told += "; --gram offset takes the form with an offset, which some vectors may have"
    lines: dict[str, Any] = {"points": told}
    for name in (name for name in BOUNDS if name in dataset):
        values = dataset[name].values[np.isfinite(dataset[name].values)]
        low, high = dataset[name].attrs.get("readable_range", (-np.inf, np.inf))
        known = values[(values >= low) & (values <= high)]
        parts = [f"{known.min():.4g} to {known.max():.4g}"] if known.size else []
        if known.size < values.size or not values.size:
            parts.append(
                "n/a"
                + (
                    f" at {values.size - known.size:,} points, where the bound on R is negative"
                    if values.size
                    else ""
                )
            )
        lines[name] = "; ".join(parts)
    return lines | by_value(dataset)


def by_value(dataset: xr.Dataset) -> dict[str, Any]:
    """Bounds, cut to [0, 1], by value of the parameter that takes the fewest of several values,
    means over the points of the others at which a bound says something at every value.
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
    kept = np.unique(np.linspace(0, size - 1, min(size, MOST_VALUES)).round().astype(int))
    return {
        "by_value_of": along + (f", means over {' × '.join(others)}" if others else ""),
        "by_value": [{name: _rounded(column[at]) for name, column in rows.items()} for at in kept],
    }


def _rounded(value: np.generic) -> float | int | None:
    """Return a number at four digits; None for what is not there."""
    if isinstance(value, np.integer):
        return int(value)
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _moved(dataset: xr.Dataset) -> dict[str, str]:
    """Say how far a Gram of one's own was moved."""
    if dataset.attrs.get("projection", "none") == "none":
        return {}
    distance = dataset.attrs["projection_distance"]
    return {
        "gram": (
            f"no vectors have it; moved to the nearest that some have, by {distance:.4g} (Frobenius"
            " norm)"
        )
    }


def write(dataset: xr.Dataset, out: Path, *, figures: bool = True) -> list[Path]:
    """Write a study below `out`: dataset (netCDF), table (LaTeX, Markdown), and, if `figures`,
    figure (PDF, PNG) where it varies along one to three axes.

    Elasticities go to files of their own, without a figure. Files of an earlier study that this one
    has no new one for are removed, at the end.
    """
    from reports.files import replaced
    from reports.tables.every import write_table
    from reports.what_if.table import table_of_elasticities, table_of_study

    flags = {
        name: values.astype(np.int8)
        for name, values in dataset.data_vars.items()
        if values.dtype == bool
    }  # netCDF has no bool
    of_point = "elasticity" in dataset
    made = [
        (
            f"{'elasticity' if of_point else 'whatif'}.nc",
            bytes(dataset.assign(flags).to_netcdf(engine="scipy")),
        )
    ]
    if figures and not of_point:
        from reports.figures.rendering import rendered
        from reports.what_if.figure import draw_study, study_axes

        figure = draw_study(dataset) if 1 <= len(study_axes(dataset)) <= 3 else None
        made += [
            (f"whatif.{kind}", rendered(figure, kind))
            for kind in ("pdf", "png")
            if figure is not None
        ]
    table = table_of_elasticities(dataset) if of_point else table_of_study(dataset)
    written = [replaced(out / name, content) for name, content in made] + write_table(table, out)
    for kind in ("nc", "pdf", "png", "tex", "md"):  # all that a study can have
        if (old := out / f"{table.name}.{kind}") not in written and old.is_file():
            old.unlink()
    return written
