"""Results of several runs in one dataset: distributions over heads, verdicts, coverage, curves over N, regimes, preferred forms.

Nothing is computed anew but quartiles and counts; what a run lacks is NaN. Imports numpy and xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from geostat.comparison.pairing import Held
from geostat.datasets.separability import STATISTICS
from geostat.datasets.variable import described

COUNTS = ("tested", "holds", "fails", "undetermined", "true_at_least", "true_at_most", "tolerance")
COVERAGE = tuple(f"{name}_{part}" for name in STATISTICS for part in ("inside", "outside", "width"))
SINK = ("correlation", "correlation_lower", "correlation_upper", "unattenuated", "unattenuated_lower", "unattenuated_upper")
MEANS = ("precision_mean", "precision_se", "recall_mean", "recall_se")
GAINS = tuple(f"{name}_gain{part}" for name in STATISTICS for part in ("", "_se", "_lower", "_upper"))
TESTS = ("precision_p_holm", "recall_p_holm")


def beside(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Stack datasets along `run`, over every label that one of them has: words in the order they are met, numbers in theirs."""
    wanted = {}
    for dim in dict.fromkeys(dim for part in parts for dim in part.dims):
        labels = list(dict.fromkeys(label for part in parts for label in part[dim].values.tolist()))
        wanted[dim] = np.array(labels, dtype=object) if any(isinstance(label, str) for label in labels) else np.array(sorted(labels))
    whole = [part.reindex(wanted) for part in parts]
    return xr.concat(whole, dim="run", data_vars="all", coords="minimal", compat="override", join="exact", combine_attrs="override")


def _bare(data: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Some variables without coordinates that are no dims."""
    chosen = data[[name for name in names if name in data]].astype(np.float64)
    return chosen.drop_vars([name for name in chosen.coords if name not in chosen.dims])


def spreads(held: Sequence[Held], names: Mapping[str, Sequence[str]], shares: Sequence[float]) -> xr.Dataset:
    """Quartiles over heads of every parameter, and of how many heads; parameters of a form of similarity are named with it."""
    rows: dict[str, dict[str, Any]] = {}
    for place, run in enumerate(held):
        for group, name, values in _parameters(run, names):
            flat = values.values.astype(np.float64).ravel()
            flat = flat[np.isfinite(flat)]
            row = rows.setdefault(name, {"attrs": values.attrs, "group": group, "of": {}})
            row["of"][place] = (np.quantile(flat, shares) if flat.size else np.full(len(shares), np.nan), flat.size)
    spread = np.full((len(held), len(rows), len(shares)), np.nan)
    heads = np.zeros(spread.shape[:2], dtype=np.int64)
    for column, row in enumerate(rows.values()):
        for place, (values, number) in row["of"].items():
            spread[place, column], heads[place, column] = values, number
    texts = {
        key: np.array([str(row["attrs"].get(key, "")) for row in rows.values()], dtype=object)
        for key in ("long_name", "symbol", "units", "equation")
    }
    data = xr.Dataset(
        {
            "spread": described(
                ("run", "parameter", "quartile"), spread, long_name="quartiles over heads", units="each its own", symbol="", equation=""
            ),
            "parameter_heads": described(
                ("run", "parameter"), heads, long_name="heads with an estimate", units="1", symbol="", equation=""
            ),
        },
        coords={"parameter": np.array(list(rows), dtype=object), "quartile": list(shares)},
    )
    return data.assign_coords({f"parameter_{key}": ("parameter", values) for key, values in texts.items()})


def _parameters(run: Held, names: Mapping[str, Sequence[str]]) -> list[tuple[str, str, xr.DataArray]]:
    out = [
        (group, f"{group}.{name}", run.groups[group][name]) for group, those in names.items() for name in those if name in run.groups[group]
    ]
    fits = run.groups["similarity"]
    for name in ("beta", "mae_by_lag"):
        for form in fits["gram"].values:
            values = fits[name].sel(gram=form)
            if np.isfinite(values.values).any():
                words = f"{form.replace('_', ' ')} form: {values.attrs.get('long_name', name)}"
                out.append(("similarity", f"similarity.{name} {form}", values.assign_attrs(long_name=words)))
    return out


def verdicts(held: Sequence[Held]) -> xr.Dataset:
    """Counts of answers and the share of heads of which a claim is true, over (run, claim)."""
    result = beside([_bare(run.groups["verdicts"], COUNTS) for run in held])
    return result.rename(holds="claim_holds", fails="claim_fails", undetermined="claim_undetermined", tested="claim_tested")


def coverage(held: Sequence[Held]) -> xr.Dataset:
    """Shares within and clearly outside the bounds, and their width, over (run, edition, gram)."""
    return beside([_bare(run.groups["summary"], COVERAGE) for run in held])


def curves(held: Sequence[Held]) -> xr.Dataset:
    """Correlations with the sink's similarity, mean Precision and Recall, over (run, n); gains over nulls, over (run, null, n), where 1 < N < T."""
    sinks = [_bare(run.groups["sink"].sel(measure="pearson", drop=True), SINK) for run in held]
    parts = []
    for run, sink in zip(held, sinks, strict=True):
        gain = _bare(run.groups["separable"], (*GAINS, *TESTS))
        inside = (gain["n"] > 1) & (gain["n"] < run.sizes["position"])
        parts.append(
            xr.merge([sink.where(inside), _bare(run.groups["summary"], MEANS), gain.where(inside)], join="exact", combine_attrs="drop")
        )
    return beside(parts)


def regime_counts(held: Sequence[Held]) -> xr.Dataset:
    """Heads of each regime, over (run, criterion, regime)."""
    return beside([_bare(run.groups["heads"], ("heads",)).rename(heads="regime_heads") for run in held])


def forms(held: Sequence[Held]) -> xr.Dataset:
    """Heads whose cosines (form) or weights (rival) are predicted best by a form, over (run, form) and (run, rival); "none" is a label too."""
    parts = []
    for run in held:
        similarity, weights = run.groups["similarity"]["chosen"], run.groups["weights"]["preferred"]
        parts.append(xr.merge([_counted(similarity, "form", "form_heads"), _counted(weights, "rival", "rival_heads")], join="exact"))
    return beside(parts)


def _counted(codes: xr.DataArray, dim: str, name: str) -> xr.Dataset:
    """How often each code of a flag variable stands in it, by its meaning."""
    labels = str(codes.attrs["flag_meanings"]).split()
    values = np.asarray(codes.attrs["flag_values"])
    number = [int((codes.values == value).sum()) for value in values]
    what = f"heads by preferred form of {'cosines' if dim == 'form' else 'weights'}"
    variable = described((dim,), np.array(number, dtype=np.float64), long_name=what, units="1", symbol="", equation="")
    return xr.Dataset({name: variable}, coords={dim: np.array(labels, dtype=object)})
