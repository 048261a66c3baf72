"""Study of moderated intervals and verdicts: coverage of 95% intervals, false answers at the
tolerance, and power, for documents from five distributions.

Run: python -m studies.intervals [--heads 900] [--seed 0]

*Means*: the effect of a head is the mean of 3, 5 or 8 documents; 90 heads per model are moderated
together. In half of the rows the standard deviations of heads differ (log-normal, 0.5), in half of
the rows a common factor correlates heads over documents (0.8). *Bad model*: 5% of models cover a
smaller share of their heads. *False*: the larger rate of *holds* and *fails* at the tolerance.
*Seen*: the smaller rate of detection at 1.5 standard deviations of a document inside and outside.
If heads differ, the tenths with the smallest and the largest standard deviation are also counted:
moderation is correct on average over heads, not for each head.

*Kinds*: documents of one kind of text share a random effect with 85% of the variance. The units of
the interval are documents, or kinds (their means: the jackknife without one kind at a time).

*Parameters*: those of the three fits. Level, sink, decay, offset and amplitude of documents have
the distribution; the truth of β and c is the fit to the mean curve of 200,000 documents.

*Shares*: coverage of the interval for the share of heads within a tolerance. Effects have one
value, two values, or a normal distribution near or far from the tolerance. Imports numpy.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from geostat.fits.norms.fit import estimates as norm_estimates
from geostat.fits.similarity.forms import solve
from geostat.fits.similarity.one_form import Cosines, estimates, fit_batched
from geostat.fits.similarity.pairs import pairs_by_lag
from geostat.fits.weights.fit import fit_weights
from geostat.statistics.arrays import BoolArray, FloatArray
from geostat.statistics.equivalence import against
from geostat.statistics.jackknife import SIGNIFICANCE, Estimate, document_mean
from geostat.statistics.mixture import share_of_heads
from geostat.statistics.moderation import Errors, moderated, over_heads
from studies import norms, weights

DOCUMENTS: Final = 8
SAMPLES: Final = (3, 5, DOCUMENTS)
FACTOR: Final = 0.8
"""Correlation of heads over documents by a common factor; the first principal component of the
built-in model has 24% to 87% of the standardised variance, by claim.
"""
KINDS: Final = ((4, 2), (8, 1), (5, 2), (8, 2))
"""Numbers of kinds of text, and of documents of each."""
BAD: Final = 0.05
"""Share of models that are worse than a bad one."""
BETWEEN: Final = 0.85
"""Share of the variance of documents that lies between kinds of text."""
MODEL: Final = 90
"""Heads per model."""
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
"""Distributions of documents, with mean 0 and standard deviation 1."""
INSIDE: Final = 1.5
"""Distance from the tolerance for the power, in standard deviations of a document."""
BETA, OFFSET, SPREAD, NOISE, LAGS = 0.3, 0.3, 0.3, 0.02, 64


def draw(
    law: str, documents: int, scale: FloatArray, together: float, random: np.random.Generator
) -> FloatArray:
    """Draw documents of heads with these standard deviations, (document, ..., head), and a
    correlation of `together` between the heads of a model.
    """
    single = LAWS[law]((documents, *scale.shape), random)
    common = LAWS[law]((documents, *scale.shape[:-1], 1), random)
    return np.asarray(scale * (np.sqrt(1 - together) * single + np.sqrt(together) * common))


def errors_of(effect: Estimate) -> Errors:
    """Return the errors of means over documents, (model, head), moderated over each model."""
    assert effect.skew is not None
    assert effect.documents is not None
    assert effect.without is not None
    parts = effect.se, effect.skew, effect.documents, effect.without
    models = [moderated(*model) for model in zip(*parts, strict=True)]
    names = [field.name for field in fields(Errors)]
    return Errors(**{name: np.stack([getattr(model, name) for model in models]) for name in names})


def covered(limits: Sequence[FloatArray]) -> FloatArray:
    """Return the share of heads whose interval covers 0, (model,)."""
    return np.asarray(((limits[0] <= 0) & (limits[1] >= 0)).mean(axis=-1))


def means(law: str, documents: int, unlike: float, together: float, heads: int, seed: int) -> str:
    """Return the row of heads whose effect is a mean over documents."""
    random, models = np.random.default_rng(seed), max(heads // MODEL, 1) * 100
    scale = np.exp(unlike * random.standard_normal((models, MODEL)))
    effect = document_mean(draw(law, documents, scale, together, random))
    errors, t = errors_of(effect), (effect.lower, effect.upper)
    limits = errors.limits(effect.value)
    p = [
        against(effect.value, errors, limit * scale, "at_most") for limit in (0.0, INSIDE, -INSIDE)
    ]
    false, seen = (
        [float((value <= SIGNIFICANCE).mean()) for value in values]
        for values in ((p[0].holds, p[0].fails), (p[1].holds, p[2].fails))
    )
    share, share_t, tenths = covered(limits), covered(t), ""
    if unlike:
        by_scatter, tenth = scale.argsort(axis=-1), MODEL // 10
        least, most = (
            covered([np.take_along_axis(limit, columns, axis=-1) for limit in limits]).mean()
            for columns in (by_scatter[:, :tenth], by_scatter[:, -tenth:])
        )
        tenths = f", least tenth {least:.1%}, most {most:.1%}"
    width = (limits[1] - limits[0]).mean() / (t[1] - t[0]).mean()
    return (
        f"mean        {law:12s} {documents} documents, sd of log sd {unlike:.1f}, correlation"
        f" {together:.1f}  covered {share.mean():6.1%} ± {_error(share):.1%} (t"
        f" {share_t.mean():6.1%}{tenths})  bad model {np.quantile(share, BAD):4.0%} (t"
        f" {np.quantile(share_t, BAD):4.0%})  width {width:.2f} of t's  false {max(false):5.1%} "
        f" seen {min(seen):6.1%}"
    )


def kinds_of_text(law: str, kinds: int, of_each: int, heads: int, seed: int) -> str:
    """Return the row of means over documents that come in kinds, heads correlated by `FACTOR`."""
    random = np.random.default_rng(seed)
    scale = np.ones((max(heads // MODEL, 1) * 100, MODEL))
    of_kind, own = (draw(law, count, scale, FACTOR, random) for count in (kinds, kinds * of_each))
    x = np.sqrt(BETWEEN) * of_kind.repeat(of_each, axis=0) + np.sqrt(1 - BETWEEN) * own
    words = []
    for unit, values in (
        ("documents", x),
        ("kinds", x.reshape(kinds, of_each, *scale.shape).mean(axis=1)),
    ):
        effect = document_mean(values)
        share = covered(errors_of(effect).limits(effect.value))
        t = covered((effect.lower, effect.upper)).mean()
        words.append(f"by {unit} {share.mean():6.1%} ± {_error(share):.1%} (t {t:6.1%})")
    return f"kinds       {law:12s} {kinds} of {of_each} each  covered {', '.join(words)}"


def _error(share: FloatArray) -> float:
    return float(share.std(ddof=1) / np.sqrt(len(share)))


EFFECTS: Final[dict[str, Callable[[np.random.Generator], FloatArray]]] = {
    "one": lambda random: np.full(MODEL, -0.3),
    "two": lambda random: np.where(random.random(MODEL) < 0.7, -0.4, 1.0),
    "near": lambda random: random.normal(-0.2, 0.4, MODEL),
    "far": lambda random: random.normal(-1.0, 2.0, MODEL),
}
"""Distributions of true effects over the heads of a model, in standard deviations of a document in
the median head. The tolerance is 0.
"""


def shares(law: str, effects: str, together: float, models: int, seed: int) -> str:
    """Return the row of the share of heads whose effect is at most 0."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(models):
        truth = EFFECTS[effects](random)
        scale = np.exp(0.4 * random.standard_normal(MODEL))
        effect = document_mean(truth + draw(law, DOCUMENTS, scale, together, random))
        assert effect.skew is not None
        assert effect.documents is not None
        assert effect.without is not None
        se = moderated(effect.se, effect.skew, effect.documents, effect.without).se
        estimate = share_of_heads(effect.value, se, effect.without.T, lambda value: value <= 0)
        share = float((truth <= 0).mean())
        inside = float(estimate.lower) - 1e-9 <= share <= float(estimate.upper) + 1e-9
        plain = float((effect.value <= 0).mean()) - share
        width = float(estimate.upper - estimate.lower)
        rows.append((inside, float(estimate.value) - share, plain, width))
    covered, away, plain, width = np.mean(rows, axis=0)
    return (
        f"share       {law:12s} {effects:4s} correlation {together:.1f}  covered {covered:6.1%} "
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
    """Yield coverage of C and λ, with level and sink of documents as in the setting "unlike" of
    `norms`.
    """
    random = np.random.default_rng(seed)
    setting = replace(norms.SETTINGS[-1], document=0.0, sink=0.0, lam=0.5)
    data = norms.draw(setting, heads, DOCUMENTS, 257, random)
    level, sink = (LAWS[law]((DOCUMENTS, heads), random) for _ in range(2))
    data += setting.C * 0.15 * level[..., None]
    data[..., 0] += setting.C * setting.lam * 0.3 * sink
    estimate_of = norm_estimates(data, first_content=1)
    for name, truth in (("C", setting.C), ("lam", setting.lam)):
        limits = over_heads(estimate_of[name], [0])
        yield _line(
            name,
            law,
            (limits.lower <= truth) & (limits.upper >= truth),
            (estimate_of[name].lower <= truth) & (estimate_of[name].upper >= truth),
        )


def of_similarity(law: str, heads: int, seed: int) -> Iterator[str]:
    """Yield coverage of β and c of the decay with an offset."""
    random, lag = np.random.default_rng(seed), np.arange(1.0, LAGS)

    def curves(shape: tuple[int, ...]) -> FloatArray:
        draws = [LAWS[law]((*shape, 1), random) for _ in range(2)]
        beta, offset = BETA * np.exp(SPREAD * draws[0]), OFFSET * (1 + SPREAD * draws[1])
        return np.asarray(offset + (1 - offset) * np.exp(-beta * lag))

    pairs = pairs_by_lag(lag, LAGS)
    expected = np.mean([curves((2000,)).mean(axis=0) for _ in range(100)], axis=0)
    truth = solve("offset", lag, expected[None], pairs).values
    cosine = curves((DOCUMENTS, heads))
    cosine += NOISE * random.standard_normal(cosine.shape)
    data = Cosines(lag=lag, pairs=pairs, cosine=cosine)
    estimate_of = estimates(fit_batched("offset", data), data)
    for name, words in (("beta", "beta"), ("offset", "c")):
        limits, expected_value = over_heads(estimate_of[name], [0]), float(truth[name][0])
        yield _line(
            words,
            law,
            (limits.lower <= expected_value) & (limits.upper >= expected_value),
            (estimate_of[name].lower <= expected_value)
            & (estimate_of[name].upper >= expected_value),
        )


def of_weights(law: str, heads: int, seed: int) -> Iterator[str]:
    """Yield coverage of p_sink, p_base and η; the sink's logit, the level and the amplitude of
    documents have the given distribution.
    """
    random, tokens = np.random.default_rng(seed), 257
    heads = max(heads // 3, 1)  # these fits take longest
    setting = weights.PlantedWeights(tokens=tokens, oscillation="strong", growth="absent")
    truth = weights.plant(setting, heads, random)
    data = weights.draw(truth, tokens, random, LAWS[law])
    fit = fit_weights(data).isel(layer=0)
    pool = 1 / (1 + np.exp(1.0 - weights.SINK_SPREAD * LAWS[law]((1_000_000,), random)))
    separate = fit.sel(form="separate")
    for name, source, planted in (
        ("p_sink", fit["p_sink_lower"], np.full(heads, pool.mean())),
        ("p_base", separate["form_p_base_lower"], np.exp(truth["b"])),
        ("eta", separate["form_eta_lower"], truth["eta_osc"]),
    ):
        whole = separate if str(source.name).startswith("form_") else fit
        lower, upper = source.values, whole[str(source.name).replace("lower", "upper")].values
        known = np.isfinite(lower)
        inside = ((lower <= planted) & (upper >= planted))[known]
        yield _line(name, law, inside, np.full(1, np.nan))


def main() -> None:
    """Print every row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--heads", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for law, count, unlike, together in product(LAWS, SAMPLES, (0.0, 0.5), (0.0, FACTOR)):
        print(means(law, count, unlike, together, options.heads, options.seed), flush=True)
    for law, (kinds, of_each) in product(LAWS, KINDS):
        print(kinds_of_text(law, kinds, of_each, options.heads, options.seed), flush=True)
    for law in ("normal", "exponential"):
        for effects in EFFECTS:
            for together in (0.0, 0.3):
                models = max(options.heads // 9, 1)
                print(shares(law, effects, together, models, options.seed), flush=True)
    for law in LAWS:
        for part in (of_norms, of_similarity, of_weights):
            print("\n".join(part(law, options.heads, options.seed)), flush=True)


if __name__ == "__main__":
    main()
