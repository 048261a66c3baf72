"""Bounds of a run: vacuous printed bounds, and bounds violated because a form has one cosine per
lag.
"""

import sys

import numpy as np
import xarray as xr

import geostat as gs
from theory import LagGram, envelope, offset_exponential

SIZES = 3
"""Number of largest sizes N at which the offset's lower bound on Precision is compared."""
LAGS, PAIRED = (100 / 1024, 900 / 1024), 1000 / 1024
"""Shares of T: lags used for the scatter of cosines, and lags with enough pairs for a mean."""


def main(run: str) -> None:
    """Print the extremes of the printed bounds, and the heads below the offset's lower bound."""
    tree = gs.open(run)
    tokens = tree["capture"].sizes["position"]
    envelopes = tree["envelope"].to_dataset()
    cells = (envelopes["n_envelope"] > 1) & (envelopes["n_envelope"] < tokens)
    printed = envelopes.sel(edition="printed", gram="exponential").where(cells)
    print(f"largest printed lower bound of Recall: {float(printed['recall_lower'].max()):.3g}")
    print(f"median of that of F(r_min): {float(printed['f_inner_lower'].median()):.3f}")
    sharp = envelopes.sel(edition="sharp", gram="offset").isel(n_envelope=cells.values)
    sharp = sharp.isel(n_envelope=slice(-SIZES, None))
    gap = (sharp["precision_lower"] - sharp["precision"]).transpose("n_envelope", "layer", "head")
    for size in gap["n_envelope"].values:
        of_size = gap.sel(n_envelope=size)
        above, below = of_size.where(of_size > 0), of_size.where(of_size <= 0)
        print(
            f"N = {size}: the lower bound lies above Precision in {int((of_size > 0).sum())} heads,"
            f" by {float(above.mean()):.3f} on average; in the others below, by"
            f" {-float(below.mean()):.3f}"
        )
    _causes(tree, gap.isel(n_envelope=-1) > 0)
    _worst(tree, gap.isel(n_envelope=-1))


def _causes(tree: xr.DataTree, missed: xr.DataArray) -> None:
    """Print medians over the heads whose bound is violated and over the others."""
    capture, similarity = tree["capture"].to_dataset(), tree["similarity"].to_dataset()
    fits = similarity.sel(gram="offset", kv_head=capture["kv_head_of_head"])
    tokens = capture.sizes["position"]
    lags = slice(*(round(share * tokens) for share in LAGS))
    scatter = capture["cosine_std"].sel(lag=lags).mean(["document", "lag"])
    causes = {
        "offset c": fits["offset"],
        "scatter of single cosines at a lag": scatter.sel(kv_head=capture["kv_head_of_head"]),
        "misfit by lag": fits["mae_by_lag"],
    }
    print(
        "medians over the heads with the bound above Precision at the largest N, and over the"
        " others:"
    )
    for name, values in causes.items():
        parts = (float(values.where(heads).median()) for heads in (missed, ~missed))
        print(f"  {name}: {', '.join(f'{part:.3f}' for part in parts)}")


def _worst(tree: xr.DataTree, gap: xr.DataArray) -> None:
    """Print the bound with the largest violation, from the fitted curve and from the means by
    lag.
    """
    layer, head = np.unravel_index(int(np.argmax(gap.values)), gap.shape)
    size, dimension = int(gap["n_envelope"]), tree.attrs["model"]["dimension"]
    run = tree["capture"].to_dataset().isel(layer=layer, head=head)
    labels = {"layer": layer, "kv_head": int(run["kv_head_of_head"])}
    tokens = run.sizes["position"]
    norms = tree["norms"].to_dataset().isel(labels)
    fit = tree["similarity"].to_dataset().sel(gram="offset").isel(labels)
    beta, offset, rho0 = (float(fit[name]) for name in ("beta", "offset", "rho0"))
    lengths = float(norms["C"]) * np.r_[float(norms["lam"]), np.ones(tokens - 1)]
    means = run["cosine_mean"].isel(kv_head=labels["kv_head"]).mean("document").values
    paired, last = round(PAIRED * tokens), round(LAGS[1] * tokens)
    tail = np.full(tokens - 1 - paired, means[last:paired].mean())
    grams = {
        "fitted curve": offset_exponential(beta, offset, rho0, tokens),
        "means of each lag": LagGram(np.r_[1, means[:paired], tail], rho0),
    }
    curve = float(run["precision"].sel(n=size).mean())
    print(
        f"L{int(gap['layer'][layer])}H{int(gap['head'][head])}, N = {size}: Precision {curve:.3f}"
    )
    for name, gram in grams.items():
        lower = [
            envelope(w / w.sum(), lengths, gram, dimension, [size], edition="sharp")
            for w in run["attention_weight"].values.astype(float)
        ]
        print(
            f"  lower bound, {name}: {np.mean([bounds.precision_lower[0] for bounds in lower]):.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1])
