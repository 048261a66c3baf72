"""Statements on the softmax normaliser as a dataset (/normaliser), with summary lines and records.

Numbers are by head in one document, then means over documents. Distances are in units of the head's
summed effective weight Σ α‖v‖, so heads can be averaged. Source: arXiv 2508.17821, Algorithms 1-5.
Imports numpy, xarray and theory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.datasets.table import quantities
from geostat.datasets.variable import Value, entries, interval, known, variables
from geostat.display.tree import PAPER
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.jackknife import document_mean
from geostat.statistics.losses import mean_over_documents
from theory.arrays import IntArray, selection_order
from theory.normaliser.measured import bounds_within, difference, nested, response, share_by_chance

SIZE: Final = 5
"""N of the curves over context lengths."""
SIZES: Final = 14
"""Number of sizes N of the curves over N."""
PAPER_SHARE: Final = 0.06
"""Critical N/L of GPT-2 in the paper; the nearest size is among the N."""
TEMPERATURES: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
CHANCE_DRAWS: Final = 16
"""Draws of random directions for each head and size."""

BY_LENGTH: Final = ("distance", "distance_bound", "log_largest", "below_upper", "above_lower")
WITHIN: Final = (
    *("within", "within_lower", "within_upper"),
    *("within_sharp_lower", "within_sharp_upper", "within_chance"),
)
BY_SIZE: Final = ("distance_by_n", "distance_bound_by_n", "distance_chance", *WITHIN)


def sizes_of(tokens: int) -> IntArray:
    """Return the sizes N for a window of `tokens` tokens, ascending.

    >>> sizes_of(64).tolist()
    [1, 2, 3, 4, 5, 7, 9, 13, 18, 24, 33, 46, 63]
    """
    grid = np.unique(np.geomspace(1, tokens - 1, SIZES).round().astype(np.int64))
    return np.unique([*grid, max(1, round(PAPER_SHARE * tokens))])


@dataclass(slots=True)
class Heads:
    """Measurements of the heads of one document, added layer by layer.

    Attributes:
        lengths: context lengths L, ascending; the last is the window length.
        n: sizes N at the last L.
    """

    lengths: Sequence[int]
    n: IntArray
    generator: np.random.Generator
    by_length: list[FloatArray] = field(default_factory=list)
    by_size: list[FloatArray] = field(default_factory=list)
    responses: list[FloatArray] = field(default_factory=list)

    def add(self, alpha: FloatArray, values: FloatArray, visible: BoolArray) -> None:
        """Add a layer.

        Args:
            alpha: weights of the last query of each context, (length, head, position).
            values: (kv_head, position, dimension).
            visible: tokens visible to these queries, (length, position). A layer whose window hides
                some of the L tokens is omitted at that L, and from the largest weights at all L.
        """
        group = alpha.shape[1] // len(values)
        whole = visible.sum(axis=1) == np.asarray(self.lengths)
        for head in range(alpha.shape[1]):
            x = values[head // group]
            rows = np.full((len(BY_LENGTH), len(self.lengths)), np.nan)
            for index in np.flatnonzero(whole):
                mask = visible[index]
                rows[:, index] = of_length(alpha[index, head, mask], x[mask])
            self.by_length.append(rows)
            if whole[-1]:
                last, mask = alpha[-1, head, visible[-1]], visible[-1]
                self.by_size.append(of_sizes(last, x[mask], self.n, self.generator))
                self.responses.append(
                    np.array([float(response(last, cold)) for cold in TEMPERATURES])
                )

    def numbers(self) -> dict[str, FloatArray]:
        """Return means over heads by name, the largest response, and Kolmogorov-Smirnov tests over
        heads of d̃ for the N largest weights against N random tokens.
        """
        over_length = np.stack(self.by_length)
        largest = BY_LENGTH.index("log_largest")  # use the same heads at all L
        incomplete = np.isnan(over_length[:, largest]).any(axis=-1)
        over_length[incomplete, largest] = np.nan
        unknown = np.full((1, len(BY_SIZE), len(self.n)), np.nan)
        over_size = np.stack(self.by_size) if self.by_size else unknown
        steep = np.stack(self.responses or [np.full(len(TEMPERATURES), np.nan)])
        numbers: dict[str, FloatArray] = {
            **dict(zip(BY_LENGTH, mean_over_documents(over_length), strict=True)),
            **dict(zip(BY_SIZE, over_size.mean(axis=0), strict=True)),
            "ks": unknown[0, 0],
            "critical_share": np.array(np.nan),
            "response": steep.mean(axis=0),
            "response_most": steep.max(axis=0),
        }
        numbers["power"] = power(self.lengths, numbers["log_largest"])
        if self.by_size:
            pair = ("distance_by_n", "distance_chance")
            top, chance = (over_size[:, BY_SIZE.index(name)] for name in pair)
            test = difference(top, chance, self.n)
            numbers["ks"] = test.statistic
            numbers["critical_share"] = np.array(test.critical / self.lengths[-1])
        return numbers


def of_length(alpha: FloatArray, values: FloatArray) -> FloatArray:
    """Return BY_LENGTH of one head: d̃ at N = SIZE, its bound, log α_max, and the log ratios of
    Lemma 1's upper bound to the largest weight and of the smallest weight to its lower bound.

    For the measured range of logits, log(α_max/α_min), the bounds are α_max/(α_min L) and
    α_min/(α_max L), so the log ratios are −log(L α_min) and log(L α_max).
    """
    distances = nested(alpha, values, selection_order(alpha), [SIZE])
    unit = _unit(alpha, values)
    with np.errstate(divide="ignore"):
        largest, least = np.log(alpha.max()), np.log(alpha.min())
    length = np.log(len(alpha))
    below = -(length + least) if np.isfinite(least) else np.nan
    return np.array(
        [distances.total[0] / unit, distances.bound[0] / unit, largest, below, length + largest]
    )


def of_sizes(
    alpha: FloatArray, values: FloatArray, n: IntArray, generator: np.random.Generator
) -> FloatArray:
    """Return BY_SIZE of one head, (quantity, n); bounds on the share are cut to [0, 1]."""
    order, unit = selection_order(alpha), _unit(alpha, values)
    top = nested(alpha, values, order, n)
    chance = nested(alpha, values, generator.permutation(len(alpha)), n, bounded=False)
    a = (alpha * np.linalg.norm(values, axis=1))[order]
    rows = np.empty((len(WITHIN), len(n)))
    rows[0] = top.within
    for index, size in enumerate(n.tolist()):
        if top.radius[index] > 0 and a[:size].min() > 0:
            within = bounds_within(alpha, values, size)
            printed = (within.printed_lower, within.printed_upper)
            bounds = (*printed, within.sharp_lower, within.sharp_upper)
            rows[1:5, index] = np.clip(np.concatenate(bounds), 0, 1)
        else:  # a token of weight 0 lies at the radius
            rows[1:5, index] = 0, 1, 0, 1
        rows[5, index] = share_by_chance(a[:size], values.shape[1], CHANCE_DRAWS, generator)
    return np.stack([top.total / unit, top.bound / unit, chance.total / unit, *rows])


def power(lengths: Sequence[int], log_largest: FloatArray) -> FloatArray:
    """Return γ of α_max ∝ L^−γ by least squares on logarithms; NaN with fewer than two lengths.

    >>> float(power([64, 128, 256], -0.5 * np.log([64, 128, 256])).round(6))
    0.5
    """
    known = np.isfinite(log_largest)
    if known.sum() < 2:
        return np.array(np.nan)
    x = np.log(np.asarray(lengths, dtype=np.float64)[known])
    x -= x.mean()
    return np.array(-(x @ log_largest[known]) / (x @ x))


def _unit(alpha: FloatArray, values: FloatArray) -> float:
    return float(alpha @ np.linalg.norm(values, axis=1))


RECORDS: Final = quantities(
    r"""
    distance | 1 | \tilde d | summed distance of unselected tokens at N = SIZE, over the head's
        summed effective weight | arXiv 2508.17821, Theorem 1 | dims: length | estimated
    distance_bound | 1 | \tilde d_{\mathrm{hi}} | bound on the summed distance of unselected tokens
        at N = SIZE, over the head's summed effective weight | arXiv 2508.17821, Theorem 1 |
        dims: length | estimated
    log_largest | nats | \log \alpha_{\max} | logarithm of the largest weight |
        arXiv 2508.17821, Lemma 1 | dims: length | estimated
    below_upper | nats | -\log L\alpha_{\min} | log ratio of the upper bound to the largest weight,
        at the measured range of logits | arXiv 2508.17821, Lemma 1 | dims: length | estimated
    above_lower | nats | \log L\alpha_{\max} | log ratio of the smallest weight to its lower bound,
        at the measured range of logits | arXiv 2508.17821, Lemma 1 | dims: length | estimated
    power | 1 | \gamma | exponent of the decrease of the largest weight with L |
        arXiv 2508.17821, Lemma 1 | dims: none | estimated
    distance_by_n | 1 | \tilde d(N) | summed distance of unselected tokens, over the head's summed
        effective weight | arXiv 2508.17821, Theorem 1 | estimated
    distance_bound_by_n | 1 | \tilde d_{\mathrm{hi}}(N) | bound on the summed distance of unselected
        tokens, over the head's summed effective weight | arXiv 2508.17821, Theorem 1 | estimated
    distance_chance | 1 | \tilde d_{\mathrm{rand}}(N) | summed distance for N random tokens, over
        the head's summed effective weight | arXiv 2508.17821, Theorem 1 | estimated
    ks | 1 | D_{\mathrm{KS}}(N) | Kolmogorov-Smirnov distance over heads between summed distances of
        the N largest weights and of N random tokens | arXiv 2508.17821 | estimated
    critical_share | 1 | N_{\mathrm{crit}}/L | smallest N at which the two distributions are not
        distinguished, over L | arXiv 2508.17821 | dims: none | estimated
    within | 1 | N_s/N | share of selected tokens within ‖s‖ of s |
        arXiv 2508.17821, Theorem 2 | estimated
    within_lower | 1 | (N_s/N)_{\mathrm{lo}} | printed lower bound of that share for random
        directions | arXiv 2508.17821, Theorem 2 | estimated
    within_upper | 1 | (N_s/N)_{\mathrm{hi}} | printed upper bound of that share for random
        directions | arXiv 2508.17821, Theorem 2 | estimated
    within_sharp_lower | 1 | (N_s/N)_{\mathrm{lo}}^{\mathrm{sharp}} | sharp lower bound of that
        share for random directions | estimated
    within_sharp_upper | 1 | (N_s/N)_{\mathrm{hi}}^{\mathrm{sharp}} | sharp upper bound of that
        share for random directions | estimated
    within_chance | 1 | (N_s/N)_{\mathrm{rand}} | that share for random directions with the same
        effective weights | estimated
    within_flat | 1 | (N_s/N)_{\mathrm{flat}} | that share for random directions with equal weights
    response | 1/nats | \|\Delta\alpha\|/\varepsilon | change of the weights per change of the
        logits in the steepest direction | arXiv 2508.17821, Lemma 2 | dims: temperature | estimated
    response_most | 1/nats | \max \|\Delta\alpha\|/\varepsilon | largest such change over heads |
        arXiv 2508.17821, Lemma 2 | dims: temperature | estimated
    entry_limit | 1/nats | 1/(4T) | bound on an entry of the Jacobian, printed as a bound on its
        norm | arXiv 2508.17821, Lemma 2 | dims: temperature
    norm_limit | 1/nats | 1/(2T) | bound on the norm of the Jacobian | dims: temperature
    """.replace("SIZE", str(SIZE)),
    dims=("n",),
)
"""Means over heads, estimated over documents, and limits."""


def normaliser_dataset(
    documents: Sequence[Mapping[str, FloatArray]],
    *,
    lengths: Sequence[int],
    n: IntArray,
    flat: FloatArray,
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """Return /normaliser from the numbers of each document.

    Args:
        documents: means over heads by name, from `numbers.Heads.numbers`.
        lengths: context lengths L, ascending.
        n: sizes N of the curves over N, at the last L.
        flat: share within ‖s‖ for random directions with equal weights, (n,).

    Returns:
        The variables of RECORDS: means over heads and documents with standard errors over
        documents.
    """
    cold = np.array(TEMPERATURES)
    numbers: dict[str, Value] = {
        record.name: document_mean(np.stack([document[record.name] for document in documents]))
        for record in RECORDS
        if record.estimated
    }
    numbers |= {"within_flat": flat, "entry_limit": 1 / (4 * cold), "norm_limit": 1 / (2 * cold)}
    coords = {
        "length": xr.Variable("length", list(lengths), {"long_name": "context length in tokens"}),
        "n": xr.Variable("n", n, {"long_name": "selected tokens"}),
        "temperature": xr.Variable("temperature", cold, {"long_name": "temperature"}),
    }
    long_name = "statements on the softmax normaliser"
    attrs = {"long_name": long_name, "documents": len(documents), **attributes}
    return xr.Dataset(variables(RECORDS, numbers), coords=coords, attrs=attrs)


REPORTED: Final[dict[str, Any]] = PAPER["paper_normaliser"]
"""Results reported in the paper."""
THEIRS: Final = f"{REPORTED['model']} in {REPORTED['source']}"


def summary(data: xr.Dataset, *, everything: bool = False) -> dict[str, Any]:
    """Return the results as lines, or all estimates as records if `everything`."""
    if everything:
        return {"normaliser": records(data), "paper": dict(REPORTED)}
    return {"normaliser": lines(data)}


def lines(data: xr.Dataset) -> list[str]:
    """Return a line for each statement of the paper."""
    first, last = (int(data["length"][index]) for index in (0, -1))
    near, whole = data.sel(n=size_of_paper(data)), data.isel(length=-1)
    cold = data.sel(temperature=0.1)
    low, high = REPORTED["within"]
    largest = float(data["n"].max()) / last
    return [
        (
            f"weights: the largest decreases as L^-{_number(data, 'power')} from L = {first} to"
            f" {last}; the paper expects L^-1 (Lemma 1)"
            if np.isfinite(data["power"])
            else f"weights: no estimate of the decrease of the largest from L = {first} to {last}"
        ),
        (
            f"distance: the summed distance of unselected tokens at N = {data.attrs['size']} and L"
            f" = {last} is {_number(whole, 'distance')} times the summed effective weight; its"
            f" bound is {_number(whole, 'distance_bound')}"
        ),
        (
            f"critical N: {_number(data, 'critical_share')} of L ({THEIRS}:"
            f" {REPORTED['critical_share']:.2f}); mean over documents with a critical N up to"
            f" {largest:.3f} of L, {int(data.attrs['heads'])} heads each"
        ),
        (
            f"separability at N = {int(near['n'])}: {_number(near, 'within')} of the selected"
            f" tokens lie within ‖s‖; for random directions {_number(near, 'within_chance')}, with"
            f" equal weights {float(near['within_flat']):.3f} ({THEIRS}: {low:.2f} to {high:.2f})"
        ),
        (
            f"response at T = 0.1: mean {_number(cold, 'response')}, largest"
            f" {_number(cold, 'response_most')}; 1/(4T) = {float(cold['entry_limit']):.3g}, 1/(2T)"
            f" = {float(cold['norm_limit']):.3g}"
        ),
    ]


def size_of_paper(data: xr.Dataset) -> int:
    """Return the size N nearest to the paper's share of L."""
    n = data["n"].values
    return int(n[np.abs(n - PAPER_SHARE * data.attrs["tokens"]).argmin()])


def records(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return every mean with its standard error; None for missing values."""
    return [
        {"quantity": name, **labels}
        | {"value": known(data[name][place]), "se": known(data[f"{name}_se"][place])}
        | interval(data, name, place)
        for name in (record.name for record in RECORDS if record.estimated)
        for place, labels in entries(data, name, every=True)
    ]


def _number(data: xr.Dataset, name: str) -> str:
    """Return a mean with its standard error as text."""
    value, error = float(data[name]), float(data[f"{name}_se"])
    if not np.isfinite(value):
        return "n/a"
    return f"{value:.3f}" + (f" ± {error:.3f}" if np.isfinite(error) else "")
