"""Recovery study of the fit of Assumption 1, on synthetic heads with known C, λ, trend and variance
components.

Run: python -m studies.norms [--heads 1000] [--documents 8] [--length 1024] [--seed 0]

A head has content norms C·(1 + trend·u + b_i + D_d + S_d·u + e_di) at u = −1/2 … 1/2 along the
document. b_i is an effect of the position, without mean and slope. Level D_d, slope S_d and sink
norm vary between documents, and e_di is AR(1) over positions. Settings are the sizes measured on
SmolLM2-135M ("measured"), long memory ("autocorrelated"), and heterogeneous, skewed documents
("unlike"). The study counts the coverage of nominal 95% intervals; those of C, λ and the trend must
cover in 92% to 98% of heads. Imports numpy, scipy and the fit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.signal import lfilter
from scipy.special import stdtrit

from geostat.fits.norms.fit import estimates
from geostat.fits.norms.trend import hac_errors
from geostat.statistics.arrays import FloatArray
from geostat.statistics.jackknife import LEVEL, Estimate
from geostat.statistics.losses import mean_over_documents
from geostat.statistics.moderation import over_heads

REQUIRED: Final = ("C", "lam", "trend")
BAND: Final = (0.92, 0.98)
"""Accepted coverage of a nominal 95% interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedNorms:
    """Planted parameters; standard deviations are in units of C."""

    name: str
    C: float = 5.8
    lam: float = 0.25
    trend: float = 0.02
    position: float = 0.02
    document: float = 0.018
    slope: float = 0.03
    sink: float = 0.08
    token: float = 0.21
    memory: float = 0.3
    skewed: bool = False

    def shares(self) -> dict[str, float]:
        """Return the planted shares of the variance. Slopes of single documents count as residual,
        as in the fitted model.
        """
        parts = {
            "document": self.document**2,
            "position": self.position**2 + self.trend**2 / 12,
            "residual": self.token**2 + self.slope**2 / 12,
        }
        total = sum(parts.values())
        return {f"share_{name}": part / total for name, part in parts.items()}


SETTINGS: Final = (
    PlantedNorms(name="measured"),
    PlantedNorms(name="autocorrelated", memory=0.9, position=0.05),
    PlantedNorms(
        name="unlike", lam=0.9, trend=-0.3, document=0.15, slope=0.15, sink=0.3, skewed=True
    ),
)


def draw(
    setting: PlantedNorms, heads: int, documents: int, length: int, random: np.random.Generator
) -> FloatArray:
    """Return simulated norms of shape (document, head, position), with the sink at position 0."""
    content = length - 1
    u = np.linspace(-0.5, 0.5, content)
    line = np.stack([np.ones(content), u])
    by_position = random.normal(size=(heads, content))
    by_position -= by_position @ np.linalg.pinv(line) @ line
    by_position *= setting.position / np.sqrt((by_position**2).mean(axis=-1, keepdims=True))

    def between(scale: float) -> FloatArray:
        """Draw one value per document and head with mean 0: normal, or Gamma(4) if skewed."""
        shape = (documents, heads, 1)
        return scale * (
            (random.gamma(4.0, size=shape) - 4.0) / 2.0
            if setting.skewed
            else random.normal(size=shape)
        )

    shocks = random.normal(size=(documents, heads, content)) * np.sqrt(1 - setting.memory**2)
    shocks[..., 0] /= np.sqrt(1 - setting.memory**2)
    noise = setting.token * lfilter([1.0], [1.0, -setting.memory], shocks, axis=-1)
    level = 1 + between(setting.document)
    norms = np.empty((documents, heads, length))
    norms[..., 0] = setting.C * setting.lam * (level + between(setting.sink))[..., 0]
    norms[..., 1:] = setting.C * (
        level + setting.trend * u + by_position + between(setting.slope) * u + noise
    )
    return norms


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One parameter in one setting: planted value, mean and spread of estimates, coverage and its
    binomial error.
    """

    setting: str
    name: str
    planted: float
    mean: float
    spread: float
    error: float
    covered: float
    binomial: float
    required: bool

    @property
    def met(self) -> bool:
        """Whether the coverage is in `BAND`; true if none is required."""
        return not self.required or BAND[0] <= self.covered <= BAND[1]

    def __str__(self) -> str:
        verdict = ("ok" if self.met else "MISSED") if self.required else ""
        return (
            f"{self.setting:15s} {self.name:16s} {self.planted:9.4f} {self.mean:9.4f}"
            f" {self.spread:9.4f} {self.error:9.4f}   {self.covered:6.1%} ± {self.binomial:.1%}  "
            f" {verdict}"
        ).rstrip()


def study(setting: PlantedNorms, heads: int, documents: int, length: int, seed: int) -> list[Row]:
    """Fit `heads` synthetic heads of one setting and return their coverage."""
    norms = draw(setting, heads, documents, length, np.random.default_rng(seed))
    result = estimates(norms, first_content=1)
    planted = {"C": setting.C, "lam": setting.lam, "trend": setting.trend, **setting.shares()}
    rows = [
        _row(setting, name, value, result[name], name in REQUIRED)
        for name, value in planted.items()
    ]
    error = hac_errors(mean_over_documents(norms[..., 1:]))
    half, trend = stdtrit(np.inf, 0.5 + LEVEL / 2) * error, result["trend"].value
    hac = Estimate(value=trend, se=error, lower=trend - half, upper=trend + half)
    return [*rows, replace(_row(setting, "trend", setting.trend, hac, False), name="trend, HAC")]


def _row(
    setting: PlantedNorms, name: str, planted: float, estimate: Estimate, required: bool
) -> Row:
    limits = over_heads(estimate, [0])
    inside = (limits.lower <= planted) & (planted <= limits.upper)
    share = float(inside.mean())
    return Row(
        setting=setting.name,
        name=name,
        planted=planted,
        mean=float(limits.value.mean()),
        spread=float(limits.value.std(ddof=1)),
        error=float(np.sqrt(np.mean(limits.se**2))),
        covered=share,
        binomial=float(np.sqrt(share * (1 - share) / inside.size)),
        required=required,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a required coverage is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("heads", 1000), ("documents", 8), ("length", 1024), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(arguments)
    print(
        f"{options.heads} heads per setting, {options.documents} documents of {options.length}"
        " tokens, a separate draw for each; C in its unit, the rest unitless"
    )
    print(
        f"{'setting':15s} {'parameter':16s} {'planted':>9s} {'mean':>9s} {'spread':>9s}"
        f" {'rms se':>9s}   covered by 95% intervals (± binomial)"
    )
    rows = [
        row
        for k, setting in enumerate(SETTINGS)
        for row in study(
            setting, options.heads, options.documents, options.length, options.seed + k
        )
    ]
    print("\n".join(str(row) for row in rows))
    missed = [row for row in rows if not row.met]
    print(
        f"{len(missed)} of {sum(row.required for row in rows)} required coverages outside"
        f" {BAND[0]:.0%} to {BAND[1]:.0%}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
