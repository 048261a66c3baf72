"""Answers of a confronted run: key results, claims, scoreboard, sentences and numbers of a head."""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from empirical.store.store import Store
from geostat.analyses.head_regime_rules import CRITERIA
from geostat.datasets.parts import of_parts
from geostat.datasets.separability import STATISTICS, over_queries
from geostat.datasets.tokens import head_indices
from geostat.datasets.variable import with_limits
from geostat.errors import shown_whole
from geostat.runs.groups import ASSUMPTIONS, group_of
from geostat.statistics.proportion import share_over_documents
from geostat.topics.summary import as_line
from geostat.topics.verdicts import counted_claims

PARTS: Final = ("value", "se", "lower", "upper")


def answers(store: Store, *, everything: bool = False) -> dict[str, Any]:
    """Return the key results as lines for a terminal.

    With `everything` return key results as records, every claim, the scoreboard of each part and
    the summary sentences.
    """
    summary = store.read("summary")
    with shown_whole(store.path):
        results = [json.loads(line) for line in summary.attrs["key_results"]]
        if not everything:
            return {"verdict": [as_line(result) for result in results]}
        return {
            "key_results": results,
            "claims": counted_claims(store.read("verdicts")),
            "scoreboard": [json.loads(text) for text in of_parts(summary, "scoreboard")],
            "sentences": list(summary.attrs["sentences"]),
        }


def claims(env: xr.DataTree) -> pd.DataFrame:
    """Return every claim of a confronted run as a row.

    Columns: the claim (`says`), its unit (`of`: kv_head or head), the tolerance, the number of
    heads for which it holds, fails, is undetermined or has no estimate, and the estimated share of
    heads for which it is true, with a 95% interval.

    >>> import geostat as gs
    >>> int(claims(gs.open("report")).loc["norms.cv", "fails"])
    8
    """
    verdicts = group_of(env, "verdicts")
    shares = dict.fromkeys(("true_share", "true_share_lower", "true_share_upper"), float)
    with shown_whole("the run"):
        return pd.DataFrame(counted_claims(verdicts)).set_index("key").astype(shares)


def head(run: xr.DataTree, name: str) -> xr.Dataset:
    """Return the numbers of one head: fitted parameters, Precision and Recall, regime and verdicts.

    Results that the run lacks are omitted.

    Args:
        run: a captured, fitted or confronted run.
        name: name of the head, such as L5H3.

    Returns:
        value, se, lower and upper (95%) by `parameter`, such as norms.C or similarity.beta.offset;
        precision and recall, means over documents and analysed queries, with 95% limits by `n`;
        answer, estimate, claim_lower, claim_upper and tolerance by `claim`; regime by `criterion`.

    Raises:
        InputError: if the run has no head of that name.

    >>> import geostat as gs
    >>> numbers = head(gs.open("report"), "L1H3")
    >>> numbers["regime"].sel(criterion="both").item()
    'unclassified'
    >>> numbers[["value", "se"]].sel(parameter="similarity.beta.offset").to_array().size
    2
    """
    capture = group_of(run, "capture")
    with shown_whole("the run"):
        groups = {key: node.to_dataset() for key, node in run.children.items()}
        indices = head_indices(capture, name)
        result = _scores(over_queries(groups), indices).merge(_parameters(groups, indices))
        if "heads" in groups:
            result = result.merge(_regime(groups["heads"], indices))
        if "verdicts" in groups:
            result = result.merge(_verdicts(groups["verdicts"], indices))
        labels = {dim: int(capture[dim].values[index]) for dim, index in indices.items()}
        result.attrs = {"name": f"L{labels['layer']}H{labels['head']}", **labels}
        return result


def _select(data: xr.Dataset | xr.DataArray, indices: Mapping[str, int]) -> Any:
    """Select one head and drop the labels of its layer and head."""
    return data.isel(indices, missing_dims="ignore", drop=True)


def _scores(capture: xr.Dataset, indices: Mapping[str, int]) -> xr.Dataset:
    result = xr.Dataset(coords={"n": capture["n"]})
    head = indices["layer"], indices["head"]
    for name in STATISTICS:
        curves = capture[name].transpose("document", "layer", "head", "n")
        # every head, for the dispersion that the interval of one head takes from all
        scores, select = curves.values.astype(np.float64), itemgetter(head)
        means = with_limits(name, ("n",), scores, select, share_over_documents)
        for part, (dims, values) in means.items():
            result[part] = (dims, values, dict(curves.attrs))
    return result


def _parameters(groups: Mapping[str, xr.Dataset], indices: Mapping[str, int]) -> xr.Dataset:
    """Return the scalar estimates of a head's fits, by form of the Gram where they depend on it."""
    numbers: dict[str, list[float]] = {part: [] for part in PARTS}
    words: dict[str, list[str]] = {name: [] for name in ("parameter", "units", "long_name")}
    for group in ASSUMPTIONS:
        data = _select(groups[group], indices) if group in groups else xr.Dataset()
        for name in sorted(map(str, data.data_vars)):
            if f"{name}_lower" not in data or data[name].dims not in ((), ("gram",)):
                continue
            for form in data["gram"].values if data[name].dims else [None]:
                of_form = data if form is None else data.sel(gram=form)
                for part in PARTS:
                    variable = name if part == "value" else f"{name}_{part}"
                    numbers[part].append(float(of_form[variable]))
                words["parameter"].append(".".join(filter(None, (group, name, form))))
                for text in ("units", "long_name"):
                    words[text].append(str(data[name].attrs[text]))
    return xr.Dataset(
        {part: ("parameter", np.array(column, float)) for part, column in numbers.items()},
        coords={name: ("parameter", np.array(column, object)) for name, column in words.items()}
        if words["parameter"]
        else {},
    )


def _regime(heads: xr.Dataset, indices: Mapping[str, int]) -> xr.Dataset:
    """Return the name of the regime by criterion."""
    names = dict(text.split(" ", 1) for text in heads["label"].attrs["codes"])
    codes = _select(heads["label"], indices).sel(criterion=list(CRITERIA)).values
    return xr.Dataset(
        {"regime": ("criterion", np.array([names[str(int(code))] for code in codes], object))},
        coords={"criterion": list(CRITERIA)},
    )


def _verdicts(verdicts: xr.Dataset, indices: Mapping[str, int]) -> xr.Dataset:
    """Return the answer to every claim, with estimate, interval and tolerance."""
    answer_names = json.loads(verdicts.attrs["answers"])
    names = ("claim", "says", "answer", "estimate", "claim_lower", "claim_upper", "tolerance")
    rows = []
    for claim in json.loads(verdicts.attrs["claims"]):
        unit = claim["of"]
        verdict = _select(verdicts.sel({f"claim_{unit}": claim["key"]}), indices)
        numbers = [float(verdict[f"{part}_{unit}"]) for part in ("estimate", "lower", "upper")]
        answer = answer_names[str(int(verdict[f"answer_{unit}"]))]
        rows.append([claim["key"], claim["says"], answer, *numbers, claim["tolerance"]])
    columns = zip(names, zip(*rows, strict=True), strict=True)
    data = xr.Dataset({name: ("claim", np.array(values)) for name, values in columns})
    return data.set_coords(["claim", "says"])
