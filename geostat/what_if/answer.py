"""`geostat whatif`: read the inputs of a study, evaluate it and write its files.

Inputs are fitted parameters of a head, measured or given Grams, and `--set`. Source: arXiv
2602.01893, Assumptions 1-3. Imports numpy, xarray, theory, the store and reports.
"""

from __future__ import annotations

import io
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import xarray as xr

from empirical.errors import boundary
from empirical.sources.paths import read_whole
from geostat.bounds.head import RANK_LAW
from geostat.datasets.tokens import index_of, kv_head_of_head
from geostat.errors import InputError, refuse_unknown, shown_whole
from geostat.what_if.options import WhatIfOptions
from geostat.what_if.studies import elasticities, find_value, lines_of, whatif
from theory.errors import InputError as TooMany
from theory.head.gram import LagGram
from theory.what_if.crossing import Crossing
from theory.what_if.parameters import BOUNDS, BY_RANK, LOWER, PARAMETERS, Decay

SUFFIXES: Final = (".npy", ".npz", ".csv", ".tsv", ".txt")
"""Suffixes of a file of cosines."""
MAGIC: Final = (b"\x93NUM", b"PK\x03\x04")
"""First bytes of .npy and .npz files."""
SEPARATORS: Final = str.maketrans(",;\t", "   ")


def from_head(run: xr.DataTree, head: str, *, gram: Decay = "exponential") -> dict[str, float]:
    """Return the fitted parameters of one head by name: norms, similarity, weights as printed.

    p_base is omitted because Σα = 1 determines it. The fitted p_base refers to mean log weights,
    which are several times smaller than mean weights; the sink would be too heavy.

    Args:
        run: a fitted run.
        head: name of the head, such as "L5H3".
        gram: "exponential", "offset" or "rank" (amended assumptions) reads that fit; "measured"
            reads no similarity, because `measured_of_head` replaces it.

    Raises:
        InputError: if the run is not fitted, the head is unknown, or a parameter has no fit.
    """
    needed = ("capture", "norms", "similarity", "weights")
    if missing := [name for name in needed if name not in run.children]:
        raise InputError(
            f"the run holds no /{missing[0]}, expected a fitted run. Run `geostat fit` on it first."
        )
    if gram not in ("exponential", "offset", "rank", "measured"):
        raise InputError(
            f"gram is {gram!r}, expected exponential, offset or rank, which runs have fits of. Give"
            " the similarity with --set."
        )
    if gram == "rank" and "amended" not in run.children:
        raise InputError(
            "the run has no fits by rank, expected weights and values by rank. Capture it again"
            " with this version of geostat, then fit it."
        )
    captured = run["capture"].to_dataset()
    indices, kv_head = _indices(captured, head)
    norms = run["norms"].to_dataset().isel(kv_head)
    weights = run["weights"].to_dataset().isel(indices)
    result: dict[str, Any] = {
        "L": float(captured["tokens"].values[indices["layer"]] - 1),
        "d": float(captured.attrs["dimension"]),
        "C": norms["C"],
        "lam": norms["lam"],
        "p_sink": weights["p_sink"],
        "eta": weights["eta"],
        "omega": weights["omega"],
        "T1": weights["t1"],
        "T2": weights["t2"],
    }
    if gram != "measured":
        form = "exponential" if gram == "rank" else gram
        similarity = run["similarity"].to_dataset().sel(gram=form).isel(kv_head)
        result["rho0"] = similarity["rho0"]
        if gram == "rank":
            amended = run["amended"].to_dataset().isel(indices)
            result |= {name: amended[fit] for name, fit in zip(BY_RANK, RANK_LAW, strict=True)}
        else:
            result["beta"] = similarity["beta"]
            result |= {"c": similarity["offset"]} if gram == "offset" else {}
    values = {name: float(value) for name, value in result.items()}
    if unknown := [
        name for name, value in values.items() if not np.isfinite(value) and name != "omega"
    ]:
        raise InputError(
            f"{head}: {', '.join(unknown)} could not be fitted, expected fits of all parameters."
            " Choose another head."
        )
    if values["T1"] == values["T2"] or not np.isfinite(values["omega"]):
        values["omega"] = PARAMETERS["omega"].default or 0.0  # no oscillation: ω has no effect
    return values


def measured_of_head(run: xr.DataTree, head: str) -> np.ndarray:
    """Return the measured mean cosines of one head, (T, T) with the sink first, unitless.

    Content tokens have the mean cosine at their lag; the sink has the mean cosine at each position.
    Both are means over documents. The matrix need not be positive semidefinite: project it
    (`theory.project`).

    Raises:
        InputError: if the head is unknown, or a cosine was not measured (the sink is not visible,
            or a value is zero).
    """
    if "capture" not in run.children:
        raise InputError(
            "the run holds no /capture, expected a captured run. Run `geostat capture` first."
        )
    captured = run["capture"].to_dataset()
    _, kv_head = _indices(captured, head)
    tokens = int(captured["tokens"].values[kv_head["layer"]])
    by_lag, with_sink = (
        captured[name].isel(kv_head).mean("document", skipna=True).values.astype(np.float64)
        for name in ("cosine_mean", "sink_cosine")
    )
    by_lag, with_sink = by_lag[: max(0, tokens - 2)], with_sink[-tokens:][1:]
    finite = np.isfinite(by_lag).all() and np.isfinite(with_sink).all()
    if tokens < 3 or by_lag.size < tokens - 2 or not finite:
        raise InputError(
            f"{head}: not every cosine was measured (is the sink visible?), expected all of them."
            " Choose another head."
        )
    gram = LagGram(np.clip(np.concatenate([[1.0], by_lag]), -1, 1)).matrix(tokens)
    gram[0, 1:] = gram[1:, 0] = np.clip(with_sink, -1, 1)
    return np.asarray(gram)


def _indices(captured: xr.Dataset, head: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the indices of a head and of its KV head."""
    match = re.fullmatch(r"L(\d{1,9})H(\d{1,9})", head.strip())
    if match is None:
        raise InputError(f"--head {head}: expected a layer and a head, such as L5H3.")
    indices = {
        "layer": index_of(captured, "layer", int(match[1])),
        "head": index_of(captured, "head", int(match[2])),
    }
    kv_head = int(kv_head_of_head(captured)[indices["head"]])
    return indices, {"layer": indices["layer"], "kv_head": kv_head}


def is_file(gram: str) -> bool:
    """Return whether `--gram` names a file rather than a form of the similarity.

    >>> is_file("cosines.npy"), is_file("offset")
    (True, False)
    """
    return gram.lower().endswith(SUFFIXES) or "/" in gram or Path(gram).is_file()


def read_gram(path: Path) -> np.ndarray:
    """Read cosines from a file: (T, T) with the sink first, or one row or column by lag 0, 1, ….

    A .npz file holds one array, or an array named gram. Text files separate values by commas,
    semicolons, tabs or spaces; # starts a comment. The values are not checked.

    Raises:
        InputError: if the file does not exist, or holds no such array.
    """
    if path.is_dir() or not path.exists():
        raise InputError(
            f"--gram {path}: no such file, expected a .npy, .npz or .csv file, or one of"
            " exponential, offset, stretched, power, rank, measured. Check the name."
        )
    with boundary(
        f"--gram {path}: cannot be read",
        "expected a square array of numbers, or cosines by lag. Leave out headers and save it"
        " again.",
    ):
        data = read_whole(path)
        array = _numpy(data) if path.suffix.lower() in (".npy", ".npz") else _text(data)
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


def _numpy(data: bytes) -> np.ndarray:
    if not data.startswith(MAGIC):
        raise ValueError("it is not a NumPy file")
    result = np.load(io.BytesIO(data), allow_pickle=False)
    if isinstance(result, np.ndarray):
        return result
    names = list(result.files)
    if not names:
        raise ValueError("it holds no array")
    if len(names) > 1 and "gram" not in names:
        raise ValueError(f"it holds the arrays {', '.join(names)}, none of them called gram")
    return np.asarray(result["gram" if "gram" in names else names[0]])


def _text(data: bytes) -> np.ndarray:
    text = data.decode("utf-8-sig")
    lines = [line.translate(SEPARATORS) for line in text.splitlines()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty file is refused below
        array = np.loadtxt(lines, dtype=np.float64, ndmin=2)
    if not array.size:
        raise ValueError("it is empty")
    return array


MOST_IN_RANGE: Final = 10_000
"""Maximum number of values of a range; figures and tables cannot show more."""
MOST_TOKENS: Final = 100_000_000
"""Maximum number of tokens of a document in a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Values of one parameter: absolute, multiples of the base value, or shares of L."""

    name: str
    values: tuple[float, ...]
    relative: bool = False
    in_lengths: bool = False

    def of(self, base: Mapping[str, float | str]) -> np.ndarray:
        """Return absolute values; shares of L stay text such as "0.5L"."""
        if self.in_lengths:
            return np.array([f"{value!r}L" for value in self.values])
        values = np.array(self.values, dtype=np.float64)
        if self.relative:
            start = base.get(self.name, PARAMETERS[self.name].default)
            if start is None or isinstance(start, str):
                raise InputError(
                    f"{self.name}: has no base value to multiply. Give it with --set"
                    f" {self.name}=VALUE."
                )
            values = values * start
            values = np.unique(np.round(values)) if PARAMETERS[self.name].whole else values
        return values


def parse(text: str) -> Setting:
    """Parse `name=value`, `name=v1,v2,…` or `name=from:to:count[:log]`.

    A prefix x multiplies the base value (beta=x2). A suffix L gives T1 and T2 as shares of L
    (T1=0.5L).

    Raises:
        InputError: for an unknown name, values that are not numbers, or too many values.

    >>> parse("N=2:5:4").values
    (2.0, 3.0, 4.0, 5.0)
    """
    name, equals, rest = text.partition("=")
    name, rest = name.strip(), rest.strip()
    refuse_unknown(name, PARAMETERS, f"--set {text}: {name!r} is not a parameter", verb="Use")
    in_lengths = PARAMETERS[name].share is not None and bool(re.search(r"L\s*(,|:|$)", rest))
    relative = rest.startswith("x")
    plain = re.sub(r"(^|[:,])\s*x", r"\1", rest) if relative else rest
    if in_lengths:
        plain = re.sub(r"L\s*(?=,|:|$)", "", plain)
        parts = rest.split(":")[:2] if ":" in rest else rest.split(",")
        if relative or any(part.strip()[-1:] not in ("L", "") for part in parts):
            raise InputError(
                f"--set {text}: some values are shares of L, expected all, as in {name}=0.3L,0.5L"
                f" or {name}=0.1L:0.5L:5. Add the L."
            )
    try:
        values: tuple[float, ...] = (
            _range(plain) if ":" in plain else tuple(float(part) for part in plain.split(","))
        )
    except TooMany:
        raise
    except (ValueError, OverflowError):
        values = ()
    if not equals or not values or not np.isfinite(values).all():
        raise InputError(
            f"--set {text}: expected {name}=VALUE, {name}=V1,V2,… or {name}=FROM:TO:COUNT[:log],"
            " all of them finite numbers."
        )
    if name == "L" and not relative and max(values) > MOST_TOKENS:
        raise InputError(
            f"--set {text}: expected at most {MOST_TOKENS:,} tokens, whose weights fit in memory."
            " Use a smaller L."
        )
    if ":" in plain and PARAMETERS[name].whole and not relative and not in_lengths:
        values = tuple(np.unique(np.round(values)).tolist())
    return Setting(name=name, values=values, relative=relative, in_lengths=in_lengths)


def _range(text: str) -> tuple[float, ...]:
    first, last, count, *spacing = text.split(":")
    start, stop, number = float(first), float(last), int(count)
    if spacing not in ([], ["log"]) or number < 1 or not np.isfinite([start, stop]).all():
        raise ValueError(text)
    if spacing and not (start > 0 and stop > 0):
        raise ValueError(text)
    if number > MOST_IN_RANGE:
        raise TooMany(
            f"--set: a range of {number:,} values, expected at most {MOST_IN_RANGE:,}. Give a"
            " smaller COUNT."
        )
    return tuple((np.geomspace if spacing else np.linspace)(start, stop, number).tolist())


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
    fits = ("norms", "similarity", "weights", *(["amended"] if gram == "rank" else []))
    run = store.tree(only=("capture", *fits))
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
    from reports.what_if import table_of_elasticities, table_of_study

    is_point = "elasticity" in dataset
    table = table_of_elasticities(dataset) if is_point else table_of_study(dataset)
    arrays = dataset.data_vars.items()
    flags = {name: array.astype(np.int8) for name, array in arrays if array.dtype == bool}
    stored = dataset.assign(flags)  # netCDF has no bool
    files = [(f"{table.name}.nc", bytes(stored.to_netcdf(engine="scipy")))]
    if figures and not is_point:
        from reports.figures.plan import rendered
        from reports.what_if import draw_study, study_axes

        if 1 <= len(study_axes(dataset)) <= 3:
            figure = draw_study(dataset)
            files += [(f"whatif.{kind}", rendered(figure, kind)) for kind in ("pdf", "png")]
    written = [replaced(out / name, content) for name, content in files] + write_table(table, out)
    for kind in ("nc", "pdf", "png", "tex", "md"):  # all files of a study
        if (old := out / f"{table.name}.{kind}") not in written and old.is_file():
            old.unlink()
    return written
