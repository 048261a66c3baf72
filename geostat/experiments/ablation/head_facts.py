"""What is known of each head of a model before anything is cut. Imports numpy and xarray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr

from geostat.experiments.head_regime_rules import REGIMES
from geostat.statistics.arrays import BoolArray, FloatArray

CURVES: Final = ("precision", "recall", "f_outer", "f_inner")
PREDICTORS: Final = {
    "precision": "Precision at N",
    "recall": "Recall at N",
    "f_outer": "F(r_max) at N",
    "f_inner": "F(r_min) at N",
    "sharp_f_lower": "sharp lower bound on F(r_max) at N",
    "sharp_f_margin": "F(r_max) at N less its sharp lower bound",
    "lam": "λ, norm of the sink over that of content",
    "rho0": "ρ₀, cosine of the sink with content",
    **{name: f"is a {name} head" for name in REGIMES[1:]},
    "kept_mass": "share of the weights that the N largest hold",
    "entropy": "entropy of the weights",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Heads as (layer, head), by document where documents differ."""

    sizes: Sequence[int]
    """N of the curves."""
    curves: Mapping[str, FloatArray]
    """CURVES, (document, layer, head, n)."""
    kept_mass: FloatArray
    """Share of the weights that the N largest hold, N = 1, 2, …, (document, layer, head, T)."""
    entropy: FloatArray
    """(document, layer, head), in nats."""
    lam: FloatArray
    rho0: FloatArray
    """Of the value head that a head reads, (layer, head)."""
    sharp_f: FloatArray
    """Sharp lower bound on F(r_max), (layer, head, n)."""
    label: FloatArray
    """Regime by sizes, a code of REGIMES, (layer, head)."""

    @classmethod
    def of(
        cls, measured: Mapping[str, FloatArray], sizes: Sequence[int], tree: xr.DataTree
    ) -> Facts:
        """Join what was measured of documents with what a confronted run knows."""
        _, layers, heads, _ = measured["precision"].shape

        def of_values(values: xr.DataArray) -> FloatArray:
            laid = values.transpose("layer", "kv_head").values
            return np.repeat(laid, heads // laid.shape[1], axis=1)

        envelope = tree["envelope"].to_dataset()
        sharp = np.full((layers, heads, len(sizes)), np.nan)
        if "sharp" in envelope["edition"].values:
            lower = envelope["f_outer_lower"].sel(edition="sharp").isel(gram=0)
            lower = lower.transpose("layer", "head", "n_envelope")
            logs, asked = np.log(lower["n_envelope"].values), np.log(sizes)
            for place in np.ndindex(layers, heads):
                row = lower.values[place]
                known = np.isfinite(row)
                if known.any():
                    sharp[place] = np.interp(asked, logs[known], row[known])
        return cls(
            sizes=tuple(sizes),
            curves={name: measured[name].astype(np.float64) for name in CURVES},
            kept_mass=measured["kept_mass"],
            entropy=measured["entropy"],
            lam=of_values(tree["norms"].to_dataset()["lam"]),
            rho0=of_values(tree["similarity"].to_dataset()["rho0"]),
            sharp_f=sharp,
            label=tree["heads"].to_dataset()["label"].sel(criterion="size").values,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        layers, heads = self.label.shape
        return layers, heads

    @property
    def tokens(self) -> int:
        """Of a window, T."""
        return self.kept_mass.shape[-1]

    def of_regime(self, name: str) -> BoolArray:
        """Return which heads belong to a regime, (layer, head)."""
        return np.asarray(self.label == REGIMES.index(name))

    def curve(self, name: str, n: int) -> FloatArray:
        """Return a curve at one N, (document, layer, head)."""
        return self.curves[name][..., self.sizes.index(n)]

    def predictors(self, n: int) -> dict[str, FloatArray]:
        """Return PREDICTORS at one N, heads flat: (document, head), or (head)."""
        documents = len(self.entropy)
        out: dict[str, FloatArray] = {
            name: self.curve(name, n).reshape(documents, -1) for name in CURVES
        }
        lower = self.sharp_f[..., self.sizes.index(n)].ravel()
        out |= {"sharp_f_lower": lower, "sharp_f_margin": out["f_outer"] - lower}
        out |= {"lam": self.lam.ravel(), "rho0": self.rho0.ravel()}
        out |= {name: self.of_regime(name).ravel().astype(float) for name in REGIMES[1:]}
        out["kept_mass"] = self.kept_mass[..., n - 1].reshape(documents, -1)
        out["entropy"] = self.entropy.reshape(documents, -1)
        return out

    def of_weights(self, sizes: Sequence[int]) -> dict[str, FloatArray]:
        """Return what weights alone tell: kept mass at each N and entropy, (document, head)."""
        documents = len(self.entropy)
        masses = {
            f"kept_mass at {n}": self.kept_mass[..., n - 1].reshape(documents, -1) for n in sizes
        }
        return masses | {"entropy": self.entropy.reshape(documents, -1)}
