"""Weights of a run: what the fitted and the measured ones sum to."""

import sys

import numpy as np

import geostat as gs


def main(run: str) -> None:
    """Print medians over heads of the logarithm of both sums."""
    weights = gs.open(run)["weights"].to_dataset()
    content = np.exp(weights["log_weight_mean"]).sum("position")
    measured = np.log(content + weights["p_sink"])
    print(f"log of the sum of the fitted weights: {float(weights['total_model_log'].median()):.2f}")
    print(f"log of that of geometric means, sink as it is: {float(measured.median()):.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
