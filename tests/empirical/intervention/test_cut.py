"""Top-N attention against plain loops in float64, and what it refuses."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
import transformers
from support.cut_loops import logits as by_loops
from support.families import FAMILIES, OTHERS, builtin_model, tiny, tokens

from empirical.errors import InputError
from empirical.intervention import cut as cut_module
from empirical.intervention.cut import MODES, Cut, Mode, cut_output, intervened
from empirical.intervention.largest import largest
from empirical.intervention.loss import logits_of
from empirical.intervention.rules import RANKINGS, SETS, Rows, attention, random, recent
from empirical.sources.builtin_texts import topics
from empirical.sources.windows import windows
from empirical.tap.attention import QUERY_BLOCK, Scoring
from empirical.tap.interface import Attention

RULES = {**RANKINGS, **SETS}
SHAPES = ("llama", "mistral", "gemma2", "gpt_oss")
"""A plain family, one with windows, with soft-caps too, and with learned sinks too."""


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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_all_tokens_kept_is_the_model_itself(family: str, mode: Mode) -> None:
    ids = tokens(2, 150)
    told: list[torch.Tensor] = []  # so that no shorter path is taken where N ≥ T
    for n in (150, [150, 400, 151, 10**6]):
        found = logits(model(family), ids, rule=attention, mode=mode, n=n, on_sizes=told.append)
        assert_close(found, plain(model(family), ids), 2e-5)
    assert_close(
        logits(model(family), ids, rule=attention, mode=mode, n=150),
        plain(model(family), ids),
        2e-5,
    )


@pytest.mark.slow
@pytest.mark.builtin
def test_all_tokens_kept_is_the_built_in_model_itself() -> None:
    found = windows(topics(), builtin_model().tokenizer, length=200, count=1)
    ids = torch.as_tensor(found.token_ids, dtype=torch.long)
    for mode in MODES:
        kept = logits(builtin_model().model, ids, rule=recent, mode=mode, n=[200] * 9)
        assert_close(kept, plain(builtin_model().model, ids), 2e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_a_few_tokens_kept_equal_loops_in_every_family(family: str, mode: Mode) -> None:
    ids = tokens(1, 40)
    expected = by_loops(model(family, double=True), ids, "attention", mode, [3] * 4)
    for double, within in ((True, 1e-9), (False, 2e-5)):
        found = logits(model(family, double=double), ids, rule=attention, mode=mode, n=3)
        assert_close(found, expected, within)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", SHAPES)
def test_every_rule_equals_loops(family: str, rule: str, mode: Mode) -> None:
    # No token twice, for equal values would tie in the first layer, but for rounding.
    ids = 3 + torch.randperm(94, generator=torch.Generator().manual_seed(5))[None, :32]
    n = None if rule in SETS else [1, 2, 5, 40]
    expected = by_loops(model(family, double=True), ids, rule, mode, n)
    found = logits(model(family, double=True), ids, rule=RULES[rule], mode=mode, n=n)
    assert_close(found, expected, 1e-9)


def test_blocks_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, double = tokens(1, 100), model("gemma2", double=True)  # where rounding swaps no tokens
    whole = {rule: logits(double, ids, rule=RULES[rule], mode="deletion", n=4) for rule in RANKINGS}
    monkeypatch.setattr("empirical.tap.attention.QUERY_BLOCK", 9)
    for rule, before in whole.items():
        after = logits(double, ids, rule=RULES[rule], mode="deletion", n=4)
        assert_close(after, before, 1e-9)


def test_padding_changes_nothing() -> None:
    ids, mask = tokens(2, 80), torch.ones(2, 80, dtype=torch.long)
    mask[1, 50:] = 0
    cut = Cut(rule=attention, mode="renormalisation", n=4)
    both = intervened(model("mistral"), ids, lambda layer: cut, mask)
    alone = intervened(model("mistral"), ids[1:, :50], lambda layer: cut)
    assert_close(both[1, :50], alone[0], 2e-5)


def test_layers_and_heads_that_are_not_named_stay_as_they_are() -> None:
    ids = tokens(1, 60)
    own = plain(model("llama"), ids)
    none = intervened(model("llama"), ids, lambda layer: None)
    assert torch.equal(logits_of(model("llama"), none), own)

    def one_head(layer: int) -> Cut | None:
        return Cut(rule=attention, mode="deletion", n=2, heads=[2]) if layer == 1 else None

    found = intervened(model("llama"), ids, one_head)
    assert not torch.equal(logits_of(model("llama"), found), own)
    layer = a_layer()
    by_head = cut_output(layer, Cut(rule=attention, mode="deletion", n=2, heads=[2]))
    by_size = cut_output(layer, Cut(rule=attention, mode="deletion", n=[99, 99, 2, 99]))
    torch.testing.assert_close(by_head, by_size)
    torch.testing.assert_close(by_head[:, :, [0, 1, 3]], layer.output()[:, :, [0, 1, 3]])


def a_layer(*, sinks: bool = False) -> Attention:
    """A random layer of 4 heads that share 2 value heads, 50 positions."""
    chance = torch.Generator().manual_seed(3)
    shape = (1, 2, 50, 8)
    llama = model("llama").model.layers[0].self_attn
    return Attention(
        index=0,
        module=llama,
        query=3 * torch.randn(1, 4, 50, 8, generator=chance),
        key=torch.randn(shape, generator=chance),
        value=torch.randn(shape, generator=chance),
        mask=None,
        scoring=Scoring(8**-0.5, sinks=torch.tensor([8.0, 7.0, 9.0, 8.0]) if sinks else None),
    )


@pytest.mark.parametrize("sinks", [False, True])
def test_the_errors_of_both_modes_are_their_closed_forms(sinks: bool) -> None:
    # o − o_del = (1−M) μ_T and o − o_ren = (1−M)(μ_T − μ_S), M the share of the weights kept, μ the
    # means of kept and dropped values under their own weights (times all the weights, with a sink).
    layer = a_layer(sinks=sinks)
    told: list[Rows] = []

    def rule(rows: Rows) -> torch.Tensor:
        told.append(rows)
        return rows.weights

    outputs = {mode: cut_output(layer, Cut(rule=rule, mode=mode, n=3)) for mode in MODES}
    alpha = told[0].weights[0, :, -1].double()
    values = layer.value[0].repeat_interleave(2, dim=0).double()
    own = (alpha[:, None] @ values)[:, 0]
    for head in range(4):
        kept = alpha[head].argsort(descending=True)[:3]
        dropped = alpha[head].argsort(descending=True)[3:]
        all_weights = alpha[head].sum()
        assert float(all_weights) < 0.999 if sinks else float(all_weights) == pytest.approx(1)
        mass = alpha[head, kept].sum() / all_weights
        mean = {
            name: (alpha[head, which] @ values[head, which]) / alpha[head, which].sum()
            for name, which in (("S", kept), ("T", dropped))
        }
        for mode, expected in (
            ("deletion", (1 - mass) * mean["T"]),
            ("renormalisation", (1 - mass) * (mean["T"] - mean["S"])),
        ):
            error = own[head] - outputs[mode][0, -1, head].double()
            torch.testing.assert_close(error, all_weights * expected, atol=1e-5, rtol=1e-5)


def test_weights_that_vanish_are_weighed_anew_by_their_scores() -> None:
    layer = a_layer()
    layer.query[:] *= 100  # weights of the most recent tokens are 0 in float32
    kept = cut_output(layer, Cut(rule=recent, mode="renormalisation", n=2))
    scores = layer.query[0, 0, -1].double() @ layer.key[0, 0, -2:].double().T * 8**-0.5
    expected = torch.softmax(scores, dim=-1) @ layer.value[0, 0, -2:].double()
    assert not bool(kept.isnan().any())
    torch.testing.assert_close(kept[0, -1, 0].double(), expected, atol=1e-4, rtol=1e-4)


def test_random_sets_are_nested_and_differ_by_query_head_and_draw() -> None:
    layer = a_layer()
    kept: dict[tuple[int, int], torch.Tensor] = {}
    for draw in range(3):
        for n in (2, 7):

            def rule(rows: Rows, draw: int = draw, n: int = n) -> torch.Tensor:
                scores = random(draw)(rows)
                visible = scores.masked_fill(~rows.visible[0], -torch.inf)
                kept[draw, n] = largest(visible, torch.tensor(n))
                return scores

            cut_output(layer, Cut(rule=rule, mode="deletion", n=n))
        assert bool((kept[draw, 2] <= kept[draw, 7]).all())
        assert not torch.equal(kept[draw, 7][0, -1], kept[draw, 7][1, -1])
        assert not torch.equal(kept[draw, 7][0, -1], kept[draw, 7][0, -2])
    assert not torch.equal(kept[0, 7], kept[1, 7])
    share = torch.stack([kept[draw, 7][:, -1] for draw in range(3)]).double().mean(dim=(0, 1))
    assert float(share.sum()) == pytest.approx(7)


def test_the_sizes_that_are_kept_are_told() -> None:
    told: list[torch.Tensor] = []
    ids = tokens(1, QUERY_BLOCK + 20)
    cut = Cut(rule=attention, mode="deletion", n=5, on_sizes=told.append)
    intervened(model("mistral"), ids, lambda layer: cut if layer == 0 else None)
    sizes = torch.cat(told, dim=-1)
    assert sizes.shape == (1, 4, QUERY_BLOCK + 20)
    assert sizes[0, 0, :6].tolist() == [1, 2, 3, 4, 5, 5]
    assert int(sizes.max()) == 5


def test_no_weights_of_all_queries_ever_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[int] = []
    monkeypatch.setattr(
        cut_module,
        "largest",
        lambda scores, *given: (shapes.append(scores.numel()), largest(scores, *given))[1],
    )
    logits(model("llama"), tokens(1, 500), rule=attention, mode="deletion", n=4)
    assert max(shapes) <= 4 * QUERY_BLOCK * 500


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        ({"n": 0}, "n 0: expected whole numbers of at least 1"),
        ({"n": [1, 2]}, "one or one for each of 4 heads"),
        ({"n": 1.5}, "expected whole numbers"),
        ({"n": None}, "expected a number of tokens for a ranking rule"),
        ({"n": 1, "heads": [4]}, "layer 0 has heads 0 to 3"),
        ({"n": 1, "mode": "mask"}, "expected deletion or renormalisation"),
    ],
)
def test_bad_cuts_are_refused(cut: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        logits(model("llama"), tokens(1, 30), **{"rule": attention, "mode": "deletion"} | cut)


def test_the_implementation_is_put_back_after_an_error() -> None:
    llama = copy.deepcopy(model("llama"))
    with pytest.raises(InputError):
        logits(llama, tokens(1, 30), rule=attention, mode="deletion", n=0)
    assert llama.config._attn_implementation == "sdpa"
