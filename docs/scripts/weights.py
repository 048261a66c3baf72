"""Weights of a run: what the fitted and the measured ones sum to, and what a test could see."""

import sys

import numpy as np

import geostat as gs
from studies.weights import limits

TOKENS = 1025
"""Of the documents whose limits are told."""


def main(run: str) -> None:
    """Print medians over heads of the logarithm of both sums, and the limits of the tests."""
    weights = gs.open(run)["weights"].to_dataset()
    content = np.exp(weights["log_weight_mean"]).sum("position")
    measured = np.log(content + weights["p_sink"])
    print(f"log of the sum of the fitted weights: {float(weights['total_model_log'].median()):.2f}")
    print(f"log of that of geometric means, sink as it is: {float(measured.median()):.2f}")
    amplitude, growth = limits(TOKENS)
    print(f"an oscillation stands out from an amplitude of {amplitude:.2f} on,")
    print(f"growth from {growth:.2f} nats on, at one query of a document")


if __name__ == "__main__":
    main(sys.argv[1])
