"""Arrays of one layer: those of any library as float32 tensors, and what is refused of them.

Source: arXiv 2602.01893, eq. (1): a row of weights is a softmax, so it is at least 0 and sums to 1,
below 1 where a learned sink takes part of it. Imports numpy and torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from empirical.errors import InputError

ROUNDING: Final = 2.0**-8
"""By how much a row of weights may sum above 1: twice what rounding each weight to bfloat16, the
coarsest type, may add, which is 2⁻⁹ of it.
"""
WIDENED: Final = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})
"""Types that NumPy knows by name only, from the package ml_dtypes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSizes:
    """The lengths of a layer's arrays, the same in every layer."""

    queries: int
    heads: int
    kv_heads: int
    positions: int
    dimension: int

    def __str__(self) -> str:
        return (
            f"{self.queries} queries, {self.heads} heads, {self.kv_heads} kv_heads,"
            f" {self.positions} positions and dimension {self.dimension}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Weights, (query, head, position), and values, (kv_head, position, dimension), both float32,
    of one layer of one document.
    """

    where: str
    """Document and layer, in words."""
    alpha: Tensor
    values: Tensor

    @property
    def sizes(self) -> LayerSizes:
        """The lengths of its arrays."""
        queries, heads, positions = self.alpha.shape
        return LayerSizes(
            queries=queries,
            heads=heads,
            kv_heads=self.values.shape[0],
            positions=positions,
            dimension=self.values.shape[2],
        )

    def refuse_faults(self, visible: Tensor) -> None:
        """Refuse by an InputError numbers that are not finite, and weights that are no rows of a
        softmax over what their queries see, (query, position) bool.
        """
        for what, tensor in (("head", self.alpha.transpose(0, 1)), ("kv_head", self.values)):
            finite = torch.isfinite(tensor).flatten(1).all(dim=1)
            if not bool(finite.all()):
                name = "values" if what == "kv_head" else "alpha"
                raise InputError(
                    f"{self.where}, {what} {_first(~finite)}: {name} hold NaN or infinity, expected"
                    " finite numbers. Look where they were made, or leave the document out."
                )
        sums = self.alpha.double().sum(dim=-1)
        self._refuse(
            (self.alpha < 0).any(dim=-1),
            "hold a weight below 0, expected weights from 0 on. Give them as they are behind the"
            " softmax.",
        )
        self._refuse(
            sums > 1 + ROUNDING,
            f"sum to {float(sums.max()):.4g}, expected at most 1. Give them as they are behind the"
            " softmax.",
        )
        self._refuse(sums == 0, "are all 0, expected a row of weights. Look where they were made.")
        hidden = (self.alpha * ~visible[:, None]).amax(dim=-1) > 0
        self._refuse(
            hidden,
            "lie on positions that the query does not see, expected 0 there. Look at which queries"
            " they are of, and at visible.",
        )

    def _refuse(self, faulty: Tensor, fault: str) -> None:
        """Refuse where one of the rows, (query, head) bool, is `faulty`."""
        if bool(faulty.any()):
            head = _first(faulty.any(dim=0))
            raise InputError(f"{self.where}, head {head}: the weights alpha {fault}")


def layer(alpha: Any, values: Any, where: str) -> Layer:
    """Read a layer of one document.

    Args:
        alpha: weights, (head, position), or of several queries (query, head, position).
        values: (kv_head, position, dimension).
        where: document and layer, in words.

    Raises:
        InputError: they are no arrays of floating-point numbers, or their shapes do not fit.
    """
    weights, states = float32(alpha, f"{where}: alpha"), float32(values, f"{where}: values")
    if weights.ndim not in (2, 3) or states.ndim != 3:
        raise InputError(
            f"{where}: alpha of shape {tuple(weights.shape)} and values of shape"
            f" {tuple(states.shape)}, expected (head, position), or (query, head, position), and"
            " (kv_head, position, dimension). Give them so."
        )
    rows = weights if weights.ndim == 3 else weights[None]
    result = Layer(where=where, alpha=rows, values=states)
    sizes = result.sizes
    if not (weights.numel() and states.numel()) or sizes.heads % sizes.kv_heads:
        raise InputError(
            f"{where}: {sizes}, expected some of each, and as many heads for each kv_head. Look at"
            " the order of the axes."
        )
    if states.shape[1] != sizes.positions:
        raise InputError(
            f"{where}: alpha has {sizes.positions} positions, values have {states.shape[1]},"
            " expected equally many. Look at the order of the axes."
        )
    return result


def float32(given: Any, what: str) -> Tensor:
    """Return an array of any library as a float32 tensor of its own: where it lies, if it is one of
    torch.

    Raises:
        InputError: it is no array of floating-point numbers.

    >>> float32(np.array([0.25, 0.75], dtype=np.float16), "alpha")
    tensor([0.2500, 0.7500])
    """
    tensor = given if isinstance(given, Tensor) else _tensor(given, what)
    if not tensor.is_floating_point() or tensor.is_meta or tensor.layout is not torch.strided:
        raise InputError(
            f"{what}: is a tensor of {str(tensor.dtype).removeprefix('torch.')} on {tensor.device},"
            " expected floating-point numbers that are in memory. Convert it first."
        )
    # A copy: whoever made it may write the next layer into the same memory.
    return tensor.detach().to(torch.float32, copy=True)


def dtype_of(given: Any) -> str:
    """Name the type of an array's numbers, as of a model's: "float32", "bfloat16".

    >>> dtype_of([0.5, 0.5])
    'float64'
    """
    known = getattr(given, "dtype", None)
    return str(np.asarray(given).dtype if known is None else known).removeprefix("torch.")


def _tensor(given: Any, what: str) -> Tensor:
    """Read what is no tensor of torch: by DLPack, or as NumPy reads it."""
    if hasattr(given, "__dlpack__") and not isinstance(given, np.ndarray):
        try:
            return torch.from_dlpack(given)
        except (BufferError, RuntimeError, TypeError, ValueError):
            pass  # of a device or a type that DLPack does not pass on
    try:
        array = np.asarray(given)
    except Exception as error:  # of the library whose array it is
        raise InputError(
            f"{what}: is no array ({type(given).__name__}), expected one of NumPy, torch or JAX."
            " Convert it first."
        ) from error
    if array.dtype.kind != "f" and array.dtype.name not in WIDENED:
        raise InputError(
            f"{what}: holds {array.dtype}, expected floating-point numbers. Convert it first."
        )
    with np.errstate(over="ignore"):  # what is too large is infinite then, and refused as such
        wide = array.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(wide))


def _first(faulty: Tensor) -> int:
    return int(faulty.nonzero()[0])
