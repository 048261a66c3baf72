"""Table 2: the order of entry, the boundaries, the numbers of each verdict."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.heads import phases

from theory.arrays import selection_order
from theory.evaluate.envelopes import envelope
from theory.head.attention_profile import WeightProfile, regimes
from theory.head.gram import exponential
from theory.paper_tables.table_2 import (
    TABLE_2,
    figure_4_profile,
    markdown,
    tail_margin,
    tail_trend,
)
from theory.statements import catalogue
from theory.symbolic import margins, symbols
from theory.symbolic.record import MEANINGS


@st.composite
def profiles(draw: st.DrawFn) -> WeightProfile:
    """Profiles whose growth has the rate η."""
    return phases(
        *(draw(st.integers(*limits)) for limits in ((1, 12), (20, 30), (1, 16))),
        p_sink=draw(st.sampled_from([0.1, 0.5, 0.999])),
        eta=draw(st.floats(0.01, 1)),
        omega=draw(st.floats(0.4, 5.8)),
        growth=None,
    )


def phase(profile: WeightProfile, position: int) -> str:
    """What kind of token stands at a position."""
    if position == 0:
        return "sink"
    if position > profile.growth_start:
        return "tail"
    cosine = np.cos(profile.omega * position) if position > profile.plateau_end else 0.0
    return "peaks" if cosine > 0 else "valleys" if cosine < 0 else "plateau"


@given(profiles())
@settings(max_examples=100)
def test_composition_changes_at_m1_m2_m3(profile: WeightProfile) -> None:
    found = regimes(profile)
    assume(
        found.sink_rank <= profile.length - profile.growth_start + 1
        and found.n_peaks >= 1
        and found.n_valleys >= 1
    )
    phases = [phase(profile, position) for position in selection_order(profile.weights()).tolist()]
    assert phases.count("sink") == 1
    assert "sink" in phases[: found.m1 - 1]
    assert set(phases[: found.m1 - 1]) <= {"sink", "tail"}
    assert set(phases[found.m1 - 1 : found.m2 - 1]) == {"peaks"}
    assert set(phases[found.m2 - 1 : found.m3 - 1]) == {"plateau"}
    assert set(phases[found.m3 - 1 :]) == {"valleys"}
    closed = {symbols.L: profile.length, symbols.T_2: profile.growth_start}
    closed |= {symbols.n_plus: found.n_peaks, symbols.n_minus: found.n_valleys}
    for name, boundary in (("m_1", found.m1), ("m_2", found.m2), ("m_3", found.m3)):
        stated = catalogue.statement(name).expression.subs(closed)
        assert int(stated) == boundary
        closed[MEANINGS[name].symbol] = stated


def test_in_a_tail_the_margin_falls_and_the_scale_rises() -> None:
    # Δ = x^(2m−2) (1 − 2e^{−β} x^(2−m) (1 − x^m)/(1 − x)): both factors fall in m while Δ > 0; B
    # gains x^(m+1).
    x, m, e = sp.symbols("x m e", positive=True)
    inside = (1 - x**m) / (1 - x)
    known = {
        symbols.a_min_in: x ** (m - 1),
        symbols.a_max_out: x**m,
        symbols.S_in: inside,
        symbols.rho_out: e,
        symbols.a_max_in: 1,
    }
    delta, scale = margins.DELTA.expression.subs(known), margins.SCALE.expression.subs(known)
    factored = x ** (2 * m - 2) * (1 - 2 * e * x ** (2 - m) * inside)
    assert sp.simplify(sp.expand(delta - factored)) == 0
    assert sp.simplify(scale.subs(m, m + 1) - scale - x ** (m + 1)) == 0
    loss = x ** (2 - m) * inside  # grows by x^(1−m)
    growth = loss.subs(m, m + 1) - loss - x ** (1 - m)
    assert sp.simplify(sp.expand(growth * (1 - x))) == 0
    assert tail_trend().grew == 0
    assert tail_trend().steps > 4000


@given(st.floats(0.02, 1), st.integers(1, 12), st.floats(1e-3, 2))
@settings(max_examples=100)
def test_the_tail_has_a_positive_margin_exactly_above_the_least_decay(
    eta: float, selected: int, above: float
) -> None:
    x = np.exp(-eta)
    edge = np.log(2) + np.log((1 - x**selected) / ((1 - x) * x ** (selected - 2)))  # erratum 22
    assert tail_margin(eta, edge + above, selected)[0] > 0
    assert tail_margin(eta, edge - above, selected)[0] < 0


def test_the_tails_margin_and_scale_are_those_of_the_printed_edition() -> None:
    eta, beta, size = 0.3, 1.7, 5
    weights = np.concatenate([[10.0], np.exp(eta * np.arange(12))])
    head = (weights / weights[-1], 1.0, exponential(beta, 0.0, 13), 64, [size])
    found = envelope(*head, edition="printed", sink_in_b=False)
    expected = tail_margin(eta, beta, size - 1)
    assert (found.margin[0], found.scale[0]) == pytest.approx(expected, rel=1e-12)


def test_the_levels_of_figure_4_give_the_sink_rank_99() -> None:
    profile = figure_4_profile()
    assert profile.weights().sum() == pytest.approx(1, abs=1e-9)
    assert regimes(profile).sink_rank == 99
    assert selection_order(profile.weights())[0] == 1024


def test_every_row_of_table_2_has_its_verdict_and_numbers() -> None:
    verdicts = [f"{row.row} {row.verdict}" for row in TABLE_2]
    assert verdicts == ["I conditional", "II wrong", "III wrong", "IV unclear", "V unclear"]
    said = [row.evidence() for row in TABLE_2]
    assert "rank 99 and I_1 = {1024}" in said[0]
    assert said[1].startswith("Delta/B grew in 0 of ")
    assert "rise in 30 and fall in 31 of 61 steps" in said[2]
    assert "from N = 23, the first valley at N = 33" in said[3]
    assert "complete at N = 11, 22 sizes before" in said[4]
    assert markdown().count("\n") == 1 + len(TABLE_2)
