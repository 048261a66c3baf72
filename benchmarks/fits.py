"""How long all fits and verdicts of synthetic heads take: every head, every rival, every
leave-one-document-out replicate, every interval, every answer. Those of a run: `stages.py`.

Run: python -m benchmarks.fits [--layers 30] [--documents 8] [--length 1024] [--repeat 1] Prints
seconds by assumption, of fits pooled over heads and of verdicts; the compiled kernels are compiled
on a small dataset first and that time is printed apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import xarray as xr

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.synthetic import Sizes, Truth, capture

from geostat.fits.norms.fit import fit_norms
from geostat.fits.pooled.fit import fit_pooled
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.weights.fit import fit_weights
from geostat.verdicts.answers import give_verdicts

STEPS = ("norms", "similarity", "weights", "pooled", "verdicts")


def once(groups: dict[str, xr.Dataset]) -> list[float]:
    """Fit and judge a run, given as /capture; return seconds of each of STEPS."""
    clock = [time.perf_counter()]
    data = groups["/capture"]
    result = dict(groups)
    for name, fit in (
        ("norms", fit_norms),
        ("similarity", fit_similarity),
        ("weights", fit_weights),
    ):
        result[f"/{name}"] = fit(data)
        clock.append(time.perf_counter())
    result["/pooled"] = fit_pooled(data)
    clock.append(time.perf_counter())
    give_verdicts(xr.DataTree.from_dict(result))
    clock.append(time.perf_counter())
    return list(np.diff(clock))


def main() -> None:
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("layers", 30), ("documents", 8), ("length", 1024), ("repeat", 1)):
        ask.add_argument(f"--{name}", type=int, default=default)
    asked = ask.parse_args()
    start = time.perf_counter()
    fit_weights(capture(sizes=Sizes(documents=2)))
    print(
        f"compile          {time.perf_counter() - start:7.2f} s (once for an installation: kernels"
        " are cached)"
    )
    truth = Truth(t1=asked.length // 10, t2=asked.length - 40, eta=0.15, eta_tail=0.15, omega=0.4)
    sizes = Sizes(
        documents=asked.documents,
        layers=asked.layers,
        heads=9,
        kv_heads=3,
        positions=asked.length,
    )
    groups = {"/capture": capture(truth, sizes=sizes)}
    seconds = np.array([once(groups) for _ in range(asked.repeat)])
    data = groups["/capture"]
    heads, documents = data.sizes["layer"] * data.sizes["head"], data.sizes["document"]
    print(
        f"{heads} heads, {data.sizes['layer'] * data.sizes['kv_head']} value heads, T ="
        f" {data.sizes['position']}, {documents} documents: {heads * (documents + 1)} profiles;"
        f" {os.cpu_count()} cores"
    )
    for name, value in zip(STEPS, np.median(seconds, axis=0), strict=True):
        print(f"{name:16s} {value:7.2f} s")
    print(
        f"{'all':16s} {np.median(seconds.sum(axis=1)):7.2f} s (to reach: 90 s for 270 heads, 90"
        " value heads and 8 documents on 2 cores)"
    )


if __name__ == "__main__":
    main()
