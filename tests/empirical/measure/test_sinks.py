"""Sinks by function: planted ones are found where they stand, with what they are; tokens that are
only short, or only much attended, are none.
"""

from dataclasses import replace

import numpy as np
import pytest

from empirical.measure.queries import Row
from empirical.measure.sinks import COMPRESSED, EPSILON, MUCH, SINKS, find_sinks

TOKENS, HEADS, KV_HEADS, DIMENSION, QUERIES, AT = 400, 4, 2, 8, 5, 300


def layer(
    *, window: int = TOKENS, short: float = 0.2, weight: float = 0.2, seed: int = 0
) -> tuple[list[Row], np.ndarray]:
    """Rows and values of one layer: at position AT stands a token of `short` times the norm of the
    others, which are of one norm, and of this `weight`; the other weights are even.
    """
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(KV_HEADS, TOKENS, DIMENSION))
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


@pytest.mark.parametrize("window", [TOKENS, 150])
def test_a_planted_sink_is_found_where_it_stands(window: int) -> None:
    rows, values = layer(window=window)
    found = find_sinks(rows, values)
    assert set(found) == set(SINKS)
    assert all(found[name].dtype == SINKS[name].dtype for name in SINKS)
    assert found["sink_position"].tolist() == [AT] * HEADS
    assert found["sink_count"].tolist() == [1] * HEADS
    assert found["sink_count_epsilon"].tolist() == [0] * HEADS
    for name in ("sink_weight", "sink_strongest_weight", "sink_norm_ratio"):
        np.testing.assert_allclose(found[name], 0.2, rtol=1e-5, err_msg=name)
    seen = values[:, TOKENS - window :].astype(float)
    at = AT - (TOKENS - window)
    for head in range(HEADS):
        own = seen[head // 2]
        cosines = [
            own[at] @ own[j] / np.linalg.norm(own[at]) / np.linalg.norm(own[j])
            for j in range(window)
            if j != at
        ]
        assert found["sink_cosine"][head] == pytest.approx(np.mean(cosines), abs=1e-6)


@pytest.mark.parametrize(
    ("short", "weight"),
    [(0.2, 0.9 * MUCH / TOKENS), (COMPRESSED + 0.01, 0.4)],
    ids=["short but hardly attended", "much attended but not short"],
)
def test_a_token_needs_both(short: float, weight: float) -> None:
    found = find_sinks(*layer(short=short, weight=weight))
    assert found["sink_count"].tolist() == found["sink_count_epsilon"].tolist() == [0] * HEADS
    assert found["sink_position"].tolist() == [-1] * HEADS
    assert found["sink_weight"].tolist() == [0.0] * HEADS
    for name in ("sink_strongest_weight", "sink_norm_ratio", "sink_cosine"):
        assert np.isnan(found[name]).all(), name


def test_both_limits_belong_to_a_sink() -> None:
    found = find_sinks(*layer(short=COMPRESSED - 1e-4, weight=MUCH / TOKENS + 1e-6))
    assert found["sink_count"].tolist() == [1] * HEADS
    assert find_sinks(*layer(weight=EPSILON + 1e-6))["sink_count_epsilon"].tolist() == [1] * HEADS


def test_position_0_is_one_like_any_other_and_no_content() -> None:
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
    two = find_sinks([Row(position=2, first=0, alpha=np.full((2, 3), 1 / 3))], values[:, :3])
    assert two["sink_count"].tolist() == [0, 0]  # no weight reaches ten times 1/3
    median_of_content = values[:, [0, 1, 1]] * np.array([1.0, 0.2, 2.0])[:, None]
    last = [Row(position=2, first=0, alpha=np.array([[1.0, 0, 0]] * 2))]
    assert find_sinks(last, median_of_content)["sink_count"].tolist() == [0, 0]


def test_a_token_counts_over_the_queries_that_see_it() -> None:
    rows, values = layer(weight=0.0)
    values[:, TOKENS - 2] *= 0.3
    for row in rows[-2:]:
        row.alpha[:, TOKENS - 2] = 0.1 * (1 + row.position - rows[-2].position)
    found = find_sinks(rows, values)
    assert found["sink_position"].tolist() == [TOKENS - 2] * HEADS
    np.testing.assert_allclose(found["sink_strongest_weight"], 0.15, rtol=1e-6)
    np.testing.assert_allclose(found["sink_weight"], 0.3 / QUERIES, rtol=1e-6)


def test_tokens_that_only_earlier_queries_see_are_left_out() -> None:
    rows, values = layer(window=TOKENS - AT - 1)  # the last query no longer sees AT
    assert rows[-1].first == AT + 1
    assert rows[0].first < AT
    assert find_sinks(rows, values)["sink_count"].tolist() == [0] * HEADS
    early = replace(rows[0], position=AT - 5, first=0, alpha=np.full((HEADS, AT - 4), 0.1))
    assert find_sinks([early, *rows], values)["sink_count"].tolist() == [0] * HEADS


def test_vectors_of_no_length_are_short_and_have_no_cosine() -> None:
    found = find_sinks(*layer(short=0.0))
    assert found["sink_position"].tolist() == [AT] * HEADS
    assert found["sink_norm_ratio"].tolist() == [0.0] * HEADS
    assert np.isnan(found["sink_cosine"]).all()
    rows, values = layer()
    assert find_sinks(rows, 0 * values)["sink_count"].tolist() == [0] * HEADS
