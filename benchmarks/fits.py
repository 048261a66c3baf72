"""Time of all fits and verdicts on synthetic heads: every head, rival form, leave-one-document-out
replicate, interval and answer. `stages.py` times those of a run.

Run: python -m benchmarks.fits [--layers 30] [--documents 8] [--length 1024] [--repeat 1]. The
script prints seconds by assumption, of fits to pooled heads and of verdicts. Kernels are compiled
first on a small dataset; that time is printed separately.
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
from geostat.fits.pooled import fit_pooled
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.weights.fit import fit_weights
from geostat.topics.verdicts import give_verdicts

STEPS = ("norms", "similarity", "weights", "pooled", "verdicts")


def once(groups: dict[str, xr.Dataset]) -> list[float]:
    """Fit a /capture dataset and compute its verdicts; return the seconds of each of STEPS."""
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (("layers", 30), ("documents", 8), ("length", 1024), ("repeat", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    start = time.perf_counter()
    fit_weights(capture(sizes=Sizes(documents=2)))
    print(
        f"compile          {time.perf_counter() - start:7.2f} s (once for an installation: kernels"
        " are cached)"
    )
    truth = Truth(
        t1=options.length // 10, t2=options.length - 40, eta=0.15, eta_tail=0.15, omega=0.4
    )
    sizes = Sizes(
        documents=options.documents,
        layers=options.layers,
        heads=9,
        kv_heads=3,
        positions=options.length,
    )
    groups = {"/capture": capture(truth, sizes=sizes)}
    seconds = np.array([once(groups) for _ in range(options.repeat)])
    data = groups["/capture"]
    heads, documents = data.sizes["layer"] * data.sizes["head"], data.sizes["document"]
    print(
        f"{heads} heads, {data.sizes['layer'] * data.sizes['kv_head']} KV heads, T ="
        f" {data.sizes['position']}, {documents} documents: {heads * (documents + 1)} profiles;"
        f" {os.cpu_count()} cores"
    )
    for name, value in zip(STEPS, np.median(seconds, axis=0), strict=True):
        print(f"{name:16s} {value:7.2f} s")
    print(
        f"{'all':16s} {np.median(seconds.sum(axis=1)):7.2f} s (to reach: 90 s for 270 heads, 90"
        " KV heads and 8 documents on 2 cores)"
    )


if __name__ == "__main__":
    main()
