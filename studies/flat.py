"""Recovery study of *holds trivially*: how often a form beats a flat one if the truth is flat, and
if it is not.

Run: python -m studies.verdicts --claim flat [--heads 200] [--seed 0] [--tokens 257]

Similarity: documents drawn from Model G with the same cosine at every lag, or from an exponential
decay. With a `spread`, the cosines of a document are shifted by a normal amount of that standard
deviation. Weights: documents with the noise of `studies.weights`, or a quarter of it, about a flat
profile, or about four phases. Heads are fitted, tested and counted like those of a run. Imports
numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from geostat.fits.similarity.one_form import fit_batched, goodness
from geostat.fits.weights.fit import fit_weights
from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import HOLDS, HOLDS_TRIVIALLY, against, answers, beyond_flat
from geostat.statistics.jackknife import SIGNIFICANCE, jackknife
from geostat.statistics.moderation import moderated
from geostat.statistics.one_standard_error import gain_over
from geostat.topics.claims import CLAIMS
from studies.similarity import PlantedSimilarity, draw
from studies.weights import DOCUMENTS, NOISE, PlantedWeights, drawn, plant

COSINES: Final = (
    (PlantedSimilarity(form="constant", values={"offset": 0.05}, rho0=0.05), 0.0),
    (PlantedSimilarity(form="constant", values={"offset": 0.05}, rho0=0.05), 0.05),
    (PlantedSimilarity(form="constant", values={"offset": 0.3}, rho0=0.3), 0.05),
    (PlantedSimilarity(form="exponential", values={"beta": 0.1}, rho0=0.1), 0.05),
    (PlantedSimilarity(form="exponential", values={"beta": 0.5}, rho0=0.05), 0.05),
    (PlantedSimilarity(form="exponential", values={"beta": 2.0}, rho0=0.0), 0.05),
)
"""Kinds of heads, and the spread of cosines over documents."""
PHASES: Final = ("absent", "strong")
NOISES: Final = (1.0, 0.25)
"""Noise per token and document, in units of the measured noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatRow:
    """Answers on a claim in one kind of head, as shares of all heads; `beats` is the share in which
    the form has a significantly lower held-out loss than a flat one.
    """

    claim: str
    truth: str
    beats: float
    holds: float
    trivially: float

    def line(self) -> str:
        """Return the row as a line of text."""
        return (
            f"{self.claim:23s} true: {self.truth:44s} beats a flat form {self.beats:6.1%}  holds"
            f" {self.holds:6.1%}  holds trivially {self.trivially:6.1%}"
        )


def _row(
    key: str, truth: str, estimate: FloatArray, se: FloatArray, skew: FloatArray, flat: FloatArray
) -> FlatRow:
    """Count the answers of heads of one kind, with moderated errors as in a run."""
    claim = next(claim for claim in CLAIMS if claim.key == key)
    errors = moderated(se, skew, np.full(estimate.shape, float(DOCUMENTS)))
    p = against(estimate, errors, claim.tolerance.value, claim.side)
    given = answers(beyond_flat(p, flat), np.isfinite(estimate), p.holds)
    return FlatRow(
        claim=key,
        truth=truth,
        beats=float((flat <= SIGNIFICANCE).mean()),
        holds=float((given == HOLDS).mean()),
        trivially=float((given == HOLDS_TRIVIALLY).mean()),
    )


def similarity(
    setting: PlantedSimilarity, spread: float, heads: int, seed: int
) -> Iterator[FlatRow]:
    """Yield the answers on every decay of similarity, for heads of one kind."""
    data = draw(setting, heads, DOCUMENTS, seed).cosines
    shift = np.random.default_rng(seed).normal(0.0, spread, (DOCUMENTS, heads, 1))
    data = replace(data, cosine=data.cosine + shift)
    constant = fit_batched("constant", data)
    truth = f"{setting.label}, spread {spread:g}"
    for claim in CLAIMS:
        if claim.flat is None or claim.group != "similarity":
            continue
        fit = fit_batched(claim.select["gram"], data)
        mae = jackknife(goodness(fit, data)["mae_by_lag"], fit.mae_replicates, data.carries)
        assert mae.skew is not None
        *_, flat = gain_over(constant.loss, fit.loss)
        yield _row(claim.key, truth, mae.value, mae.se, mae.skew, flat)


def weights(phases: str, noise: float, heads: int, tokens: int, seed: int) -> Iterator[FlatRow]:
    """Yield the answers on both claims on the shape of the weights, for heads of one kind."""
    random = np.random.default_rng(seed)
    truth = plant(PlantedWeights(tokens=tokens, oscillation=phases, growth=phases), heads, random)
    fits = fit_weights(drawn(truth, tokens, noise, random)).isel(layer=0)
    words = f"{'flat' if phases == 'absent' else 'four phases'}, noise {NOISE * noise:g} nats"
    for claim in CLAIMS:
        if claim.flat is None or claim.group != "weights":
            continue
        estimate, se, skew, flat = (
            fits[name].values
            for name in (*(f"{claim.variable}{part}" for part in ("", "_se", "_skew")), claim.flat)
        )
        yield _row(claim.key, words, estimate, se, skew, flat)


def study(heads: int, tokens: int, seed: int) -> Iterator[FlatRow]:
    """Yield every row of the study."""
    for place, (setting, spread) in enumerate(COSINES):
        yield from similarity(replace(setting, tokens=tokens), spread, heads, seed + place)
    for phases in PHASES:
        for noise in NOISES:
            yield from weights(phases, noise, heads, tokens, seed)
