"""Study of moderated intervals and verdicts: with documents of five shapes, how often does a 95%
interval hold the truth, how often is an answer false at its tolerance, and how often is a clear
effect seen?

Run: python -m studies.intervals [--heads 900] [--seed 0]

*Means*: heads whose effect is the mean of 8 documents, 90 heads a model and moderated with each
other. In half of the rows the standard deviations of heads differ (log-normal, 0.5), in half of
them documents move heads together (correlation 0.3). False: at the tolerance, the larger of *holds*
and *fails*; seen: at 1.5 standard deviations of a document inside and outside, the smaller. Where
heads differ, the tenths that scatter least and most are counted by themselves too: moderation is
right on average over heads, not in each.
*Parameters*: those of the three fits, whose documents differ in level, sink, decay, offset and
amplitude by draws of that shape; the truth of β and c is the fit to the mean curve of 200,000
documents. *Shares*: how often the interval of the share of heads within a tolerance holds it, where
heads have effects of one size, of two, or normal ones near the tolerance or far. Imports numpy.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from geostat.fits.norms.fit import estimates as norm_estimates
from geostat.fits.similarity.one_form import Cosines, estimates, fit_batched
from geostat.fits.similarity.pairs import pairs_by_lag
from geostat.fits.similarity.solver import solve
from geostat.fits.weights.fit import fit_weights
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.equivalence import against
from geostat.statistics.jackknife import SIGNIFICANCE, document_mean
from geostat.statistics.mixture import share_of_heads
from geostat.statistics.moderation import moderated, over_heads
from studies import norms, weights

DOCUMENTS: Final = 8
MODEL: Final = 90
"""Heads of a model."""
Law = Callable[[tuple[int, ...], np.random.Generator], FloatArray]
LAWS: Final[dict[str, Law]] = {
    "normal": lambda shape, random: random.standard_normal(shape),
    "t(3)": lambda shape, random: random.standard_t(3.0, shape) / np.sqrt(3.0),
    "Gamma(4)": lambda shape, random: (random.gamma(4.0, size=shape) - 4.0) / 2.0,
    "exponential": lambda shape, random: random.exponential(size=shape) - 1.0,
    "lognormal": lambda shape, random: (
        (np.exp(random.standard_normal(shape)) - np.sqrt(math.e)) / np.sqrt(math.e * (math.e - 1.0))
    ),
}
"""What documents are drawn from: mean 0, standard deviation 1."""
INSIDE: Final = 1.5
"""Distance from the tolerance, in standard deviations of a document, at which power is asked."""
BETA, OFFSET, SPREAD, NOISE, LAGS = 0.3, 0.3, 0.3, 0.02, 64


def means(law: str, unlike: float, together: float, heads: int, seed: int) -> str:
    """Return the row of heads whose effect is a mean."""
    random, models = np.random.default_rng(seed), max(heads // MODEL, 1) * 10
    rows, tenth = [], MODEL // 10
    for _ in range(models):
        own = LAWS[law]((DOCUMENTS, MODEL), random)
        common = LAWS[law]((DOCUMENTS, 1), random)
        scale = np.exp(unlike * random.standard_normal(MODEL))
        found = document_mean(scale * (np.sqrt(1 - together) * own + np.sqrt(together) * common))
        limits = over_heads(found, [0])
        assert found.skew is not None
        assert found.documents is not None
        errors = moderated(found.se, found.skew, found.documents)
        p = [against(found.value, errors, at * scale, "at_most") for at in (0.0, INSIDE, -INSIDE)]
        inside, by_scatter = (limits.lower <= 0) & (limits.upper >= 0), scale.argsort()
        shares = [
            *(inside, inside[by_scatter[:tenth]], inside[by_scatter[-tenth:]]),
            *(one <= SIGNIFICANCE for one in (p[0].holds, p[0].fails, p[1].holds, p[2].fails)),
            (found.lower <= 0) & (found.upper >= 0),
        ]
        width = (limits.upper - limits.lower) / (found.upper - found.lower)
        rows.append([one.mean() for one in (*shares, width)])
    covered, least, most, holds, fails, seen_holds, seen_fails, t, wide = np.mean(rows, axis=0)
    error = np.std([row[0] for row in rows], ddof=1) / np.sqrt(models)
    tenths = f", least tenth {least:.1%}, most {most:.1%}" if unlike else ""
    return (
        f"mean        {law:12s} sd of log sd {unlike:.1f}, correlation {together:.1f}  covered"
        f" {covered:6.1%} ± {error:.1%} (t {t:6.1%}{tenths})  width {wide:.2f} of t's  false"
        f" {max(holds, fails):5.1%}  seen {min(seen_holds, seen_fails):6.1%}"
    )


EFFECTS: Final[dict[str, Callable[[np.random.Generator], FloatArray]]] = {
    "one": lambda random: np.full(MODEL, -0.3),
    "two": lambda random: np.where(random.random(MODEL) < 0.7, -0.4, 1.0),
    "near": lambda random: random.normal(-0.2, 0.4, MODEL),
    "far": lambda random: random.normal(-1.0, 2.0, MODEL),
}
"""True effects of the heads of a model whose tolerance is 0, in standard deviations of a document
in the median head.
"""


def shares(law: str, effects: str, together: float, models: int, seed: int) -> str:
    """Return the row of shares of heads whose effect is at most 0."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(models):
        truth = EFFECTS[effects](random)
        own = LAWS[law]((DOCUMENTS, MODEL), random)
        common = LAWS[law]((DOCUMENTS, 1), random)
        scale = np.exp(0.4 * random.standard_normal(MODEL))
        found = document_mean(
            truth + scale * (np.sqrt(1 - together) * own + np.sqrt(together) * common)
        )
        assert found.skew is not None
        assert found.documents is not None
        assert found.without is not None
        se = moderated(found.se, found.skew, found.documents).se
        one = share_of_heads(found.value, se, found.without.T, lambda value: value <= 0)
        share = float((truth <= 0).mean())
        held = float(one.lower) - 1e-9 <= share <= float(one.upper) + 1e-9
        plain = float((found.value <= 0).mean()) - share
        rows.append((held, float(one.value) - share, plain, float(one.upper - one.lower)))
    held, away, plain, width = np.mean(rows, axis=0)
    return (
        f"share       {law:12s} {effects:4s} correlation {together:.1f}  covered {held:6.1%} "
        f" off by {away:+.3f} (estimates {plain:+.3f})  width {width:.2f}"
    )


def _line(name: str, law: str, inside: BoolArray, t: NDArray[Any]) -> str:
    share = inside.mean()
    error = np.sqrt(share * (1 - share) / inside.size)
    return (
        f"{name:11s} {law:12s} covered {share:6.1%} ± {error:.1%} (t {t.mean():6.1%}) of"
        f" {inside.size} heads"
    )


def of_norms(law: str, heads: int, seed: int) -> Iterator[str]:
    """Yield coverage of C and λ: level and sink of documents as unlike as in `norms`'s "unlike"."""
    random = np.random.default_rng(seed)
    setting = replace(norms.SETTINGS[-1], document=0.0, sink=0.0, lam=0.5)
    data = norms.draw(setting, heads, DOCUMENTS, 257, random)
    level, sink = (LAWS[law]((DOCUMENTS, heads), random) for _ in range(2))
    data += setting.C * 0.15 * level[..., None]
    data[..., 0] += setting.C * setting.lam * 0.3 * sink
    found = norm_estimates(data, first_content=1)
    for name, truth in (("C", setting.C), ("lam", setting.lam)):
        one = over_heads(found[name], [0])
        yield _line(
            name,
            law,
            (one.lower <= truth) & (one.upper >= truth),
            (found[name].lower <= truth) & (found[name].upper >= truth),
        )


def of_similarity(law: str, heads: int, seed: int) -> Iterator[str]:
    """Yield coverage of β and c of the decay with an offset."""
    random, lag = np.random.default_rng(seed), np.arange(1.0, LAGS)

    def curves(shape: tuple[int, ...]) -> FloatArray:
        own = [LAWS[law]((*shape, 1), random) for _ in range(2)]
        beta, offset = BETA * np.exp(SPREAD * own[0]), OFFSET * (1 + SPREAD * own[1])
        return np.asarray(offset + (1 - offset) * np.exp(-beta * lag))

    pairs = pairs_by_lag(lag, LAGS)
    expected = np.mean([curves((2000,)).mean(axis=0) for _ in range(100)], axis=0)
    truth = solve("offset", lag, expected[None], pairs).values
    cosine = curves((DOCUMENTS, heads))
    cosine += NOISE * random.standard_normal(cosine.shape)
    data = Cosines(lag=lag, pairs=pairs, cosine=cosine)
    found = estimates(fit_batched("offset", data), data)
    for name, words in (("beta", "beta"), ("offset", "c")):
        one, at = over_heads(found[name], [0]), float(truth[name][0])
        yield _line(
            words,
            law,
            (one.lower <= at) & (one.upper >= at),
            (found[name].lower <= at) & (found[name].upper >= at),
        )


def of_weights(law: str, heads: int, seed: int) -> Iterator[str]:
    """Yield coverage of p_sink, p_base and η: the sink's logit, the level and the amplitude of
    documents are of the law.
    """
    random, tokens = np.random.default_rng(seed), 257
    heads = max(heads // 3, 1)  # they take longest
    setting = weights.PlantedWeights(tokens=tokens, oscillation="strong", growth="absent")
    truth = weights.plant(setting, heads, random)
    data = weights.draw(truth, tokens, random, LAWS[law])
    fit = fit_weights(data).isel(layer=0)
    pool = 1 / (1 + np.exp(1.0 - weights.SINK_SPREAD * LAWS[law]((1_000_000,), random)))
    own = fit.sel(form="separate")
    for name, source, planted in (
        ("p_sink", fit["p_sink_lower"], np.full(heads, pool.mean())),
        ("p_base", own["form_p_base_lower"], np.exp(truth["b"])),
        ("eta", own["form_eta_lower"], truth["eta_osc"]),
    ):
        whole = own if str(source.name).startswith("form_") else fit
        lower, upper = source.values, whole[str(source.name).replace("lower", "upper")].values
        known = np.isfinite(lower)
        inside = ((lower <= planted) & (upper >= planted))[known]
        yield _line(name, law, inside, np.full(1, np.nan))


def main() -> None:
    """Print every row."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    ask.add_argument("--heads", type=int, default=900)
    ask.add_argument("--seed", type=int, default=0)
    asked = ask.parse_args()
    for law in LAWS:
        for unlike in (0.0, 0.5):
            for together in (0.0, 0.3):
                print(means(law, unlike, together, asked.heads, asked.seed), flush=True)
    for law in ("normal", "exponential"):
        for effects in EFFECTS:
            for together in (0.0, 0.3):
                models = max(asked.heads // 9, 1)
                print(shares(law, effects, together, models, asked.seed), flush=True)
    for law in LAWS:
        for part in (of_norms, of_similarity, of_weights):
            print("\n".join(part(law, asked.heads, asked.seed)), flush=True)


if __name__ == "__main__":
    main()
