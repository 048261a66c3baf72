"""Recovery study of the verdicts: rates of false answers for effects inside, at and outside the
tolerance.

Run: python -m studies.verdicts [--heads 1000] [--seed 0] [--tokens 257] [--claim norms similarity
weights bounds flat]

Heads come from `weights`, 8 documents each, with the measured noise of 2.4 nats per token and
document, and with half and a quarter of it. *growth*: the total growth is a multiple of its
tolerance. *shape_position*: a plateau and growth, and a step up or down at every token, equal in
all documents. Its true value is the distance of the noiseless profile from the form fitted to it.
Answers are counted at 5% for each head alone.

*oscillation* is not a claim, and this study shows why: its amplitude equals the tolerance, at 0.7
to 1.8 times the detection limit, estimated in the form with separate oscillation and growth.
`levels` has the claims on norms and similarity, `bounds` those on bounds, `flat` the comparison
with flat forms; `--claim` selects among the studies. Imports numpy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from geostat.fits.weights.fit import fit_weights
from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import Side, against, with_presence
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.statistics.moderation import moderated
from geostat.topics.claims import read_tolerances
from studies import bounds, flat
from studies import levels as study_of_levels
from studies.bounds import BoundsRow, FlagRow
from studies.flat import FlatRow
from studies.levels import LevelRow, answers
from studies.weights import DOCUMENTS, NOISE, PlantedWeights, drawn, limits, plant

NOISES: Final = (1.0, 0.5, 0.25)
"""Noise per token and document, in units of the measured noise."""
GROWTHS: Final = (0.0, 0.5, 0.8, 1.0, 1.25, 2.0)
STEPS: Final = (0.5, 0.8, 1.0, 1.25, 2.0)
"""Planted effects, in units of the tolerance."""
WAVES: Final = (0.7, 1.0, 1.3, 1.8)
"""Planted amplitudes, in units of the detection limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Answers for one kind of head, as shares of all heads; `holds_found` is a share of the heads
    with an estimate.
    """

    claim: str
    noise: float
    planted: float
    tolerance: float
    found: float
    median: float
    holds: float
    fails: float
    holds_found: float

    def line(self) -> str:
        """Return the row as a line of text."""
        return (
            f"{self.claim:15s} noise {self.noise:5.2f}  planted {self.planted:6.3f}  tolerance"
            f" {self.tolerance:6.3f}  estimate in {self.found:6.1%}, median {self.median:6.3f} "
            f" holds {self.holds:6.1%}  fails {self.fails:6.1%}  holds of those with an estimate"
            f" {self.holds_found:6.1%}"
        )


def _row(
    claim: str,
    side: Side,
    noise: float,
    planted: float,
    tolerance: FloatArray,
    estimate: FloatArray,
    se: FloatArray,
    absent: FloatArray | None,
    skew: FloatArray | None,
    without: FloatArray | None,
) -> Row:
    """Count the answers of heads, each with its tolerance."""
    known = np.isfinite(estimate)
    limits_of_heads = np.broadcast_to(tolerance, estimate.shape)
    unknown = np.full(estimate.shape, np.nan)
    errors = moderated(
        se, unknown if skew is None else skew, np.full(estimate.shape, float(DOCUMENTS)), without
    )
    p = against(estimate, errors, limits_of_heads, side)
    p = p if absent is None else with_presence(p, absent, known)
    with np.errstate(invalid="ignore"):
        holds, fails = (p.holds <= SIGNIFICANCE) & known, (p.fails <= SIGNIFICANCE) & known
    return Row(
        claim=claim,
        noise=noise,
        planted=planted,
        tolerance=float(np.median(limits_of_heads)),
        found=float(known.mean()),
        median=float(np.median(estimate[known])) if known.any() else float("nan"),
        holds=float(holds.mean()),
        fails=float(fails.mean()),
        holds_found=float(holds[known].mean()) if known.any() else float("nan"),
    )


def growth(share: float, noise: float, heads: int, tokens: int, random: np.random.Generator) -> Row:
    """Plant a total growth of `share` times its tolerance."""
    tolerance = read_tolerances()["weights.growth"].value
    truth = plant(
        PlantedWeights(tokens=tokens, oscillation="absent", growth="absent"), heads, random
    )
    truth["eta_tail"] = share * tolerance / (tokens - 1.0 - truth["t2"])
    fits = fit_weights(drawn(truth, tokens, noise, random)).isel(layer=0)
    parts = (fits[f"growth{part}"].values for part in ("", "_se", "_p", "_skew", "_without"))
    return _row(
        "growth", "at_least", NOISE * noise, share * tolerance, np.asarray(tolerance), *parts
    )


def shape(share: float, noise: float, heads: int, tokens: int, random: np.random.Generator) -> Row:
    """Plant steps whose distance from the form is `share` times the tolerance. The tolerance of
    each head follows from its distance.
    """
    tolerance = read_tolerances()["weights.shape_position"].value
    truth = plant(
        PlantedWeights(tokens=tokens, oscillation="absent", growth="strong"), heads, random
    )
    steps = share * tolerance * random.choice([-1.0, 1.0], (heads, tokens - 1))
    fits = fit_weights(drawn(truth, tokens, noise, random, steps)).isel(layer=0)
    exact = (
        fit_weights(drawn(truth, tokens, 0.0, random, steps).isel(document=[0]))
        .isel(layer=0)["rmse"]
        .values
    )
    estimate, se, skew, without = (
        fits[f"misfit{part}"].values for part in ("", "_se", "_skew", "_without")
    )
    return _row(
        "shape_position",
        "at_most",
        NOISE * noise,
        share * tolerance,
        exact / share,
        estimate,
        se,
        None,
        skew,
        without,
    )


def oscillation(share: float, heads: int, tokens: int, random: np.random.Generator) -> Row:
    """Plant an amplitude of `share` times the detection limit, with the same tolerance."""
    amplitude = min(share * limits(tokens)[0], 0.98)
    truth = plant(
        PlantedWeights(tokens=tokens, oscillation="strong", growth="absent"), heads, random
    )
    truth["eta_osc"] = np.full(heads, amplitude)
    all_forms = fit_weights(drawn(truth, tokens, 1.0, random)).isel(layer=0)
    fits = all_forms.sel(form="separate")
    result = fits["form_oscillation_identified"].values & np.isfinite(fits["form_eta_se"].values)
    estimate, se = (
        np.where(result, fits[name].values, np.nan) for name in ("form_eta", "form_eta_se")
    )
    return _row(
        "oscillation",
        "at_least",
        NOISE,
        amplitude,
        np.asarray(amplitude),
        estimate,
        se,
        all_forms["oscillation_p"].values,
        None,
        None,
    )


def study(heads: int, tokens: int, seed: int) -> Iterator[Row]:
    """Yield every row of the study."""
    random = np.random.default_rng(seed)
    for noise in NOISES:
        for share in GROWTHS:
            yield growth(share, noise, heads, tokens, random)
    for noise in NOISES:
        for share in STEPS:
            yield shape(share, noise, heads, tokens, random)
    for share in WAVES:
        yield oscillation(share, heads, tokens, random)


def main() -> None:
    """Run the selected studies and print their rows."""
    levels = {"norms": study_of_levels.norms, "similarity": study_of_levels.similarity}
    others: dict[str, Callable[[int, int, int], Iterator[Row | BoundsRow | FlagRow | FlatRow]]] = {
        "weights": study,
        "bounds": bounds.study,
        "flat": flat.study,
    }
    parser = argparse.ArgumentParser(
        description="Recovery study of the verdicts on Assumptions 1 to 3 and on bounds."
    )
    parser.add_argument("--heads", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=257)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--claim",
        nargs="+",
        choices=(*levels, *others),
        help="studies to run; default: all",
    )
    options = parser.parse_args()
    size = options.heads, options.tokens, options.seed
    rows: Iterator[Row | BoundsRow | FlagRow | FlatRow | LevelRow] = chain.from_iterable(
        chain.from_iterable(map(answers, levels[claim](*size)))
        if claim in levels
        else others[claim](*size)
        for claim in options.claim or list(levels | others)
    )
    for row in rows:
        print(row.line(), flush=True)


if __name__ == "__main__":
    main()
