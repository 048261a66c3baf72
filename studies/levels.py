"""Recovery study of the verdicts on Assumptions 1 and 2: rates of false answers for effects inside,
at and outside the tolerance.

Run: python -m studies.verdicts --claim norms similarity [--heads 1000] [--seed 0]

Heads come from `norms` and `similarity`, 8 documents each, and are fitted and tested like those of
a run. The effects are fixed and the tolerance varies: the effect is `share` times the tolerance.

True values are the planted λ, trend and CV over positions. For the CVs within and over documents,
which depend on the number of documents, the true value is the mean over all heads. For a misfit it
is the distance of the expected cosines from the form fitted to them. For cosines that change along
the document it is the planted slope. Answers use errors moderated over the heads of a kind, as in a
run, and Student's t for comparison. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from geostat.datasets.tokens import LayerTokens
from geostat.fits.norms.fit import estimates
from geostat.fits.similarity.drift import Blocks, drift, sink_cosines
from geostat.fits.similarity.forms import ABSENT, by_lag, fitted_gram, solve
from geostat.fits.similarity.one_form import fit_batched, goodness
from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import PValues, against
from geostat.statistics.jackknife import SIGNIFICANCE, Estimate, jackknife
from geostat.statistics.moderation import Errors, moderated
from geostat.topics.claims import CLAIMS
from geostat.topics.records import Claim
from studies import norms as study_of_norms
from studies import similarity as study_of_similarity
from studies.similarity import DIMENSION, expected_cosine

DOCUMENTS: Final = 8
SHARES: Final = (0.5, 0.8, 1.0, 1.25, 2.0)
"""True effects, in units of the tolerance."""

NORMS: Final = (
    *study_of_norms.SETTINGS,
    study_of_norms.PlantedNorms(name="uneven", position=0.05, token=0.05),
)
"""Kinds of heads; in the last, norms vary more with position than by noise."""

MISFITS: Final = (
    (
        "exponential",
        study_of_similarity.PlantedSimilarity(
            form="offset", values={"beta": 0.3, "offset": 0.1}, rho0=0.15
        ),
    ),
    (
        "exponential",
        study_of_similarity.PlantedSimilarity(
            form="offset_power", values={"beta": 1.5, "offset": 0.2}, rho0=0.2
        ),
    ),
    (
        "offset",
        study_of_similarity.PlantedSimilarity(
            form="offset_power", values={"beta": 1.0, "offset": 0.1}, rho0=0.2
        ),
    ),
)
"""A fitted form, and heads with a different true form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """Documents whose cosines change along the document.

    spread: standard deviation of a document's slope. noise: that of a cosine about the line.
    """

    name: str
    spread: float
    noise: float
    skewed: bool = False
    slope: float = 0.05

    def draw(self, heads: int, random: np.random.Generator) -> FloatArray:
        """Draw the slopes of all documents, (document, head)."""
        shape = (DOCUMENTS, heads)
        return self.slope + self.spread * (
            (random.gamma(4.0, size=shape) - 4.0) / 2.0
            if self.skewed
            else random.normal(size=shape)
        )


SLOPES: Final = (
    Slopes(name="measured", spread=0.02, noise=0.09),
    Slopes(name="unlike", spread=0.1, noise=0.09, skewed=True),
    Slopes(name="unlike, falling", spread=0.1, noise=0.09, skewed=True, slope=-0.05),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Fitted heads of one kind: true effect of a claim and its estimates."""

    claim: Claim
    name: str
    truth: float
    estimate: Estimate

    def tested(self, share: float) -> tuple[PValues, PValues]:
        """Test the estimates against a tolerance of effect/`share`, with moderated errors and by
        Student's t.
        """
        estimate, documents = self.estimate, np.full(self.estimate.value.shape, float(DOCUMENTS))
        skew = np.full(documents.shape, np.nan) if estimate.skew is None else estimate.skew
        limit = abs(self.truth) / share
        by_moderation, by_t = (
            against(estimate.value, errors, limit, self.claim.side)
            for errors in (
                moderated(estimate.se, skew, documents, estimate.without),
                Errors.of_t(estimate.se, DOCUMENTS),
            )
        )
        return by_moderation, by_t


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRow:
    """Answers on one effect of one kind of head, if the true effect is `share` times the
    tolerance.
    """

    claim: str
    kind: str
    truth: float
    share: float
    mean: float
    holds: float
    fails: float
    t_holds: float
    t_fails: float
    """Shares of heads with an answer: with moderated errors, and by Student's t."""

    @property
    def false(self) -> float:
        """Largest share of heads with a false answer; at the tolerance both answers are false."""
        return self._wrong(self.holds, self.fails)

    @property
    def t_false(self) -> float:
        """Largest share of heads with a false answer by Student's t."""
        return self._wrong(self.t_holds, self.t_fails)

    def _wrong(self, holds: float, fails: float) -> float:
        return max(holds if self.share >= 1 else 0.0, fails if self.share <= 1 else 0.0)

    def line(self) -> str:
        """Return the row as a line of text."""
        return (
            f"{self.claim:22s} {self.kind:34s} true {self.truth:8.4f}, mean estimate"
            f" {self.mean:8.4f}, {self.share:4.2f} of the tolerance  holds {self.holds:6.1%}  fails"
            f" {self.fails:6.1%}  false {self.false:5.1%}  by t alone {self.t_false:5.1%}"
        )


def answers(kind: Kind) -> Iterator[LevelRow]:
    """Yield the answers for tolerances below, at and above the true effect."""
    for share in SHARES:
        parts = {
            f"{name}{side}": float((getattr(p, side) <= SIGNIFICANCE).mean())
            for name, p in zip(("", "t_"), kind.tested(share), strict=True)
            for side in ("holds", "fails")
        }
        mean = float(np.nanmean(kind.estimate.value))
        yield LevelRow(
            claim=kind.claim.key, kind=kind.name, truth=kind.truth, share=share, mean=mean, **parts
        )


def planted(setting: study_of_norms.PlantedNorms, tokens: int) -> dict[str, float]:
    """Return the expected effects of a kind of head."""
    variance = float(np.linspace(-0.5, 0.5, tokens - 1).var())
    return {
        "lam": setting.lam,
        "trend": setting.trend,
        "cv_position": float(np.sqrt(setting.position**2 + setting.trend**2 * variance)),
    }


def norms(heads: int, tokens: int, seed: int) -> Iterator[Kind]:
    """Yield the fitted heads of Assumption 1, by kind and claim."""
    claims = [claim for claim in CLAIMS if claim.group == "norms"]
    for place, setting in enumerate(NORMS):
        result = estimates(
            study_of_norms.draw(
                setting, heads, DOCUMENTS, tokens, np.random.default_rng(seed + place)
            ),
            first_content=1,
        )
        truths = {
            name: float(result[name].value.mean()) for name in ("cv_token", "cv_profile")
        } | planted(setting, tokens)
        for claim in claims:
            yield Kind(
                claim=claim,
                name=setting.name,
                truth=truths[claim.variable],
                estimate=result[claim.variable],
            )


def misfit(
    form: str, setting: study_of_similarity.PlantedSimilarity, lag: FloatArray, pairs: FloatArray
) -> float:
    """Return the mean absolute error by lag of a form fitted to the expected cosines of a kind of
    head.
    """
    gram = fitted_gram(
        setting.form, setting.tokens, rho0=setting.rho0, **(ABSENT | dict(setting.values))
    )
    expected = expected_cosine(gram.by_lag[1 : lag.size + 1], DIMENSION)
    fit = solve(form, lag, expected[None], pairs)
    return float(
        np.abs(
            expected
            - by_lag(form, lag, **{name: float(value[0]) for name, value in fit.values.items()})
        ).mean()
    )


def slopes(heads: int, tokens: int, seed: int) -> Iterator[Kind]:
    """Yield heads whose cosines change along the document: by lag, and with the sink."""
    claims = {claim.variable: claim for claim in CLAIMS}
    layer = LayerTokens(start=0, tokens=tokens, sink=True)
    block = np.linspace(0, tokens, 9).astype(np.int64)
    lag = np.unique(np.geomspace(1, tokens - 1, 12).astype(np.int64))
    blocks = Blocks.of(layer, block[:-1], block[1:] - 1, lag[:-1], lag[1:] - 1)
    for place, setting in enumerate(SLOPES):
        random = np.random.default_rng(seed + place)
        along = np.linspace(0.0, 1.0, tokens - 1)
        of_sink = setting.draw(heads, random)[..., None] * along
        sink = sink_cosines(of_sink + setting.noise * random.standard_normal(of_sink.shape))
        at_lag = setting.draw(heads, random)[..., None, None] * blocks.centre[:, None]
        means = at_lag + setting.noise * random.standard_normal(
            (*at_lag.shape[:-1], lag.size - 1)
        ) / np.sqrt(np.maximum(blocks.pairs, 1))
        moved, _ = drift(np.where(blocks.pairs > 0, means, np.nan), blocks)
        for name, result in (
            ("drift_slope", moved["drift_slope"]),
            ("sink_slope", sink["sink_slope"]),
        ):
            yield Kind(claim=claims[name], name=setting.name, truth=setting.slope, estimate=result)


def similarity(heads: int, tokens: int, seed: int) -> Iterator[Kind]:
    """Yield the fitted heads of Assumption 2, by kind and claim."""
    yield from slopes(heads, tokens, seed)
    for place, (form, setting) in enumerate(MISFITS):
        kind = replace(setting, tokens=tokens)
        data = study_of_similarity.draw(kind, heads, DOCUMENTS, seed + place).cosines
        fit = fit_batched(form, data)
        claim = next(claim for claim in CLAIMS if claim.key == f"similarity.{form}")
        yield Kind(
            claim=claim,
            name=kind.label,
            truth=misfit(form, kind, data.lag, data.pairs),
            estimate=jackknife(goodness(fit, data)["mae_by_lag"], fit.mae_replicates, data.carries),
        )
