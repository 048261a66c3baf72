"""Cost of `theory`: sharp, predicted and conditional bounds of one head, and the import.

    .venv/bin/python -m benchmarks.theory [--heads 25]

Each part runs in a separate process with one thread, after a warm-up. The script prints wall and
CPU time, because other processes on the machine lengthen only the wall time. Memory is the growth
of the process's peak after the warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theory.head.results import Edition

TOKENS, DIMENSION, VALUES_OF_N = 1025, 64, 128
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}


def long_head() -> tuple:
    """Return α, norms and Gram matrix at L = 1024."""
    from theory.head.attention_profile import WeightProfile, value_norm_profile
    from theory.head.gram import offset_exponential

    shape = WeightProfile(
        length=TOKENS - 1,
        plateau_end=300,
        growth_start=900,
        p_sink=0.4,
        eta=0.5,
        omega=0.9,
        growth=0.06,
    )
    return (
        shape.weights(),
        value_norm_profile(TOKENS, sink_ratio=0.2),
        offset_exponential(0.1, 0.2, 0.1, TOKENS),
    )


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one_head(edition: Edition) -> dict[str, float]:
    """Time one head at `VALUES_OF_N` values of N, with shared work done once."""
    import numpy as np

    from theory.evaluate.envelopes import envelopes

    alpha, norms, gram = long_head()
    envelopes(alpha[None, :200], norms[:200], gram, DIMENSION, [2, 20], edition=edition)
    sizes, before, wall, cpu = (
        np.unique(np.linspace(1, TOKENS - 1, VALUES_OF_N).astype(int)),
        peak(),
        time.perf_counter(),
        time.process_time(),
    )
    envelopes(alpha[None], norms, gram, DIMENSION, sizes, edition=edition)
    return {
        "sizes": len(sizes),
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "memory": peak() - before,
    }


def conditional(heads: int) -> dict[str, float]:
    """Time one value of N at T = 257 over random heads; the tables of a dimension are computed
    before its head is timed.
    """
    import numpy as np

    from studies.audit import heads as audit_heads
    from theory.editions.conditional.conditional_edition import conditional_bounds
    from theory.head.gram import LagGram
    from theory.head.ranked import rank_tokens, summarise

    audit_heads.RANGES["length"] = (256, 256.001)
    wall, cpu, settled = [], [], 0
    for head in audit_heads.heads("random", seed=2026, count=heads):
        gram = head.gram.matrix(257) if isinstance(head.gram, LagGram) else head.gram
        ranked = rank_tokens(head.alpha, head.norms, gram, 0)
        for n in head.n.tolist():
            summary = summarise(ranked, np.array([n]))
            conditional_bounds(ranked, summary, 0, head.dimension, followup=False)
            starts = time.perf_counter(), time.process_time()
            _, error = conditional_bounds(ranked, summary, 0, head.dimension, followup=False)
            wall.append(time.perf_counter() - starts[0])
            cpu.append(time.process_time() - starts[1])
            settled += error <= 0.01
    shares = {"median": 0.5, "ninth_decile": 0.9, "worst": 1.0}
    quantiles = {
        f"{kind}_{name}": float(np.quantile(times, q))
        for kind, times in (("wall", wall), ("cpu", cpu))
        for name, q in shares.items()
    }
    return {"rows": len(wall), "settled": settled / len(wall), **quantiles}


def fresh(part: str, *arguments: str) -> dict[str, float]:
    """Run one part in a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.theory", "--part", part, *arguments],
        env=os.environ | ONE_THREAD,
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout))


def import_seconds() -> tuple[float, float]:
    """Return the least wall and CPU seconds, out of five, of `import theory` minus those of an
    empty interpreter.
    """
    times = []
    for program in ("pass", "import theory"):
        runs = []
        for _ in range(5):
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | ONE_THREAD)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            runs.append(
                (
                    time.perf_counter() - start,
                    after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                )
            )
        times.append([min(run[k] for run in runs) for k in range(2)])
    return times[1][0] - times[0][0], times[1][1] - times[0][1]


def main() -> None:
    """Print the table of timings, or one part of it as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--heads", type=int, default=25)
    parser.add_argument("--part", choices=["sharp", "predicted", "conditional"])
    options = parser.parse_args()
    if options.part:
        print(
            json.dumps(
                conditional(options.heads)
                if options.part == "conditional"
                else one_head(options.part)
            )
        )
        return
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    for edition, target in (("sharp", "3 s, 500 MB"), ("predicted", "4 s")):
        result = fresh(edition)
        print(
            f"{edition}: one head, L = {TOKENS - 1}, {result['sizes']} values of N:"
            f" {result['wall']:.2f} s wall, {result['cpu']:.2f} s CPU, {result['memory']:.0f}"
            f" MB (target: {target})"
        )
    result = fresh("conditional", "--heads", str(options.heads))
    for kind, name in (("wall", "wall"), ("cpu", "CPU")):
        median, decile, worst = (
            1e3 * result[f"{kind}_{share}"] for share in ("median", "ninth_decile", "worst")
        )
        print(
            f"conditional: T = 257, {result['rows']} values of N, ms {name}: median {median:.0f},"
            f" 90% {decile:.0f}, worst {worst:.0f} (target: 150)"
        )
    print(f"conditional: {result['settled']:.1%} of them settled")
    wall, cpu = import_seconds()
    print(f"import theory: {wall:.2f} s wall, {cpu:.2f} s CPU (target: 1.5 s)")


if __name__ == "__main__":
    main()
