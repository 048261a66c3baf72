"""Which form has clearly the lowest loss on documents left out."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from geostat.statistics.one_standard_error import choose

DOCUMENTS, HEADS = 8, 4000
PARAMETERS = np.array([1, 2, 3])


def chosen(loss):
    return choose(loss, np.zeros((loss.shape[0], loss.shape[2])), PARAMETERS[: loss.shape[0]])


def test_clearly_lowest_is_a_paired_t_test_against_every_other_form():
    loss = np.random.default_rng(0).normal([[[0.0]], [[0.6]], [[1.2]]], 1.0, (3, DOCUMENTS, 300))
    found = chosen(loss)
    best = loss.mean(axis=1).argmin(axis=0)
    for head, own in enumerate(best):
        others = [loss[k, :, head] for k in range(3) if k != own]
        p = [ttest_rel(other, loss[own, :, head], alternative="greater").pvalue for other in others]
        assert found.clear[own, head] == (max(p) < 0.05)
        assert found.clear[:, head].sum() == found.clear[own, head]
    assert 0.1 < found.clear.any(axis=0).mean() < 0.9


def test_of_two_forms_equally_good_one_is_called_clearly_better_in_a_tenth_of_heads():
    loss = np.random.default_rng(1).normal(0, 1, (2, DOCUMENTS, HEADS))
    clear = chosen(loss).clear.any(axis=0).mean()
    assert clear == pytest.approx(0.10, abs=4 * np.sqrt(0.09 / HEADS))


def test_one_document_a_form_alone_and_equal_forms_are_never_clear():
    loss = np.random.default_rng(2).normal(0, 1, (2, 3, 1))
    loss[0] -= 100.0
    assert chosen(loss).clear[0].all()
    assert not chosen(loss[:, :1]).clear.any()
    assert not chosen(np.stack([loss[0], loss[0]])).clear.any()
    assert not chosen(np.stack([loss[0], np.full((3, 1), np.nan)])).clear.any()
