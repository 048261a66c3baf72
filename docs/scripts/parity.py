"""Parity of a run: how far weights and hidden states are from transformers' eager attention."""

import sys

import geostat as gs


def main(run: str) -> None:
    """Print the largest differences that the run's capture found."""
    for name, difference in gs.open(run).attrs["parity"].items():
        print(
            f"{name}: {difference:.2g}"
            if isinstance(difference, float)
            else f"{name}: {difference}"
        )


if __name__ == "__main__":
    main(sys.argv[1])
