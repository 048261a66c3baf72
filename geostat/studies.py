"""`geostat whatif`: a study from words to files. Imports `geostat.grids`, the store and the reports room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from geostat.errors import InputError
from geostat.grids import Setting, find_value, from_head, parse, whatif
from theory.results import Edition
from theory.study import BOUNDS, LOWER, Decay

__all__ = ["Asked", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was told; `whatif` and `find_value` check the names. `sets` and `find` are words such as "beta=0.1:2:20:log" and "N" or "beta=0.1:2"."""

    sets: Sequence[str] = ()
    edition: str = "printed"
    gram: str = "exponential"
    bounds: Sequence[str] = ()
    run: Path | None = None
    head: str | None = None
    find: str | None = None
    target: float | None = None
    project: bool = False
    out: Path = Path("whatif")


def answer(asked: Asked) -> dict[str, Any]:
    """Evaluate a study and write it, or find where a bound reaches a target.

    Returns:
        What to print: the files written, or the line that says what was found.

    Raises:
        InputError: for words that mean nothing, or a study that cannot be.
    """
    base = _base(asked)
    settings = [parse(text) for text in asked.sets]
    twice = sorted({one.name for one in settings if sum(one.name == other.name for other in settings) > 1})
    if twice:
        raise InputError(f"--set {twice[0]} was given more than once, expected once for each parameter. Put its values in one --set.")
    if asked.find is not None:
        return {"found": str(_found(asked, base, settings))}
    if asked.target is not None:
        raise InputError("--target was given without --find, expected both. Use for example --find N --target 0.9.")
    axes = {one.name: one.of(base) for one in settings}
    dataset = whatif(
        {name: values for name, values in axes.items() if values.size > 1},
        edition=cast(Edition, asked.edition),
        gram=cast(Decay, asked.gram),
        bounds=tuple(asked.bounds) or LOWER,
        base=base | {name: float(values[0]) for name, values in axes.items() if values.size == 1},
        project=asked.project,
    )
    if asked.run is not None:
        dataset.attrs |= {"run": str(asked.run), "head": str(asked.head)}
    return _summary(dataset) | {"written": [str(path) for path in write(dataset, asked.out)]}


def _base(asked: Asked) -> dict[str, float]:
    """The parameters to start from: a head of a run, or none."""
    if (asked.run is None) != (asked.head is None):
        raise InputError("--from and --head go together: name the run and one of its heads, such as --from report --head L5H3.")
    if asked.run is None:
        return {}
    from empirical.store import Store
    from geostat.pipeline import store_path

    return from_head(Store.open(store_path(asked.run)).tree(lazy=True), str(asked.head), gram=cast(Decay, asked.gram))


def _found(asked: Asked, base: dict[str, float], settings: list[Setting]) -> object:
    if asked.target is None:
        raise InputError("--find was given without --target, expected both. Use for example --find N --target 0.9.")
    fixed = dict(base)
    for one in settings:
        values = one.of(base)
        if values.size != 1:
            raise InputError(f"--set {one.name} takes {values.size} values, but --find needs everything else fixed. Give it one value.")
        fixed[one.name] = float(values[0])
    if len(asked.bounds) > 1:
        raise InputError(f"{len(asked.bounds)} bounds were given, but --find takes one. Give one --bound.")
    name, equals, between = str(asked.find).partition("=")
    limits: tuple[float, float] | None = None
    if equals:
        try:
            low, high = (float(part) for part in between.split(":"))
        except ValueError:
            raise InputError(f"--find {asked.find}: expected a parameter, or one with the range to search, as in beta=0.1:2.") from None
        limits = (low, high)
    bound = asked.bounds[0] if asked.bounds else "recall_lower"
    return find_value(
        name.strip(),
        asked.target,
        bound=bound,
        edition=cast(Edition, asked.edition),
        gram=cast(Decay, asked.gram),
        base=fixed,
        between=limits,
    )


def _summary(dataset: xr.Dataset) -> dict[str, Any]:
    """Say how many points there are, how many have no Gram, and the range of each bound."""
    names = [name for name in BOUNDS if name in dataset]
    points = int(np.prod(list(dataset.sizes.values())))
    hidden = points - int(np.broadcast_to(dataset["feasible"].values.mean(), ()) * points + 0.5)
    told: dict[str, Any] = {"points": f"{points:,}, {hidden:,} of them left out because no vectors have their Gram"}
    for name in names:
        values = dataset[name].values[np.isfinite(dataset[name].values)]
        told[name] = f"{values.min():.4g} to {values.max():.4g}" if values.size else "n/a"
    return told


def write(dataset: xr.Dataset, out: Path) -> list[Path]:
    """Write a study below `out`: the dataset (netCDF), its table (LaTeX, Markdown), and its figure (PDF, PNG) where it varies along one to three axes."""
    from reports.draw_study import draw_study, study_axes
    from reports.files import replaced
    from reports.ink import rendered
    from reports.table_study import table_of_study
    from reports.tables import write_table

    plain = dataset.copy()
    for name in plain.data_vars:
        if plain[name].dtype == bool:
            plain[name] = plain[name].astype(np.int8)
    written = [replaced(out / "whatif.nc", bytes(plain.to_netcdf(engine="scipy")))]
    if 1 <= len(study_axes(dataset)) <= 3:
        figure = draw_study(dataset)
        written += [replaced(out / f"whatif.{kind}", rendered(figure, kind)) for kind in ("pdf", "png")]
    return written + write_table(table_of_study(dataset), out)
