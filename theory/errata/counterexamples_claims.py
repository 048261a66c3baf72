"""Numbers beside what the paper's text claims or leaves out: the two that each of errata 30-32 and
34-37 sets side by side.

Source: arXiv 2602.01893; sections, figures and equation numbers are the paper's. The words of each
erratum are in errata.toml. Simulation is under Model G with a fixed seed. Imports numpy and scipy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from theory.editions.printed import harmonic
from theory.errata.counterexamples_tables import DRAWS, TABLE_1_POINT
from theory.errata.examples import Numbers, bounds_of, four
from theory.head.attention_profile import profile_shape
from theory.head.results import KAPPA
from theory.paper_tables.neighbours import closer_sink
from theory.paper_tables.table_2 import figure_4_profile
from theory.paper_tables.witnesses import Change, true_change

BREADTH = 128
"""Head size of LLaMA-2-7B."""


def _of_the_sinks_cosine(size: int) -> tuple[float, Change, float]:
    """Return the change of (14), that of the truth, and e, as ρ₀ rises from −e to e, 2/5 of the
    feasible edge.
    """
    pair = closer_sink(replace(TABLE_1_POINT, n=size))
    low, high = (float(head.bounds("printed").recall_lower[0]) for head in pair)
    return high - low, true_change(*pair, draws=DRAWS, seed=1), pair[1].point.rho0


def no_sink_effect() -> Numbers:
    """Erratum 30: the lower bound of Recall knows no ρ₀."""
    bound, seen, edge = _of_the_sinks_cosine(4)
    shown = bound == 0 and seen.recall > 8 * seen.recall_se
    return Numbers(bound, seen.recall, shown, {"edge": edge, "error": seen.recall_se})


def least_scale(size: int) -> float:
    """Return the κC² from which (14) is positive at the levels of Section 3.3, d = 128, ρ_out = 0.

    The sink has rank 99 there, so the `size` largest weights are of the tail; its term is left out.
    """
    weights = np.sort(figure_4_profile().weights())[::-1]
    length = len(weights) - 1
    scale = weights[0] + weights[size] + weights[:size].sum()
    exponent = BREADTH * (weights[size - 1] ** 2 / scale) ** 2
    return float(brentq(lambda x: 1 - (length - size) * np.exp(-x * exponent), 0, 1e6))


def scale_of_figure_5() -> Numbers:
    """Erratum 31: what Figure 5's lower envelope needs."""
    two, four_tokens = least_scale(2), least_scale(4)
    quoted = {"norm": float(np.sqrt(two / KAPPA))}
    return Numbers(two, four_tokens, 1 < two < four_tokens, quoted)


def proxy_of_a_chain(dimension: int, cosine: float = 0.25) -> float:
    """Return the least c of (30) for a chain of directions each of which, with chance e^{−β},
    repeats the one before and else is uniform: a_i = 0.2 selected alone, a_j = 0.1 next to it.

    X_ij = a_i² + a_j² − 2a_i a_j cos, and a variance proxy is at least the variance.
    """
    mine, theirs = 0.2, 0.1
    variance = cosine + (1 - cosine) / dimension - cosine**2
    scale = mine + theirs + mine
    return dimension * (2 * mine * theirs) ** 2 * variance / scale**2


def law_of_the_directions() -> Numbers:
    """Erratum 32: what E averages over decides whether (30) holds."""
    few, many = (proxy_of_a_chain(dimension) for dimension in (128, 12_800))
    uniform, wide = (proxy_of_a_chain(dimension, 0.0) for dimension in (128, 12_800))
    shown = many > 50 * few and bool(np.isclose(uniform, wide, rtol=1e-12))
    return Numbers(few, many, shown, {"uniform": uniform})


def recall_for_precision() -> Numbers:
    """Erratum 34: a correlation with Recall says nothing of Precision."""
    _, seen, edge = _of_the_sinks_cosine(12)
    errors = {"recall_error": seen.recall_se, "precision_error": seen.precision_se, "edge": edge}
    shown = seen.recall > 8 * seen.recall_se and seen.precision < seen.recall / 2
    return Numbers(seen.recall, seen.precision, shown, errors)


def error_of_cosines() -> Numbers:
    """Erratum 35: an absolute error of cosines is no percentage."""
    lags, cosine = np.arange(1, 1024), 0.09
    misses = [np.abs(np.exp(-beta * lags) - cosine) for beta in np.geomspace(1e-4, 10, 2000)]
    best = min(misses, key=np.mean)
    absolute, relative = float(best.mean()), float((best / cosine).mean())
    return Numbers(absolute, relative, relative > 0.99 > 0.1 > absolute)


def strong_oscillation() -> Numbers:
    """Erratum 36: η > 1 gives negative weights."""
    shape = profile_shape(np.arange(1, 33), eta=1.5, rate=1.5, omega=0.7, t1=8, t2=24)
    return Numbers(0.0, float(shape.min()), bool(shape.min() < 0))


def which_extreme() -> Numbers:
    """Erratum 37: R_max as a bound of the mean, or as the largest value of R."""
    a, gram = four()
    found = bounds_of(a, gram, 16, 2, "printed")
    as_bound, as_largest = float(found.f_inner_upper[0]), float(harmonic(1.0))
    return Numbers(as_bound, as_largest, as_bound < as_largest)
