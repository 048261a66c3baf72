"""Cost of a what-if study relative to the same formula in NumPy and in sympy.

    .venv/bin/python -m benchmarks.whatif [--pairs 7]

A study of 10⁶ points (N × β × d × κ at one weight profile, printed lower bounds on E P and E R)
alternates with the explicit formula in NumPy. sympy's evalf of the catalogue's expression is timed
on a few points. A second study has 10⁴ different profiles at L = 1024 and one N.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import sympy as sp

from theory.head.attention_profile import WeightProfile
from theory.what_if.study import Question, study

AXES: dict[str, np.ndarray] = {
    "N": np.arange(1, 101),
    "beta": np.geomspace(0.01, 0.5, 100),
    "d": np.arange(16, 176, 16),
    "kappa": np.linspace(0.05, 0.5, 10),
}
FIXED = {"rho0": 0.01, "L": 1024}
QUESTION = Question(bounds=("precision_lower", "recall_lower"))


def selected() -> dict[str, np.ndarray]:
    """Return the inputs of eq. (8) for each N, at the default profile."""
    alpha = WeightProfile(
        length=1024, plateau_end=512, growth_start=922, p_sink=0.3, eta=0.02, omega=0.1
    ).weights()
    norms = np.ones(1025)
    norms[0] = 0.25
    order = np.argsort(-alpha, kind="stable")
    a, content, n = (alpha * norms)[order], order != 0, AXES["N"]
    return {
        "least": np.minimum.accumulate(np.where(content, a, np.inf))[n - 1],
        "most": np.maximum.accumulate(a)[n - 1],
        "beyond": np.maximum.accumulate(a[::-1])[::-1][n],
        "total": np.cumsum(np.where(content, a, 0.0))[n - 1],
        "sink": np.array(alpha[0] * norms[0]),
    }


def by_hand() -> tuple[np.ndarray, np.ndarray]:
    """Return eq. (12) and (14) in NumPy."""
    s, n = selected(), AXES["N"].astype(float)
    rho = np.exp(-AXES["beta"])[None]
    scale = (s["most"] + s["beyond"] + s["total"])[:, None]
    margin = s["least"][:, None] ** 2 - 2 * (s["beyond"] * s["total"])[:, None] * rho
    margin_sink = s["sink"] ** 2 - (s["total"][:, None] * rho) ** 2
    strength = AXES["kappa"][None] * AXES["d"][:, None]
    first = np.exp(-strength * ((margin / scale) ** 2)[..., None, None])
    second = np.exp(-strength * ((margin_sink / scale) ** 2)[..., None, None])
    outside = (1024 - n)[:, None, None, None]
    loss = outside * first + outside / n[:, None, None, None] * second
    return 1 / (1 + loss), 1 - loss


def by_sympy(points: int) -> float:
    """Return seconds per point of substituting and evaluating eq. (12), with Δ and B expanded."""
    least, most, beyond, total, sink, beta, d, kappa, n, length = sp.symbols(
        "least most beyond total sink beta d kappa n length", positive=True
    )
    rho, scale = sp.exp(-beta), most + beyond + total
    margin, margin_sink = least**2 - 2 * beyond * total * rho, sink**2 - (total * rho) ** 2
    outside = length - n
    tails = [sp.exp(-kappa * d * (x / scale) ** 2) for x in (margin, margin_sink)]
    expression = 1 / (1 + outside * tails[0] + outside / n * tails[1])
    s = {name: np.broadcast_to(values, (100,)) for name, values in selected().items()}
    started = time.perf_counter()
    for k in range(points):
        values = {
            least: s["least"][k + 1],
            most: s["most"][k + 1],
            beyond: s["beyond"][k + 1],
            total: s["total"][k + 1],
            sink: s["sink"][0],
        }
        values |= {beta: AXES["beta"][k], d: 64, kappa: 0.125, n: k + 2, length: 1024}
        float(expression.subs(values).evalf())
    return (time.perf_counter() - started) / points


def clock(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=7)
    pairs = parser.parse_args().pairs
    result = study(AXES, FIXED, QUESTION)
    for name, hand in zip(QUESTION.bounds, by_hand(), strict=True):
        np.testing.assert_allclose(result.full(name), hand, rtol=1e-12)
    ours, theirs = [], []
    for _ in range(pairs):
        theirs.append(clock(by_hand))
        ours.append(clock(lambda: study(AXES, FIXED, QUESTION)))
    ratio = statistics.median(our / other for our, other in zip(ours, theirs, strict=True))
    points = int(np.prod(result.shape))
    print(
        f"{points:,} points, {pairs} pairs: by hand {statistics.median(theirs):.4f} s, study"
        f" {statistics.median(ours):.4f} s, median ratio {ratio:.2f}"
    )
    seconds = by_sympy(20)
    print(
        f"sympy {1e3 * seconds:.2f} ms a point: {seconds * points / statistics.median(ours):,.0f}"
        " times as long"
    )
    random = np.random.default_rng(0)
    profiles = {
        "eta": random.uniform(0, 0.05, 100),
        "omega": random.uniform(0, 3, 10),
        "p_sink": random.uniform(0, 0.9, 10),
    }
    print(
        "10,000 profiles at L = 1024, N = 8:"
        f" {clock(lambda: study(profiles, {'N': 8, 'L': 1024}, QUESTION)):.2f} s"
    )


if __name__ == "__main__":
    main()
