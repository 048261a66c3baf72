"""Head regimes (/heads): labels, their stability over documents and thresholds, agreement of the
two criteria (Cohen's κ), and mean curves by regime.

Sources: arXiv 2602.01893, §4.2, Figures 7, 8, 10 and 11 (rules: `head_regime_rules`); Cohen (1960),
"A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20. In
this file `label` is the label from all documents, (criterion, layer, head). Imports numpy, xarray.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr

from geostat.analyses.head_regime_rules import (
    CRITERIA,
    REGIMES,
    SWEEP,
    THRESHOLDS,
    UNKNOWN,
    Features,
    Thresholds,
    labels,
    slack,
)
from geostat.datasets.separability import STATISTICS
from geostat.datasets.table import quantities
from geostat.datasets.tokens import kv_head_of_head, require
from geostat.datasets.variable import join_rows, variables
from geostat.statistics.arrays import FloatArray, pieces, ratio
from geostat.statistics.jackknife import Estimate, jackknife, leave_one_out_mean

NORMS: Final = (
    "representative_norm",
    "representative_norm_without_sink",
    "representative_norm_without_last",
)
COSINES: Final = ("cosine_to_sink", "cosine_to_last")
NEEDS: Final = {
    **{name: ("document", "layer", "head", "n") for name in (*NORMS, *COSINES, *STATISTICS)},
    "attention_weight": ("document", "layer", "head", "position"),
    "value_norm": ("document", "layer", "kv_head", "position"),
    "sink_cosine": ("document", "layer", "kv_head", "position"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCurves:
    """Contributions and alignment curves by document; NaN if the sink is not visible."""

    sizes: dict[str, FloatArray]
    """Contributions of sink, last token and the rest, (document, layer, head)."""
    sink: FloatArray
    """cos(s(N), v₀), (document, layer, head, n)."""
    last: FloatArray
    """cos(s(N), v_L), (document, layer, head, n)."""
    n: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of(cls, capture: xr.Dataset) -> HeadCurves:
        """Read a /capture dataset.

        The norm of the rest's sum follows from ‖s∖0‖² + ‖s∖L‖² − ‖s‖² + 2⟨α₀v₀, α_Lv_L⟩ at N = T;
        it is NaN if N = T was not measured.
        """
        names = set(NEEDS) - set(STATISTICS)
        values = {name: capture[name].values.astype(np.float64) for name in names}
        group = kv_head_of_head(capture)
        n = capture["n"].values
        tokens = capture["tokens"].values.astype(int)
        norm = values["value_norm"][:, :, group]
        y = values["attention_weight"] * np.where(np.isfinite(norm), norm, 0.0)
        y[~np.isfinite(norm).any(axis=-1)] = np.nan
        visible = capture["sink_visible"].values.astype(bool)[:, None]
        sink, last = np.where(visible, y[..., 0], np.nan), y[..., -1]
        cosine = values["sink_cosine"][:, :, group, -1]
        whole = n == tokens[:, None]
        index, measured = whole.argmax(axis=1), whole.any(axis=1)[:, None]
        norm_of_all, without_sink, without_last = (
            np.where(
                measured,
                values[name][:, np.arange(index.size), :, index].transpose(1, 0, 2),
                np.nan,
            )
            for name in NORMS
        )
        inner = np.where(sink * last == 0, 0.0, sink * last * cosine)
        squared = without_sink**2 + without_last**2 - norm_of_all**2 + 2 * inner
        sizes = {
            "sink": sink,
            "last": last,
            "rest": np.sqrt(np.maximum(squared, 0.0)),
            "rest_total": np.where(visible, y[..., 1:-1].sum(axis=-1), np.nan),
        }
        to_sink, to_last = (np.where(visible[..., None], values[name], np.nan) for name in COSINES)
        return cls(sizes=sizes, sink=to_sink, last=to_last, n=n, tokens=tokens)

    def label(self, shares: FloatArray, thresholds: Thresholds = THRESHOLDS) -> np.ndarray:
        """Label every head from weighted means over documents.

        Args:
            shares: weights of documents, (replicate, document).

        Returns:
            Codes, (criterion, replicate, layer, head).
        """
        parts = [
            self._label(partial(weighted, shares=shares[chunk]), thresholds)
            for chunk in pieces(len(shares), self.sink[0].size)
        ]
        return np.concatenate(parts, axis=1)

    def label_without_each(self) -> np.ndarray:
        """Label every head from leave-one-out means, (criterion, document, layer, head)."""
        return self._label(leave_one_out_mean, THRESHOLDS)

    def _label(
        self, mean: Callable[[FloatArray], FloatArray], thresholds: Thresholds
    ) -> np.ndarray:
        sizes = {name: mean(values) for name, values in self.sizes.items()}
        features = Features.of(mean(self.sink), mean(self.last), self.n, self.tokens, thresholds)
        return labels(sizes, features, thresholds)


def weighted(values: FloatArray, shares: FloatArray) -> FloatArray:
    """Return means over documents weighted by `shares`, (replicate, ...); NaN values are ignored.

    Args:
        values: (document, ...).
        shares: weights of documents, (replicate, document).
    """
    known = np.isfinite(values)
    total = shares @ np.where(known, values, 0.0).reshape(len(values), -1)
    weight = (
        shares.sum(axis=1, keepdims=True)
        if known.all()
        else shares @ known.reshape(len(values), -1).astype(np.float64)
    )
    return ratio(total, weight).reshape(len(shares), *values.shape[1:])


def stability(
    curves: HeadCurves, label: np.ndarray, without: np.ndarray, resamples: int, seed: int
) -> dict[str, Any]:
    """Return the share of leave-one-document-out labels, `without`, (criterion, document, layer,
    head), and of labels from bootstrap resamples of documents, that equal `label`.

    Shares are NaN with one document and for heads that cannot be classified.
    """
    count = len(curves.sink)
    shares = {
        "stability_leave_one_out": np.full(label.shape, np.nan),
        "stability_resampled": np.full(label.shape, np.nan),
    }
    if count > 1:
        shares["stability_leave_one_out"] = _same(without, label)
    if count > 1 and resamples:
        random = np.random.default_rng(seed)
        draws = random.multinomial(count, np.full(count, 1 / count), size=resamples)
        shares["stability_resampled"] = _same(curves.label(draws.astype(np.float64)), label)
    return shares


def _same(replicates: np.ndarray, label: np.ndarray) -> FloatArray:
    """Return the share of replicates, axis 1, with the same label; NaN if it is unknown."""
    return np.where(label == UNKNOWN, np.nan, (replicates == label[:, None]).mean(axis=1))


def sweep(curves: HeadCurves, label: np.ndarray, whole: FloatArray) -> dict[str, Any]:
    """Return the share of the sweep's settings in which a head has the same label, and the heads of
    each regime by setting.
    """
    codes = np.stack(
        [curves.label(whole, thresholds)[:, 0] for thresholds in SWEEP.values()], axis=1
    )
    heads = [(codes == code).sum(axis=(-1, -2)) for code in range(len(REGIMES))]
    return {"stability_sweep": _same(codes, label), "sweep_heads": np.stack(heads, axis=-1)}


def kappa(first: np.ndarray, second: np.ndarray) -> FloatArray:
    """Return Cohen's κ of two classifications over the heads that both classify, (...).

    Codes have shape (..., head); codes ≤ 0 are unclassified. κ is 0 for chance agreement and 1 for
    perfect agreement; NaN if no head has both classes, or if the chance agreement is 1.

    >>> round(float(kappa(np.array([1, 2, 2, 3]), np.array([1, 2, 3, 3]))), 3)
    0.636
    """
    both = (first > 0) & (second > 0)
    number = np.maximum(both.sum(axis=-1), 1)
    observed = ((first == second) & both).sum(axis=-1) / number
    parts = [
        ((first == code) & both).sum(axis=-1) * ((second == code) & both).sum(axis=-1)
        for code in range(1, len(REGIMES))
    ]
    chance = np.sum(parts, axis=0) / number**2
    return np.where(both.any(axis=-1), ratio(observed - chance, 1 - chance), np.nan)


def agreement(label: np.ndarray, without: np.ndarray) -> dict[str, Any]:
    """Return the number of heads that size and alignment both classify, the number with equal
    regimes, and κ with its document jackknife. `without` are the leave-one-document-out labels.
    """
    size, alignment = (
        label[list(CRITERIA).index(name)].reshape(-1) for name in ("size", "alignment")
    )
    both = (size > 0) & (alignment > 0)
    documents = without.shape[1]
    replicates = without[:2].reshape(2, documents, -1) if documents > 1 else np.zeros((2, 1, 1))
    estimate = jackknife(np.asarray(kappa(size, alignment)), kappa(*replicates))
    return {
        "classified": np.asarray(both.sum()),
        "agreed": np.asarray((both & (size == alignment)).sum()),
        "kappa": estimate,
    }


RESAMPLES: Final = 1000
SEED: Final = 0

_CODES: Final = [
    f"{code} {name}" for code, name in ((UNKNOWN, "not classifiable"), *enumerate(REGIMES))
]
VARIABLES: Final = quantities(
    r"""
    contribution_sink | value norm | \|\alpha_0 v_0\| | norm of the sink's contribution |
        dims: layer head | estimated
    contribution_last | value norm | \|\alpha_L v_L\| | norm of the last token's contribution |
        dims: layer head | estimated
    contribution_rest | value norm | \|\sum_{0<i<L} \alpha_i v_i\| | norm of the sum of the other
        tokens' contributions | dims: layer head | estimated
    contribution_rest_total | value norm | \sum_{0<i<L} \|\alpha_i v_i\| | sum of the norms of the
        other tokens' contributions | dims: layer head | estimated
    stability_leave_one_out | 1 | - | share of leave-one-document-out replicates with the same label
    stability_resampled | 1 | - | share of bootstrap resamples of documents with the same label
    stability_sweep | 1 | - | share of the sweep's settings with the same label
    sweep_heads | 1 | - | heads of a regime by setting of the sweep | dims: criterion sweep regime
    classified | 1 | - | heads that both size and alignment classify | dims: none
    agreed | 1 | - | heads to which size and alignment assign the same regime | dims: none
    kappa | 1 | \kappa | Cohen's kappa between size and alignment over the heads that both classify
        | dims: none | estimated
    label | 1 | - | regime of the head; the attribute codes has the meaning
    count | 1 | - | heads of a regime, by layer | dims: criterion regime layer | Fig. 8
    heads | 1 | - | heads of a regime | dims: criterion regime
    precision | 1 | P(r_{\max},N) | mean precision of a regime's heads | dims: criterion regime n |
        estimated | Fig. 11
    recall | 1 | R(r_{\min},N) | mean recall of a regime's heads | dims: criterion regime n |
        estimated | Fig. 11
    typical_layer | 1 | - | index of the layer of the typical head of the regime; -1 if it has no
        heads | dims: regime | Fig. 7
    typical_head | 1 | - | index of the head of the typical head of the regime; -1 if it has no
        heads | dims: regime | Fig. 7
    """,
    dims=("criterion", "layer", "head"),
    equation="§4.2",
    more={"label": {"codes": _CODES}},
)


def classify_heads(
    capture: xr.Dataset, *, resamples: int = RESAMPLES, seed: int = SEED
) -> xr.Dataset:
    """Classify every head of /capture, and summarise the heads of each regime.

    Args:
        resamples: bootstrap resamples of documents for the stability of labels.

    Returns:
        /heads with VARIABLES. Criteria are those of `CRITERIA`; labels are codes of `REGIMES`, −1
        for heads that cannot be classified. The typical head of a regime (by both criteria) has the
        median slack of the alignment conditions.
    """
    require(capture, NEEDS)
    documents, layers, heads, sizes = (capture.sizes[dim] for dim in NEEDS[NORMS[0]])
    by_layer = []
    for layer in range(layers):
        parts = [
            _of_heads(capture.isel(layer=[layer], head=group), resamples, seed)
            for group in pieces(heads, len(NEEDS) * documents * sizes)
        ]
        by_layer.append(_joined(parts, axis=-1))
    by_head = _joined(by_layer, axis=-2)
    label = by_head["label"]
    of_regime = np.stack([label == code for code in range(len(REGIMES))], axis=1)
    numbers = by_head | {
        "count": of_regime.sum(axis=-1),
        "heads": of_regime.sum(axis=(-1, -2)),
        **agreement(label, by_head["without"]),
        **_curves(capture, of_regime),
        **_typical(by_head["slack"], label),
    }
    coords: dict[str, Any] = {name: capture[name].variable for name in ("layer", "head", "n")}
    names = {"criterion": CRITERIA, "regime": REGIMES, "sweep": SWEEP}
    coords |= {dim: np.array(list(labels), dtype=object) for dim, labels in names.items()}
    attrs = {
        "long_name": "head regimes",
        "documents": documents,
        "resamples": resamples if documents > 1 else 0,
        "seed": seed,
        "thresholds": asdict(THRESHOLDS),
        "criteria": list(CRITERIA.values()),
        "notes": _notes(by_head, documents),
    }
    return xr.Dataset(variables(VARIABLES, numbers), coords=coords, attrs=attrs)


def _of_heads(capture: xr.Dataset, resamples: int, seed: int) -> dict[str, Any]:
    """Return the variables of single heads, leave-one-document-out labels, slacks, and masks of
    known inputs, (…, layer, head).
    """
    curves = HeadCurves.of(capture)
    whole = np.full((1, len(curves.sink)), 1.0)
    label, without = curves.label(whole)[:, 0], curves.label_without_each()
    sink, last = (weighted(values, whole)[0] for values in (curves.sink, curves.last))
    return {
        "label": label,
        "without": without,
        "slack": slack(Features.of(sink, last, curves.n, curves.tokens)),
        "curve_known": np.isfinite(curves.sink).any(axis=(0, -1)),
        "sink_known": np.isfinite(curves.sizes["sink"]).any(axis=0),
        "rest_known": np.isfinite(curves.sizes["rest"]).any(axis=0),
        **{
            f"contribution_{name}": replace(_mean(values), without=None)
            for name, values in curves.sizes.items()
        },
        **stability(curves, label, without, resamples, seed),
        **sweep(curves, label, whole),
    }


def _joined(parts: list[dict[str, Any]], axis: int) -> dict[str, Any]:
    """Concatenate the variables of groups of heads; sum the counts of the sweep."""
    sweep_heads = sum(part.pop("sweep_heads") for part in parts)
    return join_rows(parts, partial(np.concatenate, axis=axis)) | {"sweep_heads": sweep_heads}


def _mean(values: FloatArray) -> Estimate:
    """Return the mean over documents with its document jackknife."""
    return jackknife(
        weighted(values, np.full((1, len(values)), 1.0))[0],
        leave_one_out_mean(values),
        np.isfinite(values),
    )


def _curves(capture: xr.Dataset, of_regime: np.ndarray) -> dict[str, Any]:
    """Return mean Precision and Recall by regime, averaged over heads, then over documents."""
    curves: dict[str, Any] = {}
    member = of_regime.reshape(-1, of_regime[0, 0].size).astype(np.float64)
    shape = (*of_regime.shape[:2], capture.sizes["n"])
    for name in STATISTICS:
        values, parts = capture[name].values, []
        for documents in pieces(len(values), values[0].size):
            flat = values[documents].astype(np.float64).reshape(-1, member.shape[1], shape[-1])
            known = np.isfinite(flat)
            number = np.einsum("gh,khn->kgn", member, known, optimize=True)
            total = np.einsum("gh,khn->kgn", member, np.where(known, flat, 0.0), optimize=True)
            parts.append(ratio(total, number))
        curves[name] = _mean(np.concatenate(parts).reshape(-1, *shape))
    return curves


def _typical(margins: FloatArray, label: np.ndarray) -> dict[str, Any]:
    both = label[list(CRITERIA).index("both")]
    result = np.full((2, len(REGIMES)), -1)
    for code in range(1, len(REGIMES)):
        members = both == code
        if members.any():
            margin = margins[code - 1]
            distance = np.where(members, np.abs(margin - np.median(margin[members])), np.inf)
            result[:, code] = np.unravel_index(distance.argmin(), both.shape)
    return {"typical_layer": result[0], "typical_head": result[1]}


def _notes(by_head: dict[str, Any], documents: int) -> list[str]:
    """Return notes on missing results and the reasons."""
    label = by_head["label"]
    sink, rest, curve = (by_head[f"{name}_known"] for name in ("sink", "rest", "curve"))
    blind, hidden = int((~sink).sum()), int((sink & ~rest).sum())
    short = int(((label[1] == UNKNOWN) & curve).sum())
    notes = {
        f"{blind} of {label[0].size} heads do not see the sink or have no norms; their regime is"
        " undefined.": blind,
        f"{hidden} heads have no curve at N = T; the contribution of the other tokens is unknown."
        " Capture with --n that contains T.": hidden,
        f"{short} heads have no alignment curve from small to large N. Capture with more"
        " sizes.": short,
        "One document: no intervals, and no stability of labels.": documents < 2,
    }
    return [note for note, applies in notes.items() if applies]
