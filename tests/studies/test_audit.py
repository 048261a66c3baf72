"""Audit of the editions: violations are found where they are, and every verdict can fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.places import DOCS

from studies.audit import document, heads
from studies.audit import rows as audit_rows
from studies.audit.document import table, verdicts
from studies.audit.rows import Audit, Bounds, Rows, Truth, audit, resimulate_in_doubt
from theory.errors import InputError
from theory.evaluate.simulate import AUDITED, FOLLOWUP, FOLLOWUP_RECALL, means_of_draws, simulate
from theory.head.gram import is_feasible
from theory.head.results import QUANTITIES, UNDER_MODEL_G, Envelope


@pytest.fixture(scope="module")
def audits() -> list[Audit]:
    # The document is tested here: uncertain rows are simulated again with few draws.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_rows, "LADDER", (4, 16))
        return [
            audit(sample="grid", draws=60, every=160, seed=1),
            audit(sample="random", draws=60, every=150, seed=1),
            audit(UNDER_MODEL_G, sample="small", draws=60, every=80, seed=1),
            audit(document.EDITIONS_OF["adversarial"], sample="adversarial", draws=60, every=80),
        ]


def missed(audited: Audit, edition: str = "", quantity: str = "", **arrays: Any) -> list[str]:
    """Return the targets missed by an audit, with arrays of one edition and quantity replaced."""
    if edition:
        rows = replace(audited.rows[edition, quantity], **arrays)
        audited = replace(audited, rows=audited.rows | {(edition, quantity): rows})
    return [verdict.target for verdict in verdicts(audited) if not verdict.met]


def one_violation(audited: Audit, side: int) -> np.ndarray:
    violated = np.zeros_like(next(iter(audited.rows.values())).violated)
    violated[side, 0] = True
    return violated


def test_the_document_describes_its_method_and_holds_every_number(audits):
    written = document.document(audits, every=160)
    for part in (
        *("60 draws", "seed 1", "every 160th", "**Violated**", "**Vacuous**"),
        *("## Grid", "## Random heads", "## Small heads", "## Adversarial heads"),
        "| conditional | E R(r_min) |",
    ):
        assert part in written
    for line in (line for audited in audits for line in table(audited)):
        row = f"| {line.edition} | {document.WORDS[line.quantity]} |"
        assert f"{row} {line.violated_lower} | {line.violated_upper} |" in written
    assert "nan |" not in written
    assert "**missed**" in written  # too few rows
    assert max(len(row) for row in written.splitlines() if row.startswith("|")) < 400


@pytest.mark.parametrize(
    ("sample", "edition", "quantity", "side", "target"),
    [
        (0, "sharp", "precision", 0, "`sharp` against Model G: no violation"),
        (0, "conditional", "recall", 0, "`conditional` against Model G: no violation"),
        (2, "conditional", "recall_followup", 1, "`conditional` against Model G: no violation"),
    ],
)
def test_a_violated_bound_misses_its_target(audits, sample, edition, quantity, side, target):
    violated = one_violation(audits[sample], side)
    assert target in missed(audits[sample], edition, quantity, violated=violated)


def test_only_the_lower_bounds_of_repaired_have_a_target(audits):
    for side in (0, 1):
        violated = one_violation(audits[0], side)
        targets = missed(audits[0], "repaired", "recall", violated=violated)
        assert any(target.startswith("`repaired`, lower") for target in targets) == (side == 0)


def test_each_other_target_can_be_missed(audits):
    audited = audits[0]
    none = np.zeros_like(audited.rows["sharp", "precision"].lower)
    assert "At least 2,000 rows" in missed(audited)
    silent = missed(audited, "sharp", "recall", lower=none)
    assert any(target.startswith("`sharp` is informative") for target in silent)
    wide = missed(audited, "conditional", "precision", lower=none, upper=none + 1)
    assert sum("median width of E P(r_max)" in target for target in wide) == 2
    truth = audited.rows["predicted", "precision"].truth
    far = missed(audited, "predicted", "precision", lower=truth + 0.1, reliable=none == 0)
    assert sum(target.startswith("`predicted`") for target in far) == 3
    exact = {
        key: replace(rows, lower=rows.truth) if key[0] == "predicted" else rows
        for key, rows in audited.rows.items()
    }
    good = missed(replace(audited, rows=exact))
    assert not any(target.startswith("`predicted`") for target in good)


def test_small_heads_have_their_own_targets(audits):
    assert "At least 4,000 cells: rows in two conventions" in missed(audits[2])
    assert not any("width" in verdict.target for verdict in verdicts(audits[2]))


def test_the_document_in_docs_is_whole_and_recent():
    written = (DOCS / "studies" / "audit.md").read_text(encoding="utf-8")
    assert "3,645 rows" in written
    assert "## Small heads" in written
    for line in document._how([Audit(rows={}, draws=1000, seed=0, sample="grid", heads=0)], 1):
        assert line in written
    for edition in ("printed", "repaired", "sharp", "conditional", "predicted"):
        assert f"| {edition} |" in written


@pytest.fixture(scope="module")
def few() -> Audit:
    return audit(("printed", "repaired", "sharp"), draws=300, every=41)


def test_the_grid_is_wide_enough():
    grid = heads.heads()
    assert sum(len(head.n) for head in grid) >= 2000
    assert {head.dimension for head in grid} == set(heads.DIMENSIONS)
    assert min(head.gram.rho0 for head in grid) < 0


def test_random_heads_are_feasible_and_depend_on_their_seed_alone():
    drawn, again, others = (heads.heads("random", seed=seed, count=60) for seed in (3, 3, 4))
    for one, same in zip(drawn, again, strict=True):
        np.testing.assert_array_equal(one.alpha, same.alpha)
        assert is_feasible(one.gram, len(one.alpha))
        assert one.n.min() >= 2
        assert one.n.max() < len(one.alpha)
    assert not np.array_equal(drawn[0].alpha, others[0].alpha)
    assert {np.sign(head.gram.rho0) for head in drawn} == {-1.0, 1.0}
    assert min(head.alpha.min() / head.alpha.max() for head in others) < 1e-9


def test_small_heads_have_every_kind_of_gram_and_exact_ties():
    drawn, again = heads.heads("small", seed=3, count=60), heads.heads("small", seed=3, count=60)
    for one, same in zip(drawn, again, strict=True):
        np.testing.assert_array_equal(one.gram, same.gram)
        assert is_feasible(one.gram, len(one.alpha))
        assert 1 <= one.n.min() <= one.n.max() < len(one.alpha) <= 32
        assert 2 <= one.dimension <= 40
        np.testing.assert_array_equal(np.diag(one.gram), 1)
    by_kind = {kind: drawn[k :: len(heads.KINDS)] for k, kind in enumerate(heads.KINDS)}
    assert max(np.linalg.matrix_rank(head.gram, tol=1e-9) for head in by_kind["low rank"]) <= 4
    for kind, same_weight in (("equal", True), ("parallel", False)):
        alike = [(head, np.argwhere(np.triu(head.gram == 1, 1))) for head in by_kind[kind]]
        pairs = [(head.alpha, *places[0]) for head, places in alike if len(places)]
        assert len(pairs) >= 5
        assert all((alpha[i] == alpha[j]) == same_weight for alpha, i, j in pairs)
    long = [head for head in by_kind["weightless"] if len(head.alpha) > 12]
    assert all((head.alpha * head.norms).min() == 0 for head in long)
    assert sum(len(head.n) for head in heads.heads("small")) >= 2000


def test_adversarial_heads_are_clustered_and_every_second_one_has_opposite_values():
    drawn = heads.heads("adversarial", seed=3, count=40)
    least = np.array([head.gram.min() for head in drawn if len(head.alpha) > 8])
    of_second = np.array([k % 2 == 1 for k, head in enumerate(drawn) if len(head.alpha) > 8])
    assert (least[of_second] < -0.5).mean() > 0.8 > 0.3 > (least[~of_second] < -0.5).mean()
    assert len(heads.heads("adversarial")) == heads.ADVERSARIAL_HEADS


def test_upper_values_of_repaired_fail_on_adversarial_heads_where_those_of_sharp_do_not():
    found = audit(("repaired", "sharp"), sample="adversarial", draws=300, count=60)
    assert violations(found, "repaired")[0] == 0
    assert violations(found, "repaired")[1] > 0
    assert violations(found, "sharp") == (0, 0)


@pytest.mark.slow
def test_small_heads_near_bounds_are_simulated_again_and_inner_balls_distinguished(
    monkeypatch,
):
    monkeypatch.setattr(audit_rows, "LADDER", (4, 16))
    found = audit(("sharp", "conditional"), sample="small", draws=250, seed=2, count=12)
    inner, paper = (found.rows["conditional", name] for name in ("recall_followup", "recall"))
    assert (inner.error >= 1 / 4000).all()
    assert np.isin(paper.error.round(12), 1 / 250).sum() < len(inner.n)
    assert (inner.upper < paper.upper - 0.05).any()  # ties across the cut
    assert (inner.truth < paper.truth - 0.05).any()
    assert violations(found, "sharp", "conditional") == (0, 0)


def violations(audit: Audit, *editions: str) -> tuple[int, int]:
    """Return how many lower and upper bounds of some editions are violated."""
    lines = [line for line in table(audit) if line.edition in editions]
    return sum(line.violated_lower for line in lines), sum(line.violated_upper for line in lines)


def test_proven_bounds_are_not_violated_and_printed_ones_are(few, audits):
    for audited in (few, *audits):
        assert violations(audited, "sharp", "conditional") == (0, 0)
    assert violations(few, "repaired")[0] == 0
    assert sum(violations(few, "printed")) > 0


def test_sharp_is_informative_wherever_repaired_is(few):
    assert not any(document.sharp_beyond_repaired(few, quantity) for quantity in QUANTITIES)


def with_recall(monkeypatch: pytest.MonkeyPatch, changed: Callable[[Envelope], dict]) -> None:
    """Change the bounds on Recall that the audit evaluates."""
    evaluated = audit_rows.evaluated

    def other(*case: Any) -> list[Envelope]:
        return [replace(found, **changed(found)) for found in evaluated(*case)]

    monkeypatch.setattr(audit_rows, "evaluated", other)


def test_a_bound_that_is_too_tight_is_caught(monkeypatch):
    def middle(found: Envelope) -> dict:
        mean = (found.recall_lower + found.recall_upper) / 2
        return {"recall_lower": mean, "recall_upper": mean}

    with_recall(monkeypatch, middle)
    monkeypatch.setattr(audit_rows, "AGAIN", 2)
    lines = {line.quantity: line for line in table(audit(("sharp",), draws=300, every=119))}
    assert lines["recall"].violated_lower + lines["recall"].violated_upper > 0
    assert lines["recall"].worst > 0
    assert lines["precision"].violated_lower + lines["precision"].violated_upper == 0


@pytest.mark.slow
def test_a_bound_of_a_small_head_that_is_a_little_too_tight_is_caught(monkeypatch):
    def tighter(found: Envelope) -> dict:
        return {"recall_upper": np.maximum(found.recall_lower, found.recall_upper - 0.02)}

    with_recall(monkeypatch, tighter)
    monkeypatch.setattr(audit_rows, "LADDER", (20, 100))
    lines = table(audit(("conditional",), sample="small", draws=400, seed=2, count=6))
    assert sum(line.violated_upper for line in lines if line.quantity.startswith("recall")) > 0


def test_a_chance_flag_clears_in_a_second_simulation(monkeypatch):
    def unlucky(head: Any, draws: int, *given: Any) -> dict[Any, tuple[np.ndarray, np.ndarray]]:
        of_kinds = means_of_draws(head, draws, *given)
        first = 0.5 * (draws == 300)
        return {kind: (mean + first, error) for kind, (mean, error) in of_kinds.items()}

    monkeypatch.setattr(audit_rows, "means_of_draws", unlucky)
    monkeypatch.setattr(audit_rows, "AGAIN", 2)
    for line in table(audit(("sharp",), draws=300, every=119)):
        assert line.flagged > 0
        assert line.violated_lower + line.violated_upper == 0


def test_only_rows_simulated_again_change_and_never_for_fewer_draws():
    head = heads.heads()[0]
    truth = Truth.of(head, ["gaussian"], 100, 1)["gaussian"]
    before, rows = truth.mean.copy(), np.arange(len(head.n)) == 1
    truth.draw_again(rows, 4)
    np.testing.assert_array_equal(truth.mean[:, ~rows], before[:, ~rows])
    assert (truth.mean[:, rows] != before[:, rows]).any()
    assert truth.draws.tolist() == [400 if row else 100 for row in rows]
    after = truth.mean.copy()
    truth.draw_again(rows, 2)
    np.testing.assert_array_equal(truth.mean, after)
    assert (truth.of_quantity("precision")[1] >= 1 / truth.draws).all()


@pytest.mark.parametrize(("beyond", "draws"), [(1.5, 400), (-1.5, 200), (-2.5, 100)])
def test_a_bound_near_the_mean_is_simulated_again_and_more_often_beyond_it(
    monkeypatch, beyond, draws
):
    """The lower bound is `beyond` standard errors above the mean of 0."""
    monkeypatch.setattr(audit_rows, "LADDER", (2, 4))
    head = replace(heads.heads("random", seed=2, count=3)[2], n=np.array([4]))
    truth = Truth.of(head, ["gaussian"], 100, 1)["gaussian"]
    monkeypatch.setattr(Truth, "of_quantity", lambda *_: (np.zeros(1), np.ones(1)))
    edge = Bounds(lower=np.array([beyond]), upper=np.ones(1) * 9, reliable=np.ones(1, bool))
    bounds, flagged = {("sharp", "recall"): edge}, {("sharp", "recall"): np.zeros((2, 1), bool)}
    resimulate_in_doubt(truth, bounds, flagged, closely=True)
    assert truth.draws.tolist() == [draws]


@pytest.mark.parametrize("directions", ["gaussian", "unit"])
def test_the_truth_equals_the_simulation_in_both_conventions(directions):
    head = heads.heads("random", seed=2, count=3)[2]
    mean, error = means_of_draws(head, 300, 9, ["unit", "gaussian"])[directions]
    inputs = (head.alpha, head.norms, head.gram, head.dimension, head.n)
    paper, followup = (
        simulate(*inputs, draws=300, seed=9, directions=directions, convention=convention)
        for convention in ("paper", "followup")
    )
    sources = {name: (paper, name) for name in QUANTITIES}
    sources |= {FOLLOWUP: (followup, "f_outer"), FOLLOWUP_RECALL: (followup, "recall")}
    for name, (seen, of) in sources.items():
        index = AUDITED.index(name)
        np.testing.assert_allclose(mean[index], getattr(seen, of), rtol=1e-12)
        se = getattr(seen, f"{of}_se")
        np.testing.assert_allclose(error[index], se, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_rows_do_not_depend_on_the_number_of_workers():
    serial, parallel = (
        audit(("sharp", "predicted"), draws=40, every=400, workers=workers) for workers in (1, 2)
    )
    for key in serial.rows:
        for name in Rows.__slots__:
            both = (getattr(audited.rows[key], name) for audited in (serial, parallel))
            np.testing.assert_allclose(*both, rtol=1e-12)


def test_an_error_that_the_flag_misses_is_counted(few):
    rows = few.rows["sharp", "recall"]
    wrong = replace(
        rows,
        lower=rows.truth + 0.06 * (np.arange(len(rows.n)) < 3),
        reliable=np.arange(len(rows.n)) != 1,
    )
    found = document.accuracy(replace(few, rows={("predicted", "recall"): wrong}))[0]
    assert (found.large, found.missed, found.distrusted) == (3, 2, 1)
    assert found.worst == pytest.approx(0.06)


@pytest.mark.parametrize("changes", [{"draws": 1}, {"every": 0}, {"workers": 0}, {"count": 0}])
def test_invalid_numbers_are_refused(changes):
    with pytest.raises(InputError, match="expected at least 2 draws"):
        audit(("sharp",), **changes)


def test_a_missing_prediction_counts_as_an_infinite_error(audits):
    rows = audits[1].rows["predicted", "precision"]
    first = np.arange(len(rows.n)) == 0
    wrong = replace(
        rows, lower=np.where(first, np.nan, rows.lower), reliable=rows.reliable & ~first
    )
    audited = replace(audits[1], rows={("predicted", "precision"): wrong})
    (found,) = document.accuracy(audited)
    assert np.isfinite([found.median, found.worst_trusted]).all()
    assert found.worst == np.inf
    assert found.distrusted >= 1
