"""Weights and values by rank, against loops over pairs in float64."""

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pytest
import torch
from support import loops
from support.devices import DEVICES

from empirical.measure.device import ranks as device_ranks
from empirical.measure.queries import Row
from empirical.measure.ranks import MOST_SINKS, TOP, measure_layer, octaves, ranks, sampled
from empirical.schema import RANKS

TOKENS, HEADS, KV_HEADS, DIMENSION = 150, 4, 2, 8
SINKS = (0, 60)


def a_layer(window: int = TOKENS) -> tuple[list[Row], np.ndarray, np.ndarray]:
    """Six queries; two short tokens with much weight; ids of 40 kinds."""
    draw = np.random.default_rng(5)
    values = draw.normal(size=(KV_HEADS, TOKENS, DIMENSION)) + 0.5
    values[:, SINKS] *= 0.05
    rows = []
    for position in (40, 70, 100, 120, 148, 149):
        first = max(0, position + 1 - window)
        score = draw.normal(size=(HEADS, position + 1 - first))
        for sink in SINKS:
            if first <= sink <= position:
                score[:, sink - first] = 5
        alpha = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
        rows.append(Row(position=position, first=first, alpha=alpha.astype(np.float32)))
    return rows, values.astype(np.float32), draw.integers(40, size=TOKENS)


def octave(rank: int) -> int:
    return int(np.log2(rank))


def expected(rows, values, ids, head: int) -> dict:
    """The variables of one head by loops over pairs; means by key."""
    v, mean = values[head // 2].astype(float), defaultdict(list)
    repeats, counts = Counter(), Counter()
    for query, row in enumerate(rows):
        order = sorted(
            range(row.first, row.position + 1), key=lambda i: -row.alpha[head, i - row.first]
        )
        content = [token for token in order if token not in SINKS]
        weight = {token: float(row.alpha[head, token - row.first]) for token in order}
        for rank in ranks(TOKENS):
            if rank <= len(content):
                mean["log_weight", query, rank] = [np.log(weight[content[rank - 1]])]
        for place, token in enumerate([token for token in order if token in SINKS]):
            mean["sink_log_weight", query, place] = [np.log(weight[token])]
        counts["content_tokens", query] = len(content)
        if query not in sampled(len(rows)):
            continue
        rank = {token: place + 1 for place, token in enumerate(content)}
        members = defaultdict(list)
        for token in content:
            o = octave(rank[token])
            members[o].append(v[token])
            mean["octave_square", o].append(v[token] @ v[token])
            above = [other for other in content[: rank[token] - 1] if ids[other] == ids[token]]
            if above:
                repeats["octave_repeats", o, octave(rank[above[0]])] += 1
        for one, two in combinations(content, 2):
            product, a, b = v[one] @ v[two], octave(rank[one]), octave(rank[two])
            if ids[one] == ids[two]:
                mean["equal_product",].append(product)
                mean["equal_square",].append((v[one] @ v[one] + v[two] @ v[two]) / 2)
                continue
            mean["octave_product", a, b].append(product)
            mean["octave_product", b, a].append(product)
            reached = {*ranks(TOKENS).tolist(), len(content)}
            if rank[one] in reached and rank[two] in reached:
                lag = octave(abs(one - two))
                mean["lag_cosine", b, lag].append(loops.cosine(v[one], v[two]))
        beyond = [(x - np.mean(members[o], axis=0)) for o in members if o > 4 for x in members[o]]
        if freedom := len(beyond) - sum(o > 4 for o in members):
            w = sum(np.outer(z, z) for z in beyond)
            s = sum(weight[token] * v[token] for token in content[:TOP])
            m = np.mean([v[token] for token in content], axis=0)
            mean["residual_square",].append(np.trace(w) / freedom)
            mean["residual_along_s",].append(s @ w @ s / (s @ s * np.trace(w)))
            mean["residual_along_mean",].append(m @ w @ m / (m @ m * np.trace(w)))
            if row is rows[-1]:
                mean["residual_concentration",] = [np.trace(w @ w) / np.trace(w) ** 2]
        if row is rows[-1] and (seen := [token for token in content if token in order]):
            found = [token for token in SINKS if token >= row.first]
            if found:
                each = [np.mean([loops.cosine(v[i], v[s]) for s in found]) for i in seen]
                mean["class_square",] = [np.mean([v[s] @ v[s] for s in found])]
                mean["class_cosine",], mean["class_cosine_sd",] = [np.mean(each)], [np.std(each)]
            counts["sink_first",] = int(0 in found)
    out = {key: np.mean(found) for key, found in mean.items()} | dict(repeats) | dict(counts)
    names = {"octave_square": "octave_tokens", "octave_product": "octave_pairs"}
    names |= {"lag_cosine": "lag_pairs", "equal_product": "equal_pairs"}
    return out | {(names[key[0]], *key[1:]): len(mean[key]) for key in mean if key[0] in names}


def laid_out(of_head: dict) -> dict[str, np.ndarray]:
    count, sizes = octaves(TOKENS), {"rank": len(ranks(TOKENS)), "query": 6, "sink": MOST_SINKS}
    out = {}
    for name, row in RANKS.items():
        shape = tuple(sizes.get(dim, count) for dim in row.dims[2:])
        out[name] = np.full(shape, row.fill, row.dtype)
        for key in of_head:
            if key[0] == name:
                place = key[1:]
                if name == "log_weight":
                    place = (key[1], int(np.searchsorted(ranks(TOKENS), key[2])))
                out[name][place] = of_head[key]
    return out


def as_arrays(measured: dict) -> dict[str, np.ndarray]:
    return {name: np.asarray(torch.as_tensor(array).cpu()) for name, array in measured.items()}


@pytest.mark.parametrize("where", ["reference", *DEVICES])
@pytest.mark.parametrize("window", [TOKENS, 80])
def test_every_variable_equals_a_loop_over_pairs(window, where):
    rows, values, ids = a_layer(window)
    if where == "reference":
        found = measure_layer(rows, values, ids)
    else:
        moved = [
            Row(position=row.position, first=row.first, alpha=torch.tensor(row.alpha).to(where))
            for row in rows
        ]
        measured = device_ranks.measure_layer(
            moved, torch.tensor(values).to(where), ids, budget=1 << 16
        )
        found = as_arrays(measured)
    assert {name: array.dtype for name, array in found.items()} == {
        name: row.dtype for name, row in RANKS.items()
    }
    for head in range(HEADS):
        for name, array in laid_out(expected(rows, values, ids, head)).items():
            actual = found[name][head]
            if name == "log_weight":  # the last rank reached is that of the last content token
                actual = np.where(np.isnan(array), np.nan, actual)
            np.testing.assert_allclose(actual, array, rtol=2e-4, atol=2e-5, err_msg=name)
