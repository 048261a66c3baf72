"""Placement of break points and frequency: half-widths of their 95% intervals in the noise.

For T₂ and ω from the sandwich (J'J)⁻¹ J'ΩJ (J'J)⁻¹ with J the model's derivatives, a column for T₂
among them (the growth's own −η beyond it), and Ω the noise's covariance. For T₁, where the mean
jumps and no derivative exists, 11.03 V/Q²: the 95% quantile of where a two-sided random walk with
drift is largest (Bai 1997, Review of Economics and Statistics 79), Q the mean square of
log(1 + η cos ωi) and V the long-run variance of its product with the noise. Imports numpy.
"""

from __future__ import annotations

import numpy as np

from geostat.fits.weights.autocorrelation import Background
from geostat.fits.weights.break_points import FORMS
from geostat.statistics.arrays import BoolArray, FloatArray, ratio

NORMAL, BAI = 1.959964, 11.03


def placement(
    best: dict[str, FloatArray], noise: Background, position: FloatArray, known: BoolArray
) -> dict[str, FloatArray]:
    """Return the half-widths of 95% intervals of T₁, T₂ (tokens) and ω (radians per token), (form,
    head); inf where nothing marks one.

    `best` holds the parameters of every form, `noise` the background of each form's residuals,
    (form, head). `position` is that of each content token, `known`, (head, token), tells which log
    weights are known.
    """
    out = {name: np.full(best["b"].shape, np.inf) for name in ("t1", "t2", "omega")}
    size = 2 * max(position.size, 1)
    frequency = 2.0 * np.pi * np.arange(size // 2 + 1) / size
    share = (
        np.where((np.arange(size // 2 + 1) == 0) | (2 * np.arange(size // 2 + 1) == size), 1.0, 2.0)
        / size
    )  # of a one-sided sum
    for k, form in enumerate(FORMS):
        heads = np.flatnonzero(np.isfinite(best["b"][k]) & np.isfinite(noise.variance[k]))
        if not heads.size:
            continue
        one = {name: rows[k, heads, None] for name, rows in best.items()}
        density = noise.take((k, heads)).density(frequency) * share
        columns, swing = _columns(form, one, position)
        columns, swing = columns * known[heads, :, None], swing * known[heads]
        error = _sandwich(columns, density, size)
        out["t2"][k, heads] = NORMAL * error[:, -1]
        if form == "monotone":
            out["t1"][k] = out["t2"][k]
            continue
        out["omega"][k, heads] = NORMAL * error[:, -2]
        power = (swing**2).sum(axis=-1)
        spread = (density * np.abs(np.fft.rfft(swing, size, axis=-1)) ** 2).sum(axis=-1)
        length = one["t2"][:, 0] - one["t1"][:, 0]
        out["t1"][k, heads] = np.divide(
            BAI * length * spread, power**2, out=np.full(power.shape, np.inf), where=power > 0
        )
    return out


def _columns(
    form: str, one: dict[str, FloatArray], position: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return derivatives of log α in b, the slopes, ω and T₂ (last two last), shape (head,
    token, parameter), and log(1 + η cos ωi).
    """
    wave, beyond = (position > one["t1"]) & (position <= one["t2"]), position > one["t2"]
    omega, eta = np.where(wave, one["omega"], 0.0), np.where(wave, one["eta_osc"], 0.0)
    cosine, level = np.cos(omega * position), 1.0 + eta * np.cos(omega * position)
    ramp = np.where(beyond, position - one["t2"], 0.0)
    swing = np.where(wave, cosine / level, 0.0)
    slopes = {"monotone": [ramp], "shared": [swing + ramp], "separate": [swing, ramp]}[form]
    turn = [] if form == "monotone" else [-eta * position * np.sin(omega * position) / level]
    columns = [np.ones(ramp.shape), *slopes, *turn, np.where(beyond, -one["eta_tail"], 0.0)]
    return np.stack(np.broadcast_arrays(*columns), axis=-1), np.where(wave, np.log(level), 0.0)


def _sandwich(columns: FloatArray, density: FloatArray, size: int) -> FloatArray:
    """Return standard errors of least squares in noise of the given spectral density, shape
    (head, parameter); inf for a column of zeros.
    """
    length = np.sqrt((columns**2).sum(axis=1))
    scale = ratio(1.0, length, 0.0)
    columns = columns * scale[:, None, :]
    inverse = np.linalg.pinv(np.einsum("hta,htb->hab", columns, columns), hermitian=True)
    spectra = np.fft.rfft(columns, size, axis=1)
    spectra = (
        np.concatenate([spectra.real, spectra.imag], axis=1)
        * np.sqrt(np.concatenate([density, density], axis=1))[..., None]
    )
    middle = spectra.transpose(0, 2, 1) @ spectra
    variance = np.einsum("hab,hbc,hac->ha", inverse, middle, inverse)
    with np.errstate(divide="ignore"):
        return np.where(length > 0, np.sqrt(np.maximum(variance, 0.0)) * scale, np.inf)
