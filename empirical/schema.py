"""Schema of a run: names, dimensions, units, symbols and equation numbers of every measured
variable.

Source: the definitions (1)-(8), (18)-(20) of arXiv 2602.01893 and the figures that show them.
Imports numpy and xarray.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import xarray as xr

SCHEMA_VERSION: Final = 6
"""Raised whenever a stored name, dimension, meaning or the layout on disk changes; a store of
another version is not resumed.
"""

RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "heads": {"told": "classified", "stability_left_out": "stability_leave_one_out"},
    "ablation": {
        "told": "r2_held_out_layers",
        "told_by": "predictor",
        "told_heads": "r2_heads",
        "known": "feature",
        "given": "controls",
        "kept_mass": "selected_mass",
    },
}
"""Names of schema 4 in result groups, with those of today; limits and errors follow."""


JACKKNIFE: Final = "95% document jackknife, t(K-1)"
MODERATED: Final = "95% document jackknife, t moderated over heads"
HEADS: Final = ("head", "kv_head")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Metadata of a measured or fitted quantity; `symbol` is LaTeX without dollar signs, `more`
    holds further attributes.

    An `estimated` quantity x has x_se, x_lower and x_upper. A `tested` one, with a claim or with a
    share between kinds of text, also has x_skew and x_without (…, document). The `dims` of a
    captured quantity are those after `document`.
    """

    name: str
    long_name: str = ""
    units: str = "1"
    symbol: str = ""
    equation: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    dims: tuple[str, ...] = ()
    estimated: bool = False
    tested: bool = False
    dtype: str = "float32"
    """Dtype of a captured quantity."""
    invisible: float | None = None
    """Value at positions that a layer's query does not see; None: `fill`, as for missing values."""

    @property
    def fill(self) -> float | int | str:
        """Value where nothing was measured: NaN for floats, 0 for counts."""
        return float("nan") if np.dtype(self.dtype).kind == "f" else 0

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes stored with the array."""
        names = ("long_name", "units", "symbol", "equation")
        attributes = {name: getattr(self, name) for name in names}
        if self.estimated:
            attributes["interval"] = MODERATED if self.of_heads() else JACKKNIFE
        return attributes | dict(self.more)

    def of_heads(self) -> list[int]:
        """Return the indices of the dims that index heads; empty without such dims."""
        indices = [index for index, dim in enumerate(self.dims) if dim in ("layer", *HEADS)]
        return indices if set(HEADS) & set(self.dims) else []

    def parts(self) -> dict[str, Quantity]:
        """Return the records of an estimate's arrays by part; "value" alone if not estimated."""
        out = {"value": self}
        for part, (long_name, symbol) in _PARTS.items():
            if self.tested if part in ("skew", "without") else self.estimated:
                out[part] = replace(
                    self,
                    name=f"{self.name}_{part}",
                    long_name=long_name.format(self.long_name),
                    symbol=symbol.format(self.symbol),
                    units="1" if part == "skew" else self.units,
                    dims=(*self.dims, "document") if part == "without" else self.dims,
                )
        return out


_PARTS: Final = {
    "se": ("standard error of {}", r"\mathrm{{se}}({})"),
    "lower": ("lower limit of {}", r"{{{}}}_{{\mathrm{{lo}}}}"),
    "upper": ("upper limit of {}", r"{{{}}}_{{\mathrm{{hi}}}}"),
    "skew": ("skewness of single documents in {}", r"\mathrm{{G}}_1({})"),
    "without": ("{}, without the document", r"{{{}}}_{{(k)}}"),
}
"""Long name and symbol of an estimate's arrays, by part."""


def captured(
    dims: str, long_name: str, units: str, symbol: str, equation: str, **more: Any
) -> Quantity:
    """Return the record of a captured quantity without a name; `dims` are separated by spaces."""
    return Quantity("", long_name, units, symbol, equation, dims=tuple(dims.split()), **more)


def named(records: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return records by name, each with its name set."""
    return {name: replace(record, name=name) for name, record in records.items()}


def _table(dims: str, text: str, **more: Any) -> dict[str, Quantity]:
    """Return captured quantities of equal `dims`, one a line: name; unit; symbol; equation; long
    name. An indented line continues the one above.
    """
    records = {}
    for line in re.sub(r"\n\s+", " ", text.strip()).splitlines():
        name, units, symbol, equation, long_name = (part.strip() for part in line.split(";"))
        records[name] = captured(dims, long_name, units, symbol, equation, **more)
    return named(records)


_CURVE = "layer head n"
_POSITION = "layer kv_head position"
_WEIGHT = "layer head position"

SEPARABILITY: Final = _table(
    _CURVE,
    r"""
precision; 1; P(r_{\max},N); (2), Definition 1; Precision at the outer radius
recall; 1; R(r_{\min},N); (3), Definition 2; Recall at the inner radius
r_min; value norm; r_{\min}; (18); inner radius
r_max; value norm; r_{\max}; (18); outer radius
""",
)

CURVES: Final = _table(
    _CURVE,
    r"""
representative_norm; value norm; \|s(N)\|; (1); norm of the representative
representative_norm_without_sink; value norm; \|s(N\setminus 0)\|; Fig. 7;
    norm of the representative without the sink
representative_norm_without_last; value norm; \|s(N\setminus L)\|; Fig. 7;
    norm of the representative without the last token
cosine_to_sink; 1; \cos(s,v_0); Fig. 7; cosine of the representative with the sink's value
cosine_to_last; 1; \cos(s,v_L); Fig. 7; cosine of the representative with the last value
a_min_in; value norm; a_{\min}^{\mathrm{in}}; (7);
    smallest selected effective weight, sink excluded
a_min_in_with_sink; value norm; \min_{I_N} a_i; (7); smallest selected effective weight
a_max_in; value norm; a_{\max}^{\mathrm{in}}; (8); largest selected effective weight, sink included
a_max_in_without_sink; value norm; \max_{I_N\setminus 0} a_i; (8);
    largest selected effective weight, sink excluded
a_max_out; value norm; a_{\max}^{\mathrm{out}}; (7); largest effective weight outside
s_in; value norm; S_{\mathrm{in}}; (7); sum of the selected effective weights, sink excluded
rho_in; 1; \rho_{\mathrm{in}}; (8); largest cosine among the selected, sink excluded
rho_out; 1; \rho_{\mathrm{out}}; (7);
    largest cosine between a selected and another token, selected sink excluded
""",
)
"""Columns of the compiled `curves_of_head` in order, then the largest cosines. The unit of every
quantity in value-state space is "value norm", that of the model's value states.
"""

CAPTURE: Final = (
    _table("position", "token_id; 1; ; ; token id", dtype="int32")
    | _table(
        _WEIGHT,
        r"attention_weight; 1; \alpha_i; §2; attention weight of the last query",
        invisible=0.0,
    )
    | _table(
        _POSITION,
        r"""
value_norm; value norm; \|v_i\|; Assumption 1; norm of the value state
sink_cosine; 1; \cos(v_0,v_i); (6), Assumption 2.2; cosine with the sink's value state
cosine_to_last_value; 1; \cos(v_i,v_L); (6); cosine with the last value state
""",
    )
    | _table(
        "layer kv_head lag",
        r"""
cosine_mean; 1; \overline{\cos}(k); (6), Assumption 2.1; mean cosine of content values at a lag
cosine_std; 1; \mathrm{sd}\cos(k); (6); standard deviation of the cosine at a lag
cosine_negative_fraction; 1; \Pr(\cos<0); (6); share of negative cosines at a lag
""",
    )
    | _table(
        "layer kv_head lag_bin cosine_bin",
        "cosine_histogram; pairs; ; (6); pairs by lag and cosine",
        dtype="int32",
    )
    | _table(
        "layer kv_head position_block lag_bin",
        r"""
cosine_block_mean; 1; \overline{\cos}(k); (6); mean cosine by position of the later token and lag
""",
    )
    | SEPARABILITY
    | CURVES
)
"""All variables of /capture except the principal components of named heads."""

PRINCIPAL: Final = _table(
    "named_head position component",
    "principal_components; value norm; ; Figs. 1 and 9; principal components of the contributions",
)

NULLS: Final = (
    "random_selection",
    "random_directions",
    "permuted_values",
    "permuted_sink",
    "permuted_octaves",
    "other_head",
)
"""Null baselines, as defined in `measure.nulls`."""

NULL: Final = {
    name: replace(
        row, dims=("layer", "head", "null", "n"), long_name=f"{row.long_name}, null baseline"
    )
    for name, row in SEPARABILITY.items()
}

F_SCORES: Final = _table(
    _CURVE,
    r"""
f_outer; 1; F(r_{\max},N); (5), Corollary 1; F-score at the outer radius
f_inner; 1; F(r_{\min},N); (5), Corollary 1; F-score at the inner radius
""",
)
"""Stored in /queries only; elsewhere derived from Precision and Recall on reading
(`with_f_scores`).
"""

BY_QUERY: Final = ("precision", "recall")
"""Curves stored for every query; F-scores follow from them."""

_WITHIN = "mean over the queries of a document"
_COUNTS = {"dtype": "int32"}
_MEANS = {name: SEPARABILITY[name] for name in BY_QUERY} | F_SCORES

QUERIES: Final = (
    _table("query", "query_position; 1; ; ; position of the analysed query", **_COUNTS)
    | _table("layer n", "counted; 1; ; ; queries that see at least N tokens", **_COUNTS)
    | {
        name: replace(quantity, long_name=f"{quantity.long_name}, {_WITHIN}")
        for name, quantity in _MEANS.items()
    }
    | _table(
        _CURVE,
        r"""
precision_sd; 1; \mathrm{sd}\,P; (2);
    standard deviation of Precision over the queries of a document
recall_sd; 1; \mathrm{sd}\,R; (3); standard deviation of Recall over the queries of a document
""",
    )
    | {
        f"{name}_by_query": replace(
            SEPARABILITY[name],
            dims=("layer", "head", "query", "n"),
            long_name=f"{SEPARABILITY[name].long_name}, of each query",
        )
        for name in BY_QUERY
    }
    | _table(
        _WEIGHT,
        rf"attention_weight; 1; \overline{{\alpha_i}}; §2;"
        f" attention weight, {_WITHIN}, aligned at both ends",
        invisible=0.0,
    )
    | _table(
        _WEIGHT,
        rf"log_attention_weight; nats; \overline{{\log\alpha_i}}; Assumption 3;"
        f" logarithm of the attention weight, {_WITHIN}, aligned at both ends",
    )
    | _table("layer", "weight_queries; 1; ; ; queries whose weights are averaged", **_COUNTS)
    | _table(
        "layer head",
        r"""
sink_weight_sd; 1; \mathrm{sd}\,\alpha_0; Assumption 3;
    standard deviation of the sink's weight over the queries of a document
""",
    )
)
"""All variables of /queries, for runs that analyse several queries of a document."""

_AMENDED = "amended assumptions"
_OCTAVES = "layer head octave octave_other"
_PAIRS = "pairs of different tokens"

RANKS: Final = (
    _table(
        "layer head octave",
        rf"""
octave_square; value norm²; n^2(o); {_AMENDED};
    mean squared norm of the content tokens in an octave of ranks
""",
    )
    | _table(
        "layer head octave",
        f"octave_tokens; 1; ; {_AMENDED}; content tokens in an octave, over the sampled queries",
        **_COUNTS,
    )
    | _table(
        _OCTAVES,
        rf"""
octave_product; value norm²; \overline{{\langle v_r,v_{{r'}}\rangle}}; {_AMENDED};
    mean product of the values of {_PAIRS}, by octave of both ranks
""",
    )
    | _table(
        _OCTAVES,
        rf"""
octave_pairs; 1; ; {_AMENDED}; {_PAIRS}, by octave of both ranks
octave_repeats; 1; ; {_AMENDED};
    tokens whose id has a higher rank too, by their octave and that of the highest rank
""",
        **_COUNTS,
    )
    | _table(
        "layer head octave lag_octave",
        rf"""
lag_cosine; 1; \overline{{\cos(v_r,v_{{r'}})}}; {_AMENDED};
    mean cosine of sampled {_PAIRS}, by octave of the larger rank and of the lag
""",
    )
    | _table(
        "layer head octave lag_octave",
        f"""
lag_pairs; 1; ; {_AMENDED}; sampled {_PAIRS}, by octave of the larger rank and of the lag
""",
        **_COUNTS,
    )
    | _table(
        "layer head",
        rf"""
equal_product; value norm²; ; {_AMENDED}; mean product of the values of equal content tokens
equal_square; value norm²; ; {_AMENDED}; mean squared norm of the tokens of these pairs
residual_square; value norm²; \mathrm{{tr}}\,W; {_AMENDED};
    trace of the covariance within octaves, at ranks beyond 31
residual_along_s; 1; \hat s^\top W\hat s/\mathrm{{tr}}\,W; {_AMENDED};
    share of W along the weighted sum of the values at ranks to 31
residual_along_mean; 1; \hat m^\top W\hat m/\mathrm{{tr}}\,W; {_AMENDED};
    share of W along the mean value
residual_concentration; 1; \mathrm{{tr}}\,W^2/\mathrm{{tr}}^2W; {_AMENDED};
    concentration of W at the last query, 1 over its effective dimension
class_square; value norm²; n_S^2; {_AMENDED}; mean squared norm of the functional sinks
class_cosine; 1; \rho_S; {_AMENDED}; mean cosine of the functional sinks with content tokens
class_cosine_sd; 1; \mathrm{{sd}}\,\rho_S; {_AMENDED};
    standard deviation over content tokens of their mean cosine with the functional sinks
""",
    )
    | _table(
        "layer head",
        f"""
equal_pairs; 1; ; {_AMENDED}; pairs of equal content tokens, over the sampled queries
sink_first; 1; ; {_AMENDED}; 1 if the token at position 0 is a functional sink
""",
        **_COUNTS,
    )
    | _table(
        "layer head query rank",
        rf"""
log_weight; nats; \log\alpha_{{(r)}}; {_AMENDED}; log weight of the content token at a rank
""",
    )
    | _table(
        "layer head query sink",
        rf"""
sink_log_weight; nats; \log\alpha_s; {_AMENDED};
    log weights of the functional sinks, the largest first
""",
    )
    | _table(
        "layer head query",
        f"content_tokens; 1; ; {_AMENDED}; visible tokens that are no functional sinks",
        **_COUNTS,
    )
)
"""All variables of /ranks."""

LABELS: Final = {
    "layer": ("layer", "layer", "1"),
    "tokens": ("layer", "visible tokens T", "tokens"),
    "sink_visible": ("layer", "position 0 is visible", "1"),
    "head": ("head", "head", "1"),
    "kv_head_of_head": ("head", "kv_head of a head", "1"),
    "kv_head": ("kv_head", "kv_head", "1"),
    "position": ("position", "position", "1"),
    "n": ("n", "selected tokens N", "1"),
    "lag": ("lag", "lag |i-j|", "tokens"),
    "lag_bin": ("lag_bin", "lag bin", "1"),
    "lag_bin_start": ("lag_bin", "first lag of the bin", "tokens"),
    "lag_bin_stop": ("lag_bin", "last lag of the bin", "tokens"),
    "cosine_bin": ("cosine_bin", "cosine bin", "1"),
    "cosine_bin_left": ("cosine_bin", "left edge of the cosine bin", "1"),
    "cosine_bin_right": ("cosine_bin", "right edge of the cosine bin", "1"),
    "position_block": ("position_block", "position bin", "1"),
    "position_block_start": ("position_block", "first position of the bin", "1"),
    "position_block_stop": ("position_block", "last position of the bin", "1"),
    "named_head": ("named_head", "named head", "1"),
    "component": ("component", "principal component", "1"),
    "null": ("null", "null baseline", "1"),
    "query": ("query", "analysed query", "1"),
    "octave": ("octave", "octave of ranks 2^o to 2^(o+1) - 1", "1"),
    "octave_other": ("octave_other", "octave of the other token's rank", "1"),
    "lag_octave": ("lag_octave", "octave of lags 2^o to 2^(o+1) - 1", "1"),
    "rank": ("rank", "rank of the weight among content tokens", "1"),
    "sink": ("sink", "functional sink by weight", "1"),
}
"""All coordinates of /capture, /null and /ranks: dimension, long name and unit."""


def coordinates(**values: np.ndarray) -> dict[str, xr.Variable]:
    """Return coordinate variables by name, with the attributes of `LABELS`.

    >>> coordinates(lag=np.arange(1, 4))["lag"].attrs
    {'long_name': 'lag |i-j|', 'units': 'tokens'}
    """
    described = [(name, array, *LABELS[name]) for name, array in values.items()]
    return {
        name: xr.Variable(dim, array, {"long_name": long_name, "units": units})
        for name, array, dim, long_name, units in described
    }


def f_scores(precision: Any, recall: Any, convention: str) -> tuple[Any, Any]:
    """Return F(r_max) and F(r_min) of arrays of any library; (5), Corollary 1.

    `paper`: R(r_max) = 1 and P(r_min) = 1, so F(r_max) = 2P/(1+P) and F(r_min) = 2R/(1+R).
    `followup`: both equal the single F = 2PR/(P+R), 0 if both are 0.
    """
    if convention != "followup":
        return 2 * precision / (1 + precision), 2 * recall / (1 + recall)
    total = precision + recall
    both = 2 * precision * recall / (total + (total == 0))
    return both, both


def with_current_names(group: str, dataset: xr.Dataset) -> xr.Dataset:
    """Return a result group in which variables and labels of schema 4 have today's names."""
    names = {}
    for name in map(str, {*dataset.variables, *dataset.dims}):
        base = re.sub("_(se|lower|upper)$", "", name)
        current = RENAMED.get(group, {}).get(base, base.replace("loss_left_out", "loss_held_out"))
        if current != base:
            names[name] = current + name.removeprefix(base)
    if group == "sink" and "measure" in dataset.variables:
        labels = dataset["measure"].str.replace("value_heads", "kv_heads")
        dataset = dataset.assign_coords(measure=labels.assign_attrs(dataset["measure"].attrs))
    return dataset.rename(names) if names else dataset


def with_f_scores(dataset: xr.Dataset) -> xr.Dataset:
    """Add f_outer and f_inner to a dataset with Precision and Recall, by the run's convention."""
    if not {"precision", "recall"} <= set(dataset.data_vars) or "convention" not in dataset.attrs:
        return dataset
    if set(F_SCORES) <= set(dataset.data_vars):  # F of means over queries is not the mean of F
        return dataset
    outer, inner = f_scores(dataset["precision"], dataset["recall"], dataset.attrs["convention"])
    return dataset.assign(
        f_outer=outer.assign_attrs(F_SCORES["f_outer"].attributes),
        f_inner=inner.assign_attrs(F_SCORES["f_inner"].attributes),
    )
