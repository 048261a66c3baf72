"""Leave-one-document-out values of effects, and the estimated shares of heads in verdicts."""

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from empirical.schema import Quantity
from geostat.analyses.kinds_of_text import QUANTITIES
from geostat.fits.norms.fit import HEADS
from geostat.fits.similarity.fit import BY_FORM, BY_HEAD
from geostat.fits.weights.fit import RECORDS
from geostat.statistics.jackknife import jackknife
from geostat.topics.claims import CLAIMS, replicates
from geostat.topics.records import Claim
from geostat.topics.verdicts import give_verdicts

ON_EFFECTS = [claim for claim in CLAIMS if not claim.bounds]


def test_every_tested_effect_has_leave_one_out_values():
    groups: dict[str, tuple[Quantity, ...]] = {
        "norms": HEADS,
        "similarity": (*BY_FORM, *BY_HEAD),
        "weights": RECORDS,
    }
    tested = {(group, record.name) for group in groups for record in groups[group] if record.tested}
    # Values of these effects by document are compared between kinds of text.
    by_kind = {tuple(quantity.variable.split("/")) for quantity in QUANTITIES.values()}
    claimed = {(claim.group, claim.variable) for claim in ON_EFFECTS}
    assert claimed <= tested <= claimed | by_kind


@pytest.mark.parametrize("claim", ON_EFFECTS, ids=lambda claim: claim.key)
def test_replicates_have_the_standard_error_of_the_fit(finished: Finished, claim: Claim):
    """Standard errors agree on the scale of resampling.

    `cv_position` and `misfit` are resampled as squares; the error of growth is at least the
    jackknife's.
    """
    group = finished.tree[claim.group].to_dataset().sel(claim.select)
    values = replicates(finished.tree, claim)
    assert values is not None
    value, se, lower, upper = (
        group[f"{claim.variable}{part}"].values for part in ("", "_se", "_lower", "_upper")
    )
    known = np.isfinite(se)
    assert np.isfinite(values).all(axis=0)[known].all()
    assert known.any() or claim.variable == "growth"
    resampled = jackknife(value, values)
    if claim.variable in ("cv_position", "misfit"):
        assert ((lower <= values) & (values <= upper))[..., known].mean() > 0.95
    elif claim.variable == "growth":
        assert (~known | (resampled.se <= se * (1 + 1e-6))).all()
    else:
        assert resampled.se[known] == pytest.approx(se[known], rel=1e-6)


def test_an_older_run_has_no_replicates(finished: Finished):
    claim = next(claim for claim in ON_EFFECTS if claim.key == "norms.trend")
    older = finished.tree.copy()
    older["norms"] = xr.DataTree(older["norms"].to_dataset().drop_vars("trend_without"))
    assert replicates(older, claim) is None


def test_verdicts_have_estimated_shares_with_intervals(finished: Finished):
    verdicts, sink_norm = give_verdicts(finished.tree), finished.tree["norms"]["lam"]
    within = float(verdicts["within"].sel(claim="norms.sink"))
    assert within == pytest.approx(float((sink_norm <= 0.5).mean()))
    shares = verdicts["true_share"]
    # No head of this run has an estimate of growth.
    estimated = {claim.key for claim in ON_EFFECTS} - {"weights.growth"}
    assert set(verdicts["claim"].values[shares.notnull()]) == estimated
    known = verdicts.where(shares.notnull(), drop=True)
    assert (known["true_share_lower"] <= known["true_share"] + 1e-9).all()
    assert (known["true_share"] <= known["true_share_upper"] + 1e-9).all()
