"""Table 1: symbolic signs and recorded verdicts."""

import numpy as np
import pytest

from theory.paper_tables.table_1 import ROWS, markdown, printed_partials, sign_of
from theory.statements import catalogue
from theory.symbolic.record import MEANINGS

# THEORY of the paper settled: the sign of the printed lower bound where Δ, Δ₀ > 0.
SIGNS = {
    **{"d": "+", "kappa": "+", "L": "-", "N": "+", "N, true counts": "mixed", "a_0": "+"},
    **{"a_0, sink in B": "mixed", "a_min_in": "+", "a_min_in, S_in moves": "mixed"},
    **{"a_max_out": "-", "a_max_in": "-", "S_in": "-", "beta": "+", "rho_0": "0"},
}


def test_signs_of_the_printed_lower_bound_are_decided_by_sympy() -> None:
    assert {name: sign_of(terms) for name, terms in printed_partials().items()} == SIGNS


@pytest.mark.parametrize("name", ["d", "a_0", "a_min_in", "a_max_out", "beta", "L", "N"])
def test_chain_rule_terms_add_up_to_the_derivative_in_the_catalogue(name: str) -> None:
    (entry,) = catalogue.find(f"Table 1 row {name}")
    values = {"N": 3, "d": 16, "kappa": 0.5, "L": 9, "beta": 1.1, "rho_out": np.exp(-1.1)}
    values |= {"S_in": 0.9, "a_min_in": 0.7, "a_max_out": 0.2, "a_0": 0.8, "a_max_in": 0.9}
    delta = values["a_min_in"] ** 2 - 2 * values["a_max_out"] * values["S_in"] * values["rho_out"]
    delta_0 = values["a_0"] ** 2 - (values["S_in"] * values["rho_out"]) ** 2
    scale = values["a_max_in"] + values["a_max_out"] + values["S_in"]
    known = values | {"Delta": delta, "Delta_0": delta_0, "outside": 6, "B": scale}
    total = 0.0
    for term in printed_partials()[name]:
        names = {symbol: symbol.name.removesuffix("_plus") for symbol in term.free_symbols}
        total += float(term.subs({symbol: known[name] for symbol, name in names.items()}))
    direct = entry.expression.subs({MEANINGS[key].symbol: value for key, value in values.items()})
    assert total == pytest.approx(float(direct), rel=1e-10)
    assert total != 0


def test_the_verdicts_stand_with_the_rows() -> None:
    assert all(f"| {one.verdict} | {one.corrected} |" in markdown() for one in ROWS)
