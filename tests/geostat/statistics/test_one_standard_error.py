import numpy as np
import pytest
from scipy.stats import ttest_rel

from geostat.statistics.one_standard_error import choose

DOCUMENTS = 8
PARAMETERS = np.array([1, 1, 1, 2])


def chosen(loss):
    return choose(loss, np.zeros((loss.shape[0], loss.shape[2])), PARAMETERS[: loss.shape[0]])


def losses(*excess):
    """Return the losses of four forms in one head, by their excess over the last; the noise of the
    last is 0.
    """
    base = 1.0 + np.random.default_rng(0).normal(0, 0.3, 8)  # cancels in a paired difference
    noise = 0.1 * np.tile([1.0, -1.0], 4)
    return np.stack([*(base + value + noise for value in excess), base])[:, :, None]


def test_the_simplest_form_within_one_standard_error_is_chosen():
    error = 0.1 / np.sqrt(7)
    near = chosen(losses(0.9 * error, 0.8 * error, 1.1 * error))
    assert near.chosen[0] == 1  # as simple as the first, with lower loss
    assert near.within[:, 0].tolist() == [True, True, False, True]
    assert near.excess[0, 0] == pytest.approx(0.9 * error)
    assert near.excess_se[0, 0] == pytest.approx(error)
    # No simpler form is within one standard error of the best one.
    assert chosen(losses(1.1 * error, 1.2 * error, 5.0)).chosen[0] == 3


def test_with_one_document_bic_chooses_and_an_exact_fit_wins_by_simplicity():
    nan, exact = np.nan, -np.inf
    bic = np.array([[5.0, exact, nan], [1.0, 4.0, nan], [0.0, -1.0, nan], [-2.0, exact, nan]])
    result = choose(np.full((4, 1, 3), np.nan), bic, PARAMETERS)
    assert result.chosen.tolist() == [3, 0, -1]
    assert np.isnan(result.excess).all()
    assert not result.within[:, 2].any()


def test_clearly_lowest_is_a_paired_t_test_against_every_other_form():
    loss = np.random.default_rng(0).normal([[[0.0]], [[0.6]], [[1.2]]], 1.0, (3, DOCUMENTS, 300))
    result = chosen(loss)
    best = loss.mean(axis=1).argmin(axis=0)
    for head, lowest in enumerate(best):
        others = np.delete(loss[:, :, head], lowest, axis=0)
        p = [ttest_rel(x, loss[lowest, :, head], alternative="greater").pvalue for x in others]
        assert result.clear[lowest, head] == (max(p) < 0.05)
        assert result.clear[:, head].sum() == result.clear[lowest, head]
    assert 0.1 < result.clear.any(axis=0).mean() < 0.9


def test_one_document_a_single_form_or_equal_forms_are_never_clear():
    loss = np.random.default_rng(2).normal(0, 1, (2, 3, 1))
    loss[0] -= 100.0
    assert chosen(loss).clear[0].all()
    for unclear in (
        loss[:, :1],
        np.stack([loss[0], loss[0]]),
        np.stack([loss[0], loss[0] * np.nan]),
    ):
        assert not chosen(unclear).clear.any()
