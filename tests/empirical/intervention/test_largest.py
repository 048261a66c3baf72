"""The N largest of a row, compiled and by topk, against a sort."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from empirical.intervention.largest import largest

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
def test_the_largest_are_those_of_a_sort(
    kind: torch.dtype, rows: list[list[tuple[float, bool]]], sizes: list[int]
) -> None:
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


def test_sizes_and_what_is_visible_are_laid_beside_the_scores() -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.rand(2, 3, 40, 70, generator=generator)
    n = torch.tensor([[1], [9], [100]])
    visible = torch.ones(1, 1, 40, 70, dtype=torch.bool).tril(30)
    for kind in (torch.float32, torch.float64):
        kept = largest(scores.to(kind), n, visible)
        for head, size in enumerate((1, 9, 100)):
            for query in (0, 25, 39):
                for document in (0, 1):
                    row = scores[document, head, query].tolist()
                    seen = visible[0, 0, query].tolist()
                    assert kept[document, head, query].tolist() == by_sort(row, size, seen)
