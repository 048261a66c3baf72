"""Sums of fitted and of measured weights of a run."""

import sys

import numpy as np

import geostat as gs


def main(run: str) -> None:
    """Print the logarithm of both sums, medians over heads."""
    weights = gs.open(run)["weights"].to_dataset()
    content = np.exp(weights["log_weight_mean"]).sum("position")
    measured = np.log(content + weights["p_sink"])
    print(f"log of the sum of the fitted weights: {float(weights['total_model_log'].median()):.2f}")
    print(
        f"log of the sum of geometric means, arithmetic for the sink:"
        f" {float(measured.median()):.2f}"
    )


if __name__ == "__main__":
    main(sys.argv[1])
