"""Recovery study of the verdicts on Assumptions 1 and 2: how often is an answer false, where the effect lies inside, at, and outside its tolerance?

Run: python -m geostat.recovery_verdicts --claim norms similarity [--heads 1000] [--seed 0]

Heads are drawn as `recovery_norms` and `recovery_similarity` draw them, 8 documents each, and fitted and judged as a run's are. The effects stay as they are
drawn, and the tolerance is moved: a head whose effect is `share` of its tolerance is as one of that effect at that tolerance. True are the planted λ, trend
and CV over positions; of the CVs within and over these documents, which are what 8 documents show, the mean over all heads; of a misfit, the distance of the
expected cosines from the form fitted to them. Answers are counted one by one, at 5%, as if a head stood alone. Drift with position is planted nowhere,
and the slope of the sink's cosine is 0. Imports numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from geostat import recovery_norms, recovery_similarity
from geostat.claims import CLAIMS, Claim
from geostat.decay import ABSENT, by_lag, fitted_gram
from geostat.decay_solver import solve
from geostat.equivalence import one_sided
from geostat.jackknife import FloatArray
from geostat.norms import fit_layer
from geostat.recovery_similarity import DIMENSION, expected_cosine
from geostat.similarity_fit import fit_batched, goodness, resampled

DOCUMENTS: Final = 8
LEVEL: Final = 0.05
SHARES: Final = (0.5, 0.8, 1.0, 1.25, 2.0)
"""True effects, in units of the tolerance."""

NORMS: Final = (*recovery_norms.SETTINGS, recovery_norms.Setting(name="uneven", position=0.05, token=0.05))
"""Kinds of heads; in the last the norms differ by position more than by chance."""

MISFITS: Final = (
    ("exponential", recovery_similarity.Setting(form="offset", values={"beta": 0.3, "offset": 0.1}, rho0=0.15)),
    ("exponential", recovery_similarity.Setting(form="offset_power", values={"beta": 1.5, "offset": 0.2}, rho0=0.2)),
    ("offset", recovery_similarity.Setting(form="offset_power", values={"beta": 1.0, "offset": 0.1}, rho0=0.2)),
)
"""A form, and kinds of heads that have another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRow:
    """Answers about one effect of one kind of head, whose true size is `share` of the tolerance."""

    claim: str
    kind: str
    truth: float
    share: float
    mean: float
    holds: float
    fails: float

    @property
    def false(self) -> float:
        """The largest share of heads with an answer that is wrong; at the tolerance both are."""
        return max(self.holds if self.share >= 1 else 0.0, self.fails if self.share <= 1 else 0.0)

    def told(self) -> str:
        """The row as a line."""
        return (
            f"{self.claim:22s} {self.kind:34s} true {self.truth:8.4f}, mean estimate {self.mean:8.4f}, {self.share:4.2f} of the tolerance  "
            f"holds {self.holds:6.1%}  fails {self.fails:6.1%}  false {self.false:5.1%}"
        )


def answers(claim: Claim, kind: str, truth: float, estimate: FloatArray, se: FloatArray) -> Iterator[LevelRow]:
    """Hold estimates of one true effect against tolerances on both sides of it."""
    for share in SHARES:
        p = one_sided(estimate, se, DOCUMENTS - 1.0, abs(truth) / share, claim.side)
        with np.errstate(invalid="ignore"):
            holds, fails = float((p.holds <= LEVEL).mean()), float((p.fails <= LEVEL).mean())
        yield LevelRow(claim=claim.key, kind=kind, truth=truth, share=share, mean=float(np.nanmean(estimate)), holds=holds, fails=fails)


def planted(setting: recovery_norms.Setting, tokens: int) -> dict[str, float]:
    """Return the effects that a kind of head has in expectation."""
    variance = float(np.linspace(-0.5, 0.5, tokens - 1).var())
    return {"lam": setting.lam, "trend": setting.trend, "cv_position": float(np.sqrt(setting.position**2 + setting.trend**2 * variance))}


def norms(heads: int, tokens: int, seed: int) -> Iterator[LevelRow]:
    """Yield the rows of Assumption 1."""
    claims = [claim for claim in CLAIMS if claim.group == "norms"]
    for place, setting in enumerate(NORMS):
        found = fit_layer(recovery_norms.draw(setting, heads, DOCUMENTS, tokens, np.random.default_rng(seed + place)), first_content=1)
        truths = {name: float(found[name].mean()) for name in ("cv_token", "cv_profile")} | planted(setting, tokens)
        for claim in claims:
            yield from answers(claim, setting.name, truths[claim.variable], found[claim.variable], found[f"{claim.variable}_se"])


def misfit(form: str, setting: recovery_similarity.Setting, lag: FloatArray, pairs: FloatArray) -> float:
    """Return the mean absolute error by lag of a form fitted to the cosines that a kind of head has on average."""
    gram = fitted_gram(setting.form, setting.tokens, rho0=setting.rho0, **(ABSENT | dict(setting.values)))
    expected = expected_cosine(gram.by_lag[1 : lag.size + 1], DIMENSION)
    fit = solve(form, lag, expected[None], pairs)
    return float(np.abs(expected - by_lag(form, lag, **{name: float(value[0]) for name, value in fit.values().items()})).mean())


def similarity(heads: int, tokens: int, seed: int) -> Iterator[LevelRow]:
    """Yield the rows of Assumption 2."""
    for place, (form, setting) in enumerate(MISFITS):
        kind = replace(setting, tokens=tokens)
        data = recovery_similarity.draw(kind, heads, DOCUMENTS, seed + place).cosines
        fit = fit_batched(form, data)
        mae = goodness(fit, data)["mae_by_lag"]
        spread = resampled(fit, data, mae)[1]
        claim = next(claim for claim in CLAIMS if claim.key == f"similarity.{form}")
        yield from answers(claim, kind.label, misfit(form, kind, data.lag, data.pairs), mae, spread.se)
