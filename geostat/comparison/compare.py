"""Comparison of several runs: estimates, differences, distributions over heads, verdicts, curves.

Runs are read one by one and reduced to numbers. The standard error of a difference is a jackknife
that leaves a shared document out of both runs. Reported numbers are from arXiv 2602.01893
(`geostat.paper`). Imports numpy, xarray and the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from typing import Any, Final

import numpy as np
import xarray as xr

from empirical.schema import Quantity
from empirical.store.store import Store
from geostat.comparison.quantities import (
    NO_SCALAR,
    Scalar,
    effective_sizes,
    quantities,
    scalars,
    token_needs,
)
from geostat.comparison.runs import (
    OF_EVERYTHING,
    RUN_LETTERS,
    SETTINGS,
    ReducedRun,
    Source,
    bounds_of,
    differing,
    groups_of,
    name_of,
    names_of,
    notes,
    opened,
    pairing,
    reduced,
    shared,
)
from geostat.datasets import table
from geostat.datasets.separability import STATISTICS
from geostat.datasets.variable import Value, variables
from geostat.errors import shown_whole
from geostat.paper import REPORTED
from geostat.runs.console import QUIET, Console
from geostat.statistics.jackknife import SIGNIFICANCE, Estimate
from geostat.statistics.multiple_testing import adjusted
from geostat.statistics.t_test import critical_value, two_sided
from geostat.topics.verdicts import claim_rows
from reports.text.number import count, rounded
from reports.text.printable import printable, printable_data

ESTIMATES: Final = table.quantities(
    r"""
    estimate | 1 | \hat\theta | mean over heads | estimated | interval: 95% document jackknife,
        t(K-1); correlations on Fisher's z
    at_n | 1 | - | size N of a largest value | interval: 95% document jackknife, t(K-1);
        correlations on Fisher's z
    heads | 1 | - | number of heads averaged over
    documents | 1 | - | documents | dims: run
    """,
    dims=("run", "quantity"),
)

NAMED_DIFFERENCES: Final = 4
"""Number of differences that a pair's sentence names, largest t statistic first."""


def compare(
    sources: Sequence[Source], *, quick: bool = False, console: Console = QUIET
) -> xr.Dataset:
    """Compare runs.

    Args:
        sources: two to `MOST_RUNS` runs, each a store, its folder, or a tree returned by
            `geostat.open`. Letters A, B, … follow their order.
        quick: whether to omit standard errors of coverage; they need the bounds of every document
            and take as long as confronting each run again.
        console: reports progress.

    Returns:
        A dataset; results that a run lacks are NaN:

        - (run, quantity): ESTIMATES; (pair, quantity): DIFFERENCES, first run minus second; with
          coordinates long_name, symbol, units and equation of each quantity;
        - (run, parameter, quartile): spread; (run, claim): counts of answers;
        - (run, edition, gram): _inside, _outside and _width of P and R;
        - (run, n): correlation and unattenuated with limits, P and R with _se;
        - (run, null, n): gains of P and R; (run, criterion, regime): regime_heads;
        - (run, form) and (run, rival): number of heads whose cosines or weights prefer the form.

        Attributes: notes (limits of the comparison), sentences, reported (JSON), letters.

    Raises:
        InputError: for fewer than two runs or too many, a run given twice, a path without a run, or
            a run that is not confronted.
        StoreError: if a run is damaged.
    """
    runs: list[ReducedRun] = []
    by_run: list[dict[str, Scalar]] = []
    for source, run in zip(sources, opened(sources), strict=True):
        console.stage(f"read {name_of(source)}")
        with shown_whole(name_of(source)):
            groups, attrs = groups_of(run)
            progress = partial(console.fraction, "bounds by document")
            by_run.append(scalars(groups, coverage_errors=not quick, progress=progress))
            runs.append(reduced(groups, attrs, run.path if isinstance(run, Store) else None))
    with shown_whole(", ".join(map(name_of, sources))):
        return _side_by_side(runs, by_run)


def _side_by_side(runs: Sequence[ReducedRun], by_run: Sequence[Mapping[str, Scalar]]) -> xr.Dataset:
    """Return the comparison of reduced runs, with notes and sentences."""
    names = names_of([printable(run.model) for run in runs], [run.path for run in runs])
    bounds = dict.fromkeys(pair for run in runs for pair in bounds_of(run.groups))
    sizes, size_notes = effective_sizes(runs, by_run)
    compared = [*quantities(list(bounds)), *sizes]
    parts = [
        _estimates(runs, by_run, compared),
        differences(runs, by_run, compared),
        spreads(runs),
        side_by_side([results(run) for run in runs]),
    ]
    data = xr.merge(parts, combine_attrs="drop_conflicts", join="exact")
    data = data.assign_coords(run=("run", _text(names), {"long_name": "run"}), **_facts(runs))
    provenance = [
        {name: value for name, value in run.attrs.items() if name != "null_measured"}
        for run in runs
    ]
    claims = {row["key"]: row for run in runs for row in claim_rows(run.groups["verdicts"])}
    missing = {quantity.name for quantity in token_needs()} - {size.name for size in sizes}
    reported = [row for row in REPORTED if not missing & set(row["beside"])]
    data.attrs = {
        "long_name": "comparison of runs",
        "letters": list(RUN_LETTERS[: len(runs)]),
        "notes": [*notes(runs), *size_notes],
        "reported": json.dumps(reported, ensure_ascii=False),
        "claims": json.dumps(list(claims.values()), ensure_ascii=False),
        "provenance": json.dumps(provenance, default=str),
        "significance": SIGNIFICANCE,
        "topics": json.dumps({topic: name for topic, (name, *_) in SETTINGS.items()}),
    }
    pairs = range(data.sizes["pair"])
    data.attrs["sentences"] = [_sentence(data.isel(pair=index)) for index in pairs]
    return data


def as_json(data: xr.Dataset) -> dict[str, Any]:
    """Return a comparison as JSON data; NaN becomes None."""

    def numbers(cell: xr.Dataset, *names: str) -> dict[str, Any]:
        values = {name: float(cell[name]) for name in names}
        return {name: value if np.isfinite(value) else None for name, value in values.items()}

    letters, keys = list(data.attrs["letters"]), [str(key) for key in data["quantity"].values]
    parts = ("", "_se", "_lower", "_upper")
    run_numbers = (*(f"estimate{part}" for part in parts), "at_n", "heads")
    pair_numbers = (*(f"difference{part}" for part in parts), "p", "p_holm")
    runs: list[dict[str, Any]] = []
    estimates: dict[str, Any] = {}
    differences: dict[str, Any] = {}
    for row, letter in enumerate(letters):
        run = data.isel(run=row)
        estimates[letter] = {key: numbers(run.sel(quantity=key), *run_numbers) for key in keys}
        texts = {"name": str(run["run"].item()), "path": str(run["path"].item())}
        runs.append({"letter": letter, **texts, "documents": int(run["documents"])})
    for pair in map(str, data["pair"].values):
        differences[pair] = {}
        for key in keys:
            cell = data.sel(pair=pair, quantity=key)
            settings = {"differing_settings": str(cell["differing_settings"].item()).split()}
            differences[pair][key] = numbers(cell, *pair_numbers) | settings
    return {
        "runs": runs,
        "notes": list(data.attrs["notes"]),
        "sentences": list(data.attrs["sentences"]),
        "estimates": estimates,
        "differences": differences,
        "reported": json.loads(data.attrs["reported"]),
    }


def _estimates(
    runs: Sequence[ReducedRun], by_run: Sequence[Mapping[str, Scalar]], compared: Sequence[Quantity]
) -> xr.Dataset:
    """Return the estimates of each run, over (run, quantity)."""
    scalars = [
        [estimates.get(quantity.name, NO_SCALAR) for quantity in compared] for estimates in by_run
    ]
    estimates = [[scalar.jackknifed() for scalar in row] for row in scalars]
    numbers: dict[str, Value] = {
        "estimate": Estimate(**_fields(estimates, LIMITS)),
        **_fields(scalars, ("at_n", "heads")),
        "documents": np.array([run.sizes["document"] for run in runs]),
    }
    data = xr.Dataset(variables(ESTIMATES, numbers))
    texts: dict[Any, Any] = {
        name: ("quantity", _text(quantity.attributes[name] for quantity in compared))
        for name in ("long_name", "symbol", "equation", "over", "units")
    }
    return data.assign_coords(quantity=_text(quantity.name for quantity in compared), **texts)


def _fields(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return fields of a table of records as arrays, by name."""
    return {
        name: np.array([[getattr(cell, name) for cell in row] for row in rows]) for name in names
    }


def _text(values: Iterable[str]) -> np.ndarray:
    return np.array(list(values), dtype=object)


def _facts(runs: Sequence[ReducedRun]) -> dict[str, Any]:
    """Return the description of each run, as coordinates along run."""
    texts = {
        "model": [run.model for run in runs],
        "text": [run.settings["text"] for run in runs],
        "path": [str(run.path or "") for run in runs],
        "convention": [run.settings["convention"] for run in runs],
    }
    dims = {"tokens": "position", "layers": "layer"}
    dims |= {"heads_a_layer": "head", "kv_heads_a_layer": "kv_head"}
    facts = {name: np.array([run.sizes[dim] for run in runs]) for name, dim in dims.items()}
    facts |= {name: _text(printable_data(values)) for name, values in texts.items()}
    return {name: ("run", values) for name, values in facts.items()}


def _sentence(selected: xr.Dataset) -> str:
    """Return the significant differences of one pair as a sentence."""
    p = selected["p_holm"].values
    tested, differs = np.isfinite(p), np.nan_to_num(p, nan=1.0) <= SIGNIFICANCE
    first, second = str(selected["pair"].item()).split(" − ")
    if not tested.any():
        return (
            f"{first} and {second}: no difference can be tested: a run has only one document, or"
            " the runs have no quantity in common."
        )
    line = (
        f"{first} and {second} ({selected['pairing'].item()}) differ significantly in"
        f" {int(differs.sum())} of {count(int(tested.sum()), 'quantity', 'quantities')}"
    )
    if differs.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(selected["difference"].values) / selected["difference_se"].values
        order = np.argsort(-np.where(differs, t, -np.inf), kind="stable")
        clearest = []
        for index in order[: min(NAMED_DIFFERENCES, differs.sum())]:
            cell = selected.isel(quantity=index)
            number = rounded(float(cell["difference"]), float(cell["difference_se"])).plain
            clearest.append(f"{cell['long_name'].item()} ({number.replace('-', '−')})")
        line += f"; most clearly: {', '.join(clearest)}"
    affecting = set(" ".join(selected["differing_settings"].values[differs]).split())
    names = [name for topic, (name, *_) in SETTINGS.items() if topic in affecting]
    if not names:
        return f"{line}."
    settings = " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
    return f"{line}. Their {settings} also differ, which may explain it."


LIMITS: Final = ("value", "se", "lower", "upper")
DIFFERENCES: Final = table.quantities(
    r"""
    difference | 1 | d | estimate of the first run minus that of the second | estimated |
        interval: 95% document jackknife, t on `degrees`
    degrees | 1 | - | degrees of freedom of the difference
    p | 1 | - | two-sided p-value of the difference
    p_holm | 1 | - | p-value with Holm's adjustment over all differences
    differing_settings | 1 | - | differing settings that affect the difference
    shared | 1 | - | documents that both runs hold | dims: pair
    pairing | 1 | - | pairing of documents in the standard error | dims: pair
    first | 1 | - | index of the first run | dims: pair
    second | 1 | - | index of the second run | dims: pair
    """,
    dims=("pair", "quantity"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference of two estimates: value, standard error, 95% limits, degrees of freedom."""

    value: float = float("nan")
    se: float = float("nan")
    lower: float = float("nan")
    upper: float = float("nan")
    degrees: float = float("nan")


def difference(
    first: Scalar, second: Scalar, documents: tuple[Sequence[str], Sequence[str]]
) -> Difference:
    """Return the first estimate minus the second, with a document-jackknife standard error.

    For each run, u_k = √((K−1)/K) (θ₍ₖ₎ − θ̄), and u_k = 0 for documents that the run lacks. Then
    se² = Σ_k (u_k of the first − u_k of the second)². With the same documents this is the jackknife
    of the difference; without shared documents it is the unpaired sum of squares.

    The interval uses Student's t with K−1 degrees of freedom if all documents are shared, Welch-
    Satterthwaite degrees of freedom if none is shared, and the smaller K−1 otherwise.

    Args:
        first, second: estimates with replicates.
        documents: keys of the documents of each run.

    >>> estimate = Scalar(estimate=1.0, without=np.array([0.9, 1.1]), heads=3)
    >>> difference(estimate, estimate, (("x", "y"), ("x", "y"))).se  # the same documents
    0.0
    """
    value, counts = first.estimate - second.estimate, [len(names) for names in documents]
    if not np.isfinite(value) or min(counts) < 2:
        return Difference(value=value)
    influence: dict[str, float] = dict.fromkeys([*documents[0], *documents[1]], 0.0)
    squares = []
    for sign, scalar, names in zip((1.0, -1.0), (first, second), documents, strict=True):
        shift = np.sqrt(1 - 1 / len(names)) * (scalar.without - scalar.without.mean())
        squares.append(float((shift**2).sum()))
        for name, u in zip(names, shift, strict=True):
            influence[name] += sign * float(u)
    se = float(np.sqrt(sum(u**2 for u in influence.values())))
    if not np.isfinite(se):
        return Difference(value=value)
    degrees = float(min(counts) - 1)
    if not set(documents[0]) & set(documents[1]) and sum(squares) > 0:
        degrees = sum(squares) ** 2 / sum(
            square**2 / (count - 1) for square, count in zip(squares, counts, strict=True)
        )
    half = float(critical_value(degrees)) * se
    return Difference(value=value, se=se, lower=value - half, upper=value + half, degrees=degrees)


def differences(
    runs: Sequence[ReducedRun], by_run: Sequence[Mapping[str, Scalar]], compared: Sequence[Quantity]
) -> xr.Dataset:
    """Return the difference of every pair of runs, over (pair, quantity)."""
    pairs = list(combinations(range(len(runs)), 2))
    rows: list[list[Difference]] = []
    settings: list[list[str]] = []
    for index, other in pairs:
        first, second = runs[index], runs[other]
        topics, documents = differing(first, second), (first.documents, second.documents)
        one, two = (
            [by_run[run].get(quantity.name, NO_SCALAR) for quantity in compared]
            for run in (index, other)
        )
        rows.append([difference(*pair, documents=documents) for pair in zip(one, two, strict=True)])
        affecting = ({*OF_EVERYTHING, *quantity.more["requires_equal"]} for quantity in compared)
        settings.append(
            [
                " ".join(topic for topic in SETTINGS if topic in topics & every)
                for every in affecting
            ]
        )
    part = _fields(rows, (*LIMITS, "degrees"))
    p = two_sided(part["value"], part["se"], part["degrees"])
    paired_runs = [(runs[first], runs[second]) for first, second in pairs]
    numbers: dict[str, Value] = {
        "difference": Estimate(**{name: part[name] for name in LIMITS}),
        "degrees": part["degrees"],
        "p": p,
        "p_holm": adjusted(p.ravel(), "holm").reshape(p.shape),
        "differing_settings": np.array(settings, dtype=object),
        "shared": np.array([shared(*paired) for paired in paired_runs]),
        "pairing": _text(pairing(*paired) for paired in paired_runs),
        "first": np.array([first for first, _ in pairs]),
        "second": np.array([second for _, second in pairs]),
    }
    data = xr.Dataset(variables(DIFFERENCES, numbers))
    letters = (f"{RUN_LETTERS[first]} − {RUN_LETTERS[second]}" for first, second in pairs)
    return data.assign_coords(pair=_text(letters))


PARAMETERS = {
    "norms": ("cv_token", "cv_profile", "cv_position", "lam", "trend"),
    "similarity": ("rho0", "negative_fraction"),
    "weights": ("p_sink", "eta", "r2", "rmse"),
}
"""Parameters whose distribution over heads is compared, besides β and the misfit of each form."""
QUARTILES = (0.25, 0.5, 0.75)
SHARE = ("true_share", "true_share_lower", "true_share_upper")
ANSWERS = ("tested", "holds", "holds_trivially", "fails", "undetermined")
COUNTS = (*ANSWERS, *SHARE, "tolerance")
COVERAGE = tuple(f"{name}_{part}" for name in STATISTICS for part in ("inside", "outside", "width"))
SINK = tuple(
    f"{name}{part}" for name in ("correlation", "unattenuated") for part in ("", "_lower", "_upper")
)
MEANS = ("precision_mean", "precision_se", "recall_mean", "recall_se")
GAINS = tuple(
    f"{name}_gain{part}" for name in STATISTICS for part in ("", "_se", "_lower", "_upper")
)
TESTS = ("precision_p_holm", "recall_p_holm")


def side_by_side(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Concatenate datasets along `run`, over the union of labels; numeric labels are sorted."""
    indexers = {}
    for dim in dict.fromkeys(dim for part in parts for dim in part.dims):
        labels = list(dict.fromkeys(label for part in parts for label in part[dim].values.tolist()))
        text = any(isinstance(label, str) for label in labels)
        indexers[dim] = _text(labels) if text else np.array(sorted(labels))
    return xr.concat(
        [part.reindex(indexers) for part in parts],
        dim="run",
        data_vars="all",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="override",
    )


def _bare(data: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Select variables and drop non-dimension coordinates."""
    selected = data[[name for name in names if name in data]].astype(np.float64)
    return selected.drop_vars([name for name in selected.coords if name not in selected.dims])


SPREADS: Final = table.quantities(
    r"""
    spread | unit of the parameter | - | quartiles over heads | dims: parameter quartile
    parameter_heads | 1 | - | heads with an estimate
    """,
    dims=("parameter",),
)


def spreads(runs: Sequence[ReducedRun]) -> xr.Dataset:
    """Return quartiles over heads and the number of heads of every parameter.

    Returns:
        spread over (run, parameter, quartile), in the parameter's unit, and parameter_heads over
        (run, parameter), with coordinates parameter_long_name, _symbol, _units and _equation; NaN
        and 0 if a run lacks the parameter. Names of similarity parameters include the form.
    """
    by_run = [_parameters(run) for run in runs]
    data = side_by_side([_spreads(parameters) for parameters in by_run])
    heads = data["parameter_heads"].fillna(0).astype(np.int64)
    attributes = {
        name: values.attrs for parameters in reversed(by_run) for name, values in parameters.items()
    }
    texts: dict[str, Any] = {
        f"parameter_{key}": (
            "parameter",
            _text(
                printable(str(attributes[name].get(key, ""))) for name in data["parameter"].values
            ),
        )
        for key in ("long_name", "symbol", "units", "equation")
    }
    return data.assign(parameter_heads=heads).assign_coords(texts)


def _spreads(parameters: Mapping[str, xr.DataArray]) -> xr.Dataset:
    """Return the quartiles of one run's parameters and the number of their heads."""
    finite = [
        values.values[np.isfinite(values.values)].astype(np.float64)
        for values in parameters.values()
    ]
    missing = np.full(len(QUARTILES), np.nan)
    quartiles = [np.quantile(heads, QUARTILES) if heads.size else missing for heads in finite]
    numbers: dict[str, Value] = {
        "spread": np.array(quartiles),
        "parameter_heads": np.array([heads.size for heads in finite]),
    }
    coords = {"parameter": _text(parameters), "quartile": list(QUARTILES)}
    return xr.Dataset(variables(SPREADS, numbers), coords=coords)


def _parameters(run: ReducedRun) -> dict[str, xr.DataArray]:
    """Return the parameters of a run by name: "norms.lam", "similarity.beta offset"."""
    parameters = {
        f"{group}.{name}": run.groups[group][name]
        for group, names in PARAMETERS.items()
        for name in names
        if name in run.groups[group]
    }
    fits = run.groups["similarity"]
    for name, form in product(("beta", "mae_by_lag"), fits["gram"].values):
        values = fits[name].sel(gram=form)
        if np.isfinite(values.values).any():
            meaning = f"{form.replace('_', ' ')} form: {values.attrs.get('long_name', name)}"
            parameters[f"similarity.{name} {form}"] = values.assign_attrs(long_name=meaning)
    return parameters


def results(run: ReducedRun) -> xr.Dataset:
    """Return results of a run that the comparison copies, and counts of preferred forms.

    Returns:
        (claim): COUNTS, some as claim_…; (edition, gram): COVERAGE; (n): SINK for 1 < N < T, and
        MEANS; (null, n): GAINS and TESTS for 1 < N < T; (criterion, regime): regime_heads; (form):
        form_heads and (rival): rival_heads, numbers of heads by preferred form, with labels "none"
        or "undetermined".
    """
    groups = run.groups
    verdicts = _bare(groups["verdicts"], COUNTS)  # an older run counts fewer answers
    names = {name: f"claim_{name}" for name in ANSWERS if name in verdicts}
    sink = _bare(groups["sink"].sel(measure="pearson", drop=True), SINK)
    gain = _bare(groups["separable"], (*GAINS, *TESTS))
    inside = (gain["n"] > 1) & (gain["n"] < run.tokens)
    parts = [
        verdicts.rename(names),
        _bare(groups["summary"], COVERAGE),
        xr.merge(
            [sink.where(inside), _bare(groups["summary"], MEANS), gain.where(inside)],
            join="exact",
            combine_attrs="drop",
        ),
        _bare(groups["heads"], ("heads",)).rename(heads="regime_heads"),
        _counted(groups["similarity"]["chosen"], "form", "form_heads"),
        _counted(groups["weights"]["preferred"], "rival", "rival_heads"),
    ]
    return xr.merge(parts, join="exact")


def _counted(codes: xr.DataArray, dim: str, name: str) -> xr.Dataset:
    """Return the count of each code of a flag variable, by its meaning."""
    labels = str(codes.attrs["flag_meanings"]).split()
    number = np.array(
        [(codes.values == value).sum() for value in codes.attrs["flag_values"]], dtype=np.float64
    )
    record = Quantity(
        name, f"heads by preferred form of {'cosines' if dim == 'form' else 'weights'}", dims=(dim,)
    )
    return xr.Dataset(variables([record], {name: number}), coords={dim: _text(labels)})
