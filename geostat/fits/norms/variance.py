"""Variance components of value norms: document, position, and what neither accounts for.

Model: ‖v_di‖ = μ + a_d + b_i + e_di for document d and content position i, all three random
with mean 0; one norm to each cell. The variances have a closed form, so that every head and every
jackknife replicate is exact: those of an analysis of variance, and, where that makes one negative,
the restricted maximum likelihood, which pools the offending mean square with the residual's.
Sources: Searle, Casella & McCulloch (1992), "Variance components", ch. 4; Thompson (1962), Annals
of Mathematical Statistics 33 (pooling). `content` is ‖v_i‖ of content tokens, (document, kv_head,
content), units of the value states, NaN where unknown. Imports numpy, scipy.special and, for one
head's mixed model, statsmodels.
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
"""Spread over mean below which norms, measured in float32, are constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSquares:
    """Mean squares of documents × positions, each of shape (...); NaN where there are fewer than
    two of either.
    """

    document: FloatArray
    position: FloatArray
    residual: FloatArray
    documents: FloatArray
    positions: FloatArray
    level: FloatArray

    def variances(self) -> dict[str, FloatArray]:
        """Variance components by the method of moments, units²; unbiased, so they can be
        negative.
        """
        return {
            "document": (self.document - self.residual) / self.positions,
            "position": (self.position - self.residual) / self.documents,
            "residual": self.residual,
        }

    def pooled(self) -> MeanSquares:
        """Pool what lies below the residual mean square with it, the smallest first: the
        restricted maximum likelihood.
        """
        d, p = self.documents - 1, self.positions - 1
        mean, degrees = self.residual, d * p
        first_is_document = self.document <= self.position
        for in_turn in (first_is_document, ~first_is_document):
            square, own = np.where(in_turn, self.document, self.position), np.where(in_turn, d, p)
            below = square < mean
            mean = np.where(below, (square * own + mean * degrees) / (own + degrees), mean)
            degrees = np.where(below, own + degrees, degrees)
        return replace(
            self,
            document=np.maximum(self.document, mean),
            position=np.maximum(self.position, mean),
            residual=mean,
        )


def complete_block(content: FloatArray) -> FloatArray:
    """Return the norms with NaN outside the documents that carry a head and the positions that
    all of these know: a table without holes.
    """
    known = np.isfinite(content)
    carries = known.any(axis=-1, keepdims=True)
    return np.where(carries & (known | ~carries).all(axis=0), content, np.nan)


def mean_squares(block: FloatArray) -> tuple[MeanSquares, MeanSquares]:
    """Return the mean squares of each head of a complete block, (kv_head,), and those without each
    document, (document, kv_head); units².

    Without a document that does not carry the head, nothing changes.
    """
    known = np.isfinite(block)
    carries = known.any(axis=-1)
    documents, positions = (
        carries.sum(axis=0).astype(np.float64),
        known.any(axis=0).sum(axis=-1).astype(np.float64),
    )
    means = np.where(known, block, 0.0).sum(axis=-1) / np.maximum(positions, 1)
    within = np.where(known, block - means[..., None], 0.0)
    # By the sum over documents, so that no array has two axes of documents: Σ_kl w_k·w_l = ‖Σ w‖².
    summed = within.sum(axis=0)
    own, with_rest = (within**2).sum(axis=-1), (within * summed).sum(axis=-1)
    total, shared = own.sum(axis=0), (summed**2).sum(axis=-1)
    level = np.where(carries, means, 0.0).sum(axis=0) / np.maximum(documents, 1)
    off = np.where(carries, means - level, 0.0)
    between = (off**2).sum(axis=0)
    others = np.maximum(documents - 1, 1)
    whole = _mean_squares(documents, positions, level, total, shared, between)
    left = documents - carries
    without = _mean_squares(
        left,
        np.broadcast_to(positions, left.shape),
        level - off / others,
        total - own,
        shared - 2 * with_rest + own,
        between - carries * off**2 * documents / others,
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
    """From sums of squares within documents, of their sums over documents (both by position),
    and of document means.
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
    """Return each component over the sum of the three; they add to 1, and are NaN where norms do
    not vary.
    """
    result = squares.variances()
    total = result["document"] + result["position"] + result["residual"]
    varies = total > (FLAT * squares.level) ** 2
    return {
        name: np.divide(part, total, out=np.full(total.shape, np.nan), where=varies)
        for name, part in result.items()
    }


def share_of_variance(whole: MeanSquares, without: MeanSquares, name: str) -> Estimate:
    """Return one share, of SOURCES, by restricted likelihood with its document jackknife, cut to 0
    and 1; arguments as from `mean_squares`.

    Replicates are those of the method of moments, smooth where the estimate is held at 0. With few
    documents their variance is far from symmetric, so the limits of the document share are those of
    the logarithm of the documents' mean square, the other two components held.
    """
    plain = jackknife(
        shares(whole)[name], shares(without)[name], without.documents < whole.documents
    )
    lower, upper = (
        _document_limits(whole, without) if name == "document" else (plain.lower, plain.upper)
    )
    cut = Estimate(
        value=shares(whole.pooled())[name],
        se=plain.se,
        lower=np.clip(lower, 0, 1),
        upper=np.clip(upper, 0, 1),
    )
    return cut.with_error_where(np.isfinite(plain.se))


def _document_limits(whole: MeanSquares, without: MeanSquares) -> tuple[FloatArray, FloatArray]:
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
    """Split the variance of content norms into document, position and residual, head by head.

    Returns share_document, share_position, share_residual (0 where the restricted likelihood is
    largest without the effect), and cv_position (standard deviation of the position effect over the
    mean: what `cv_profile` tends to with ever more documents), each (kv_head,).
    """
    whole, without = mean_squares(complete_block(content))
    out = {f"share_{name}": share_of_variance(whole, without, name) for name in SOURCES}
    # cv_position is the root of what is jackknifed; its error is never 0, also where it is itself.
    square, squares, positive = (
        ratio(each.variances()["position"], each.level**2)
        for each in (whole, without, whole.pooled())
    )
    limits = jackknife(square, squares, without.documents < whole.documents)
    return out | {"cv_position": replace(limits, value=positive).root(whole.documents)}


def mixed_model(content: FloatArray) -> MixedLMResultsWrapper | None:
    """Fit one head's split, (document, content), with statsmodels: a linear mixed model with
    crossed document and position effects.

    `result.vcomp` holds the document and position variances, `result.scale` the residual's, units
    of the value states squared. Takes seconds, not milliseconds: 8 documents of 1,023 content
    tokens about six. None where the norms cannot be split (fewer than two documents or positions,
    or norms that do not vary).
    """
    block = complete_block(content[:, None])[:, 0]
    results = mean_squares(block[:, None])[0]
    if not np.isfinite(shares(results)["residual"][0]):
        return None
    from scipy import sparse
    from statsmodels.regression.mixed_linear_model import MixedLMParams

    table = block[np.isfinite(block).any(axis=1)][:, np.isfinite(block).any(axis=0)]
    effects = {
        "document": np.repeat(np.eye(table.shape[0]), table.shape[1], axis=0),
        "position": sparse.kron(np.ones((table.shape[0], 1)), sparse.eye_array(table.shape[1])),
    }
    variances = results.pooled().variances()
    start = [max(float(variances[name][0] / variances["residual"][0]), 1e-3) for name in effects]
    first = MixedLMParams.from_components(fe_params=np.array([table.mean()]), vcomp=np.array(start))
    return restricted_likelihood(table.ravel(), np.ones((table.size, 1)), effects, first)


def restricted_likelihood(
    response: Any, fixed: Any, effects: Mapping[str, Any], start: Any = None
) -> MixedLMResultsWrapper:
    """Fit fixed effects and independent random ones by restricted likelihood with statsmodels.

    `effects` holds, by name, how much of each level an observation has, (observation, level).
    `result.notes` is what statsmodels would have warned of.
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
    # statsmodels warns whenever a component is near 0, also where the fit is sound: its words stay
    # with the result.
    result.notes = tuple(dict.fromkeys(str(one.message) for one in warned))
    return result
