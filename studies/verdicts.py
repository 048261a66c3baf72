"""Recovery study of the verdicts: how often is an answer false, where the effect lies inside, at,
and outside its tolerance?

Run: python -m studies.verdicts [--heads 1000] [--seed 0] [--tokens 257] [--claim norms similarity
weights bounds]

Heads as `weights` draws them, 8 documents each, with noise of 2.4 nats a token and document (as
measured) and of a half and a quarter of that. *growth*: total growth of a share of its tolerance is
planted. *shape_position*: a plateau and growth, and at every token a step up or down that is the
same in all documents; the truth is the distance of that profile, without noise, from the form
fitted to it. Answers are counted one by one, at 5%, as if a head stood alone. *oscillation* is no
claim, and the study says why: amplitudes as large as the tolerance, from 0.7 to 1.8 times what
stands out of noise, read from the form that gives the oscillation a size of its own. The claims on
norms and similarity are `levels`'s, those on bounds `bounds`'s; `--claim` takes some of the
studies. Imports numpy and xarray.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import xarray as xr

from geostat.fits.weights.fit import fit_weights
from geostat.statistics.arrays import FloatArray
from geostat.statistics.equivalence import Side, against, with_presence
from geostat.statistics.jackknife import SIGNIFICANCE
from geostat.statistics.moderation import moderated
from geostat.verdicts.tolerances import read_tolerances
from studies import bounds
from studies import levels as study_of_levels
from studies.bounds import BoundsRow, FlagRow
from studies.levels import LevelRow, answers
from studies.weights import DOCUMENTS, NOISE, PlantedWeights, draw, limits, plant

NOISES: Final = (1.0, 0.5, 0.25)
"""Noise of a token in a document, in units of what was measured."""
GROWTHS: Final = (0.0, 0.5, 0.8, 1.0, 1.25, 2.0)
STEPS: Final = (0.5, 0.8, 1.0, 1.25, 2.0)
"""Planted effects, in units of the tolerance."""
WAVES: Final = (0.7, 1.0, 1.3, 1.8)
"""Planted amplitudes, in units of the detection limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Answers to one kind of head. Shares of all heads but `holds_found`: of those with an
    estimate.
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

    def told(self) -> str:
        """The row as a line."""
        return (
            f"{self.claim:15s} noise {self.noise:5.2f}  planted {self.planted:6.3f}  tolerance"
            f" {self.tolerance:6.3f}  estimate in {self.found:6.1%}, median {self.median:6.3f} "
            f" holds {self.holds:6.1%}  fails {self.fails:6.1%}  holds of those with an estimate"
            f" {self.holds_found:6.1%}"
        )


def drawn(
    truth: dict[str, FloatArray],
    tokens: int,
    noise: float,
    random: np.random.Generator,
    steps: FloatArray | None = None,
) -> xr.Dataset:
    """Draw heads as `weights.draw` does, with `noise` times its noise and level, and steps
    (head, content token) that all documents have.
    """
    data = draw(truth, tokens, random)
    clean = draw_clean(truth, tokens)
    weight = data["attention_weight"].values
    log_weight = (
        clean + noise * (np.log(weight[:, 0, :, 1:]) - clean) + (0.0 if steps is None else steps)
    )
    weight[:, 0, :, 1:] = np.exp(log_weight)
    return data


def draw_clean(truth: dict[str, FloatArray], tokens: int) -> FloatArray:
    """The planted log weights, (head, content token), nats."""
    from geostat.fits.weights.forms import CURVE, log_profile

    return log_profile(np.arange(1.0, tokens), *(truth[name][:, None] for name in CURVE))


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
) -> Row:
    """Count the answers to heads that have their own tolerances."""
    known = np.isfinite(estimate)
    own = np.broadcast_to(tolerance, estimate.shape)
    unknown = np.full(estimate.shape, np.nan)
    errors = moderated(
        se, unknown if skew is None else skew, np.full(estimate.shape, float(DOCUMENTS))
    )
    p = against(estimate, errors, own, side)
    p = p if absent is None else with_presence(p, absent, known)
    with np.errstate(invalid="ignore"):
        holds, fails = (p.holds <= SIGNIFICANCE) & known, (p.fails <= SIGNIFICANCE) & known
    return Row(
        claim=claim,
        noise=noise,
        planted=planted,
        tolerance=float(np.median(own)),
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
    parts = (fits[f"growth{part}"].values for part in ("", "_se", "_p", "_skew"))
    return _row(
        "growth", "at_least", NOISE * noise, share * tolerance, np.asarray(tolerance), *parts
    )


def shape(share: float, noise: float, heads: int, tokens: int, random: np.random.Generator) -> Row:
    """Plant steps whose distance from the form is `share` times the tolerance; the tolerance
    follows each head's own distance.
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
    estimate, se, skew = (fits[f"misfit{part}"].values for part in ("", "_se", "_skew"))
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
    )


def oscillation(share: float, heads: int, tokens: int, random: np.random.Generator) -> Row:
    """Plant an amplitude of `share` times the detection limit, and take it for the tolerance."""
    amplitude = min(share * limits(tokens)[0], 0.98)
    truth = plant(
        PlantedWeights(tokens=tokens, oscillation="strong", growth="absent"), heads, random
    )
    truth["eta_osc"] = np.full(heads, amplitude)
    every = fit_weights(drawn(truth, tokens, 1.0, random)).isel(layer=0)
    fits = every.sel(form="separate")
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
        every["oscillation_p"].values,
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
    """Run the studies asked for and print them."""
    levels = {"norms": study_of_levels.norms, "similarity": study_of_levels.similarity}
    others: dict[str, Callable[[int, int, int], Iterator[Row | BoundsRow | FlagRow]]] = {
        "weights": study,
        "bounds": bounds.study,
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
        help="which of the studies; all by default",
    )
    asked = parser.parse_args()
    size = asked.heads, asked.tokens, asked.seed
    rows: Iterator[Row | BoundsRow | FlagRow | LevelRow] = chain.from_iterable(
        chain.from_iterable(map(answers, levels[claim](*size)))
        if claim in levels
        else others[claim](*size)
        for claim in asked.claim or list(levels | others)
    )
    for row in rows:
        print(row.told(), flush=True)


if __name__ == "__main__":
    main()
