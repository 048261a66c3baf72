"""Degrees of freedom that a claim's heads lend one another: d₀ of the moderated intervals."""

import sys

import geostat as gs


def main(run: str) -> None:
    """Print the median over heads of d₀ by claim."""
    tree = gs.open(run)
    verdicts, own = tree["verdicts"].to_dataset(), tree["capture"].sizes["document"] - 1
    for unit in ("kv_head", "head"):
        lent = (verdicts[f"degrees_{unit}"] - own).median(("layer", unit))
        for claim in lent[f"claim_{unit}"].values:
            print(f"{claim}: {float(lent.sel({f'claim_{unit}': claim})):.1f}")


if __name__ == "__main__":
    main(sys.argv[1])
