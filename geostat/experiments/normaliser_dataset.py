"""The normaliser's statements beside a model's heads as a dataset, /normaliser. Imports numpy and
xarray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.variable import Value, Variable, variables
from geostat.experiments.normaliser_numbers import SIZE, TEMPERATURES
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import document_mean
from theory.arrays import IntArray

SOURCE: Final = "arXiv 2508.17821"
_LEMMA_1, _THEOREM_1 = f"{SOURCE}, Lemma 1", f"{SOURCE}, Theorem 1"
_THEOREM_2, _LEMMA_2 = f"{SOURCE}, Theorem 2", f"{SOURCE}, Lemma 2"
_UNIT: Final = "over the head's summed effective weight"


def _mean(name: str, long_name: str, symbol: str, equation: str, *dims: str, **of: Any) -> Variable:
    """A mean over heads, estimated over documents."""
    return Variable(name, long_name, of.get("units", "1"), symbol, equation, {}, dims, True)


VARIABLES: Final = (
    _mean(
        "distance",
        f"summed distance of the tokens outside at N = {SIZE}, {_UNIT}",
        r"\tilde d",
        _THEOREM_1,
        "length",
    ),
    _mean(
        "distance_bound",
        f"its bound, {_UNIT}",
        r"\tilde d_{\mathrm{hi}}",
        _THEOREM_1,
        "length",
    ),
    _mean(
        "log_largest",
        "logarithm of the largest weight",
        r"\log \alpha_{\max}",
        _LEMMA_1,
        "length",
        units="nats",
    ),
    _mean(
        "below_upper",
        "how far the largest weight lies below its upper bound at the measured range of logits",
        r"-\log L\alpha_{\min}",
        _LEMMA_1,
        "length",
        units="nats",
    ),
    _mean(
        "above_lower",
        "how far the least weight lies above its lower bound at the measured range of logits",
        r"\log L\alpha_{\max}",
        _LEMMA_1,
        "length",
        units="nats",
    ),
    _mean("power", "power with which the largest weight falls in L", r"\gamma", _LEMMA_1),
    _mean(
        "distance_by_n",
        f"summed distance of the tokens outside, {_UNIT}",
        r"\tilde d(N)",
        _THEOREM_1,
        "n",
    ),
    _mean(
        "distance_bound_by_n",
        f"its bound, {_UNIT}",
        r"\tilde d_{\mathrm{hi}}(N)",
        _THEOREM_1,
        "n",
    ),
    _mean(
        "distance_chance",
        f"the same of N random tokens, {_UNIT}",
        r"\tilde d_{\mathrm{rand}}(N)",
        _THEOREM_1,
        "n",
    ),
    _mean(
        "ks",
        "Kolmogorov-Smirnov distance over heads between summed distances of the N largest weights"
        " and of N random tokens",
        r"D_{\mathrm{KS}}(N)",
        SOURCE,
        "n",
    ),
    _mean(
        "critical_share",
        "least N at which the two are not told apart, over L",
        r"N_{\mathrm{crit}}/L",
        SOURCE,
    ),
    _mean("within", "share of the selected within ‖s‖ of s", r"N_s/N", _THEOREM_2, "n"),
    _mean(
        "within_lower",
        "printed lower bound of that share for random directions",
        r"(N_s/N)_{\mathrm{lo}}",
        _THEOREM_2,
        "n",
    ),
    _mean(
        "within_upper",
        "printed upper bound of that share for random directions",
        r"(N_s/N)_{\mathrm{hi}}",
        _THEOREM_2,
        "n",
    ),
    _mean(
        "within_sharp_lower",
        "sharp lower bound of that share for random directions",
        r"(N_s/N)_{\mathrm{lo}}^{\mathrm{sharp}}",
        "",
        "n",
    ),
    _mean(
        "within_sharp_upper",
        "sharp upper bound of that share for random directions",
        r"(N_s/N)_{\mathrm{hi}}^{\mathrm{sharp}}",
        "",
        "n",
    ),
    _mean(
        "within_chance",
        "that share of random directions with the same effective weights",
        r"(N_s/N)_{\mathrm{rand}}",
        "",
        "n",
    ),
    Variable(
        "within_flat",
        "that share of random directions with flat weights",
        symbol=r"(N_s/N)_{\mathrm{flat}}",
        dims=("n",),
    ),
    _mean(
        "response",
        "change of the weights by a change of the logits in the steepest direction",
        r"\|\Delta\alpha\|/\varepsilon",
        _LEMMA_2,
        "temperature",
        units="1/nats",
    ),
    _mean(
        "response_most",
        "the same of the head that responds most",
        r"\max \|\Delta\alpha\|/\varepsilon",
        _LEMMA_2,
        "temperature",
        units="1/nats",
    ),
    Variable(
        "entry_limit",
        "bound of a slope, of the norm as printed",
        "1/nats",
        r"1/(4T)",
        _LEMMA_2,
        dims=("temperature",),
    ),
    Variable(
        "norm_limit",
        "bound of the Jacobian's norm",
        "1/nats",
        r"1/(2T)",
        dims=("temperature",),
    ),
)


def normaliser_dataset(
    documents: Sequence[Mapping[str, FloatArray]],
    *,
    lengths: Sequence[int],
    n: IntArray,
    flat: FloatArray,
    told: Mapping[str, Any],
) -> xr.Dataset:
    """Return /normaliser from the numbers of each document.

    Args:
        documents: means over heads by name, as `normaliser_numbers.Heads.numbers` gives them.
        lengths: tokens L of the curves over L, rising.
        n: sizes N of the curves over N, at the last L.
        flat: share within ‖s‖ of random directions with flat weights, (n,).
        told: attributes.

    Returns:
        The variables of VARIABLES: means over heads and documents with standard errors over
        documents.
    """
    cold = np.array(TEMPERATURES)
    given: dict[str, Value] = {
        "within_flat": flat,
        "entry_limit": 1 / (4 * cold),
        "norm_limit": 1 / (2 * cold),
    }
    numbers: dict[str, Value] = {
        one.name: given[one.name]
        if one.name in given
        else document_mean(np.stack([document[one.name] for document in documents]))
        for one in VARIABLES
    }
    data = xr.Dataset(
        variables(VARIABLES, numbers),
        coords={
            "length": xr.Variable(
                "length", list(lengths), {"long_name": "tokens that the query sees"}
            ),
            "n": xr.Variable("n", n, {"long_name": "tokens that are selected"}),
            "temperature": xr.Variable("temperature", cold, {"long_name": "temperature"}),
        },
    )
    data.attrs = {"long_name": "the normaliser's statements", "documents": len(documents), **told}
    return data
