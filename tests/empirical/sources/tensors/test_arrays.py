"""Arrays of any library, and what is refused of a layer."""

import re

import numpy as np
import pytest
import torch
from torch.utils import dlpack

from empirical.errors import InputError
from empirical.sources.tensors.arrays import ROUNDING, dtype_of, float32, layer

QUERIES, HEADS, KV_HEADS, POSITIONS, DIMENSION = 2, 4, 2, 6, 3


class OfAnother:
    """An array of a library that knows DLPack alone."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: object) -> object:
        return dlpack.to_dlpack(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def arrays() -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    alpha = chance.dirichlet(np.ones(POSITIONS), size=(QUERIES, HEADS)).astype(np.float32)
    return alpha, chance.normal(size=(KV_HEADS, POSITIONS, DIMENSION)).astype(np.float32)


@pytest.mark.parametrize(
    "kind",
    [
        np.float16,
        np.float32,
        np.float64,
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.float64,
    ],
)
def test_floating_point_is_widened_or_rounded_to_float32_and_keeps_its_numbers(kind):
    numbers = np.array([[0.5, -0.25], [3.0, 1e-4]])
    given = (
        torch.tensor(numbers).to(kind) if isinstance(kind, torch.dtype) else numbers.astype(kind)
    )
    found = float32(given, "values")
    assert found.dtype == torch.float32
    expected = given.double().numpy() if isinstance(given, torch.Tensor) else given
    np.testing.assert_array_equal(found.numpy(), expected.astype(np.float32))


def test_arrays_of_other_libraries_lists_and_views_are_read():
    numbers = np.arange(6.0).reshape(2, 3)
    for given in (OfAnother(torch.tensor(numbers)), numbers.tolist(), numbers[::-1][::-1]):
        np.testing.assert_array_equal(float32(given, "values").numpy(), numbers)
    locked = numbers.astype(np.float32)
    locked.flags.writeable = False  # torch warns of such
    np.testing.assert_array_equal(float32(locked, "values").numpy(), locked)
    learned = torch.ones(2, requires_grad=True)
    assert not float32(learned, "values").requires_grad


def test_bfloat16_of_numpy_is_read():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    given = np.array([0.5, 0.25]).astype(ml_dtypes.bfloat16)
    assert float32(given, "values").tolist() == [0.5, 0.25]
    assert dtype_of(given) == "bfloat16"


@pytest.mark.parametrize(
    "given",
    [
        np.array([1, 2]),
        np.array([True]),
        np.array(["a"]),
        np.array([None, {}]),
        torch.tensor([1]),
        torch.tensor([1j]),
        torch.ones(2, device="meta"),
        torch.eye(2).to_sparse(),
        object(),
        [[1.0], [1.0, 2.0]],
        None,
        "text",
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_is_no_floating_point_in_memory_is_refused_in_a_line(given):
    with pytest.raises(InputError, match=r"^alpha: .*Convert it first") as caught:
        float32(given, "alpha")
    assert "\n" not in str(caught.value)


def shapes() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes of alpha and values that do not fit."""
    return [
        ((HEADS, POSITIONS), (KV_HEADS, POSITIONS)),
        ((POSITIONS,), (KV_HEADS, POSITIONS, DIMENSION)),
        ((1, QUERIES, HEADS, POSITIONS), (KV_HEADS, POSITIONS, DIMENSION)),
        ((3, POSITIONS), (KV_HEADS, POSITIONS, DIMENSION)),
        ((HEADS, POSITIONS), (KV_HEADS, POSITIONS + 1, DIMENSION)),
        ((HEADS, POSITIONS), (8, POSITIONS, DIMENSION)),
        ((HEADS, 0), (KV_HEADS, 0, DIMENSION)),
        ((HEADS, POSITIONS), (0, POSITIONS, DIMENSION)),
        ((HEADS, POSITIONS), (KV_HEADS, POSITIONS, 0)),
    ]


@pytest.mark.parametrize(("alpha", "values"), shapes())
def test_arrays_that_do_not_fit_are_refused(alpha, values):
    with pytest.raises(InputError, match=r"^here: .*expected") as caught:
        layer(np.ones(alpha), np.ones(values), "here")
    assert "\n" not in str(caught.value)


def broken(fault: str) -> tuple[np.ndarray, np.ndarray]:
    alpha, values = arrays()
    if fault == "values":
        values[1, 2, 0] = np.inf
    elif fault == "alpha":
        alpha[1, 2, 0] = np.nan
    elif fault == "negative":
        alpha[0, 2, 3] = -1e-6
    elif fault == "above":
        alpha[1, 2] *= 1.01
    elif fault == "none":
        alpha[0, 2] = 0
    alpha[0, :, -1] = 0  # the first query stands before it
    if fault == "hidden":
        alpha[0, 2, -1] = 1e-6
    return alpha, values


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("values", "here, kv_head 1: values hold NaN or infinity"),
        ("alpha", "here, head 2: alpha hold NaN or infinity"),
        ("negative", "here, head 2: the weights alpha hold a weight below 0"),
        ("above", "here, head 2: the weights alpha sum to 1.01, expected at most 1"),
        ("none", "here, head 2: the weights alpha are all 0"),
        ("hidden", "here, head 2: the weights alpha lie on positions that the query does not see"),
    ],
)
def test_what_are_no_weights_is_refused_by_its_head(fault, said):
    visible = torch.ones(QUERIES, POSITIONS, dtype=torch.bool)
    visible[0, -1] = False
    alpha, values = broken(fault)
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        layer(alpha, values, "here").refuse_faults(visible)
    assert "\n" not in str(caught.value)


def test_rows_may_sum_below_1_and_above_by_rounding():
    alpha, values = arrays()
    visible = torch.ones(QUERIES, POSITIONS, dtype=torch.bool)
    for factor in (0.3, 1 + 0.9 * ROUNDING):
        layer(factor * alpha, values, "here").refuse_faults(visible)
    with pytest.raises(InputError, match="sum to"):
        layer((1 + 1.1 * ROUNDING) * alpha, values, "here").refuse_faults(visible)


def test_a_softmax_that_is_rounded_to_bfloat16_is_taken():
    chance = torch.Generator().manual_seed(0)
    rows = torch.softmax(4 * torch.randn(500, 300, generator=chance), dim=-1).bfloat16()
    assert float(rows.double().sum(dim=-1).max()) > 1.0005
    values = torch.ones(1, 300, 2)
    layer(rows, values, "here").refuse_faults(torch.ones(1, 300, dtype=torch.bool))
