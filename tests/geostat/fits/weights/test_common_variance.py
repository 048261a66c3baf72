"""What documents have in common of their log weights by position, whatever their number."""

import numpy as np
import pytest

from geostat.fits.weights.common_variance import common_variance

TOKENS, HEADS, SIGNAL, NOISE = 300, 60, 0.7, 1.0
TRUTH = SIGNAL**2 / (SIGNAL**2 + NOISE**2)


def drawn(documents: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Log weights (document, head, token) of documents that share a profile, and that profile."""
    random = np.random.default_rng(seed)
    profile = random.normal(0, SIGNAL, (HEADS, TOKENS))
    level = random.normal(0, 2.0, (documents, HEADS, 1))
    return profile + level + random.normal(0, NOISE, (documents, HEADS, TOKENS)), profile


def shares(documents: int, fit: float = 1.0, seed: int = 0):
    """Both shares, `fit` times the profile being what the others' fit says."""
    rows, profile = drawn(documents, seed)
    others = np.broadcast_to(fit * profile, rows.shape)
    return common_variance(rows, others, np.ones(rows.shape[:2], dtype=bool))


@pytest.mark.parametrize("documents", [2, 4, 8, 32])
def test_neither_share_depends_on_how_many_documents_there_are(documents):
    found = shares(documents)
    for name in ("common_share", "r2_document"):
        each = found[name].value
        assert abs(each.mean() - TRUTH) < 4 * each.std(ddof=1) / np.sqrt(HEADS) + 0.003, name


def test_r2_of_a_mean_over_documents_does_depend_on_it():
    by_number = []
    for documents in (2, 8):
        rows, profile = drawn(documents)
        mean = rows.mean(axis=0)
        left, about = (x - x.mean(axis=1, keepdims=True) for x in (mean - profile, mean))
        by_number.append(float((1 - (left**2).sum(axis=1) / (about**2).sum(axis=1)).mean()))
    assert by_number[1] > by_number[0] + 0.1


def test_a_fit_that_knows_half_of_the_profile_explains_three_quarters_of_what_is_common():
    found = shares(8, fit=0.5)
    ratio = found["r2_document"].value.mean() / found["common_share"].value.mean()
    assert ratio == pytest.approx(1 - 0.5**2, abs=0.02)


def test_both_are_the_sums_written_out():
    rows, profile = drawn(3)
    rows[1, 0, 5] = np.nan  # known in two documents of three: counts for none
    found = common_variance(rows, 0 * rows + profile, np.ones((3, HEADS), dtype=bool))
    kept = np.delete(rows[:, 0], 5, axis=1)
    x = kept - kept.mean(axis=1, keepdims=True)
    rest = kept - np.delete(profile[0], 5)
    rest -= rest.mean(axis=1, keepdims=True)
    pairs = np.mean([x[k] @ x[m] for k in range(3) for m in range(3) if k != m])
    assert found["common_share"].value[0] == pytest.approx(pairs / np.mean((x**2).sum(axis=1)))
    assert found["r2_document"].value[0] == pytest.approx(1 - (rest**2).sum() / (x**2).sum())
    again = [x[[k, m]] for k, m in ((1, 2), (0, 2), (0, 1))]
    replicates = [2 * one[0] @ one[1] / (one**2).sum() for one in again]
    assert found["common_share"].without[0] == pytest.approx(replicates)


def test_intervals_cover_what_is_common():
    rows, profile = drawn(8, seed=1)
    found = common_variance(rows, np.broadcast_to(profile, rows.shape), np.ones((8, HEADS), bool))
    signal = profile.var(axis=1, ddof=1)
    truth = signal / (signal + NOISE**2)  # of these profiles
    for name, one in found.items():
        assert ((one.lower < truth) & (one.upper > truth)).mean() > 0.9, name


def test_one_document_has_nothing_in_common_and_one_that_does_not_carry_the_head_is_left_out():
    rows, _ = drawn(1)
    alone = common_variance(rows, 0 * rows, np.ones((1, HEADS), dtype=bool))
    assert all(np.isnan(one.value).all() for one in alone.values())
    rows, profile = drawn(3)
    without = common_variance(rows[:2], rows[:2] * 0 + profile, np.ones((2, HEADS), dtype=bool))
    rows[2, 0] = np.nan
    carries = np.isfinite(rows).any(axis=-1)
    found = common_variance(rows, np.broadcast_to(profile, rows.shape), carries)
    for name, one in without.items():
        assert found[name].value[0] == pytest.approx(one.value[0])
        assert found[name].se[0] == pytest.approx(one.se[0], nan_ok=True)
