"""The audit finds violations where there are some, and none where there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from theory.audit import heads, summary
from theory.audit import rows as audit_rows
from theory.audit import truth as audit_truth
from theory.audit.simulate import AUDITED, FOLLOWUP, FOLLOWUP_RECALL, mean_of_draws, simulate
from theory.audit.truth import Truth
from theory.errors import InputError
from theory.head.gram import is_feasible
from theory.head.inputs import HeadInput
from theory.head.results import QUANTITIES


@pytest.fixture(scope="module")
def few() -> summary.Audit:
    return summary.audit(("printed", "repaired", "sharp"), draws=300, every=41)


def test_the_grid_is_wide_enough():
    grid = summary.heads()
    assert sum(len(head.n) for head in grid) >= 2000
    assert {head.dimension for head in grid} == set(heads.DIMENSIONS)
    assert min(head.gram.rho0 for head in grid) < 0


def test_random_heads_are_feasible_and_those_of_their_seed():
    some, again, others = (summary.heads("random", seed=seed, count=60) for seed in (3, 3, 4))
    for one, same in zip(some, again, strict=True):
        np.testing.assert_array_equal(one.alpha, same.alpha)
        assert is_feasible(one.gram, len(one.alpha))
        assert one.n.min() >= 2
        assert one.n.max() < len(one.alpha)
    assert not np.array_equal(some[0].alpha, others[0].alpha)
    assert {np.sign(head.gram.rho0) for head in some} == {-1.0, 1.0}
    assert min(head.alpha.min() / head.alpha.max() for head in others) < 1e-9


def test_small_heads_have_every_kind_of_gram_and_exact_ties():
    some, again = summary.heads("small", seed=3, count=60), summary.heads("small", seed=3, count=60)
    for one, same in zip(some, again, strict=True):
        np.testing.assert_array_equal(one.gram, same.gram)
        assert is_feasible(one.gram, len(one.alpha))
        assert 1 <= one.n.min() <= one.n.max() < len(one.alpha) <= 32
        assert 2 <= one.dimension <= 40
        np.testing.assert_array_equal(np.diag(one.gram), 1)
    by_kind = {kind: some[k :: len(heads.KINDS)] for k, kind in enumerate(heads.KINDS)}
    assert max(np.linalg.matrix_rank(head.gram, tol=1e-9) for head in by_kind["low rank"]) <= 4
    for kind, same_weight in (("equal", True), ("parallel", False)):
        pairs = [
            (head, *np.argwhere(np.triu(head.gram == 1, 1))[0])
            for head in by_kind[kind]
            if np.triu(head.gram == 1, 1).any()
        ]
        assert len(pairs) >= 5
        assert all((head.alpha[i] == head.alpha[j]) == same_weight for head, i, j in pairs)
    assert all(
        (head.alpha * head.norms).min() == 0
        for head in by_kind["weightless"]
        if len(head.alpha) > 12
    )
    assert sum(len(head.n) for head in summary.heads("small")) >= 2000


@pytest.mark.slow
def test_small_heads_near_their_bounds_are_drawn_again_and_inner_balls_told_apart(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(audit_truth, "LADDER", (4, 16))
    found = summary.audit(("sharp", "conditional"), sample="small", draws=250, seed=2, count=12)
    rows = found.rows["conditional", "recall_followup"]
    assert (rows.error >= 1 / 4000).all()
    assert np.isin(found.rows["conditional", "recall"].error.round(12), 1 / 250).sum() < len(rows.n)
    assert (
        rows.upper < found.rows["conditional", "recall"].upper - 0.05
    ).any()  # ties across the cut
    assert (rows.truth < found.rows["conditional", "recall"].truth - 0.05).any()
    assert sum(line.violated_lower + line.violated_upper for line in summary.table(found)) == 0


@pytest.mark.slow
def test_a_bound_of_a_small_head_that_is_a_little_too_tight_is_caught(
    monkeypatch: pytest.MonkeyPatch,
):
    true_bounds = audit_rows.evaluated

    def tighter(head: HeadInput, edition: str, convention: str) -> object:
        found = true_bounds(head, edition, convention)
        return replace(
            found, recall_upper=np.maximum(found.recall_lower, found.recall_upper - 0.02)
        )

    monkeypatch.setattr(audit_rows, "evaluated", tighter)
    monkeypatch.setattr(audit_truth, "LADDER", (20, 100))
    lines = summary.table(
        summary.audit(("conditional",), sample="small", draws=400, seed=2, count=6)
    )
    assert sum(line.violated_upper for line in lines if line.quantity.startswith("recall")) > 0


def test_proven_bounds_are_not_violated(few: summary.Audit):
    for line in summary.table(few):
        if line.edition in ("sharp", "repaired"):
            assert line.violated_lower == 0, line
        if line.edition == "sharp":
            assert line.violated_upper == 0, line


@pytest.mark.slow
def test_proven_bounds_hold_for_random_heads():
    found = summary.audit(("sharp", "conditional"), sample="random", draws=200, seed=5, count=8)
    assert sum(line.violated_lower + line.violated_upper for line in summary.table(found)) == 0


def test_the_printed_edition_is_violated(few: summary.Audit):
    assert (
        sum(
            line.violated_lower + line.violated_upper
            for line in summary.table(few)
            if line.edition == "printed"
        )
        > 0
    )


def test_sharp_says_something_wherever_repaired_does(few: summary.Audit):
    assert [summary.sharp_beyond_repaired(few, quantity) for quantity in QUANTITIES] == [0, 0, 0, 0]


def test_a_bound_that_is_too_tight_is_caught(monkeypatch: pytest.MonkeyPatch):
    true_bounds = audit_rows.evaluated

    def tighter(head: HeadInput, edition: str, convention: str) -> object:
        found = true_bounds(head, edition, convention)
        middle = (found.recall_lower + found.recall_upper) / 2
        return replace(found, recall_lower=middle, recall_upper=middle)

    monkeypatch.setattr(audit_rows, "evaluated", tighter)
    monkeypatch.setattr(audit_truth, "AGAIN", 2)
    lines = {
        line.quantity: line
        for line in summary.table(summary.audit(("sharp",), draws=300, every=119))
    }
    assert lines["recall"].violated_lower + lines["recall"].violated_upper > 0
    assert lines["recall"].worst > 0
    assert lines["precision"].violated_lower + lines["precision"].violated_upper == 0


def test_a_chance_flag_clears_when_drawn_again(monkeypatch: pytest.MonkeyPatch):
    def unlucky(
        head: HeadInput, draws: int, seed: int, directions: str
    ) -> tuple[np.ndarray, np.ndarray]:
        mean, error = mean_of_draws(head, draws, seed, directions)
        return mean + 0.5 * (draws == 300), error  # of the draws first asked for

    monkeypatch.setattr(audit_truth, "mean_of_draws", unlucky)
    monkeypatch.setattr(audit_truth, "AGAIN", 2)
    for line in summary.table(summary.audit(("sharp",), draws=300, every=119)):
        assert line.flagged > 0
        assert line.violated_lower + line.violated_upper == 0


def test_drawn_again_rows_alone_change_and_never_for_fewer_draws():
    head = summary.heads()[0]
    truth = Truth.of(head, "gaussian", 100, 1)
    before, rows = truth.mean.copy(), np.arange(len(head.n)) == 1
    truth.draw_again(rows, 4)
    np.testing.assert_array_equal(truth.mean[:, ~rows], before[:, ~rows])
    assert (truth.mean[:, rows] != before[:, rows]).any()
    assert truth.draws.tolist() == [400 if row else 100 for row in rows]
    after = truth.mean.copy()
    truth.draw_again(rows, 2)
    np.testing.assert_array_equal(truth.mean, after)
    assert (truth.of_quantity("precision")[1] >= 1 / truth.draws).all()


@pytest.mark.parametrize("directions", ["gaussian", "unit"])
def test_the_truth_is_that_of_the_simulation_in_both_conventions(directions: str):
    head = summary.heads("random", seed=2, count=3)[2]
    mean, error = mean_of_draws(head, 300, 9, directions)
    for convention, names in (("paper", QUANTITIES), ("followup", [FOLLOWUP, FOLLOWUP_RECALL])):
        seen = simulate(
            head.alpha,
            head.norms,
            head.gram,
            head.dimension,
            head.n,
            draws=300,
            seed=9,
            directions=directions,
            convention=convention,
        )
        for name in names:
            of = {FOLLOWUP: "f_outer", FOLLOWUP_RECALL: "recall"}.get(name, name)
            np.testing.assert_allclose(mean[AUDITED.index(name)], getattr(seen, of), rtol=1e-12)
            np.testing.assert_allclose(
                error[AUDITED.index(name)], getattr(seen, f"{of}_se"), rtol=1e-9, atol=1e-12
            )


@pytest.mark.slow
def test_rows_do_not_depend_on_the_number_of_workers():
    one, two = (
        summary.audit(("sharp", "predicted"), draws=40, every=400, workers=workers)
        for workers in (1, 2)
    )
    for key, rows in one.rows.items():
        for name in summary.Rows.__slots__:
            np.testing.assert_allclose(
                getattr(rows, name), getattr(two.rows[key], name), rtol=1e-12
            )


def test_an_error_that_the_flag_does_not_catch_is_counted(few: summary.Audit):
    rows = few.rows["sharp", "recall"]
    wrong = replace(
        rows,
        lower=rows.truth + 0.06 * (np.arange(len(rows.n)) < 3),
        reliable=np.arange(len(rows.n)) != 1,
    )
    found = summary.accuracy(replace(few, rows={("predicted", "recall"): wrong}))[0]
    assert (found.large, found.missed, found.distrusted) == (3, 2, 1)
    assert found.worst == pytest.approx(0.06)


@pytest.mark.parametrize("changes", [{"draws": 1}, {"every": 0}, {"workers": 0}, {"count": 0}])
def test_numbers_that_make_no_audit_are_refused(changes: dict[str, int]):
    with pytest.raises(InputError, match="expected at least 2 draws"):
        summary.audit(("sharp",), **changes)


def test_a_prediction_without_a_value_counts_as_far_off_and_not_as_no_number() -> None:
    rows = summary.audit(("predicted",), sample="random", draws=20, count=3).rows[
        "predicted", "precision"
    ]
    lower = rows.lower.copy()
    lower[0] = np.nan
    found = summary._accuracy(
        "precision",
        replace(rows, lower=lower, reliable=rows.reliable & (np.arange(len(lower)) > 0)),
    )
    assert np.isfinite([found.median, found.worst_trusted]).all()
    assert found.worst == np.inf
    assert found.distrusted >= 1
