"""Shares of variance by number of documents: common to them, explained by the phases, and R²."""

import sys

import geostat as gs
from geostat.fits.weights.fit import fit_weights
from geostat.runs.groups import measured

SHARES = ("common_share", "r2_document", "r2")


def main(run: str) -> None:
    """Fit the weights of the first 2, 4, 8, … documents and print medians over heads."""
    captured = measured(gs.open(run))
    count = captured.sizes["document"]
    while count >= 2:
        few = captured.isel(document=slice(count), missing_dims="ignore")
        medians = fit_weights(few)[list(SHARES)].median()
        print(f"{count} documents:", *(f"{name} {float(medians[name]):.2f}" for name in SHARES))
        count //= 2


if __name__ == "__main__":
    main(sys.argv[1])
