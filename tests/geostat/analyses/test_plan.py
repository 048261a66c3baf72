"""Designs of larger runs: a planted nested model whose components and formula are known."""

import numpy as np
import pytest
from scipy.stats import t

from geostat.analyses.kinds_of_text import OneWay, rows_of
from geostat.analyses.plan import Components, arms, components

OF_KINDS = np.array([3.0, -1.0, -4.0, 2.0])
"""Planted effects of kinds, sum 0."""
KINDS = np.repeat(range(4), 2)
QUERIES = 5


def planted(*, of_document: float = 1.0, of_query: float = 2.0) -> Components:
    """Return the components of four kinds of two documents, which lie at ± of_document."""
    values = OF_KINDS[KINDS] + of_document * np.tile([1.0, -1.0], 4)
    return components(OneWay(rows_of(values[None])[0], KINDS), np.full(8, of_query), QUERIES)


def test_components_are_those_of_the_mean_squares():
    found = planted()
    between, within = 2 * (OF_KINDS**2).sum() / 3, 2.0  # mean squares by hand
    assert found.between_kinds[0] == pytest.approx((between - within) / 2)
    assert found.between_documents[0] == pytest.approx(within - 2.0 / QUERIES)
    assert found.between_queries[0] == 2.0
    # The run's own design has the error of the mean over kinds.
    assert found.of_run().value == pytest.approx(np.sqrt(between / 8))


def test_the_error_of_a_design_is_the_formula_of_nested_effects():
    found = planted()
    a, b, c = found.between_kinds[0], found.between_documents[0], 2.0
    expected = np.sqrt(a / 7 + b / 21 + c / (21 * 9))
    assert found.error(7, 21, 9).value == pytest.approx(expected)
    # Twice the kinds with twice the documents halves the variance, whatever its components.
    assert found.error(8, 16, QUERIES).value == pytest.approx(found.of_run().value / np.sqrt(2))


@pytest.mark.parametrize("per_kind", [1, 3])
@pytest.mark.parametrize("power", [0.5, 0.8])
def test_the_fewest_kinds_reach_the_width_and_one_less_does_not(per_kind, power):
    found = planted()
    width = np.array([0.4, 2.0])

    def reached(kinds: np.ndarray) -> np.ndarray:
        quantiles = t.ppf(0.975, kinds - 1) + t.ppf(power, kinds - 1)
        errors = [found.error(kind, kind * per_kind, QUERIES).value for kind in kinds]
        return np.asarray(quantiles * errors <= width)

    needed = found.fewest(width, per_kind, QUERIES, power)
    assert reached(needed).all()
    assert not reached(needed - 1).any()
    assert found.fewest(1e-9, per_kind, QUERIES) == np.inf


def test_more_documents_of_the_same_kinds_reach_only_what_kinds_allow():
    found = planted(of_document=1.5)
    floor = float(arms(4) * np.sqrt(found.between_kinds[0] / 4))
    width = 1.2 * floor
    each = float(found.more_documents(width, QUERIES))
    assert arms(4) * found.error(4, 4 * each, QUERIES).value <= width
    assert arms(4) * found.error(4, 4 * (each - 1), QUERIES).value > width
    assert found.more_documents(0.99 * floor, QUERIES) == np.inf


def test_one_kind_is_a_sample_of_documents_and_kinds_of_one_document_are_kinds():
    values = np.array([[1.0, 2.0, 4.0, 9.0]])
    for kinds, units in ((np.zeros(4, dtype=int), "documents"), (np.arange(4), "kinds")):
        found = components(OneWay(rows_of(values)[0], kinds), np.zeros(4), 1)
        parts = {"kinds": found.between_kinds[0], "documents": found.between_documents[0]}
        assert parts.pop(units) == pytest.approx(values.var(ddof=1))
        assert list(parts.values()) == [0.0]
        assert found.sampled(found.kinds, found.documents) == 4
        assert found.of_run().value == pytest.approx(values.std(ddof=1) / 2)


def test_a_planned_width_is_the_width_of_a_run_of_that_size():
    random, heads = np.random.default_rng(0), 400

    def run(kinds: int) -> Components:
        number = np.repeat(range(kinds), 2)
        values = random.normal(size=(heads, kinds))[:, number] * 1.5
        queries = values[:, :, None] + random.normal(size=(heads, 2 * kinds, QUERIES))
        means = queries.mean(axis=-1) + random.normal(size=values.shape) * 0.7
        by_query = queries.var(axis=-1, ddof=1).mean(axis=0)
        return components(OneWay(rows_of(means)[0], number), by_query, QUERIES)

    small, large = run(8), run(24)
    expected = np.sqrt(1.5**2 / 24 + 0.7**2 / 48 + 1 / (48 * QUERIES))
    # Standard error of the planned value: 0.012 (400 heads, 7 degrees of freedom each).
    assert small.error(24, 48, QUERIES).value == pytest.approx(expected, rel=0.04)
    assert large.of_run().value == pytest.approx(expected, rel=0.04)


@pytest.mark.slow
@pytest.mark.parametrize(("kinds", "per_kind"), [(4, 2), (8, 2), (8, 1)])
@pytest.mark.parametrize("common", [0.0, 0.5, 0.9])
def test_intervals_cover_the_error_and_the_mean_of_a_head(kinds: int, per_kind: int, common: float):
    random, heads, runs = np.random.default_rng(1), 60, 300

    def effects(*shape: int) -> np.ndarray:
        """Return effects of heads that share a factor, (head, ...)."""
        shared, own = random.normal(size=(1, *shape)), random.normal(size=(heads, *shape))
        return np.sqrt(common) * shared + np.sqrt(1 - common) * own

    number = np.repeat(range(kinds), per_kind)
    true = np.sqrt((0.7 + 0.3 / per_kind) / kinds)
    of_error, of_mean = [], []
    for _ in range(runs):
        values = np.sqrt(0.7) * effects(kinds)[:, number] + np.sqrt(0.3) * effects(len(number))
        found = components(OneWay(rows_of(values)[0], number), np.zeros(len(number)), 1).of_run()
        of_error.append(found.lower <= true <= found.upper)
        head = components(OneWay(rows_of(values[:1])[0], number), np.zeros(len(number)), 1)
        of_mean.append(abs(values[0].mean()) <= arms(kinds) * head.of_run().value)
    noise = 3 * np.sqrt(0.95 * 0.05 / runs)
    assert 0.86 - noise < np.mean(of_error) < 0.97 + noise
    assert np.mean(of_mean) > 0.94 - noise  # more where a component is cut to 0


@pytest.mark.parametrize("distance", [0.3, 1.0])
@pytest.mark.parametrize("power", [0.8, 0.9])
def test_a_planned_head_is_decided_with_the_wanted_power(distance: float, power: float):
    runs, alone = 4000, planted(of_document=1.0, of_query=0.0)
    scale = np.sqrt(alone.variance(1, 1, 1)[0])
    size = int(alone.fewest(distance * scale, 1, 1, power))
    sample = np.random.default_rng(2).normal(distance, 1, (runs, size))
    decided = sample.mean(axis=1) > arms(size) * sample.std(axis=1, ddof=1) / np.sqrt(size)
    assert decided.mean() == pytest.approx(power, abs=0.02 + 3 * np.sqrt(0.16 / runs))
