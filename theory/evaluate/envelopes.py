"""Bounds on expected separability from α, norms and a Gram, for one head or many.

`envelope` is the exact reference for one head; `envelopes` takes many heads that share a Gram and
uses compiled kernels. Editions: `printed` (eq. (12)-(17) of arXiv 2602.01893 as printed),
`repaired`, `sharp`, `conditional`, and the approximation `predicted`. Imports numpy and
scipy; numba lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from theory.arrays import BoolArray, FloatArray
from theory.editions.conditional.quadrature_error import WITHIN
from theory.editions.printed import printed_bounds
from theory.editions.repaired import repaired_bounds
from theory.editions.sharp.sharp_law import in_threads, pairwise_bounds, pairwise_law
from theory.errors import InputError
from theory.evaluate.choices import Choices, Settings
from theory.evaluate.many_profiles import HeadBounds, bounds_of_profiles, margins_of, serves
from theory.head.gram import Gram
from theory.head.inputs import HeadInput, checked_input
from theory.head.ranked import Ranked, Summary, rank_tokens, summarise
from theory.head.results import BOUNDS, KAPPA, QUANTITIES, UNDER_MODEL_G, Envelope, Validity


def bounds_of_heads(
    heads: HeadInput, cosines: npt.NDArray[Any], choices: Sequence[Settings]
) -> list[list[HeadBounds]]:
    """Return the bounds of heads at the sizes below T for each choice. Choices differ only in
    edition and convention; the records hold one or several heads, in order.
    """
    compiled = [settings for settings in choices if serves(settings, heads.dimension)]
    plain = [settings for settings in choices if not serves(settings, heads.dimension)]
    inner = heads.n[heads.n < heads.tokens]
    of_compiled = bounds_of_profiles(heads, cosines, inner, compiled) if compiled else []

    def bounds_of_head(h: int) -> list[HeadBounds]:
        one = replace(heads, alpha=heads.alpha[h], norms=heads.norms[h], gram=cosines, n=inner)
        head = rank_tokens(one.alpha, one.norms, cosines, heads.sink)
        summary = summarise(head, inner)
        shared: dict[tuple[int, bool], tuple[FloatArray, float]] = {}
        return [_of_head(one, head, summary, settings, shared) for settings in plain]

    indices = range(len(heads.alpha) if plain else 0)
    fast = choices[0].fast
    by_head = in_threads(bounds_of_head, indices) if fast else list(map(bounds_of_head, indices))
    of_plain = [[bounds[index] for bounds in by_head] for index in range(len(plain))]
    return [(of_compiled if settings in compiled else of_plain).pop(0) for settings in choices]


def _of_head(
    one: HeadInput,
    head: Ranked,
    summary: Summary,
    settings: Settings,
    shared: dict[tuple[int, bool], tuple[FloatArray, float]],
) -> HeadBounds:
    """Return the bounds of one head, ranked and summarised. shared: of `conditional_bounds`."""
    d, kappa, margins = one.dimension, settings.constant, margins_of(summary, one, settings)
    reliable: BoolArray = np.ones(len(summary.n), dtype=bool)
    values = np.empty((len(BOUNDS), len(summary.n)))
    if settings.edition == "printed":
        values = printed_bounds(head, summary, margins, d, kappa)
    elif settings.edition == "predicted":
        from theory.editions.predicted.predict import predict_head

        prediction = predict_head(one, settings.convention)
        reliable = np.array(prediction.reliable)
        for index, quantity in enumerate(QUANTITIES):  # lower and upper are equal
            values[2 * index : 2 * index + 2] = getattr(prediction, quantity)
    else:
        for index in range(len(summary.n)):
            if settings.edition == "repaired":
                values[:, index] = repaired_bounds(head, summary, index, d, kappa)
            elif settings.edition == "sharp":
                law = pairwise_law(head, summary, index, d)
                values[:, index] = pairwise_bounds(law, followup=settings.followup)
            else:
                from theory.editions.conditional.conditional_edition import conditional_bounds

                values[:, index], error = conditional_bounds(
                    head, summary, index, d, followup=settings.followup, shared=shared
                )
                reliable[index] = error <= WITHIN
    return HeadBounds(values, reliable, margins, summary.rho_least, summary.sink_selected)


UNIT_NORM = 1e-6
"""Tolerance of content norms around 1 for the flag C = 1, and of Σα above 1 for the flag Σα ≤ 1."""


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

            - edition: "printed", "repaired", "sharp", "conditional" or "predicted" (an
              approximation, not a bound); required.
            - kappa: the constant of the printed and repaired tails; None (default) is 1/8. The
              other editions ignore it.
            - sink: position of the sink among the tokens (default 0), None if it is not visible.
            - delta0: reading of Δ₀: "out" (default) as eq. (29), "in" as eq. (8).
            - sink_in_b: whether a_max_in in B includes the sink (default).
            - convention: "paper" (default), or "followup" for strict inner balls and one F (not
              for printed and repaired).
            - feasible: whether the Gram is PSD, if known; None (default): check it.

    Returns:
        An `Envelope` with arrays of shape (K,).

    Raises:
        InputError: on bad input; for `sharp`, `conditional` and `predicted` also where the Gram is
            infeasible.

    Example:
        >>> from theory import envelope, exponential
        >>> alpha, gram = [0.5, 0.1, 0.2, 0.2], exponential(1.0, 0.0, 4)
        >>> bounds = envelope(alpha, 1.0, gram, 64, [1, 2], edition="sharp")
        >>> bounds.recall_lower.round(3).tolist()
        [1.0, 0.946]
    """
    settings = Settings(fast=False, **choices)
    result = _evaluate((alpha, norms, gram, dimension, n), [settings], axes=1)[0]
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
    """Return the bounds of H heads that share one Gram: `envelope` of each head, on several
    threads.

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
    return envelopes_by_edition(alpha, norms, gram, dimension, n, [choices])[0]


def envelopes_by_edition(
    alpha: Any, norms: Any, gram: Gram, dimension: int, n: Any, choices: Sequence[Choices]
) -> list[Envelope]:
    """Return `envelopes` for each choice. Choices share `sink` and `feasible`, and tokens are
    ranked once.

    Raises:
        InputError: as `envelopes`, or if the choices differ in `sink` or `feasible`.

    Example:
        >>> from theory import exponential
        >>> alpha, gram = [[0.5, 0.1, 0.2, 0.2]], exponential(1.0, 0.0, 4)
        >>> both = [{"edition": "printed"}, {"edition": "sharp"}]
        >>> results = envelopes_by_edition(alpha, 1.0, gram, 4, [1, 2], both)
        >>> [result.edition for result in results], results[0].recall_lower.shape
        (['printed', 'sharp'], (1, 2))
    """
    settings = [Settings(fast=True, **choice) for choice in choices]
    common = {(setting.sink, setting.feasible) for setting in settings}
    if len(common) != 1:
        raise InputError(
            f"choices have {len(common)} pairs of sink and feasible, expected one."
            " Evaluate those that differ apart."
        )
    return _evaluate((alpha, norms, gram, dimension, n), settings, axes=2)


def _evaluate(
    arguments: tuple[Any, Any, Gram, int, Any], settings: Sequence[Settings], *, axes: int
) -> list[Envelope]:
    """Evaluate every head with each of the settings. axes: of alpha, 1 for one head."""
    exists = any(setting.edition in UNDER_MODEL_G for setting in settings)
    sink, feasible = settings[0].sink, settings[0].feasible
    heads = checked_input(*arguments, sink=sink, feasible=feasible, axes=axes, exists=exists)
    if axes == 1:
        heads = replace(heads, alpha=heads.alpha[None], norms=heads.norms[None])
    cosines = heads.cosines()
    parts = bounds_of_heads(heads, cosines, settings)
    return [_assemble(*pair, heads, cosines) for pair in zip(parts, settings, strict=True)]


def _assemble(
    parts: list[HeadBounds], settings: Settings, heads: HeadInput, cosines: npt.NDArray[Any]
) -> Envelope:
    """Return the envelope of all heads from the parts, n = T and n > T by convention."""
    sizes, tokens, sink = heads.n, heads.tokens, heads.sink
    inner, whole = sizes < tokens, sizes == tokens
    shape = (len(heads.alpha), len(sizes))
    at_whole = np.nan if settings.convention == "followup" else 1.0

    def spread(rows: list[Any], fill: float = np.nan) -> FloatArray:
        out = np.full(shape, np.nan)
        if rows:
            out[:, inner] = np.concatenate([np.atleast_2d(row) for row in rows])
        out[:, whole] = fill
        return out

    bounds = {
        name: spread([part.values[..., k, :] for part in parts], at_whole)
        for k, name in enumerate(BOUNDS)
    }
    margins = {
        name: spread([getattr(part.margins, name) for part in parts])
        for name in ("margin", "margin_sink", "scale")
    }
    least = spread([part.rho_least for part in parts])
    selected = spread([part.sink_selected for part in parts])
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
        **bounds,
        **margins,
    )
