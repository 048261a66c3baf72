"""Forms of similarity in a run: their errors, the number of selections, and infeasible fits."""

import sys

import geostat as gs
from geostat.fits.similarity.fit import fit_similarity

LAGS = ((1, 1), (10, 30), (500, 1000))
"""Ranges of lags, first to last."""


def main(run: str) -> None:
    """Print one row per form, and the error of the form with an offset for single documents."""
    tree = gs.open(run)
    similarity = tree["similarity"].to_dataset()
    selected = similarity["chosen"].values
    print("form          median MAE by lag   selected in   not PSD in (KV heads)")
    for place, form in enumerate(similarity["gram"].values):
        fit = similarity.sel(gram=form)
        error = float(fit["mae_by_lag"].median())
        infeasible = int((~fit["feasible"]).sum())
        print(f"{form:<13} {error:<19.4f} {(selected == place).sum():<13} {infeasible}")
    captured = tree["capture"].to_dataset()
    cosine = captured["cosine_mean"].mean(["document", "layer", "kv_head"])
    for first, last in LAGS:
        mean = float(cosine.sel(lag=slice(first, last)).mean())
        print(f"mean cosine, lags {first} to {last}: {mean:.2f}")
    errors = [
        fit_similarity(captured.isel(document=[index]))["mae_by_lag"].sel(gram="offset").median()
        for index in range(captured.sizes["document"])
    ]
    print("offset, each document alone:", *(f"{float(error):.3f}" for error in errors))


if __name__ == "__main__":
    main(sys.argv[1])
