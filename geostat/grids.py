"""What-if studies: the theory's bounds over a grid of parameters, as a labelled dataset, and the parameter at which one reaches a target.

Source: arXiv 2602.01893, eq. (8), (12)-(17); `theory.study` evaluates. A study starts from example values, from values given, or from
the fits of one head of a run. Imports numpy, xarray and the theory room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import numpy as np
import xarray as xr

from geostat.errors import InputError
from geostat.fitting import index_of
from theory.results import Edition
from theory.solve import Crossing, find
from theory.study import BOUNDS, LOWER, PARAMETERS, Decay, Question, study

__all__ = ["Setting", "find_value", "from_head", "parse", "whatif"]

SUBJECTS: Final = {
    "precision": ("E P(r_max)", r"\mathbb{E}\,P(r_{\max})", "(12), (13)"),
    "recall": ("E R(r_min)", r"\mathbb{E}\,R(r_{\min})", "(14), (15)"),
    "f_outer": ("E F(r_max)", r"\mathbb{E}\,F(r_{\max})", "(17)"),
    "f_inner": ("E F(r_min)", r"\mathbb{E}\,F(r_{\min})", "(16)"),
}
MARGINS: Final = {"margin": ("margin Δ", r"\Delta", "(8)"), "margin_sink": ("margin Δ₀ of the sink", r"\Delta_0", "(8), (29)")}
PRINTED_FORM: Final = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One `name=…` of a study. `values` are absolute, or multiples of the parameter's base value where `relative`."""

    name: str
    values: tuple[float, ...]
    relative: bool = False

    def of(self, base: Mapping[str, float]) -> np.ndarray:
        """Return the values, the multiples taken of the base value."""
        values = np.array(self.values, dtype=np.float64)
        if self.relative:
            start = base.get(self.name, PARAMETERS[self.name].default)
            if start is None:
                raise InputError(f"{self.name}: has no base value to multiply. Give it with --set {self.name}=VALUE.")
            values = values * start
        return np.unique(np.round(values)) if PARAMETERS[self.name].whole else values


def parse(text: str) -> Setting:
    """Read `name=value`, `name=v1,v2,…` or `name=from:to:count[:log]`; an x before the values multiplies the base value, as in beta=x2.

    Raises:
        InputError: for an unknown name, or values that are no numbers.
    """
    name, equals, rest = text.partition("=")
    name, rest = name.strip(), rest.strip()
    if name not in PARAMETERS:
        raise InputError(f"--set {text}: {name!r} is no parameter, expected one of {', '.join(PARAMETERS)}. Use one of those.")
    relative = rest.startswith("x")
    plain = re.sub(r"(^|[:,])x", r"\1", rest)
    try:
        values = _range(plain) if ":" in plain else tuple(float(part) for part in plain.split(","))
    except ValueError:
        values = ()
    if not equals or not values or not np.isfinite(values).all():
        raise InputError(f"--set {text}: expected {name}=VALUE, {name}=V1,V2,… or {name}=FROM:TO:COUNT[:log], all of them numbers.")
    return Setting(name=name, values=values, relative=relative)


def _range(text: str) -> tuple[float, ...]:
    first, last, count, *spacing = text.split(":")
    start, stop, number = float(first), float(last), int(count)
    if spacing not in ([], ["log"]) or number < 1 or (spacing and not (start > 0 and stop > 0)):
        raise ValueError(text)
    return tuple((np.geomspace if spacing else np.linspace)(start, stop, number).tolist())


def whatif(
    axes: Mapping[str, Sequence[float] | np.ndarray] | None = None,
    *,
    edition: Edition = "printed",
    gram: Decay = "exponential",
    bounds: Sequence[str] = LOWER,
    base: Mapping[str, float] | None = None,
    project: bool = False,
    **parameters: float | Sequence[float],
) -> xr.Dataset:
    """Evaluate bounds over a grid of parameters.

    Args:
        axes: values of the parameters that vary, by name (N, L, d, kappa, beta, rho0, c, stretch, lam, p_sink, p_base, eta, growth, omega,
            T1, T2, C); the order is that of the dataset's dimensions.
        edition: "printed", "repaired", "sharp", …
        gram: form of the similarity: "exponential", "offset", "stretched" or "power".
        bounds: which bounds, such as "recall_lower"; the four lower ones by default.
        base: values of parameters that do not vary, such as `from_head` returns; others have example values.
        project: move ρ₀ to its edge where no vectors have it and flag the point `projected`, instead of leaving it out.
        parameters: further parameters by name: one number stands still, several vary.

    Returns:
        Dataset over the axes, each with units: the bounds, `feasible` (whether vectors with that Gram exist; the bounds are NaN where
        not) and the margins Δ and Δ₀ of eq. (8), units of the squared value norm. Its attributes hold what was fixed.

    Raises:
        InputError: for an unknown name, a value that is none, a profile that is none, or more points than memory holds.
    """
    several = {name: value for name, value in parameters.items() if np.ndim(value)}
    single = {name: float(value) for name, value in parameters.items() if not np.ndim(value)}  # type: ignore[arg-type]
    varying: dict[str, Any] = dict(axes or {}) | several
    rest = {name: value for name, value in (dict(base or {}) | single).items() if name not in varying}
    question = Question(edition=edition, decay=gram, bounds=tuple(bounds), project=project)
    found = study(varying, rest, question)
    dataset = xr.Dataset(
        {
            name: (dims, array, _meaning(name, edition))
            for name, (dims, array) in sorted(found.values.items(), key=lambda item: item[0] not in bounds)
        },
        coords={name: (name, _whole(name, values), _units(name)) for name, values in found.axes.items()},
    )
    dataset.attrs = {
        "edition": edition,
        "gram": gram,
        "kind": KINDS.get(edition, "bound"),
        **{f"fixed_{k}": v for k, v in found.fixed.items()},
    }
    return dataset


KINDS: Final = {
    "printed": "as printed; a bound only where its conditions hold",
    "repaired": "lower: a bound for unit directions, upper: an approximation",
    "sharp": "a bound under Model G",
    "conditional": "a bound under Model G",
    "predicted": "an approximation, no bound",
}


def find_value(
    parameter: str,
    target: float,
    *,
    bound: str = "recall_lower",
    edition: Edition = "printed",
    gram: Decay = "exponential",
    base: Mapping[str, float] | None = None,
    between: tuple[float, float] | None = None,
) -> Crossing:
    """Return the largest N, or the smallest value of another parameter, at which a bound reaches a target; see `theory.solve.find`."""
    if bound not in BOUNDS:
        raise InputError(f"{bound!r} is no bound, expected one of {', '.join(BOUNDS)}. Use one of those.")
    return find(parameter, target, base, Question(edition=edition, decay=gram, bounds=(bound,)), between=between)


def from_head(run: xr.DataTree, head: str, *, gram: Decay = "exponential") -> dict[str, float]:
    """Return the fitted parameters of one head: norms, similarity and the printed form of the weights, by name.

    p_base is left out where the fitted weights would sum to more than 1; it then follows from the others.

    Args:
        run: a run with /norms, /similarity and /weights.
        head: such as "L5H3".
        gram: "exponential" or "offset", whose fit is taken.

    Raises:
        InputError: if the run is not fitted, the head is unknown, or a parameter of it could not be fitted.
    """
    named = re.fullmatch(r"L(\d+)H(\d+)", head.strip())
    if named is None:
        raise InputError(f"--head {head}: expected a layer and a head, such as L5H3.")
    missing = [name for name in ("capture", "norms", "similarity", "weights") if name not in run.children]
    if missing:
        raise InputError(f"the run holds no /{missing[0]}, expected a fitted run. Run `geostat fit` on it first.")
    if gram not in ("exponential", "offset"):
        raise InputError(f"gram is {gram!r}, but runs hold fits of the exponential and the offset only. Give the similarity with --set.")
    captured = run["capture"].to_dataset()
    at = {"layer": index_of(captured, "layer", int(named[1])), "head": index_of(captured, "head", int(named[2]))}
    kv_head = {"layer": at["layer"], "kv_head": int(captured["kv_head_of_head"].values[at["head"]])}
    norms, weights = run["norms"].to_dataset().isel(kv_head), run["weights"].to_dataset().isel(at)
    similarity = run["similarity"].to_dataset().sel(gram=gram).isel(kv_head)
    found: dict[str, Any] = {
        "L": float(captured["tokens"].values[at["layer"]] - 1),
        "d": float(captured.attrs["dimension"]),
        "C": norms["C"], "lam": norms["lam"], "beta": similarity["beta"], "rho0": similarity["rho0"],
        "p_sink": weights["p_sink"], "p_base": weights["p_base"], "eta": weights["eta"], "omega": weights["omega"],
        "T1": weights["t1"], "T2": weights["t2"],
    }  # fmt: skip
    values = {name: float(value) for name, value in found.items()}
    if gram == "offset":
        values["c"] = float(similarity["offset"])
    unknown = [name for name, value in values.items() if not np.isfinite(value) and name != "omega"]
    if unknown:
        raise InputError(f"{head}: {', '.join(unknown)} could not be fitted, so no study starts there. Choose another head.")
    if values["T1"] == values["T2"] or not np.isfinite(values["omega"]):
        values["omega"] = PARAMETERS["omega"].default or 0.0  # no oscillation: ω is without effect
    return _summing_to_one(values)


def _summing_to_one(values: dict[str, float]) -> dict[str, float]:
    """Leave p_base out where the fitted phases would sum to more than 1 (they are fitted to log weights)."""
    from theory.errors import InputError as NoProfile
    from theory.profiles import weights

    point = {name: np.array([values.get(name, np.nan)]) for name in ("p_sink", "p_base", "eta", "growth", "omega", "T1", "T2")}
    try:
        weights(int(values["L"]), point)
    except NoProfile:
        return {name: value for name, value in values.items() if name != "p_base"}
    return values


def _whole(name: str, values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64) if PARAMETERS[name].whole else values


def _units(name: str) -> dict[str, str]:
    parameter = PARAMETERS[name]
    return {"long_name": parameter.meaning, "units": parameter.units, "symbol": parameter.symbol}


def _meaning(name: str, edition: str) -> dict[str, str]:
    if name == "feasible":
        return {"long_name": "vectors with this Gram exist", "units": "1", "equation": "erratum 9"}
    if name == "projected":
        return {"long_name": "ρ₀ was moved to its feasible edge", "units": "1", "equation": "erratum 9"}
    if name == "reliable":
        return {"long_name": "the evaluation trusts itself", "units": "1", "equation": ""}
    if name in MARGINS:
        words, symbol, equation = MARGINS[name]
        return {"long_name": words, "units": "value norm²", "symbol": symbol, "equation": equation}
    quantity, side = name.rsplit("_", 1)
    words, symbol, equation = SUBJECTS[quantity]
    kind = "approximation of" if edition == "predicted" else f"{side} bound on"
    return {"long_name": f"{kind} {words}, {edition}", "units": "1", "symbol": symbol, "equation": equation, "side": side}


def editions() -> tuple[str, ...]:
    """Names of the editions that a study can evaluate."""
    return get_args(Edition)
