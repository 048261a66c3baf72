import numpy as np
import pytest

from geostat.fits.weights.effects import common_variance

TOKENS, HEADS, SIGNAL, NOISE = 300, 60, 0.7, 1.0


def drawn(documents: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return log weights (document, head, token) with a common profile, and the profile."""
    random = np.random.default_rng(seed)
    profile = random.normal(0, SIGNAL, (HEADS, TOKENS))
    level = random.normal(0, 2.0, (documents, HEADS, 1))
    return profile + level + random.normal(0, NOISE, (documents, HEADS, TOKENS)), profile


def shares(rows: np.ndarray, fit: np.ndarray):
    known = np.isfinite(rows).any(axis=-1)
    return common_variance(rows, np.broadcast_to(fit, rows.shape), known)


@pytest.mark.parametrize("documents", [2, 4, 8, 32])
def test_neither_share_depends_on_the_number_of_documents(documents):
    truth = SIGNAL**2 / (SIGNAL**2 + NOISE**2)
    for name, estimate in shares(*drawn(documents)).items():
        error = estimate.value.std(ddof=1) / np.sqrt(HEADS)
        assert abs(estimate.value.mean() - truth) < 4 * error + 0.003, name


def test_both_shares_equal_their_definitions():
    rows, profile = drawn(3)
    rows[1, 0, 5] = np.nan  # known in two of three documents: ignored in all
    result = shares(rows, profile)
    known = np.delete(rows[:, 0], 5, axis=1)
    x = known - known.mean(axis=1, keepdims=True)
    residual = known - np.delete(profile[0], 5)
    residual -= residual.mean(axis=1, keepdims=True)
    pairs = np.mean([x[k] @ x[m] for k in range(3) for m in range(3) if k != m])
    assert result["common_share"].value[0] == pytest.approx(pairs / np.mean((x**2).sum(axis=1)))
    assert result["r2_document"].value[0] == pytest.approx(1 - (residual**2).sum() / (x**2).sum())
    remaining = [x[[k, m]] for k, m in ((1, 2), (0, 2), (0, 1))]
    replicates = [2 * pair[0] @ pair[1] / (pair**2).sum() for pair in remaining]
    assert result["common_share"].without[0] == pytest.approx(replicates)


def test_intervals_cover_the_common_variance():
    rows, profile = drawn(8, seed=1)
    signal = profile.var(axis=1, ddof=1)
    truth = signal / (signal + NOISE**2)  # for these profiles
    for name, estimate in shares(rows, profile).items():
        assert ((estimate.lower < truth) & (estimate.upper > truth)).mean() > 0.9, name


def test_one_document_gives_nan_and_documents_without_the_head_are_ignored():
    alone = shares(*drawn(1))
    assert all(np.isnan(estimate.value).all() for estimate in alone.values())
    rows, profile = drawn(3)
    without = shares(rows[:2], profile)
    rows[2, 0] = np.nan
    for name, estimate in shares(rows, profile).items():
        assert estimate.value[0] == pytest.approx(without[name].value[0])
        assert estimate.se[0] == pytest.approx(without[name].se[0], nan_ok=True)
