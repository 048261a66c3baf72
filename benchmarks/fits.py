"""How long all fits of one run take: every head, every leave-one-document-out replicate, every interval.

Run: python benchmarks/fits.py [--layers 30] [--documents 8] [--length 1024] [--repeat 1]
Prints seconds by assumption; the compiled kernels are compiled on a small dataset first and that time is printed apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from synthetic import Sizes, Truth, capture

from geostat.norms import fit_norms
from geostat.similarity import fit_similarity
from geostat.weights import fit_weights

FITS = (fit_norms, fit_similarity, fit_weights)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 30), ("documents", 8), ("length", 1024), ("repeat", 1)):
        ask.add_argument(f"--{name}", type=int, default=default)
    asked = ask.parse_args()
    start = time.perf_counter()
    fit_weights(capture(sizes=Sizes(documents=2)))
    print(f"compile          {time.perf_counter() - start:7.2f} s (once for an installation: kernels are cached)")
    truth = Truth(t1=asked.length // 10, t2=asked.length - 40, eta=0.15, eta_tail=0.15, omega=0.4)
    sizes = Sizes(documents=asked.documents, layers=asked.layers, heads=9, kv_heads=3, positions=asked.length)
    data = capture(truth, sizes=sizes)
    seconds = np.zeros((asked.repeat, len(FITS)))
    for again in range(asked.repeat):
        for k, fit in enumerate(FITS):
            start = time.perf_counter()
            fit(data)
            seconds[again, k] = time.perf_counter() - start
    heads = asked.layers * sizes.heads
    print(
        f"{heads} heads, T = {asked.length}, {asked.documents} documents: {heads * (asked.documents + 1)} profiles; {os.cpu_count()} cores"
    )
    for fit, value in zip(FITS, np.median(seconds, axis=0), strict=True):
        print(f"{fit.__name__:16s} {value:7.2f} s")
    print(f"{'all':16s} {np.median(seconds.sum(axis=1)):7.2f} s")


if __name__ == "__main__":
    main()
