"""Parameters of a what-if study with their ranges, and the question evaluated at every point.

Source: arXiv 2602.01893, eq. (8), (12)-(17) with Assumptions 1-3 as generators. T1 and T2 may be
shares of L, as in "0.5L". Imports numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from theory.arrays import FloatArray
from theory.errors import InputError
from theory.evaluate.choices import Choices
from theory.head.results import BOUNDS, KAPPA, Edition
from theory.what_if.given_gram import Measured

Decay = Literal["exponential", "offset", "stretched", "power", "rank", "measured"]

LOWER: Final = BOUNDS[::2]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a study. `low` and `high` are its limits; `open_low` excludes `low`.

    default: None if it follows from the others. share: default as a share of L; only such
    parameters accept shares of L.
    """

    name: str
    meaning: str
    units: str
    symbol: str
    _: KW_ONLY
    default: float | None
    low: float = 0.0
    high: float = np.inf
    open_low: bool = False
    whole: bool = False
    share: float | None = None

    def read(
        self, raw_values: float | str | Sequence[float | str] | FloatArray
    ) -> tuple[FloatArray, bool]:
        """Return values as a checked 1-d array, and whether they are shares of L, as "0.5L" is.

        Raises:
            InputError: for an invalid value, or a mixture of shares and numbers.
        """
        array: Any = np.atleast_1d(np.asarray(raw_values))
        texts = [str(value).strip() for value in array.flat] if array.dtype.kind in "US" else []
        shares = [text.endswith("L") for text in texts]
        if any(shares):
            array = np.array([text.removesuffix("L") for text in texts])
        try:
            values = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"{self.name} = {raw_values!r}: expected {self._kind()} ({self.meaning}). Change"
                " the values set."
            ) from None
        if values.ndim != 1 or not values.size:
            raise InputError(f"{self.name}: expected one or more values. Give some.")
        if any(shares) and (self.share is None or not all(shares)):
            why = (
                "only T1 and T2 can be given in L"
                if self.share is None
                else "shares of L and positions are mixed"
            )
            raise InputError(f"{self.name}: {why}, expected {self._kind()}. Change the values set.")
        if any(shares):
            wrong = ~((values >= 0) & (values <= 1))
            kind = "from 0L to 1L"
        else:
            above = values > self.low if self.open_low else values >= self.low
            wrong = ~(np.isfinite(values) & above & (values <= self.high))
            wrong |= self.whole & (values != np.round(values))
            kind = f"{self._kind()} ({self.meaning})"
        if wrong.any():
            shown = f"{values[wrong][0]:g}{'L' * any(shares)}"
            raise InputError(f"{self.name} = {shown}: expected {kind}. Change the values set.")
        return values, any(shares)

    def unset(self) -> tuple[FloatArray, bool]:
        """Return the default as `read` returns values; NaN if it follows from the others."""
        value = self.default if self.share is None else self.share
        return np.array([np.nan if value is None else value], dtype=np.float64), bool(self.share)

    def _kind(self) -> str:
        start = f" {'above' if self.open_low else 'from'} {self.low:g}"
        end = f" to {self.high:g}" if np.isfinite(self.high) else ""
        kind = f"{'whole' if self.whole else 'finite'} numbers{start}{end}"
        return f"{kind}, or shares of L such as {self.share:g}L" if self.share is not None else kind


_ALL: Final = (
    Parameter("N", "selected tokens", "tokens", "N", default=8, low=1, whole=True),
    Parameter(
        "L", "last position; there are L + 1 tokens", "tokens", "L", default=1024, low=1, whole=True
    ),
    Parameter("d", "head size", "1", "d", default=64, low=1, whole=True),
    Parameter(
        "kappa", "constant of the printed tails", "1", r"\kappa", default=KAPPA, open_low=True
    ),
    Parameter("beta", "decay of similarity", "1/token", r"\beta", default=0.1, open_low=True),
    Parameter("rho0", "cosine with the sink", "1", r"\rho_0", default=0.05, low=-1, high=1),
    Parameter("c", "similarity at long lag", "1", "c", default=0, low=-1, high=1),
    Parameter(
        "stretch", "exponent of the stretched exponential", "1", "s", default=1, open_low=True
    ),
    Parameter("c1", "similarity at rank 1 of the weight", "1", "c_1", default=0.3, high=1),
    Parameter("cinf", "similarity at high ranks", "1", r"c_\infty", default=0.1, high=1),
    Parameter("gamma", "exponent of the decay with rank", "1", r"\gamma", default=0.7),
    Parameter("lam", "sink's value norm over the others'", "1", r"\lambda", default=0.25),
    Parameter("p_sink", "weight of the sink", "1", r"p_{\mathrm{sink}}", default=0.3, high=1),
    Parameter(
        "p_base",
        "weight of the plateau; without it the weights sum to 1",
        "1",
        r"p_{\mathrm{base}}",
        default=None,
        open_low=True,
        high=1,
    ),
    Parameter(
        "eta", "strength of the oscillation, and rate of the growth", "1", r"\eta", default=0.02
    ),
    Parameter(
        "growth", "rate of the growth, where it is not η", "1/token", r"\eta_g", default=None
    ),
    Parameter("omega", "frequency of the oscillation", "rad/token", r"\omega", default=0.1),
    Parameter("T1", "end of the plateau", "tokens", "T_1", default=None, whole=True, share=0.5),
    Parameter("T2", "start of the growth", "tokens", "T_2", default=None, whole=True, share=0.9),
    Parameter("C", "value norm of the content tokens", "value norm", "C", default=1, open_low=True),
)

PARAMETERS: Final = {parameter.name: parameter for parameter in _ALL}
"""Every parameter by name, in the order of the tables. The defaults are a generic example; T1 is
0.5L and T2 0.9L.
"""

PROFILE: Final = ("L", "lam", "p_sink", "p_base", "eta", "growth", "omega", "T1", "T2", "C")
"""Parameters of norms and weights."""

BY_LAG: Final = ("beta", "c", "stretch")
BY_RANK: Final = ("c1", "cinf", "gamma")
GRAM: Final = ("rho0", *BY_LAG, *BY_RANK)
"""Parameters of similarity."""

SIMILARITY: Final[dict[Decay, tuple[str, ...]]] = {
    "exponential": ("rho0", "beta"),
    "offset": ("rho0", "beta", "c"),
    "stretched": ("rho0", *BY_LAG),
    "power": ("rho0", "beta", "c"),
    "rank": ("rho0", *BY_RANK),
}
"""Parameters of each parametric Gram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Question evaluated at every point: edition, form of the Gram, bounds, and readings of the
    printed edition.

    measured: the Gram of the whole study if `decay` is "measured".
    """

    edition: Edition = "printed"
    decay: Decay = "exponential"
    bounds: tuple[str, ...] = LOWER
    delta0: Literal["out", "in"] = "out"
    sink_in_b: bool = True
    measured: Measured | None = None
    project: bool = False
    """Whether to move an infeasible ρ₀ to its edge and flag the point `projected`, instead of
    masking the point.
    """

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("edition", self.edition, get_args(Edition)),
            ("gram", self.decay, get_args(Decay)),
            ("delta0", self.delta0, ("out", "in")),
        ):
            if value not in allowed:
                raise InputError(
                    f"{name} is {value!r}, expected one of {', '.join(allowed)}. Use one of those."
                )
        if (self.decay == "measured") != (self.measured is not None):
            raise InputError(
                "gram is 'measured', but there is none, expected a matrix of cosines. Give the"
                " matrix itself, or another gram."
            )
        unknown = [bound for bound in self.bounds if bound not in BOUNDS]
        if unknown or not self.bounds:
            raise InputError(
                f"bounds are {self.bounds!r}, expected some of {', '.join(BOUNDS)}. Use one of"
                " those."
            )

    def choices(self, kappa: float) -> Choices:
        """Return the choices for `theory.envelope` at a point with a feasible Gram."""
        return Choices(
            edition=self.edition,
            kappa=kappa,
            delta0=self.delta0,
            sink_in_b=self.sink_in_b,
            feasible=True,
        )
