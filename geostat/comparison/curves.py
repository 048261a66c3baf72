"""Results of several runs in one dataset: distributions over heads, verdicts, coverage, curves over
N, regimes, preferred forms.

Nothing is computed anew but quartiles and counts; what a run lacks is NaN. Imports numpy and
xarray.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from geostat.comparison.comparability import Held
from geostat.datasets.separability import STATISTICS
from geostat.datasets.variable import Variable, variables
from reports.text.printable import printable

PARAMETERS = {
    "norms": ("cv_token", "cv_profile", "cv_position", "lam", "trend"),
    "similarity": ("rho0", "negative_fraction"),
    "weights": ("p_sink", "eta", "r2", "rmse"),
}
"""Whose distribution over heads is compared, beside β and the misfit of every form of
similarity.
"""
QUARTILES = (0.25, 0.5, 0.75)
SHARE = ("true_share", "true_share_lower", "true_share_upper")
COUNTS = ("tested", "holds", "fails", "undetermined", *SHARE, "tolerance")
COVERAGE = tuple(f"{name}_{part}" for name in STATISTICS for part in ("inside", "outside", "width"))
SINK = (
    "correlation",
    "correlation_lower",
    "correlation_upper",
    "unattenuated",
    "unattenuated_lower",
    "unattenuated_upper",
)
MEANS = ("precision_mean", "precision_se", "recall_mean", "recall_se")
GAINS = tuple(
    f"{name}_gain{part}" for name in STATISTICS for part in ("", "_se", "_lower", "_upper")
)
TESTS = ("precision_p_holm", "recall_p_holm")


def beside(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Stack datasets along `run`, over every label that one of them has: words in the order they
    are met, numbers in theirs.
    """
    wanted = {}
    for dim in dict.fromkeys(dim for part in parts for dim in part.dims):
        labels = list(dict.fromkeys(label for part in parts for label in part[dim].values.tolist()))
        wanted[dim] = (
            np.array(labels, dtype=object)
            if any(isinstance(label, str) for label in labels)
            else np.array(sorted(labels))
        )
    whole = [part.reindex(wanted) for part in parts]
    return xr.concat(
        whole,
        dim="run",
        data_vars="all",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="override",
    )


def _bare(data: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Some variables without coordinates that are no dims."""
    chosen = data[[name for name in names if name in data]].astype(np.float64)
    return chosen.drop_vars([name for name in chosen.coords if name not in chosen.dims])


SPREADS = (
    Variable(
        "spread", "quartiles over heads", "each its own", dims=("run", "parameter", "quartile")
    ),
    Variable("parameter_heads", "heads with an estimate", dims=("run", "parameter")),
)


def spreads(runs: Sequence[Held]) -> xr.Dataset:
    """Return quartiles over heads of every parameter, and of how many heads.

    Returns:
        spread over (run, parameter, quartile), in the parameter's unit, and parameter_heads over
        (run, parameter), with coordinates parameter_long_name, _symbol, _units and _equation; NaN
        and 0 where a run lacks the parameter. Parameters of a form of similarity are named with it.
    """
    by_run = [_parameters(run) for run in runs]
    attributes = {
        name: values.attrs for parameters in reversed(by_run) for name, values in parameters.items()
    }
    labels = list(dict.fromkeys(name for parameters in by_run for name in parameters))
    spread = np.full((len(runs), len(labels), len(QUARTILES)), np.nan)
    heads = np.zeros(spread.shape[:2], dtype=np.int64)
    for row, parameters in enumerate(by_run):
        for name, values in parameters.items():
            known = values.values[np.isfinite(values.values)].astype(np.float64)
            heads[row, labels.index(name)] = known.size
            if known.size:
                spread[row, labels.index(name)] = np.quantile(known, QUARTILES)
    texts: dict[str, Any] = {
        f"parameter_{key}": (
            "parameter",
            np.array(
                [printable(str(attributes[name].get(key, ""))) for name in labels], dtype=object
            ),
        )
        for key in ("long_name", "symbol", "units", "equation")
    }
    coords = {"parameter": np.array(labels, dtype=object), "quartile": list(QUARTILES)}
    return xr.Dataset(
        variables(SPREADS, {"spread": spread, "parameter_heads": heads}), coords=coords
    ).assign_coords(texts)


def _parameters(run: Held) -> dict[str, xr.DataArray]:
    """The parameters of a run's heads by their full name, such as "norms.lam" and
    "similarity.beta offset".
    """
    out = {
        f"{group}.{name}": run.groups[group][name]
        for group, names in PARAMETERS.items()
        for name in names
        if name in run.groups[group]
    }
    fits = run.groups["similarity"]
    for name, form in product(("beta", "mae_by_lag"), fits["gram"].values):
        values = fits[name].sel(gram=form)
        if np.isfinite(values.values).any():
            words = f"{form.replace('_', ' ')} form: {values.attrs.get('long_name', name)}"
            out[f"similarity.{name} {form}"] = values.assign_attrs(long_name=words)
    return out


def results(run: Held) -> xr.Dataset:
    """Return what a run's groups hold as it is, but for how many heads prefer each form.

    Args:
        run: a confronted run; its groups verdicts, summary, sink, separable, heads, similarity and
            weights are read.

    Returns:
        Over (claim) how many heads COUNTS has, as claim_…, and tolerance, true_at_least and
        true_at_most; over (edition, gram) COVERAGE, the shares within and outside the bounds and
        their width; over (n) SINK, where 1 < N < T, and MEANS; over (null, n) GAINS and TESTS,
        where 1 < N < T; over (criterion, regime) regime_heads; over (form) form_heads and over
        (rival) rival_heads, how many heads' cosines or weights a form predicts best, where "none"
        or "undetermined" is a label too.
    """
    of = run.groups
    names = {name: f"claim_{name}" for name in ("tested", "holds", "fails", "undetermined")}
    sink = _bare(of["sink"].sel(measure="pearson", drop=True), SINK)
    gain = _bare(of["separable"], (*GAINS, *TESTS))
    inside = (gain["n"] > 1) & (gain["n"] < run.tokens.max())
    parts = [
        _bare(of["verdicts"], COUNTS).rename(names),
        _bare(of["summary"], COVERAGE),
        xr.merge(
            [sink.where(inside), _bare(of["summary"], MEANS), gain.where(inside)],
            join="exact",
            combine_attrs="drop",
        ),
        _bare(of["heads"], ("heads",)).rename(heads="regime_heads"),
        _counted(of["similarity"]["chosen"], "form", "form_heads"),
        _counted(of["weights"]["preferred"], "rival", "rival_heads"),
    ]
    return xr.merge(parts, join="exact")


def _counted(codes: xr.DataArray, dim: str, name: str) -> xr.Dataset:
    """How often each code of a flag variable stands in it, by its meaning."""
    labels = str(codes.attrs["flag_meanings"]).split()
    number = np.array(
        [(codes.values == value).sum() for value in codes.attrs["flag_values"]], dtype=np.float64
    )
    record = Variable(
        name, f"heads by preferred form of {'cosines' if dim == 'form' else 'weights'}", dims=(dim,)
    )
    return xr.Dataset(
        variables([record], {name: number}), coords={dim: np.array(labels, dtype=object)}
    )
