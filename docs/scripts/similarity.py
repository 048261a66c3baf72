"""Forms of similarity in a run: their errors, how often each is chosen, and where none exists."""

import sys

import geostat as gs
from geostat.fits.similarity.fit import fit_similarity


def main(run: str) -> None:
    """Print a row a form, and the offset form's error in each document alone."""
    tree = gs.open(run)
    similarity = tree["similarity"].to_dataset()
    chosen = similarity["chosen"].values
    print("form          median MAE by lag   chosen in   no vectors in (value heads)")
    for place, form in enumerate(similarity["gram"].values):
        one = similarity.sel(gram=form)
        error = float(one["mae_by_lag"].median())
        none = int((~one["feasible"]).sum())
        print(f"{form:<13} {error:<19.4f} {(chosen == place).sum():<11} {none}")
    captured = tree["capture"].to_dataset()
    errors = [
        fit_similarity(captured.isel(document=[one]))["mae_by_lag"].sel(gram="offset").median()
        for one in range(captured.sizes["document"])
    ]
    print("offset, each document alone:", *(f"{float(error):.3f}" for error in errors))


if __name__ == "__main__":
    main(sys.argv[1])
