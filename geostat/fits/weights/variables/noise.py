"""Records of the residuals' noise, of what stands out of it, and of how exactly it lets break
points be placed.
"""

from __future__ import annotations

from geostat.fits.weights.variables.kinds import along, head

_OSCILLATES = head(
    "oscillation_identified",
    "the oscillation stands above the noise",
    "1",
    r"\eta\cos\omega i \neq 0",
)
AUTOCORRELATION = head(
    "residual_autocorrelation",
    "lag-one autocorrelation of the residuals of the mean log weight",
    "1",
    r"\hat\rho_1",
)
LONG_RUN = head(
    "long_run_noise",
    "square root of the residuals' long-run variance, by an ARMA(1,1) background",
    "nat",
    r"\sqrt{S(0)}",
)
IDENTIFIED = (
    _OSCILLATES,
    head("growth_identified", "the growth stands above the noise", "1", r"\eta(i - T_2) \neq 0"),
    head("identified", "oscillation or growth stands above the noise", "1", r"\eta \neq 0"),
)
P_VALUES = (
    head(
        "oscillation_p",
        "p-value of an oscillation against surrogates with the residuals' own autocorrelation",
        "1",
        r"p_{\omega}",
    ),
    head(
        "growth_p",
        "p-value of growth against surrogates with the residuals' own autocorrelation",
        "1",
        r"p_{\eta}",
    ),
)
NOISE = (
    AUTOCORRELATION,
    LONG_RUN,
    head(
        "long_run_newey_west",
        "square root of the residuals' long-run variance, prewhitened Newey-West with Andrews'"
        " bandwidth",
        "nat",
        r"\sqrt{S_{\mathrm{NW}}(0)}",
    ),
    head(
        "noise_phi",
        "autoregressive coefficient of the residuals' ARMA(1,1) background",
        "1",
        r"\phi",
    ),
    head(
        "noise_theta",
        "moving-average coefficient of the residuals' ARMA(1,1) background",
        "1",
        r"\theta",
    ),
    head(
        "document_noise",
        "standard deviation of one document's log weight about the fit, its own level taken out",
        "nat",
        r"\sigma_k",
    ),
    head(
        "document_autocorrelation",
        "lag-one autocorrelation of one document about the fit, its own level taken out",
        "1",
        r"\rho_{1,k}",
    ),
)
BY_FORM = along(
    "form",
    "by form",
    _OSCILLATES,
    head(
        "oscillation_to_noise",
        "amplitude over its standard error in the residuals' noise at its frequency",
        "1",
        r"\eta\sqrt{(T_2-T_1)/2}/\sqrt{S(\omega)}",
    ),
    head(
        "growth_to_noise",
        "total growth over the long-run noise",
        "1",
        r"\eta(L-T_2)/\sqrt{S(0)}",
    ),
    head(
        "t1_half_width",
        "half-width of the 95% interval of T_1 in the residuals' noise",
        "token",
        r"\Delta T_1",
    ),
    head(
        "t2_half_width",
        "half-width of the 95% interval of T_2 in the residuals' noise",
        "token",
        r"\Delta T_2",
    ),
    head(
        "omega_half_width",
        "half-width of the 95% interval of omega in the residuals' noise",
        "rad/token",
        r"\Delta\omega",
    ),
)
