"""Top-N attention against plain loops in float64, the N largest, and refusals."""

import copy
import functools
from itertools import product
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from support.cut_loops import logits as by_loops
from support.families import FAMILIES, OTHERS, tiny, tokens

from empirical.errors import InputError
from empirical.intervention import cut as cut_module
from empirical.intervention.cut import MODES, Cut, cut_output, intervened, largest
from empirical.intervention.loss import logits_of
from empirical.intervention.rules import RANKINGS, SETS, attention, random, recent
from empirical.tap.attention import QUERY_BLOCK, Scoring
from empirical.tap.interface import Attention

RULES = {**RANKINGS, **SETS}
SHAPES = ("gemma2", "gpt_oss")
"""Families with windows: one with soft-caps, one with learned sinks."""


@functools.cache
def model(family: str, *, double: bool = False) -> transformers.PreTrainedModel:
    made = tiny(family)
    if not double:
        return made
    made.config._experts_implementation = "eager"  # the grouped product knows no float64
    return made.double()


def logits(which: transformers.PreTrainedModel, ids: torch.Tensor, **cut: Any) -> torch.Tensor:
    return logits_of(which, intervened(which, ids, lambda layer: Cut(**cut)))


def plain(which: transformers.PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return which(input_ids=ids, use_cache=False).logits


def assert_close(found: torch.Tensor, expected: torch.Tensor, within: float) -> None:
    assert float((found - expected).abs().max() / expected.abs().max()) <= within


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_keeping_all_tokens_is_the_unmodified_model(family):
    ids, own = tokens(2, 150), plain(model(family), tokens(2, 150))
    for mode, n in zip(MODES, (150, [150, 400, 151, 10**6]), strict=True):
        # Sizes are reported, so that no shorter path is taken where N ≥ T.
        every = logits(model(family), ids, rule=attention, mode=mode, n=n, on_sizes=[].append)
        assert_close(every, own, 2e-5)
    assert_close(logits(model(family), ids, rule=attention, mode=mode, n=150), own, 2e-5)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_top_n_attention_equals_plain_loops_in_every_family(family):
    ids, mode = tokens(1, 40), "renormalisation"
    expected = by_loops(model(family, double=True), ids, "attention", mode, [3] * 4)
    for double, within in ((True, 1e-9), (False, 2e-5)):
        found = logits(model(family, double=double), ids, rule=attention, mode=mode, n=3)
        assert_close(found, expected, within)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", SHAPES)
def test_every_rule_equals_plain_loops(family, rule, mode):
    # No token twice, for equal values would tie in the first layer, but for rounding.
    ids = 3 + torch.randperm(94, generator=torch.Generator().manual_seed(5))[None, :32]
    n = None if rule in SETS else [1, 2, 5, 40]
    expected = by_loops(model(family, double=True), ids, rule, mode, n)
    found = logits(model(family, double=True), ids, rule=RULES[rule], mode=mode, n=n)
    assert_close(found, expected, 1e-9)


def test_blocks_of_queries_change_nothing(monkeypatch):
    ids, double = tokens(1, 40), model("gemma2", double=True)  # where rounding swaps no tokens
    whole = {rule: logits(double, ids, rule=RULES[rule], mode="deletion", n=4) for rule in RANKINGS}
    monkeypatch.setattr("empirical.tap.attention.QUERY_BLOCK", 9)
    for rule, before in whole.items():
        after = logits(double, ids, rule=RULES[rule], mode="deletion", n=4)
        assert_close(after, before, 1e-9)


def test_padding_changes_nothing():
    ids, mask = tokens(2, 80), torch.ones(2, 80, dtype=torch.long)
    mask[1, 50:] = 0
    cut = Cut(rule=attention, mode="renormalisation", n=4)
    both = intervened(model("mistral"), ids, lambda layer: cut, mask)
    alone = intervened(model("mistral"), ids[1:, :50], lambda layer: cut)
    assert_close(both[1, :50], alone[0], 2e-5)


def test_other_layers_and_heads_are_unchanged():
    ids = tokens(1, 60)
    own, one_head = plain(model("llama"), ids), Cut(rule=attention, mode="deletion", n=2, heads=[2])
    none, some = (intervened(model("llama"), ids, cuts.get) for cuts in ({}, {1: one_head}))
    assert torch.equal(logits_of(model("llama"), none), own)
    assert not torch.equal(logits_of(model("llama"), some), own)
    layer = a_layer()
    by_head = cut_output(layer, one_head)
    by_size = cut_output(layer, Cut(rule=attention, mode="deletion", n=[99, 99, 2, 99]))
    torch.testing.assert_close(by_head, by_size)
    torch.testing.assert_close(by_head[:, :, [0, 1, 3]], layer.output()[:, :, [0, 1, 3]])


def a_layer() -> Attention:
    """A random layer of 4 heads that share 2 KV heads, 50 positions."""
    chance = torch.Generator().manual_seed(3)
    shape = (1, 2, 50, 8)
    return Attention(
        index=0,
        module=model("llama").model.layers[0].self_attn,
        query=3 * torch.randn(1, 4, 50, 8, generator=chance),
        key=torch.randn(shape, generator=chance),
        value=torch.randn(shape, generator=chance),
        mask=None,
        scoring=Scoring(8**-0.5),
    )


def test_vanishing_weights_are_renormalised_from_their_scores():
    layer = a_layer()
    layer.query[:] *= 100  # weights of the most recent tokens are 0 in float32
    kept = cut_output(layer, Cut(rule=recent, mode="renormalisation", n=2))
    scores = layer.query[0, 0, -1].double() @ layer.key[0, 0, -2:].double().T * 8**-0.5
    expected = torch.softmax(scores, dim=-1) @ layer.value[0, 0, -2:].double()
    assert not bool(kept.isnan().any())
    torch.testing.assert_close(kept[0, -1, 0].double(), expected, atol=1e-4, rtol=1e-4)


def test_random_sets_are_nested_and_differ_by_query_head_and_draw():
    layer = a_layer()
    kept: dict[tuple[int, int], torch.Tensor] = {}
    for draw, n in product(range(3), (2, 7)):

        def rule(rows, draw=draw, n=n):
            scores = random(draw)(rows)
            visible = scores.masked_fill(~rows.visible[0], -torch.inf)
            kept[draw, n] = largest(visible, torch.tensor(n))
            return scores

        cut_output(layer, Cut(rule=rule, mode="deletion", n=n))
    for draw in range(3):
        assert bool((kept[draw, 2] <= kept[draw, 7]).all())
        assert not torch.equal(kept[draw, 7][0, -1], kept[draw, 7][1, -1])
        assert not torch.equal(kept[draw, 7][0, -1], kept[draw, 7][0, -2])
    assert not torch.equal(kept[0, 7], kept[1, 7])
    share = torch.stack([kept[draw, 7][:, -1] for draw in range(3)]).double().mean(dim=(0, 1))
    assert float(share.sum()) == pytest.approx(7)


def test_numbers_of_kept_tokens_are_reported():
    received: list[torch.Tensor] = []
    ids = tokens(1, QUERY_BLOCK + 20)
    cut = Cut(rule=attention, mode="deletion", n=5, on_sizes=received.append)
    intervened(model("mistral"), ids, lambda layer: cut if layer == 0 else None)
    sizes = torch.cat(received, dim=-1)
    assert sizes.shape == (1, 4, QUERY_BLOCK + 20)
    assert sizes[0, 0, :6].tolist() == [1, 2, 3, 4, 5, 5]
    assert int(sizes.max()) == 5


def test_no_weights_of_all_queries_ever_exist(monkeypatch):
    sizes: list[int] = []

    def counted(scores, *given):
        sizes.append(scores.numel())
        return largest(scores, *given)

    monkeypatch.setattr(cut_module, "largest", counted)
    logits(model("llama"), tokens(1, 500), rule=attention, mode="deletion", n=4)
    assert max(sizes) <= 4 * QUERY_BLOCK * 500


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        ({"n": 0}, "n 0: expected integers of at least 1"),
        ({"n": [1, 2]}, "one number or one for each of 4 heads"),
        ({"n": 1.5}, "expected integers"),
        ({"n": None}, "expected a number of tokens for a ranking rule"),
        ({"n": 1, "heads": [4]}, "layer 0 has heads 0 to 3"),
        ({"n": 1, "mode": "mask"}, "expected deletion or renormalisation"),
    ],
)
def test_a_bad_cut_is_refused_and_the_implementation_restored(cut, said):
    llama = copy.deepcopy(model("llama"))
    with pytest.raises(InputError, match=said):
        logits(llama, tokens(1, 30), **{"rule": attention, "mode": "deletion"} | cut)
    assert llama.config._attn_implementation == "sdpa"


SCORES = st.sampled_from([0.0, -0.0, 1e-40, 0.5, 1.0, 7.5, -0.5, -7.5, torch.inf, -torch.inf])


def by_sort(scores: list[float], n: int, visible: list[bool]) -> list[bool]:
    """Ties lower index first."""
    score = [own if seen else -torch.inf for own, seen in zip(scores, visible, strict=True)]
    order = sorted(range(len(score)), key=lambda j: (-score[j], j))[:n]
    return [j in order and visible[j] for j in range(len(score))]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@given(
    rows=st.integers(1, 12).flatmap(
        lambda count: st.lists(
            st.lists(st.tuples(SCORES, st.booleans()), min_size=count, max_size=count),
            min_size=1,
            max_size=6,
        )
    ),
    sizes=st.lists(st.integers(1, 14), min_size=6, max_size=6),
)
def test_the_n_largest_match_a_sort(kind, rows, sizes):
    scores = torch.tensor([[own for own, _ in row] for row in rows], dtype=kind)
    visible = torch.tensor([[seen for _, seen in row] for row in rows])
    sizes = sizes[: len(rows)]
    one, all_seen = torch.tensor(sizes[0]), torch.ones_like(visible)
    for n, seen in ((one, visible), (one, None), (torch.tensor(sizes), visible)):
        mask = all_seen if seen is None else seen
        expected = [
            by_sort(row, size, own)
            for row, size, own in zip(
                scores.tolist(), n.expand(len(rows)).tolist(), mask.tolist(), strict=True
            )
        ]
        assert largest(scores, n, seen).tolist() == expected
