"""The numeric entry: conventions at the edges, the validity record, the compiled path against
the exact one, and errors.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import stdtr
from support.strategies import DrawnHead, heads

from theory.audit.simulate import simulate
from theory.editions.sharp.many_heads import TABULATED_FROM, law_table
from theory.errors import InputError
from theory.evaluate.envelopes import envelope, envelopes, envelopes_by_edition
from theory.head.gram import LagGram
from theory.head.results import QUANTITIES, Envelope
from theory.head.similarity_decay import exponential, offset_exponential

BOUNDS = [f"{quantity}_{side}" for quantity in QUANTITIES for side in ("lower", "upper")]
ALPHA = np.array([0.5, 0.05, 0.1, 0.35])


@pytest.mark.parametrize("dimension", [7, 8, 13, 64, 96, 256, 1024])
def test_tabulated_law_is_students_within_1e_8(dimension: int) -> None:
    from theory.editions.sharp.sharp_kernels import look_up

    table, r = law_table(dimension), np.linspace(-1, 1, 20_001)[1:-1]
    exact = stdtr(dimension, -np.sqrt(dimension) * r / np.sqrt((1 - r) * (1 + r)))
    assert np.abs([look_up(table, x) for x in r] - exact).max() < 1e-8
    assert look_up(table, 1.0) == 0.0
    assert look_up(table, -1.0) == 1.0


@pytest.mark.slow
@given(heads(max_tokens=24, min_dimension=TABULATED_FROM))
@settings(max_examples=60)
def test_many_heads_at_once_equal_one_by_one(head: DrawnHead) -> None:
    sizes = np.arange(1, head.tokens + 2)
    alpha = np.stack([head.alpha, head.alpha[::-1], np.roll(head.alpha, 1)])
    for edition in ("sharp", "printed", "repaired"):
        for convention in ("paper", "followup") if edition == "sharp" else ("paper",):
            options = {"edition": edition, "sink": head.sink, "convention": convention}
            together = envelopes(alpha, head.norms, head.gram, head.dimension, sizes, **options)
            for h in range(3):
                alone = envelope(alpha[h], head.norms, head.gram, head.dimension, sizes, **options)
                for name in [*BOUNDS, "margin", "margin_sink", "scale"]:
                    np.testing.assert_allclose(
                        getattr(together, name)[h], getattr(alone, name), rtol=1e-7, atol=1e-8
                    )
                for field in dataclasses.fields(alone.valid):
                    np.testing.assert_array_equal(
                        getattr(together.valid, field.name)[h], getattr(alone.valid, field.name)
                    )


@pytest.mark.parametrize("editions", [("printed", "sharp"), ("sharp", "repaired", "conditional")])
def test_editions_together_equal_each_alone_bit_for_bit(editions: tuple[str, ...]) -> None:
    rng, sizes = np.random.default_rng(0), [1, 3, 9, 20, 21]
    alpha, norms = rng.dirichlet(np.full(20, 0.4), size=3), rng.random(20) + 0.5
    own = (alpha, norms, exponential(0.3, 0.05, 20), 16, sizes)
    together = envelopes_by_edition(*own, [{"edition": edition} for edition in editions])
    for edition, found in zip(editions, together, strict=True):
        assert found.edition == edition
        alone = envelopes(*own, edition=edition)
        for name in [*BOUNDS, "margin", "margin_sink", "scale"]:
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))


@pytest.mark.parametrize("sinks", [(0, None), ()])
def test_editions_together_have_one_sink(sinks: tuple[int | None, ...]) -> None:
    each: list[Any] = [{"edition": "sharp", "sink": sink} for sink in sinks]
    gram = exponential(1.0, 0.0, 4)
    with pytest.raises(InputError, match=r"pairs of sink and feasible, expected one"):
        envelopes_by_edition(np.full((1, 4), 0.25), 1.0, gram, 4, [1, 2], each)


@pytest.mark.parametrize("edition", ["printed", "repaired", "sharp"])
def test_everything_selected_is_one_and_more_is_nan(edition: str) -> None:
    found = envelope(ALPHA, 1.0, exponential(1.0, 0.1, 4), 16, [4, 5], edition=edition)
    for name in BOUNDS:
        assert getattr(found, name)[0] == 1.0
        assert np.isnan(getattr(found, name)[1])
    assert not found.valid.size_within_length.any()


def test_followup_stops_before_everything_is_selected() -> None:
    found = envelope(
        ALPHA, 1.0, exponential(1.0, 0.1, 4), 16, [3, 4], edition="sharp", convention="followup"
    )
    assert np.isfinite(found.precision_lower[0])
    assert np.isnan(found.precision_lower[1])
    np.testing.assert_array_equal(found.f_outer_lower, found.f_inner_lower)


def test_single_token_window() -> None:
    assert envelope([0.4], 1.0, np.eye(1), 16, [1], edition="sharp").recall_upper[0] == 1.0


def test_validity_record_tells_each_condition() -> None:
    found = envelope(
        [0.01, 0.2, 0.3, 0.49], 1.0, exponential(2.0, 0.05, 4), 16, [1, 2, 4], edition="printed"
    )
    valid = found.valid
    np.testing.assert_array_equal(valid.sink_selected, [False, False, False])
    np.testing.assert_array_equal(valid.margin_positive, [True, found.margin[1] > 0, False])
    assert valid.rho0_nonnegative.all()
    assert valid.similarities_nonnegative[:2].all()
    assert valid.unit_norm.all()
    assert valid.gram_feasible.all()
    np.testing.assert_array_equal(valid.size_within_length, [True, True, False])
    negative = envelope(
        [0.5, 0.2, 0.3], 1.1, LagGram(np.array([1.0, -0.2]), -0.1), 16, [2], edition="printed"
    ).valid
    assert negative.sink_selected[0]
    assert not negative.rho0_nonnegative[0]
    assert not negative.similarities_nonnegative[0]
    assert not negative.unit_norm[0]
    close = envelope(
        [0.05, 0.35, 0.3, 0.3], 1.0, exponential(0.1, 0.0, 4), 16, [2], edition="printed"
    )
    assert close.margin[0] < 0 > close.margin_sink[0]
    assert not close.valid.margin_positive[0]
    assert not close.valid.margin_sink_positive[0]
    impossible = envelope(ALPHA, 1.0, exponential(0.1, 0.99, 4), 16, [2], edition="printed").valid
    assert not impossible.gram_feasible[0]


def test_all_conditions_hold_nowhere_at_n_equal_to_l() -> None:
    # Erratum 17: d = 3, L = N = 2, a = (3/4, 1, 1/2), independent directions: E P = 391/432
    # and E R = 227/288 exactly, 1 as printed.
    alpha = np.array([3, 4, 2]) / 9
    found = envelope(alpha, 1.0, np.eye(3), 3, [2], edition="printed")
    assert found.precision_lower[0] == found.recall_lower[0] == 1.0 > max(391 / 432, 227 / 288)
    others = [
        item.name for item in dataclasses.fields(found.valid) if item.name != "size_below_length"
    ]
    assert all(getattr(found.valid, name)[0] for name in others)
    assert not found.valid.size_below_length[0]


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, None),
        ({"scale": 1.01}, "weights_within_one"),
        ({"kappa": 0.2}, "kappa_proven"),
        ({"n": 3}, "size_below_length"),
    ],
)
def test_weights_constant_and_size_are_conditions(
    changes: dict[str, float], broken: str | None
) -> None:
    asked = {"scale": 1.0, "kappa": 0.125, "n": 2} | changes
    alpha = np.array([0.5, 0.3, 0.15, 0.05]) * asked["scale"]
    valid = envelope(
        alpha, 1.0, np.eye(4), 16, [int(asked["n"])], edition="printed", kappa=asked["kappa"]
    ).valid
    assert [
        item.name for item in dataclasses.fields(valid) if not getattr(valid, item.name)[0]
    ] == ([broken] if broken else [])


def test_printed_lower_values_hold_for_unit_directions_where_all_conditions_do() -> None:
    seen = 0
    for length, d, beta, p_sink in product((4, 8, 16), (8, 64, 512), (0.5, 2.0), (0.3, 0.6)):
        alpha = np.concatenate([[p_sink], (1 - p_sink) * 0.5 ** np.arange(1, length + 1)])
        gram, n = exponential(beta, 0.05, length + 1), np.arange(2, length + 1)
        found = envelope(alpha, 1.0, gram, d, n, edition="printed")
        truth = simulate(alpha, 1.0, gram, d, n, draws=400, seed=1, directions="unit")
        holds = np.all(
            [getattr(found.valid, item.name) for item in dataclasses.fields(found.valid)], axis=0
        )
        seen += int(holds.sum())
        assert not holds[-1]
        for quantity in ("precision", "recall", "f_outer"):
            mean, error = (
                getattr(truth, quantity),
                np.maximum(getattr(truth, f"{quantity}_se"), 1 / 400),
            )
            assert (getattr(found, f"{quantity}_lower") <= mean + 4 * error)[holds].all(), (
                quantity,
                length,
                d,
                beta,
                p_sink,
            )
    assert seen > 40


def test_unseen_sink_has_no_margin_and_no_negative_cosine() -> None:
    found = envelope(ALPHA, 1.0, exponential(1.0, -0.1, 4), 16, [2], edition="printed", sink=None)
    assert np.isnan(found.margin_sink[0])
    assert found.valid.rho0_nonnegative[0]
    assert not found.valid.sink_selected[0]
    assert np.isfinite(found.precision_lower[0])


def test_all_weights_zero_is_nan_in_print_and_a_tie_in_sharp() -> None:
    printed = envelope(np.zeros(4), 1.0, exponential(1.0, 0.1, 4), 16, [2], edition="printed")
    assert np.isnan(printed.precision_lower[0])
    sharp = envelopes(np.zeros((1, 4)), 1.0, exponential(1.0, 0.1, 4), 16, [2], edition="sharp")
    assert sharp.recall_lower[0, 0] == 1.0
    assert sharp.precision_upper[0, 0] == pytest.approx(0.5)


def test_results_are_frozen() -> None:
    found = envelope(ALPHA, 1.0, exponential(1.0, 0.1, 4), 16, [2], edition="sharp")
    with pytest.raises(ValueError, match="read-only"):
        found.precision_lower[0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.kappa = 1.0


def test_envelope_refuses_bounds_that_contradict() -> None:
    found = envelope(ALPHA, 1.0, exponential(1.0, 0.1, 4), 16, [2], edition="sharp")
    with pytest.raises(ValueError, match="precision_lower exceeds precision_upper"):
        dataclasses.replace(found, precision_lower=np.array([0.9]), precision_upper=np.array([0.5]))
    with pytest.raises(ValueError, match="leave"):
        dataclasses.replace(found, recall_upper=np.array([1.2]))
    with pytest.raises(ValueError, match="shape"):
        dataclasses.replace(found, scale=np.zeros(2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": [0.5, -0.1, 0.6, 0]}, "negative or non-finite"),
        ({"alpha": [[0.5, 0.5]]}, "Use envelopes for many heads"),
        ({"norms": [1.0, 2.0]}, "norms have shape"),
        ({"gram": np.eye(3)}, "gram has shape"),
        ({"gram": np.full((4, 4), 0.5)}, "1 on its diagonal"),
        ({"gram": np.eye(4) + np.triu(np.full((4, 4), 0.3), 1)}, "not symmetric"),
        ({"gram": exponential(0.1, 0.99, 4)}, "infeasible"),
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
def test_bad_input_is_said_in_one_line(changes: dict, message: str) -> None:
    arguments = {
        "alpha": ALPHA,
        "norms": 1.0,
        "gram": exponential(1.0, 0.1, 4),
        "dimension": 16,
        "n": [1, 2],
        "edition": "sharp",
    } | changes
    options = {
        key: arguments.pop(key)
        for key in ("edition", "convention", "sink", "kappa", "delta0")
        if key in arguments
    }
    with pytest.raises(InputError, match=message) as raised:
        envelope(*arguments.values(), **options)
    assert "\n" not in str(raised.value)


def test_compiled_path_refuses_an_infeasible_gram_it_is_told_to_trust() -> None:
    gram = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.raises(InputError, match="infeasible"):
        envelopes([[0.5, 0.3, 0.2]], 1.0, gram, 8, [2], edition="sharp", feasible=True)


def test_long_heads_agree_with_the_exact_law() -> None:
    rng = np.random.default_rng(1)
    alpha = rng.dirichlet(np.full(300, 0.3), 2)
    gram = offset_exponential(0.1, 0.2, -0.05, 300)
    sizes = [1, 2, 8, 60, 200, 299]
    many = envelopes(alpha, 1.0, gram, 64, sizes, edition="sharp")
    for h in range(2):
        one = envelope(alpha[h], 1.0, gram, 64, sizes, edition="sharp")
        for name in BOUNDS:
            np.testing.assert_allclose(getattr(many, name)[h], getattr(one, name), atol=1e-8)


def test_import_is_light() -> None:
    heavy = ["torch", "xarray", "matplotlib", "pandas", "scipy.stats", "numba", "sympy"]
    program = (
        "import sys, theory; from theory.evaluate.envelopes import envelope;"
        f" bad = [m for m in {heavy} if m in sys.modules]; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_catalogue_and_simulation_need_nothing_heavy_but_sympy() -> None:
    program = (
        "import sys, theory.statements.catalogue, theory.audit.simulate, theory.errata.record; bad"
        " = [m for m in ['torch', 'xarray', 'matplotlib', 'pandas', 'scipy.stats', 'numba'] if m in"
        " sys.modules]; assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_name_of_the_room_resolves() -> None:
    import theory

    for name in theory.__all__:
        assert callable(getattr(theory, name)), name
    assert theory.Envelope is Envelope
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = theory.nonsense
