"""Shares of variance of log weights by number of documents: common share, explained share, R²."""

import sys

import geostat as gs
from geostat.fits.weights.fit import fit_weights
from geostat.runs.groups import measured

SHARES = ("common_share", "r2_document", "r2")


def main(run: str) -> None:
    """Fit the weights of the first K, K/2, … documents and print medians over heads."""
    captured = measured(gs.open(run))
    count = captured.sizes["document"]
    while count >= 2:
        subset = captured.isel(document=slice(count), missing_dims="ignore")
        medians = fit_weights(subset)[list(SHARES)].median()
        print(f"{count} documents:", *(f"{name} {float(medians[name]):.2f}" for name in SHARES))
        count //= 2


if __name__ == "__main__":
    main(sys.argv[1])
