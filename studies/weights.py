"""Recovery study of Assumption 3: accuracy of the fits, coverage of the intervals, correctness of
the flags.

Run: python -m studies.weights [--heads 1000] [--seed 0] [--tokens 257 1025] [--only printed/printed
strong/absent ...]

Synthetic heads have 8 documents each. log α of a document is the planted profile, plus a level per
document (standard deviation 1.3 nats), plus AR(1) noise of 2.4 nats with lag-one autocorrelation
0.55: the sizes measured on SmolLM2-135M. p_sink is logit-normal over documents (standard deviation
1.14, as measured); the planted value is its mean.

Settings combine T with an oscillation and a growth that are each absent, weak (a third of the
detection limit) or strong. T₁ is 8-25% and T₂ 70-85% of L, ω 0.3 to 2.8. *printed* uses the paper's
single η = 0.6 for both, with 12 tokens of growth. The detection limit is the effect whose noiseless
statistic equals the 95% quantile of the surrogates (`limits`).

A flag is right if an absent or weak phase is unidentified and a strong one identified. A break
point or ω must be unidentified if its half-width, computed from the planted parameters and noise,
exceeds twice the resolution, and identified if it is below half the resolution. Flags in between
are not counted. Parameters come from the separate form if the oscillation is strong, from the
shared form in *printed*, else from the monotone form. Flags of ω and T₁ then come from the separate
form, because T₁ = T₂ without an oscillation. Imports numpy, xarray and scipy.special.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import xarray as xr
from scipy.special import expit

from geostat.fits.weights.autocorrelation import Background
from geostat.fits.weights.break_points import FORMS
from geostat.fits.weights.fit import fit_weights
from geostat.fits.weights.forms import CURVE, log_profile
from geostat.fits.weights.identifiability import RESOLUTION, placement
from geostat.fits.weights.surrogates import statistics, surrogates
from geostat.statistics.arrays import BoolArray, FloatArray

DOCUMENTS = 8
NOISE, LAG_ONE, LEVEL_SPREAD, SINK_SPREAD = 2.4, 0.55, 1.3, 1.14
CHUNK = 100
STRONG_ETA, PRINTED_ETA, PRINTED_TAIL = 0.8, 0.6, 12
STRONG_GROWTH = {257: 12.0, 1025: 8.0}
"""Total growth of the strong setting, nats, by number of tokens. The shorter profile needs more to
locate T₂.
"""
WEAK = 1.0 / 3.0
MODES = ("absent", "weak", "strong")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedWeights:
    """A setting: number of tokens including the sink, and strength of each phase; `printed` for a
    single η.
    """

    tokens: int
    oscillation: str
    growth: str

    @property
    def name(self) -> str:
        """Oscillation and growth in the format of `--only`."""
        return f"{self.oscillation}/{self.growth}"

    @property
    def form(self) -> str:
        """Form whose parameters are compared with the planted values."""
        if self.oscillation == "printed":
            return "shared"
        return "separate" if self.oscillation == "strong" else "monotone"


@dataclass(slots=True)
class Tally:
    """Successes and trials by question."""

    counts: dict[str, list[int]] = field(default_factory=dict)

    def add(self, question: str, success: BoolArray) -> None:
        """Add an array of successes, which may be empty."""
        entry = self.counts.setdefault(question, [0, 0])
        entry[0] += int(np.sum(success))
        entry[1] += int(np.size(success))


def settings(tokens: list[int]) -> Iterator[PlantedWeights]:
    """Yield the settings of the study."""
    for number in tokens:
        for oscillation in MODES:
            for growth in MODES:
                yield PlantedWeights(tokens=number, oscillation=oscillation, growth=growth)
        yield PlantedWeights(tokens=number, oscillation="printed", growth="printed")


def mean_noise() -> Background:
    """Return the simulated noise of a mean over DOCUMENTS documents."""
    variance = NOISE**2 * (1.0 - LAG_ONE**2) / DOCUMENTS
    return Background(phi=np.array([LAG_ONE]), theta=np.array([0.0]), variance=np.array([variance]))


@lru_cache(maxsize=8)
def limits(tokens: int) -> tuple[float, float]:
    """Return the detection limits: η of an oscillation with ω = 1 from 0.15 L to 0.77 L, and total
    growth after 0.77 L, nats.

    The statistics are proportional to the square of a small effect, so a single noiseless effect
    determines the limit.
    """
    position = np.arange(1.0, tokens)
    content, noise = position.size, mean_noise()
    small = 0.05
    wave = log_profile(
        position, 0.0, small, 0.0, 1.0, round(0.15 * content), round(0.77 * content)
    )[None]
    ramp = log_profile(
        position,
        0.0,
        0.0,
        small / (content - round(0.77 * content)),
        1.0,
        round(0.77 * content),
        round(0.77 * content),
    )[None]
    nulls = [float(np.quantile(null, 0.95)) for null in surrogates(content, 1).values()]
    result = [
        statistics(row - row.mean(), row - row.mean(), noise, 1)[name][0]
        for row, name in ((wave, "oscillation"), (ramp, "growth"))
    ]
    oscillation, growth = (
        small * float(np.sqrt(null / value)) for null, value in zip(nulls, result, strict=True)
    )
    return oscillation, growth


def plant(
    setting: PlantedWeights, heads: int, random: np.random.Generator
) -> dict[str, FloatArray]:
    """Return the planted parameters, shape (head,), with the names of the fit; p_sink is a mean
    over documents.
    """
    content = setting.tokens - 1
    t1 = np.round(random.uniform(0.08, 0.25, heads) * content)
    t2 = np.round(random.uniform(0.70, 0.85, heads) * content)
    omega = random.uniform(0.3, 2.8, heads)
    if setting.oscillation == "printed":
        t2 = np.full(heads, content - float(PRINTED_TAIL))
        eta = np.full(heads, PRINTED_ETA)
        slope = eta
    else:
        limit = (
            limits(setting.tokens)
            if "weak" in (setting.oscillation, setting.growth)
            else (0.0, 0.0)
        )
        eta = np.full(
            heads,
            {"absent": 0.0, "weak": WEAK * limit[0], "strong": STRONG_ETA}[setting.oscillation],
        )
        strong = STRONG_GROWTH.get(setting.tokens, 12.0)
        slope = {"absent": 0.0, "weak": WEAK * limit[1], "strong": strong}[setting.growth] / (
            content - t2
        )
    sink = np.full(heads, -1.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    share = expit(sink[:, None] + SINK_SPREAD * nodes) @ (weights / weights.sum())
    b = np.full(heads, np.log(1e-5))
    return {
        "b": b,
        "eta_osc": eta,
        "eta_tail": slope,
        "omega": omega,
        "t1": np.where(eta > 0, t1, t2),
        "t2": t2,
        "p_sink": share,
    }


def normal(shape: tuple[int, ...], random: np.random.Generator) -> FloatArray:
    """Draw standard normal effects of documents."""
    return random.normal(size=shape)


def draw(
    truth: dict[str, FloatArray],
    tokens: int,
    random: np.random.Generator,
    law: Callable[[tuple[int, ...], np.random.Generator], FloatArray] = normal,
) -> xr.Dataset:
    """Return a /capture dataset of one layer with simulated heads. Levels and sinks of documents
    follow `law`, with mean 0 and standard deviation 1.
    """
    position = np.arange(1.0, tokens)
    heads = truth["b"].size
    shape = (DOCUMENTS, heads, position.size)
    noise = random.normal(0.0, NOISE * np.sqrt(1.0 - LAG_ONE**2), shape)
    noise[..., 0] /= np.sqrt(1.0 - LAG_ONE**2)
    for i in range(1, position.size):
        noise[..., i] += LAG_ONE * noise[..., i - 1]
    profile = log_profile(position, *(truth[name][:, None] for name in CURVE))
    log_weight = profile + noise + LEVEL_SPREAD * law((DOCUMENTS, heads, 1), random)
    sink = expit(-1.0 + SINK_SPREAD * law((DOCUMENTS, heads, 1), random))
    weight = np.concatenate([sink, np.exp(log_weight)], axis=-1)[:, None]
    dims = ("document", "layer", "head", "position")
    data = {
        "attention_weight": (dims, weight),
        "tokens": (("layer",), [tokens]),
        "sink_visible": (("layer",), [True]),
    }
    return xr.Dataset(
        data, coords={"layer": [0], "head": np.arange(heads), "position": np.arange(tokens)}
    )


def drawn(
    truth: dict[str, FloatArray],
    tokens: int,
    noise: float,
    random: np.random.Generator,
    steps: FloatArray | None = None,
) -> xr.Dataset:
    """Draw heads like `draw`, with `noise` times its noise and level, and steps (head, content
    token) shared by all documents.
    """
    data = draw(truth, tokens, random)
    clean = log_profile(np.arange(1.0, tokens), *(truth[name][:, None] for name in CURVE))
    weight = data["attention_weight"].values
    log_weight = (
        clean + noise * (np.log(weight[:, 0, :, 1:]) - clean) + (0.0 if steps is None else steps)
    )
    weight[:, 0, :, 1:] = np.exp(log_weight)
    return data


def recover(setting: PlantedWeights, heads: int, seed: int) -> Tally:
    """Simulate and fit the heads of a setting; return the counts of every question."""
    tally = Tally()
    random = np.random.default_rng(
        [seed, setting.tokens, *(ord(mode[0]) for mode in (setting.oscillation, setting.growth))]
    )
    for start in range(0, heads, CHUNK):
        truth = plant(setting, min(CHUNK, heads - start), random)
        fit = fit_weights(draw(truth, setting.tokens, random)).isel(layer=0)
        _count(setting, truth, fit, tally)
    return tally


def _count(
    setting: PlantedWeights, truth: dict[str, FloatArray], fit: xr.Dataset, tally: Tally
) -> None:
    of_form = fit.sel(form=setting.form)
    waves, grows = (
        setting.oscillation in ("strong", "printed"),
        setting.growth
        in (
            "strong",
            "printed",
        ),
    )
    _cover(tally, "p_sink", truth["p_sink"], fit, "p_sink")
    _cover(tally, "p_base", np.exp(truth["b"]), of_form, "form_p_base")
    _cover(tally, "p_base as reported", np.exp(truth["b"]), fit, "p_base")
    result = fit["form_oscillation_identified"].values
    present = (
        result[FORMS.index("shared")]
        if setting.oscillation == "printed"
        else result[FORMS.index("separate")]
    )
    if setting.oscillation == "absent":
        tally.add("absent oscillation called present", np.asarray(result.any(axis=0)))
    tally.add(
        "flag of the oscillation right", np.asarray(present if waves else ~result.any(axis=0))
    )
    grown = of_form["form_eta_tail_identified"].values
    if grows:
        tally.add("flag of growth right", grown)
    elif not waves:  # an oscillation lowers the mean, so its end looks like growth
        tally.add("flag of growth right", ~grown)
    half = _planted_half_widths(setting, truth)
    separate = fit.sel(form="separate")
    last = setting.tokens - 1.0
    present_in = {"eta": waves, "eta_tail": grows, "omega": waves, "t1": waves, "t2": grows}
    for name, present_phase in present_in.items():
        if not present_phase:
            if name in ("t1", "t2", "omega"):
                flagged = of_form if name == "t2" else separate
                tally.add(
                    f"flag of {name} right", np.asarray(~flagged[f"form_{name}_identified"].values)
                )
            continue
        identified = of_form[f"form_{name}_identified"].values
        value = truth["eta_osc" if name == "eta" else name]
        _cover(tally, name, value, of_form, f"form_{name}", identified)
        if name in half:
            allowed = RESOLUTION * (value if name == "omega" else last)
            right, clear = (
                identified == (half[name] < allowed),
                (half[name] > 2 * allowed) | (half[name] < allowed / 2),
            )
            tally.add(f"flag of {name} right", right[clear])
            error = np.abs(of_form[f"form_{name}"].values - value)
            tally.add(f"{name} within 2%", (error <= allowed)[identified])


def _cover(
    tally: Tally,
    name: str,
    value: FloatArray,
    fit: xr.Dataset,
    variable: str,
    where: BoolArray | None = None,
) -> None:
    """Count the existing intervals that cover the planted value."""
    lower, upper = fit[f"{variable}_lower"].values, fit[f"{variable}_upper"].values
    known = np.isfinite(lower) if where is None else np.isfinite(lower) & where
    tally.add(f"95% interval of {name} covers", ((lower <= value) & (value <= upper))[known])


def _planted_half_widths(
    setting: PlantedWeights, truth: dict[str, FloatArray]
) -> dict[str, FloatArray]:
    """Return the half-widths of T₁, T₂ and ω for the planted parameters and noise."""
    heads, position = truth["b"].size, np.arange(1.0, setting.tokens)
    noise = mean_noise()
    shape = (len(FORMS), heads)
    wide = Background(
        phi=np.full(shape, noise.phi[0]),
        theta=np.zeros(shape),
        variance=np.full(shape, noise.variance[0]),
    )
    rows = {name: np.broadcast_to(truth[name], (len(FORMS), heads)) for name in CURVE}
    result = placement(rows, wide, position, np.ones((heads, position.size), dtype=bool))
    return {name: values[FORMS.index(setting.form)] for name, values in result.items()}


TARGETS = (
    ("95% interval of p_sink covers", 0.92, 0.98),
    ("95% interval of p_base covers", 0.92, 0.98),
    ("95% interval of p_base as reported covers", 0.92, 0.98),
    ("95% interval of eta covers", 0.92, 0.98),
    ("95% interval of eta_tail covers", 0.92, 0.98),
    ("t2 within 2%", 0.95, 1.0),
    ("t1 within 2%", 0.90, 1.0),
    ("omega within 2%", 0.95, 1.0),
    ("absent oscillation called present", 0.0, 0.05),
    ("flag of the oscillation right", 0.90, 1.0),
    ("flag of growth right", 0.90, 1.0),
    ("flag of t1 right", 0.90, 1.0),
    ("flag of t2 right", 0.90, 1.0),
    ("flag of omega right", 0.90, 1.0),
    ("95% interval of omega covers", None, None),
    ("95% interval of t1 covers", None, None),
    ("95% interval of t2 covers", None, None),
)
"""Question, least and largest accepted share; None without a target."""


def lines(setting: PlantedWeights, tally: Tally) -> list[str]:
    """Return the lines of a setting: share, binomial standard error, counts, target, and whether it
    is met (almost: within two standard errors).
    """
    out = []
    for question, low, high in TARGETS:
        successes, trials = tally.counts.get(question, (0, 0))
        if not trials:
            continue
        share = successes / trials
        error = float(np.sqrt(share * (1.0 - share) / trials))
        verdict = ""
        if low is not None and high is not None:
            inside = low <= share <= high
            reach = 2.0 * np.sqrt(
                np.array([low * (1.0 - low), high * (1.0 - high)]) / trials
            )  # sampling error at the limits
            near = low - reach[0] <= share <= high + reach[1]
            verdict = (
                f"{low:.0%} to {high:.0%}  {'met' if inside else 'almost' if near else 'NOT MET'}"
            )
        name = f"{setting.tokens:5d} {setting.oscillation:8s} {setting.growth:8s}"
        out.append(
            f"{name} {question:36s} {share:6.3f} ± {error:.3f}  {successes:5d} of {trials:5d} "
            f" {verdict}".rstrip()
        )
    return out


def main() -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--heads", type=int, default=1000, help="synthetic heads per setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--tokens",
        type=int,
        nargs="+",
        default=[257, 1025],
        help="tokens of a profile, including the sink",
    )
    names = [setting.name for setting in settings([257])]
    parser.add_argument(
        "--only",
        nargs="+",
        choices=names,
        default=names,
        metavar="NAME",
        help="oscillation/growth: " + ", ".join(names),
    )
    options = parser.parse_args()
    for tokens in options.tokens:
        oscillation, growth = limits(tokens)
        print(
            f"T = {tokens}: detection limits: oscillation η = {oscillation:.3f}, growth"
            f" {growth:.2f} nats in total"
        )
    print(
        "    T oscill.  growth   question                              share   se   counts         "
        " target"
    )
    selected = [setting for setting in settings(options.tokens) if setting.name in options.only]
    for setting in selected:
        start = time.perf_counter()
        tally = recover(setting, options.heads, options.seed)
        print("\n".join(lines(setting, tally)))
        print(
            f"{setting.tokens:5d} {setting.oscillation:8s} {setting.growth:8s}"
            f" {time.perf_counter() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
