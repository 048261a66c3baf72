"""Change of pooled parameters over depth, with standard errors over documents and over layers."""

import sys

import geostat as gs

PARAMETERS = ("C", "rho0", "beta_offset", "p_sink")


def main(run: str) -> None:
    """Print the change from the first layer to the last with both standard errors."""
    pooled = gs.open(run)["pooled"].to_dataset()
    print("parameter     change   error by documents   error by layers")
    for name in PARAMETERS:
        change, documents, layers = (
            float(pooled[part].sel(parameter=name))
            for part in ("change", "change_se", "change_se_hac")
        )
        print(f"{name:<13} {change:<8.3f} {documents:<20.3f} {layers:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
