"""Study of *holds trivially*: a flat truth is not taken for a form, and a form is recognised."""

from dataclasses import replace

import pytest

from geostat.topics.claims import CLAIMS
from studies import flat


@pytest.mark.parametrize(("setting", "spread"), flat.COSINES[:2] + flat.COSINES[3:4])
def test_a_decay_holds_only_if_the_cosines_decay(setting, spread):
    rows = list(flat.similarity(replace(setting, tokens=65), spread, heads=40, seed=0))
    assert [row.claim for row in rows] == [
        claim.key for claim in CLAIMS if claim.flat and claim.group == "similarity"
    ]
    decays = setting.form == "exponential"
    for row in rows:
        assert (row.holds > 0.9) == (row.beats > 0.9) == decays
        assert (row.trivially > 0.5) == (not decays)
        assert decays or row.holds <= row.beats <= 0.05


@pytest.mark.parametrize("phases", flat.PHASES)
def test_four_phases_hold_only_if_weights_are_not_flat(phases):
    rows = list(flat.weights(phases, 0.25, heads=6, tokens=129, seed=0))
    assert [row.claim for row in rows] == ["weights.shape", "weights.shape_position"]
    for row in rows:
        present = phases == "strong"
        assert (row.holds, row.trivially) == (float(present), float(not present)), row
