"""The one numeric entry: bounds on expected separability from α, norms and a Gram, for one head or many.

`envelope` is the exact reference for one head; `envelopes` takes many heads that share a Gram and uses the compiled kernel.
Editions: `printed` (eq. (12)-(17) of arXiv 2602.01893 to the letter), `repaired`, `sharp`, `conditional`, and the
approximation `predicted`. Imports numpy; scipy and numba lazily.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray, IntArray, attention_rows, selection_sizes, sink_position, value_norms, whole_dimension
from theory.editions.printed import KAPPA, Margins, printed_margins
from theory.errors import InputError
from theory.evaluate.values import Settings, conditional_values, predicted_values, printed_or_repaired_values, sharp_values
from theory.head.gram import Gram, as_matrix, is_feasible
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import CLAIMS, QUANTITIES, Convention, Edition, Envelope, Validity

UNDER_MODEL_G = ("sharp", "conditional", "predicted")
"""Editions that need a Gram some vectors have, and that know both conventions."""

UNIT_NORM = 1e-6
"""How far a content norm may lie from 1 for the flag C = 1, and Σα above 1 for the flag Σα ≤ 1."""

WORK_BYTES = 128 * 1024**2
"""Memory that heads may hold together; one takes 8 MB at T = 1024."""


def envelope(
    alpha: Any,
    norms: Any,
    gram: Gram,
    dimension: int,
    n: Any,
    *,
    edition: Edition,
    kappa: float | None = None,
    sink: int | None = 0,
    delta0: Literal["out", "in"] = "out",
    sink_in_b: bool = True,
    convention: Convention = "paper",
    feasible: bool | None = None,
) -> Envelope:
    """Return the bounds of one head, every entry computed exactly.

    Args:
        alpha: (T,) attention weights of the visible tokens, non-negative; they need not sum to 1.
        norms: (T,) value norms, or one number.
        gram: T×T cosines, or a `LagGram`.
        dimension: head size d.
        n: sizes N >= 1; N = T gives 1, N > T gives NaN.
        edition: "printed", "repaired", "sharp", "conditional" or "predicted" (an approximation, no bound).
        kappa: the constant of the printed and repaired tails; None is 1/8. The others have none.
        sink: position of the sink among the tokens, None where it is not visible.
        delta0: reading of Δ₀: "out" as eq. (29), "in" as eq. (8).
        sink_in_b: whether a_max_in in B includes the sink.
        convention: "paper", or "followup" for strict inner balls and one F (not for printed and repaired).
        feasible: whether some vectors have this Gram, where the caller knows; None: find out.

    Returns:
        An `Envelope` with arrays of shape (K,).

    Raises:
        InputError: on bad input; for `sharp`, `conditional` and `predicted` also where the Gram is infeasible.
    """
    rows = attention_rows(alpha)
    if rows.ndim != 1:
        raise InputError(f"alpha has shape {rows.shape}, expected (T,) for one head. Use envelopes for many heads.")
    heads = value_norms(norms, rows.shape)[None]
    found = _evaluate(rows[None], heads, gram, dimension, n, edition, kappa, sink, delta0, sink_in_b, convention, feasible, fast=False)
    arrays = {name: getattr(found, name)[0] for name in Envelope.__slots__ if name != "n" and isinstance(getattr(found, name), np.ndarray)}
    return replace(found, valid=Validity(**{name: getattr(found.valid, name)[0] for name in Validity.__slots__}), **arrays)


def envelopes(
    alpha: Any,
    norms: Any,
    gram: Gram,
    dimension: int,
    n: Any,
    *,
    edition: Edition,
    kappa: float | None = None,
    sink: int | None = 0,
    delta0: Literal["out", "in"] = "out",
    sink_in_b: bool = True,
    convention: Convention = "paper",
    feasible: bool | None = None,
) -> Envelope:
    """Return the bounds of H heads that share one Gram: `envelope` for each, on a few threads.

    The sharp edition uses a tabulated law (1e-8 absolute) for d >= 7. Arguments as `envelope`, but alpha is (H, T), norms (H, T) or
    (T,), and the arrays of the result are (H, K).

    Raises:
        InputError: on bad input; for `sharp`, `conditional` and `predicted` also where the Gram is infeasible.
    """
    rows = attention_rows(alpha)
    if rows.ndim != 2:
        raise InputError(f"alpha has shape {rows.shape}, expected (H, T) for many heads. Use envelope for one head.")
    heads = value_norms(norms, rows.shape)
    return _evaluate(rows, heads, gram, dimension, n, edition, kappa, sink, delta0, sink_in_b, convention, feasible, fast=True)


def _evaluate(
    alpha: FloatArray,
    norms: FloatArray,
    gram: Gram,
    dimension: int,
    n: Any,
    edition: Edition,
    kappa: float | None,
    sink: int | None,
    delta0: Literal["out", "in"],
    sink_in_b: bool,
    convention: Convention,
    feasible: bool | None,
    *,
    fast: bool,
) -> Envelope:
    tokens = alpha.shape[1]
    _check_choices(edition, delta0, convention, kappa)
    sizes, sink = selection_sizes(n), sink_position(sink, tokens)
    cosines = as_matrix(gram, tokens, sink=sink)
    known = is_feasible(gram, tokens, sink=sink) if feasible is None else feasible
    if edition in UNDER_MODEL_G and not known:
        raise InputError("the Gram is infeasible: no vectors have these cosines, expected a positive semidefinite one. Use gram.project.")
    settings = Settings(
        dimension=whole_dimension(dimension),
        edition=edition,
        kappa=KAPPA if kappa is None else float(kappa),
        delta0=delta0,
        sink_in_b=sink_in_b,
        convention=convention,
        feasible=known,
        fast=fast,
    )
    parts = [part for chunk in _chunks(*alpha.shape) for part in _head_rows(alpha[chunk], norms[chunk], cosines, sink, sizes, settings)]
    return _assemble(parts, sizes, settings, tokens)


def _check_choices(edition: str, delta0: str, convention: str, kappa: float | None) -> None:
    for name, seen, allowed in (
        ("edition", edition, get_args(Edition)),
        ("delta0", delta0, ("out", "in")),
        ("convention", convention, get_args(Convention)),
    ):
        if seen not in allowed:
            raise InputError(f"{name} is {seen!r}, expected one of {', '.join(allowed)}.")
    if convention == "followup" and edition not in UNDER_MODEL_G:
        raise InputError(f"convention 'followup' has no {edition} edition, expected 'paper'. Use edition='sharp' with 'followup'.")
    if kappa is not None and not 0 < kappa < np.inf:
        raise InputError(f"kappa is {kappa}, expected a finite constant > 0. Leave it out for 1/8.")


def _chunks(heads: int, tokens: int) -> Iterator[slice]:
    together = max(1, WORK_BYTES // (8 * tokens**2))
    return (slice(start, start + together) for start in range(0, heads, together))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _HeadPart:
    """Bounds of one head at the sizes below T: values (8, K') in the order lower, upper of each quantity; reliable (K',)."""

    values: FloatArray
    reliable: BoolArray
    margins: Margins
    summary: Summary
    rho0_nonnegative: bool
    unit_norm: bool
    weights_within_one: bool


def _head_rows(
    alpha: FloatArray, norms: FloatArray, cosines: npt.NDArray[Any], sink: int | None, sizes: IntArray, settings: Settings
) -> list[_HeadPart]:
    """Return the bounds of a few heads at the sizes below T."""
    inner = sizes[sizes < alpha.shape[1]]

    def exact(h: int) -> tuple[Ranked, Summary]:
        head = rank_tokens(alpha[h], norms[h], cosines, sink)
        return head, summarise(head, inner)

    def compiled(h: int) -> tuple[Ranked, Summary]:
        return sharp_many.prepare(alpha[h], norms[h], cosines, sink, inner)

    def finish(item: tuple[int, tuple[Ranked, Summary]]) -> _HeadPart:
        h, (head, summary) = item
        margins = printed_margins(summary, delta0=settings.delta0, sink_in_b=settings.sink_in_b, sink_visible=sink is not None)
        reliable = np.ones(len(summary.n), dtype=bool)
        if settings.edition == "conditional":
            values, reliable = conditional_values(head, summary, settings)
        elif settings.edition == "predicted":
            values, reliable = predicted_values(alpha[h], norms[h], cosines, sink, inner, settings)
        else:
            values = sharp[h] if settings.edition == "sharp" else printed_or_repaired_values(head, summary, margins, settings)
        content = np.arange(head.tokens) != (-1 if head.sink is None else head.sink)
        return _HeadPart(
            values=values,
            reliable=reliable,
            margins=margins,
            summary=summary,
            rho0_nonnegative=head.sink is None or bool((head.cosines[head.sink] >= 0).all()),
            unit_norm=bool((np.abs(head.norms[content] - 1) <= UNIT_NORM).all()),
            weights_within_one=bool(alpha[h].sum() <= 1 + UNIT_NORM),
        )

    from theory.editions import sharp_many

    spread = sharp_many.in_threads if settings.fast else _in_turn
    ready = spread(compiled if settings.fast else exact, range(len(alpha)))
    try:
        sharp = sharp_values(ready, settings) if settings.edition == "sharp" else []
        return spread(finish, enumerate(ready))
    finally:
        if settings.fast:
            sharp_many.BY_RANK.give_back(head.cosines for head, _ in ready)


def _in_turn(work: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
    return [work(task) for task in tasks]


def _assemble(parts: list[_HeadPart], sizes: IntArray, settings: Settings, tokens: int) -> Envelope:
    """Return the envelope of all heads, with n = T and n > T filled in by convention."""
    inner, whole = sizes < tokens, sizes == tokens
    shape = (len(parts), len(sizes))
    at_whole = np.nan if settings.convention == "followup" else 1.0

    def spread(rows: list[Any], fill: float = np.nan) -> FloatArray:
        out = np.full(shape, np.nan)
        out[:, inner] = np.array(rows, dtype=np.float64).reshape(len(parts), int(inner.sum()))
        out[:, whole] = fill
        return out

    def of_head(name: str) -> BoolArray:
        return np.repeat([[getattr(part, name)] for part in parts], len(sizes), axis=1)

    names = [f"{quantity}_{side}" for quantity in QUANTITIES for side in ("lower", "upper")]
    bounds = {name: spread([part.values[k] for part in parts], at_whole) for k, name in enumerate(names)}
    margins = {name: spread([getattr(part.margins, name) for part in parts]) for name in ("margin", "margin_sink", "scale")}
    least = spread([part.summary.rho_least for part in parts])
    selected = spread([part.summary.sink_selected for part in parts])
    reliable = spread([part.reliable for part in parts], 1.0)
    valid = Validity(
        margin_positive=margins["margin"] > 0,
        margin_sink_positive=margins["margin_sink"] > 0,
        rho0_nonnegative=of_head("rho0_nonnegative"),
        similarities_nonnegative=least >= 0,
        size_within_length=np.broadcast_to(inner, shape).copy(),
        size_below_length=np.broadcast_to(sizes < tokens - 1, shape).copy(),
        sink_selected=selected == 1,
        unit_norm=of_head("unit_norm"),
        weights_within_one=of_head("weights_within_one"),
        kappa_proven=np.full(shape, settings.kappa <= KAPPA),
        gram_feasible=np.full(shape, settings.feasible),
    )
    return Envelope(
        n=sizes,
        reliable=np.isnan(reliable) | (reliable == 1),
        valid=valid,
        edition=settings.edition,
        convention=settings.convention,
        kappa=settings.kappa,
        upper_is_bound=CLAIMS[settings.edition][1] != "approximation",
        **bounds,
        **margins,
    )
