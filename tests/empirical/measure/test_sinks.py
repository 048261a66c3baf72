"""Functional sinks: planted ones are found where they stand; a token that is only short, or only
much attended, is none.
"""

from dataclasses import replace

import numpy as np
import pytest
from support import loops

from empirical.measure.queries import Row
from empirical.measure.sinks import COMPRESSED, EPSILON, MUCH, SINKS, find_sinks

TOKENS, HEADS, KV_HEADS, DIMENSION, QUERIES, AT = 400, 4, 2, 8, 5, 300


def layer(
    *, window: int = TOKENS, short: float = 0.2, weight: float = 0.2
) -> tuple[list[Row], np.ndarray]:
    """Rows and values of one layer: at position AT stands a token of `short` times the norm of the
    others, which are of one norm, and of this `weight`; the other weights are even.
    """
    values = np.random.default_rng(0).normal(size=(KV_HEADS, TOKENS, DIMENSION))
    values *= 3 / np.linalg.norm(values, axis=-1, keepdims=True)
    values[:, AT] *= short
    rows = []
    for position in range(TOKENS - QUERIES, TOKENS):
        first = max(0, position + 1 - window)
        seen = position + 1 - first
        alpha = np.full((HEADS, seen), (1 - weight) / (seen - 1))
        if first <= AT:
            alpha[:, AT - first] = weight
        rows.append(Row(position=position, first=first, alpha=alpha.astype(np.float32)))
    return rows, values.astype(np.float32)


def counts(rows: list[Row], values: np.ndarray, name: str = "sink_count") -> list[int]:
    return find_sinks(rows, values)[name].tolist()


@pytest.mark.parametrize("window", [TOKENS, 150])
def test_a_planted_sink_is_found_at_its_position(window):
    rows, values = layer(window=window)
    found = find_sinks(rows, values)
    assert {name: found[name].dtype for name in found} == {
        name: row.dtype for name, row in SINKS.items()
    }
    assert found["sink_position"].tolist() == [AT] * HEADS
    assert found["sink_count"].tolist() == [1] * HEADS
    assert found["sink_count_epsilon"].tolist() == [0] * HEADS
    for name in ("sink_weight", "sink_strongest_weight", "sink_norm_ratio"):
        np.testing.assert_allclose(found[name], 0.2, rtol=1e-5, err_msg=name)
    for head in range(HEADS):
        states = values[head // 2].astype(float)
        others = np.delete(states, AT, axis=0)[TOKENS - window :]
        cosines = [loops.cosine(states[AT], state) for state in others]
        assert found["sink_cosine"][head] == pytest.approx(np.mean(cosines), abs=1e-6)


@pytest.mark.parametrize(
    ("short", "weight"),
    [(0.2, 0.9 * MUCH / TOKENS), (COMPRESSED + 0.01, 0.4)],
    ids=["short but hardly attended", "much attended but not short"],
)
def test_a_sink_needs_both_norm_and_weight(short, weight):
    found = find_sinks(*layer(short=short, weight=weight))
    expected = {"sink_count": 0, "sink_count_epsilon": 0, "sink_position": -1, "sink_weight": 0.0}
    for name, value in expected.items():
        assert found[name].tolist() == [value] * HEADS, name
    for name in ("sink_strongest_weight", "sink_norm_ratio", "sink_cosine"):
        assert np.isnan(found[name]).all(), name


def test_both_thresholds_are_inclusive():
    at_both = layer(short=COMPRESSED - 1e-4, weight=MUCH / TOKENS + 1e-6)
    assert counts(*at_both) == [1] * HEADS
    assert counts(*layer(weight=EPSILON + 1e-6), "sink_count_epsilon") == [1] * HEADS


def test_position_0_may_be_a_sink_and_is_no_content():
    rows, values = layer()
    values[:, 0] *= 0.1
    for row in rows:
        row.alpha[:2] *= 0.5  # two heads of four
        row.alpha[:2, 0] += 0.5
    found = find_sinks(rows, values)
    assert found["sink_position"].tolist() == [0, 0, AT, AT]
    assert found["sink_count"].tolist() == [2, 2, 1, 1]
    np.testing.assert_allclose(found["sink_weight"][:2], 0.6 + 0.4 / (TOKENS - 3), atol=2e-4)
    np.testing.assert_allclose(found["sink_norm_ratio"], [0.1, 0.1, 0.2, 0.2], rtol=1e-5)
    even = Row(position=2, first=0, alpha=np.full((2, 3), 1 / 3))
    assert counts([even], values[:, :3]) == [0, 0]  # no weight reaches ten times 1/3
    median_of_content = values[:, [0, 1, 1]] * np.array([1.0, 0.2, 2.0])[:, None]
    first = Row(position=2, first=0, alpha=np.array([[1.0, 0, 0]] * 2))
    assert counts([first], median_of_content) == [0, 0]


def test_a_token_counts_over_the_queries_that_see_it():
    rows, values = layer(weight=0.0)
    values[:, TOKENS - 2] *= 0.3
    for row in rows[-2:]:
        row.alpha[:, TOKENS - 2] = 0.1 * (1 + row.position - rows[-2].position)
    found = find_sinks(rows, values)
    assert found["sink_position"].tolist() == [TOKENS - 2] * HEADS
    np.testing.assert_allclose(found["sink_strongest_weight"], 0.15, rtol=1e-6)
    np.testing.assert_allclose(found["sink_weight"], 0.3 / QUERIES, rtol=1e-6)


def test_tokens_invisible_to_the_last_query_are_excluded():
    rows, values = layer(window=TOKENS - AT - 1)  # the last query no longer sees AT
    assert rows[-1].first == AT + 1
    assert rows[0].first < AT
    assert counts(rows, values) == [0] * HEADS
    early = replace(rows[0], position=AT - 5, first=0, alpha=np.full((HEADS, AT - 4), 0.1))
    assert counts([early, *rows], values) == [0] * HEADS


def test_vectors_of_no_length_are_short_and_have_no_cosine():
    found = find_sinks(*layer(short=0.0))
    assert found["sink_position"].tolist() == [AT] * HEADS
    assert found["sink_norm_ratio"].tolist() == [0.0] * HEADS
    assert np.isnan(found["sink_cosine"]).all()
    rows, values = layer()
    assert counts(rows, 0 * values) == [0] * HEADS
