"""The one numeric entry: bounds on expected separability from α, norms and a Gram, for one head or
many.

`envelope` is the exact reference for one head; `envelopes` takes many heads that share a Gram and
uses the compiled kernel. Editions: `printed` (eq. (12)-(17) of arXiv 2602.01893 to the letter),
`repaired`, `sharp`, `conditional`, and the approximation `predicted`. Imports numpy; scipy and
numba lazily.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Required, TypedDict, Unpack, get_args

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray
from theory.editions.conditional.quadrature_error import WITHIN
from theory.editions.printed import Margins, printed_bounds, printed_margins
from theory.errors import InputError
from theory.head.gram import Gram
from theory.head.inputs import HeadInput, checked_input
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import (
    CLAIMS,
    KAPPA,
    QUANTITIES,
    UNDER_MODEL_G,
    Convention,
    Edition,
    Envelope,
    Validity,
)

UNIT_NORM = 1e-6
"""How far a content norm may lie from 1 for the flag C = 1, and Σα above 1 for the flag Σα ≤ 1."""

WORK_BYTES = 128 * 1024**2
"""Memory that heads may hold together; one takes 8 MB at T = 1024."""


class Choices(TypedDict, total=False):
    """Which bounds, how print is read where it leaves a choice, and what is known of the head;
    `theory.envelope` says what each may be.
    """

    edition: Required[Edition]
    kappa: float | None
    sink: int | None
    delta0: Literal["out", "in"]
    sink_in_b: bool
    convention: Convention
    feasible: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`Choices`, checked; fast: the sharp law from a table."""

    fast: bool
    edition: Edition
    kappa: float | None = None
    sink: int | None = 0
    delta0: Literal["out", "in"] = "out"
    sink_in_b: bool = True
    convention: Convention = "paper"
    feasible: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("edition", get_args(Edition)),
            ("delta0", ("out", "in")),
            ("convention", get_args(Convention)),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}, expected one of {', '.join(allowed)}."
                )
        if self.followup and self.edition not in UNDER_MODEL_G:
            raise InputError(
                f"convention 'followup' has no {self.edition} edition, expected 'paper'. Use"
                " edition='sharp' with 'followup'."
            )
        if self.kappa is not None and not 0 < self.kappa < np.inf:
            raise InputError(
                f"kappa is {self.kappa}, expected a finite constant > 0. Leave it out for 1/8."
            )

    @property
    def constant(self) -> float:
        """κ of the tails, 1/8 where none is given."""
        return KAPPA if self.kappa is None else float(self.kappa)

    @property
    def followup(self) -> bool:
        """Strict inner balls and one F."""
        return self.convention == "followup"


def envelope(
    alpha: Any, norms: Any, gram: Gram, dimension: int, n: Any, **choices: Unpack[Choices]
) -> Envelope:
    """Return the bounds of one head, every entry computed exactly.

    Args:
        alpha: (T,) attention weights of the visible tokens, non-negative; they need not sum to 1.
        norms: (T,) value norms, or one number.
        gram: T×T cosines, or a `LagGram`.
        dimension: head size d.
        n: sizes N >= 1; N = T gives 1, N > T gives NaN.
        choices: keywords:
            edition: "printed", "repaired", "sharp", "conditional" or "predicted" (an approximation,
                no bound); has to be given.
            kappa: the constant of the printed and repaired tails; None (default) is 1/8. The others
                have none.
            sink: position of the sink among the tokens (default 0), None where it is not visible.
            delta0: reading of Δ₀: "out" (default) as eq. (29), "in" as eq. (8).
            sink_in_b: whether a_max_in in B includes the sink (default).
            convention: "paper" (default), or "followup" for strict inner balls and one F (not for
                printed and repaired).
            feasible: whether some vectors have this Gram, where the caller knows; None (default):
                find out.

    Returns:
        An `Envelope` with arrays of shape (K,).

    Raises:
        InputError: on bad input; for `sharp`, `conditional` and `predicted` also where the Gram is
            infeasible.

    Example:
        >>> from theory import envelope, exponential
        >>> alpha, gram = [0.5, 0.1, 0.2, 0.2], exponential(1.0, 0.0, 4)
        >>> found = envelope(alpha, 1.0, gram, 64, [1, 2], edition="sharp")
        >>> found.recall_lower.round(3).tolist()
        [1.0, 0.946]
    """
    settings = Settings(fast=False, **choices)
    heads = _checked(alpha, norms, gram, dimension, n, settings, axes=1)
    result = _evaluate(replace(heads, alpha=heads.alpha[None], norms=heads.norms[None]), settings)
    arrays = {
        name: value[0]
        for name in Envelope.__slots__
        if isinstance(value := getattr(result, name), np.ndarray) and name != "n"
    }
    return replace(
        result,
        valid=Validity(**{name: getattr(result.valid, name)[0] for name in Validity.__slots__}),
        **arrays,
    )


def envelopes(
    alpha: Any, norms: Any, gram: Gram, dimension: int, n: Any, **choices: Unpack[Choices]
) -> Envelope:
    """Return the bounds of H heads that share one Gram: `envelope` for each, on a few threads.

    The sharp edition uses a tabulated law (1e-8 absolute) for d >= 7. Arguments as `envelope`,
    but alpha is (H, T), norms (H, T) or (T,), and the arrays of the result are (H, K).

    Raises:
        InputError: on bad input; for `sharp`, `conditional` and `predicted` also where the Gram is
            infeasible.

    Example:
        >>> from theory import envelopes, exponential
        >>> alpha = [[0.5, 0.1, 0.2, 0.2], [0.1, 0.2, 0.3, 0.4]]
        >>> gram = exponential(1.0, 0.0, 4)
        >>> envelopes(alpha, 1.0, gram, 4, [1, 2], edition="printed").margin.shape
        (2, 2)
    """
    settings = Settings(fast=True, **choices)
    return _evaluate(_checked(alpha, norms, gram, dimension, n, settings, axes=2), settings)


def _checked(
    alpha: Any, norms: Any, gram: Gram, dimension: int, n: Any, settings: Settings, *, axes: int
) -> HeadInput:
    exists = settings.edition in UNDER_MODEL_G
    return checked_input(
        alpha,
        norms,
        gram,
        dimension,
        n,
        sink=settings.sink,
        feasible=settings.feasible,
        axes=axes,
        exists=exists,
    )


def _evaluate(heads: HeadInput, settings: Settings) -> Envelope:
    """Evaluate a few heads at a time, as many as memory may hold together."""
    cosines, together = heads.cosines(), max(1, WORK_BYTES // (8 * heads.tokens**2))
    parts: list[_HeadPart] = []
    for start in range(0, len(heads.alpha), together):
        few = slice(start, start + together)
        parts += _head_rows(
            replace(heads, alpha=heads.alpha[few], norms=heads.norms[few]), cosines, settings
        )
    return _assemble(parts, heads, cosines, settings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _HeadPart:
    """Bounds of one head at the sizes below T: values (8, K') in the order lower, upper of each
    quantity; reliable (K',).
    """

    values: FloatArray
    reliable: BoolArray
    margins: Margins
    summary: Summary


def _head_rows(heads: HeadInput, cosines: npt.NDArray[Any], settings: Settings) -> list[_HeadPart]:
    """Return the bounds of a few heads at the sizes below T."""
    from theory.editions.sharp import many_heads

    alpha, norms, sink, dimension = heads.alpha, heads.norms, heads.sink, heads.dimension
    inner = heads.n[heads.n < heads.tokens]

    def ranked(h: int) -> tuple[Ranked, Summary]:
        if settings.fast:
            return many_heads.prepare(alpha[h], norms[h], cosines, sink, inner)
        head = rank_tokens(alpha[h], norms[h], cosines, sink)
        return head, summarise(head, inner)

    def bounded(h: int) -> _HeadPart:
        head, summary = ready[h]
        margins = printed_margins(
            summary,
            delta0=settings.delta0,
            sink_in_b=settings.sink_in_b,
            sink_visible=sink is not None,
        )
        reliable = np.ones(len(inner), dtype=bool)
        if settings.edition == "conditional":
            values, reliable = _conditional_values(head, summary, dimension, settings)
        elif settings.edition == "predicted":
            values, reliable = _predicted_values(
                alpha[h], norms[h], cosines, dimension, inner, settings
            )
        elif settings.edition == "sharp":
            values = sharp[h]
        else:
            values = _printed_or_repaired_values(head, summary, margins, dimension, settings)
        return _HeadPart(values=values, reliable=reliable, margins=margins, summary=summary)

    run = (
        many_heads.in_threads
        if settings.fast
        else lambda work, tasks: [work(task) for task in tasks]
    )
    ready = run(ranked, range(len(alpha)))
    try:
        sharp = _sharp_values(ready, dimension, settings) if settings.edition == "sharp" else []
        return run(bounded, range(len(alpha)))
    finally:
        if settings.fast:
            many_heads.BY_RANK.give_back(head.cosines for head, _ in ready)


def _sharp_values(
    ready: list[tuple[Ranked, Summary]], dimension: int, settings: Settings
) -> list[FloatArray]:
    """Return sharp bounds (8, K') of each head, tabulated where asked for and where the table
    serves.
    """
    from theory.editions.sharp import many_heads
    from theory.editions.sharp.sharp_law import exact_bounds

    if settings.fast and dimension >= many_heads.TABULATED_FROM:
        result = many_heads.sharp_bounds(ready, dimension, followup=settings.followup)
    else:
        result = [
            [
                exact_bounds(*item, k, dimension, followup=settings.followup)
                for k in range(len(item[1].n))
            ]
            for item in ready
        ]
    return [_columns(bounds) for bounds in result]


def _conditional_values(
    head: Ranked, summary: Summary, dimension: int, settings: Settings
) -> tuple[FloatArray, BoolArray]:
    """Return conditional bounds (8, K') of one head, and at which sizes no average was left out
    (K',).
    """
    from theory.editions.conditional.conditional_edition import conditional_bounds

    out = [
        conditional_bounds(head, summary, k, dimension, followup=settings.followup)
        for k in range(len(summary.n))
    ]
    return _columns(out), np.array([bounds.error <= WITHIN for bounds in out], dtype=bool)


def _predicted_values(
    alpha: FloatArray,
    norms: FloatArray,
    cosines: npt.NDArray[Any],
    dimension: int,
    sizes: IntArray,
    settings: Settings,
) -> tuple[FloatArray, BoolArray]:
    """Return predicted values (8, K'), lower and upper the same, and where they do not flag
    themselves (K',).
    """
    from theory.editions.predicted.predict import predict

    if not sizes.size:
        return np.empty((2 * len(QUANTITIES), 0)), np.empty(0, dtype=bool)
    result = predict(
        alpha,
        norms,
        cosines,
        dimension,
        sizes,
        sink=settings.sink,
        convention=settings.convention,
        feasible=True,
    )
    return np.stack(
        [getattr(result, quantity) for quantity in QUANTITIES for _ in range(2)]
    ), np.array(result.reliable)


def _printed_or_repaired_values(
    head: Ranked, summary: Summary, margins: Margins, dimension: int, settings: Settings
) -> FloatArray:
    """Return printed or repaired values (8, K') of one head."""
    if settings.edition == "printed":
        bounds = printed_bounds(head, summary, margins, dimension, settings.constant)
        return np.stack([side for quantity in QUANTITIES for side in getattr(bounds, quantity)])
    from theory.editions.repaired import repaired_bounds

    return _columns(
        [
            repaired_bounds(head, summary, k, dimension, settings.constant)
            for k in range(len(summary.n))
        ]
    )


def _columns(bounds: list[Any]) -> FloatArray:
    """Return (8, K') from K' records with a (lower, upper) pair for each quantity."""
    rows = [[side for quantity in QUANTITIES for side in getattr(one, quantity)] for one in bounds]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 2 * len(QUANTITIES)).T


def _assemble(
    parts: list[_HeadPart], heads: HeadInput, cosines: npt.NDArray[Any], settings: Settings
) -> Envelope:
    """Return the envelope of all heads, with n = T and n > T filled in by convention."""
    sizes, tokens, sink = heads.n, heads.tokens, heads.sink
    inner, whole = sizes < tokens, sizes == tokens
    shape = (len(parts), len(sizes))
    at_whole = np.nan if settings.convention == "followup" else 1.0

    def spread(rows: list[Any], fill: float = np.nan) -> FloatArray:
        out = np.full(shape, np.nan)
        out[:, inner] = np.array(rows, dtype=np.float64).reshape(len(parts), int(inner.sum()))
        out[:, whole] = fill
        return out

    names = [f"{quantity}_{side}" for quantity in QUANTITIES for side in ("lower", "upper")]
    bounds = {
        name: spread([part.values[k] for part in parts], at_whole) for k, name in enumerate(names)
    }
    margins = {
        name: spread([getattr(part.margins, name) for part in parts])
        for name in ("margin", "margin_sink", "scale")
    }
    least = spread([part.summary.rho_least for part in parts])
    selected = spread([part.summary.sink_selected for part in parts])
    content = heads.norms if sink is None else np.delete(heads.norms, sink, axis=1)
    reliable = spread([part.reliable for part in parts], 1.0)
    valid = Validity(
        margin_positive=margins["margin"] > 0,
        margin_sink_positive=margins["margin_sink"] > 0,
        rho0_nonnegative=np.full(shape, sink is None or bool((cosines[sink] >= 0).all())),
        similarities_nonnegative=least >= 0,
        size_within_length=np.full(shape, inner),
        size_below_length=np.full(shape, sizes < tokens - 1),
        sink_selected=selected == 1,
        unit_norm=np.full(shape, (np.abs(content - 1) <= UNIT_NORM).all(axis=1, keepdims=True)),
        weights_within_one=np.full(shape, heads.alpha.sum(axis=1, keepdims=True) <= 1 + UNIT_NORM),
        kappa_proven=np.full(shape, settings.constant <= KAPPA),
        gram_feasible=np.full(shape, heads.feasible),
    )
    return Envelope(
        n=sizes,
        reliable=np.isnan(reliable) | (reliable == 1),
        valid=valid,
        edition=settings.edition,
        convention=settings.convention,
        kappa=settings.constant,
        upper_is_bound=CLAIMS[settings.edition][1] != "approximation",
        **bounds,
        **margins,
    )
