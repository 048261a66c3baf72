"""Five sentences of a run, as `geostat confront` made them."""

import sys

import geostat as gs


def main(run: str) -> None:
    """Print one sentence a paragraph."""
    print(*gs.open(run)["summary"].attrs["sentences"], sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1])
