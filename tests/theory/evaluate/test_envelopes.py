"""Entry points: conventions, validity, compiled against exact evaluation, and errors."""

import dataclasses
import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import stdtr
from support.heads import profile_head
from support.model_g import assert_same
from support.strategies import DrawnHead, heads

import theory
from theory.editions.sharp.sharp_kernels import look_up
from theory.editions.sharp.sharp_law import TABULATED_FROM, law_table
from theory.errors import InputError
from theory.evaluate.envelopes import envelope, envelopes, envelopes_by_edition
from theory.evaluate.simulate import simulate
from theory.head.gram import LagGram, exponential, offset_exponential
from theory.head.results import BOUNDS, EDITIONS, Envelope, Validity

ALPHA = np.array([0.5, 0.05, 0.1, 0.35])
IMPOSSIBLE = exponential(0.1, 0.99, 4)


def four_tokens(edition: str = "printed", n: Any = (2,), **changes: Any) -> Envelope:
    head = {"alpha": ALPHA, "norms": 1.0, "gram": exponential(1.0, 0.1, 4), "dimension": 16}
    return envelope(**{**head, "n": list(n), "edition": edition, **changes})


def broken(found: Envelope, index: int = 0) -> list[str]:
    """Conditions of the printed lower bounds that do not hold."""
    return [name for name in Validity.__slots__ if not getattr(found.valid, name)[index]]


@pytest.mark.parametrize("dimension", [7, 8, 13, 64, 96, 256, 1024])
def test_tabulated_law_is_students_within_1e_8(dimension: int) -> None:
    table, r = law_table(dimension), np.linspace(-1, 1, 20_001)[1:-1]
    exact = stdtr(dimension, -np.sqrt(dimension) * r / np.sqrt((1 - r) * (1 + r)))
    assert np.abs([look_up(table, x) for x in r] - exact).max() < 1e-8
    assert look_up(table, 1.0) == 0.0
    assert look_up(table, -1.0) == 1.0


@pytest.mark.slow
@given(heads(max_tokens=24, min_dimension=TABULATED_FROM))
@settings(max_examples=60)
def test_many_heads_at_once_equal_one_by_one(head: DrawnHead) -> None:
    alpha = np.stack([head.alpha, head.alpha[::-1], np.roll(head.alpha, 1)])
    own = (head.norms, head.gram, head.dimension, np.arange(1, head.tokens + 2))
    for edition, convention in (
        ("sharp", "paper"),
        ("sharp", "followup"),
        ("printed", "paper"),
        ("repaired", "paper"),
    ):
        options = {"edition": edition, "sink": head.sink, "convention": convention}
        together = envelopes(alpha, *own, **options)
        for index in range(3):
            alone = envelope(alpha[index], *own, **options)
            assert_same(together, alone, head=index, rtol=1e-7, atol=1e-8)
            assert_same(together.valid, alone.valid, Validity.__slots__, head=index)


@pytest.mark.parametrize("edition", ["conditional", "predicted"])
def test_heads_of_uncompiled_editions_equal_one_by_one(edition: str) -> None:
    alpha, norms, gram = profile_head(24, 0.3, 0.2, -0.5, 0.3)
    alphas, own = np.stack([alpha, alpha[::-1]]), (norms, gram, 16, [2, 8, 25, 26])
    together = envelopes(alphas, *own, edition=edition)
    for index in range(2):
        alone = envelope(alphas[index], *own, edition=edition)
        assert_same(together, alone, (*BOUNDS, "reliable"), head=index, atol=1e-9)


def test_long_heads_agree_with_the_exact_law() -> None:
    alpha = np.random.default_rng(1).dirichlet(np.full(300, 0.3), 2)
    own = (1.0, offset_exponential(0.1, 0.2, -0.05, 300), 64, [1, 2, 8, 60, 200, 299])
    together = envelopes(alpha, *own, edition="sharp")
    for index in range(2):
        alone = envelope(alpha[index], *own, edition="sharp")
        assert_same(together, alone, BOUNDS, head=index, atol=1e-8)


@pytest.mark.parametrize("editions", [("printed", "sharp"), ("sharp", "repaired", "conditional")])
def test_editions_together_equal_each_alone_bit_for_bit(editions: tuple[str, ...]) -> None:
    rng, sizes = np.random.default_rng(0), [1, 3, 9, 20, 21]
    alpha, norms = rng.dirichlet(np.full(20, 0.4), size=3), rng.random(20) + 0.5
    own = (alpha, norms, exponential(0.3, 0.05, 20), 16, sizes)
    together = envelopes_by_edition(*own, [{"edition": edition} for edition in editions])
    assert tuple(found.edition for found in together) == editions
    for found in together:
        assert_same(found, envelopes(*own, edition=found.edition))


@pytest.mark.parametrize("sinks", [(0, None), ()])
def test_editions_together_have_one_sink(sinks: tuple[int | None, ...]) -> None:
    each: list[Any] = [{"edition": "sharp", "sink": sink} for sink in sinks]
    with pytest.raises(InputError, match=r"pairs of sink and feasible, expected one"):
        envelopes_by_edition(ALPHA[None], 1.0, exponential(1.0, 0.0, 4), 4, [1, 2], each)


def test_single_token_window() -> None:
    assert envelope([0.4], 1.0, np.eye(1), 16, [1], edition="sharp").recall_upper[0] == 1.0


def test_validity_record_tells_each_condition() -> None:
    found = four_tokens(n=[1, 2, 4], alpha=[0.01, 0.2, 0.3, 0.49], gram=exponential(2.0, 0.05, 4))
    valid = found.valid
    np.testing.assert_array_equal(valid.sink_selected, [False, False, False])
    np.testing.assert_array_equal(valid.margin_positive, [True, found.margin[1] > 0, False])
    np.testing.assert_array_equal(valid.size_within_length, [True, True, False])
    assert valid.rho0_nonnegative.all()
    assert valid.similarities_nonnegative[:2].all()
    assert valid.unit_norm.all()
    assert valid.gram_feasible.all()
    opposed = LagGram(np.array([1.0, -0.2]), -0.1)
    negative = broken(four_tokens(alpha=[0.5, 0.2, 0.3], norms=1.1, gram=opposed))
    assert {"rho0_nonnegative", "similarities_nonnegative", "unit_norm"} <= set(negative)
    assert "sink_selected" not in negative
    close = four_tokens(alpha=[0.05, 0.35, 0.3, 0.3], gram=exponential(0.1, 0.0, 4))
    assert close.margin[0] < 0 > close.margin_sink[0]
    assert {"margin_positive", "margin_sink_positive"} <= set(broken(close))
    assert "gram_feasible" in broken(four_tokens(gram=IMPOSSIBLE))


def test_all_conditions_hold_nowhere_at_n_equal_to_l() -> None:
    # Erratum 17: d = 3, L = N = 2, a = (3/4, 1, 1/2), independent directions: E P = 391/432
    # and E R = 227/288 exactly, 1 as printed.
    found = four_tokens(alpha=np.array([3, 4, 2]) / 9, gram=np.eye(3), dimension=3)
    assert found.precision_lower[0] == found.recall_lower[0] == 1.0 > max(391 / 432, 227 / 288)
    assert broken(found) == ["size_below_length"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"alpha": 1.01 * np.array([0.5, 0.3, 0.15, 0.05])}, ["weights_within_one"]),
        ({"kappa": 0.2}, ["kappa_proven"]),
        ({"n": [3]}, ["size_below_length"]),
    ],
)
def test_weights_constant_and_size_are_conditions(changes: dict, expected: list[str]) -> None:
    plain = {"alpha": [0.5, 0.3, 0.15, 0.05], "gram": np.eye(4), "kappa": 0.125}
    assert broken(four_tokens(**{**plain, **changes})) == expected


def test_printed_lower_values_hold_for_unit_directions_where_all_conditions_do() -> None:
    seen = 0
    for length, d, beta, p_sink in product((4, 8, 16), (8, 64, 512), (0.5, 2.0), (0.3, 0.6)):
        alpha = np.concatenate([[p_sink], (1 - p_sink) * 0.5 ** np.arange(1, length + 1)])
        case = (alpha, 1.0, exponential(beta, 0.05, length + 1), d, np.arange(2, length + 1))
        found = envelope(*case, edition="printed")
        truth = simulate(*case, draws=400, seed=1, directions="unit")
        holds = np.all([getattr(found.valid, name) for name in Validity.__slots__], axis=0)
        seen += int(holds.sum())
        assert not holds[-1]
        for quantity in ("precision", "recall", "f_outer"):
            error = 4 * np.maximum(getattr(truth, f"{quantity}_se"), 1 / 400)
            low = getattr(found, f"{quantity}_lower")
            assert (low <= getattr(truth, quantity) + error)[holds].all(), (quantity, beta, d)
    assert seen > 40


def test_invisible_sink_has_no_margin_and_no_negative_cosine() -> None:
    found = four_tokens(gram=exponential(1.0, -0.1, 4), sink=None)
    assert np.isnan(found.margin_sink[0])
    assert found.valid.rho0_nonnegative[0]
    assert not found.valid.sink_selected[0]
    assert np.isfinite(found.precision_lower[0])


def test_all_weights_zero_is_nan_in_print_and_a_tie_in_sharp() -> None:
    assert np.isnan(four_tokens(alpha=np.zeros(4)).precision_lower[0])
    sharp = envelopes(np.zeros((1, 4)), 1.0, exponential(1.0, 0.1, 4), 16, [2], edition="sharp")
    assert sharp.recall_lower[0, 0] == 1.0
    assert sharp.precision_upper[0, 0] == pytest.approx(0.5)


def test_editions_say_what_they_claim() -> None:
    found = {edition: four_tokens(edition) for edition in EDITIONS}
    for edition in ("sharp", "conditional"):
        assert found[edition].claims == ("bound under Model G", "bound under Model G")
        assert found[edition].upper_is_bound
    assert found["repaired"].claims[1] == "approximation"
    assert found["predicted"].claims == ("approximation", "approximation")
    assert not found["predicted"].upper_is_bound
    assert (found["predicted"].precision_lower == found["predicted"].precision_upper).all()


def test_results_are_frozen() -> None:
    found = four_tokens("sharp")
    with pytest.raises(ValueError, match="read-only"):
        found.precision_lower[0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.kappa = 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision_lower": [0.9], "precision_upper": [0.5]}, "precision_lower exceeds"),
        ({"recall_upper": [1.2]}, "leave"),
        ({"scale": [0.0, 0.0]}, "shape"),
    ],
)
def test_envelope_refuses_bounds_that_contradict(changes: dict, message: str) -> None:
    arrays = {name: np.array(values) for name, values in changes.items()}
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(four_tokens("sharp"), **arrays)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": [0.5, -0.1, 0.6, 0]}, "negative or non-finite"),
        ({"alpha": [[0.5, 0.5]]}, "Use envelopes for many heads"),
        ({"norms": [1.0, 2.0]}, "norms have shape"),
        ({"gram": np.eye(3)}, "gram has shape"),
        ({"gram": np.full((4, 4), 0.5)}, "1 on its diagonal"),
        ({"gram": np.eye(4) + np.triu(np.full((4, 4), 0.3), 1)}, "not symmetric"),
        ({"gram": IMPOSSIBLE}, "infeasible"),
        ({"gram": IMPOSSIBLE, "edition": "conditional"}, "infeasible"),
        ({"gram": IMPOSSIBLE, "edition": "predicted"}, "infeasible"),
        ({"gram": exponential(0.1, 0.1, 2)}, "by_lag has 2 lags"),
        ({"dimension": 0}, "dimension is 0"),
        ({"n": [0, 1]}, "sizes from 1 to T"),
        ({"n": [1.5]}, "whole number"),
        ({"edition": "guess"}, "edition is 'guess'"),
        ({"edition": "printed", "convention": "followup"}, "no printed edition"),
        ({"sink": 4}, "expected a position from 0 to 3"),
        ({"kappa": -1.0}, "kappa is -1.0"),
        ({"kappa": np.inf}, "kappa is inf, expected a finite constant > 0"),
        ({"kappa": np.nan}, "kappa is nan, expected a finite constant > 0"),
        ({"delta0": "both"}, "delta0 is 'both'"),
    ],
)
def test_bad_input_gives_a_one_line_error(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        four_tokens(**({"edition": "sharp"} | changes))
    assert "\n" not in str(raised.value)


def test_compiled_path_refuses_an_infeasible_gram_despite_feasible_true() -> None:
    gram = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.raises(InputError, match="infeasible"):
        envelopes([[0.5, 0.3, 0.2]], 1.0, gram, 8, [2], edition="sharp", feasible=True)


HEAVY = {"torch", "xarray", "matplotlib", "pandas", "scipy.stats", "numba"}


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("theory, theory.evaluate.envelopes", HEAVY | {"sympy"}),
        ("theory.editions.predicted.predict", HEAVY | {"sympy"}),
        ("theory.statements.catalogue, theory.evaluate.simulate, theory.errata.record", HEAVY),
    ],
)
def test_imports_are_light(modules: str, heavy: set[str]) -> None:
    program = f"import sys, {modules}; assert not {heavy} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_name_of_the_room_resolves() -> None:
    for name in theory.__all__:
        assert callable(getattr(theory, name)), name
    assert theory.Envelope is Envelope
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = theory.nonsense
