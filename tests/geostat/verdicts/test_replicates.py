"""Effects without each document, and the shares of heads that verdicts keep: replicates are those
of the fits.
"""

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from geostat.datasets.variable import Variable
from geostat.experiments.kinds_of_text import QUANTITIES
from geostat.fits.norms.variables import HEADS
from geostat.fits.similarity.variables import BY_FORM, BY_HEAD
from geostat.fits.weights.variables.records import RECORDS
from geostat.statistics.jackknife import jackknife
from geostat.verdicts.answers import give_verdicts
from geostat.verdicts.claims import CLAIMS, Claim, replicates

ON_EFFECTS = [claim for claim in CLAIMS if not claim.bounds]


def test_every_effect_that_a_claim_is_on_keeps_its_replicates():
    groups: dict[str, tuple[Variable, ...]] = {
        "norms": HEADS,
        "similarity": (*BY_FORM, *BY_HEAD),
        "weights": RECORDS,
    }
    judged = {
        (group, one.name) for group, records in groups.items() for one in records if one.judged
    }
    # Documents' own parts of the same effects are compared between kinds of text.
    between = {tuple(asked.variable.split("/")) for asked in QUANTITIES.values()}
    own = {(claim.group, claim.variable) for claim in ON_EFFECTS}
    assert own <= judged <= own | between


@pytest.mark.parametrize("claim", ON_EFFECTS, ids=lambda claim: claim.key)
def test_replicates_have_the_standard_error_that_the_fit_has(finished: Finished, claim: Claim):
    """On the scale on which the fit resamples: that of the square where its standard error is
    that of a root; growth's own error is at least theirs.
    """
    group = finished.tree[claim.group].to_dataset().sel(claim.select)
    again = replicates(finished.tree, claim)
    assert again is not None
    value, se, lower, upper = (
        group[f"{claim.variable}{part}"].values for part in ("", "_se", "_lower", "_upper")
    )
    assert np.isfinite(again).all(axis=0)[np.isfinite(se)].all()
    assert np.isfinite(se).any() or claim.variable == "growth"
    found = jackknife(value, again)
    if claim.variable in ("cv_position", "misfit"):
        assert ((lower <= again) & (again <= upper))[..., np.isfinite(se)].mean() > 0.95
    elif claim.variable == "growth":
        assert (np.isnan(se) | (found.se <= se * (1 + 1e-6))).all()
    else:
        assert found.se[np.isfinite(se)] == pytest.approx(se[np.isfinite(se)], rel=1e-6)


def test_a_run_fitted_before_replicates_were_kept_has_none(finished: Finished):
    claim = next(claim for claim in ON_EFFECTS if claim.key == "norms.trend")
    older = xr.DataTree.from_dict(
        {"norms": finished.tree["norms"].to_dataset().drop_vars("trend_without")}
    )
    assert replicates(older, claim) is None
    assert replicates(finished.tree, claim) is not None


def test_verdicts_keep_the_share_with_an_error_where_there_is_one(finished: Finished):
    verdicts = give_verdicts(finished.tree)
    norms, envelope = (
        finished.tree["norms"].to_dataset(),
        finished.tree["envelope"].to_dataset().sel(edition="sharp", gram="offset"),
    )
    assert float(verdicts["within"].sel(claim="norms.sink")) == pytest.approx(
        float((norms["lam"] <= 0.5).mean())
    )
    found = verdicts["true_share"]
    assert set(verdicts["claim"].values[found.notnull()]) == {claim.key for claim in ON_EFFECTS} - {
        "weights.growth"
    }  # of which no head here has an estimate
    known = verdicts.where(found.notnull(), drop=True)
    assert (known["true_share_lower"] <= known["true_share"] + 1e-9).all()
    assert (known["true_share"] <= known["true_share_upper"] + 1e-9).all()
    excess = []
    for name in ("precision", "recall"):
        excess += [
            envelope[f"{name}_lower"] - envelope[name],
            envelope[name] - envelope[f"{name}_upper"],
        ]
    inner = (envelope["n_envelope"] > 1) & (
        envelope["n_envelope"] < finished.tree["capture"].sizes["position"]
    )
    worst = xr.concat(excess, "part").where(inner).max(("part", "n_envelope"))
    assert float(verdicts["within"].sel(claim="bounds.sharp_offset")) == pytest.approx(
        float((worst <= 0.01).mean())
    )
