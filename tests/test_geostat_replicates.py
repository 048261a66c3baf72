"""The share of heads within a tolerance, and its document jackknife: replicates are those of the fits."""

import numpy as np
import pytest
import xarray as xr
from conftest import Finished
from scipy import stats

from geostat.claims import CLAIMS
from geostat.jackknife import interval
from geostat.replicates import SOURCES, replicates, share_within
from geostat.verdicts import give_verdicts


@pytest.mark.parametrize("claim", list(SOURCES))
def test_replicates_have_the_standard_error_that_the_fit_has(finished: Finished, claim: str):
    variable = next(one.variable for one in CLAIMS if one.key == claim)
    norms = finished.tree["norms"].to_dataset()
    again = replicates(finished.tree, claim)
    assert again is not None
    assert interval(norms[variable].values, again).se == pytest.approx(norms[f"{variable}_se"].values, rel=1e-6, nan_ok=True)


def test_a_share_counts_heads_and_moves_with_documents():
    effect = np.array([[0.01, 0.04, 0.06, np.nan]])
    again = np.stack([effect, effect + 0.02, effect, effect - 0.02])  # one more, one fewer within 0.05, of three
    share, spread = share_within(effect, again, 0.05, "at_most")
    assert share == pytest.approx(2 / 3)
    shares = np.array([2, 1, 2, 3]) / 3
    se = np.sqrt(3 / 4 * ((shares - shares.mean()) ** 2).sum())
    assert float(spread.se) == pytest.approx(se)
    assert float(spread.upper) == pytest.approx(2 / 3 + stats.t(3).ppf(0.975) * se)
    assert share_within(effect, again, 0.05, "at_least")[0] == pytest.approx(1 / 3)
    assert share_within(-effect, -again, 0.05, "within")[0] == pytest.approx(2 / 3)


def test_without_every_replicate_a_share_has_no_error():
    effect = np.array([[0.01, 0.06]])
    for again in (None, np.array([[[0.01, 0.06]], [[np.nan, 0.06]]])):
        share, spread = share_within(effect, again, 0.05, "at_most")
        assert share == 0.5
        assert np.isnan(spread.se)
    assert np.isnan(share_within(effect * np.nan, None, 0.05, "at_most")[0])


def test_verdicts_keep_the_share_with_an_error_where_there_is_one(finished: Finished):
    verdicts = give_verdicts(finished.tree)
    norms, envelope = finished.tree["norms"].to_dataset(), finished.tree["envelope"].to_dataset().sel(edition="sharp", gram="measured")
    assert float(verdicts["within"].sel(claim="norms.sink")) == pytest.approx(float((norms["lam"] <= 0.5).mean()))
    assert set(verdicts["claim"].values[verdicts["within_se"].notnull()]) == set(SOURCES)
    excess = []
    for name in ("precision", "recall"):
        excess += [envelope[f"{name}_lower"] - envelope[name], envelope[name] - envelope[f"{name}_upper"]]
    inner = (envelope["n_envelope"] > 1) & (envelope["n_envelope"] < finished.tree["capture"].sizes["position"])
    worst = xr.concat(excess, "part").where(inner).max(("part", "n_envelope"))
    assert float(verdicts["within"].sel(claim="bounds.sharp_measured")) == pytest.approx(float((worst <= 0.01).mean()))
