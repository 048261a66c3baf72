"""Variance components of value norms: document, position and residual.

Model: ‖v_di‖ = μ + a_d + b_i + e_di for document d and content position i, all three effects random
with mean 0; one norm per cell. The estimates have a closed form, exact for every head and jackknife
replicate: analysis of variance and, where a component would be negative, restricted maximum
likelihood, which pools that mean square with the residual. Sources: Searle, Casella & McCulloch
(1992), "Variance components", ch. 4; Thompson (1962), Annals of Mathematical Statistics 33
(pooling). `content` is ‖v_i‖ of content tokens, (document, kv_head, content), units of the value
states, NaN where unknown. Imports numpy, scipy.special and, for one head's mixed model,
statsmodels.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import Estimate, jackknife

if TYPE_CHECKING:
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper

SOURCES: Final = ("document", "position", "residual")
FLAT: Final = float(np.finfo(np.float32).eps)
"""Relative spread below which norms, measured in float32, count as constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSquares:
    """Mean squares of documents × positions, (...); NaN with fewer than two of either."""

    document: FloatArray
    position: FloatArray
    residual: FloatArray
    documents: FloatArray
    positions: FloatArray
    level: FloatArray

    def variances(self) -> dict[str, FloatArray]:
        """Return variance components by the method of moments: unbiased, possibly negative."""
        return {
            "document": (self.document - self.residual) / self.positions,
            "position": (self.position - self.residual) / self.documents,
            "residual": self.residual,
        }

    def pooled(self) -> MeanSquares:
        """Return those of restricted likelihood: smaller ones are pooled with the residual's."""
        d, p = self.documents - 1, self.positions - 1
        mean, degrees = self.residual, d * p
        document_first = self.document <= self.position
        for is_document in (document_first, ~document_first):
            square = np.where(is_document, self.document, self.position)
            square_degrees = np.where(is_document, d, p)
            below = square < mean
            mean = np.where(
                below, (square * square_degrees + mean * degrees) / (square_degrees + degrees), mean
            )
            degrees = np.where(below, square_degrees + degrees, degrees)
        return replace(
            self,
            document=np.maximum(self.document, mean),
            position=np.maximum(self.position, mean),
            residual=mean,
        )


def complete_block(content: FloatArray) -> FloatArray:
    """Return norms, NaN but for documents that carry a head and positions that all of them know."""
    known = np.isfinite(content)
    carries = known.any(axis=-1, keepdims=True)
    return np.where(carries & (known | ~carries).all(axis=0), content, np.nan)


def mean_squares(block: FloatArray) -> tuple[MeanSquares, MeanSquares]:
    """Return mean squares of a complete block, (kv_head,), and leave-one-out ones, (document,
    kv_head); leaving out a document that does not carry the head changes nothing.
    """
    known = np.isfinite(block)
    carries = known.any(axis=-1)
    documents = carries.sum(axis=0).astype(np.float64)
    positions = known.any(axis=0).sum(axis=-1).astype(np.float64)
    means = np.where(known, block, 0.0).sum(axis=-1) / np.maximum(positions, 1)
    within = np.where(known, block - means[..., None], 0.0)
    # Σ_kl w_k·w_l = ‖Σ w‖² avoids arrays with two document axes.
    summed = within.sum(axis=0)
    by_document, with_sum = (within**2).sum(axis=-1), (within * summed).sum(axis=-1)
    total, shared = by_document.sum(axis=0), (summed**2).sum(axis=-1)
    level = np.where(carries, means, 0.0).sum(axis=0) / np.maximum(documents, 1)
    deviation = np.where(carries, means - level, 0.0)
    between = (deviation**2).sum(axis=0)
    others = np.maximum(documents - 1, 1)
    whole = _mean_squares(documents, positions, level, total, shared, between)
    remaining = documents - carries
    without = _mean_squares(
        remaining,
        np.broadcast_to(positions, remaining.shape),
        level - deviation / others,
        total - by_document,
        shared - 2 * with_sum + by_document,
        between - carries * deviation**2 * documents / others,
    )
    return whole, without


def _mean_squares(
    documents: FloatArray,
    positions: FloatArray,
    level: FloatArray,
    total: FloatArray,
    shared: FloatArray,
    between: FloatArray,
) -> MeanSquares:
    """Return mean squares from sums of squares: `total` within documents, `shared` of the sums over
    documents (both by position), `between` of document means.
    """
    enough = (documents > 1) & (positions > 1)
    d, p = np.where(enough, documents - 1, np.nan), np.where(enough, positions - 1, np.nan)
    by_position = shared / np.where(enough, documents, np.nan)
    return MeanSquares(
        document=positions * np.maximum(between, 0.0) / d,
        position=np.maximum(by_position, 0.0) / p,
        residual=np.maximum(total - by_position, 0.0) / (d * p),
        documents=documents,
        positions=positions,
        level=level,
    )


def shares(squares: MeanSquares) -> dict[str, FloatArray]:
    """Return each variance component over the sum of the three; NaN where norms do not vary."""
    result = squares.variances()
    total = result["document"] + result["position"] + result["residual"]
    varies = total > (FLAT * squares.level) ** 2
    return {
        name: np.divide(part, total, out=np.full(total.shape, np.nan), where=varies)
        for name, part in result.items()
    }


def _document_limits(whole: MeanSquares, without: MeanSquares) -> tuple[FloatArray, FloatArray]:
    """Return the limits of the document share, from those of the log document mean square."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log, logs = np.log(whole.document), np.log(without.document)
    result = jackknife(log, logs, without.documents < whole.documents).exp(whole.document)
    rest = np.maximum(whole.variances()["position"], 0.0) + whole.residual
    lower, upper = (
        np.maximum(limit - whole.residual, 0.0) / whole.positions
        for limit in (result.lower, result.upper)
    )
    with np.errstate(invalid="ignore"):
        return lower / (lower + rest), upper / (upper + rest)


def split(content: FloatArray) -> dict[str, Estimate]:
    """Split the variance of content norms into document, position and residual for each head.

    Shares are estimated by restricted likelihood (0 where it is largest without the effect).
    Replicates use the method of moments, which is smooth there. With few documents their variance
    is far from symmetric; the limits of the document share are therefore those of the logarithm of
    the documents' mean square, with the other two components fixed. cv_position, the standard
    deviation of the position effect over the mean, is the limit of `cv_profile` for many documents.

    Returns:
        share_document, share_position, share_residual and cv_position, (kv_head,).
    """
    whole, without = mean_squares(complete_block(content))
    carries = without.documents < whole.documents
    moments, replicates, pooled = (shares(part) for part in (whole, without, whole.pooled()))
    out = {}
    for name in SOURCES:
        limits = jackknife(moments[name], replicates[name], carries)
        lower, upper = limits.lower, limits.upper
        if name == "document":
            lower, upper = _document_limits(whole, without)
        share = Estimate(
            value=pooled[name],
            se=limits.se,
            lower=np.clip(lower, 0, 1),
            upper=np.clip(upper, 0, 1),
        )
        out[f"share_{name}"] = share.with_error_where(np.isfinite(limits.se))
    # cv_position² is jackknifed: the error of cv_position is above 0 even where cv_position is 0.
    square, squares, positive = (
        ratio(mean_square.variances()["position"], mean_square.level**2)
        for mean_square in (whole, without, whole.pooled())
    )
    limits = jackknife(square, squares, carries)
    return out | {"cv_position": replace(limits, value=positive).root(whole.documents)}


def mixed_model(content: FloatArray) -> MixedLMResultsWrapper | None:
    """Fit the variance split of one head, (document, content), as a statsmodels linear mixed model.

    Document and position effects are crossed. `result.vcomp` holds the document and position
    variances, `result.scale` the residual variance, in squared units of the value states. A fit
    takes seconds: about six for 8 documents of 1,023 content tokens. Returns None where the norms
    cannot be split (fewer than two documents or positions, or constant norms).
    """
    block = complete_block(content[:, None])[:, 0]
    squares = mean_squares(block[:, None])[0]
    if not np.isfinite(shares(squares)["residual"][0]):
        return None
    from scipy import sparse
    from statsmodels.regression.mixed_linear_model import MixedLMParams

    table = block[np.isfinite(block).any(axis=1)][:, np.isfinite(block).any(axis=0)]
    effects = {
        "document": np.repeat(np.eye(table.shape[0]), table.shape[1], axis=0),
        "position": sparse.kron(np.ones((table.shape[0], 1)), sparse.eye_array(table.shape[1])),
    }
    variances = squares.pooled().variances()
    start = [max(float(variances[name][0] / variances["residual"][0]), 1e-3) for name in effects]
    start_params = MixedLMParams.from_components(
        fe_params=np.array([table.mean()]), vcomp=np.array(start)
    )
    return restricted_likelihood(table.ravel(), np.ones((table.size, 1)), effects, start_params)


def restricted_likelihood(
    response: Any, fixed: Any, effects: Mapping[str, Any], start: Any = None
) -> MixedLMResultsWrapper:
    """Fit fixed effects and independent random effects by restricted likelihood with statsmodels.

    `effects` maps names to design matrices, (observation, level). `result.notes` holds the warnings
    of statsmodels.
    """
    from scipy import sparse
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    labels = [[[f"{name} {k}" for k in range(effect.shape[1])]] for name, effect in effects.items()]
    components = VCSpec(
        list(effects), labels, [[sparse.csr_array(effect)] for effect in effects.values()]
    )
    model = MixedLM(response, fixed, groups=np.ones(len(response)), exog_vc=components)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = model.fit(reml=True, method="lbfgs", start_params=start)
    # statsmodels warns whenever a component is near 0, even if the fit is sound; the result keeps
    # the warnings.
    result.notes = tuple(dict.fromkeys(str(warning.message) for warning in warned))
    return result
