"""What the page holds of every head, against the run that it is of."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.spine import Finished

from geostat.display.tree import with_display
from reports.page.explorer.explorer import SCORES, Explorer, explorer, vega_bundle
from reports.page.explorer.packing import unpacked
from reports.run import Run


@pytest.fixture(scope="module")
def run(finished: Finished) -> Run:
    return Run.of(with_display(finished.tree))


@pytest.fixture(scope="module")
def packed(run: Run) -> Explorer:
    return explorer(run)


def array(packed: Explorer, name: str) -> np.ndarray:
    return unpacked(packed.catalogue["arrays"], packed.arrays, name)


def test_every_quantity_of_a_head_is_in_the_menu_once_with_its_unit(packed: Explorer, run: Run):
    told = {one["key"]: one for one in packed.catalogue["quantities"]}
    assert len(told) == len(packed.catalogue["quantities"])
    assert len({one["label"] for one in told.values()}) == len(told)
    assert told["similarity.beta.offset"]["unit"] == "1/token"
    assert told["norms.C"]["unit"] == "value norm"
    assert told["norms.cv_token"]["unit"] == ""
    for key in ("norms.flags", "norms.C_se", "norms.C_lower", "weights.eta_reason"):
        assert key not in told
    assert not [key for key in told if "document." in key or key.startswith("norms.lam_document")]
    assert told["similarity.chosen"]["words"][0] == "exponential"
    assert "similarity.beta.constant" not in told  # it has none
    limits = [one.get("limits", False) for key, one in told.items() if "." in key]
    after = limits[run.verdicts.sizes["claim"] :]
    assert after == sorted(after, reverse=True)  # what is estimated comes first
    claims = [claim["key"] for claim in json.loads(run.verdicts.attrs["claims"])]
    assert list(told)[4].startswith("verdicts.")
    assert [key for key in told if key.startswith("verdicts.")] == [
        f"verdicts.{claim}" for claim in claims
    ]


def test_quantities_and_limits_are_the_runs_own(packed: Explorer, run: Run):
    at = run.similarity.sel(gram="offset").transpose("layer", "kv_head", ...)
    stopped = at["beta_at_bound"].astype(bool)
    assert stopped.any()  # no estimates: shown apart
    np.testing.assert_allclose(
        array(packed, "similarity.beta.offset end"), at["beta"].where(stopped), rtol=1e-6
    )
    for end in ("", "_lower", "_upper"):
        name = f"similarity.beta.offset{end.replace('_', ' ')}"
        expected = at[f"beta{end}"] if end else at["beta"].where(~stopped)
        np.testing.assert_allclose(array(packed, name), expected, rtol=1e-6)
    codes = run.verdicts["answer_head"].sel(claim_head="weights.shape").transpose("layer", "head")
    np.testing.assert_array_equal(array(packed, "verdicts.weights.shape"), codes)


def test_scores_and_bounds_are_the_runs_own_at_every_n(packed: Explorer, run: Run):
    capture, sizes = run.capture, run.envelope["n_envelope"].values
    printed = run.envelope["edition"].values.tolist().index("printed")
    assert np.isnan(array(packed, "f_inner_bound_lower")[printed]).all()  # void: erratum 18
    for score in SCORES:
        mean = capture[score].sel(n=sizes).mean("document").transpose("layer", "head", "n")
        np.testing.assert_allclose(array(packed, score), mean, atol=1e-4)
        for side in ("lower", "upper"):
            bound = run.envelope[f"{score}_{side}"].clip(0, 1)
            bound = bound.transpose("edition", "gram", "layer", "head", "n_envelope")
            if score == "f_inner":
                bound = bound.copy()
                bound[printed] = np.nan
            np.testing.assert_allclose(array(packed, f"{score}_bound_{side}"), bound, atol=1e-4)


def test_norms_are_means_over_documents_within_their_limits(packed: Explorer, run: Run):
    norm = run.capture["value_norm"].mean("document").transpose("layer", "kv_head", "position")
    drawn = array(packed, "norm")
    assert packed.catalogue["position"][0] == 0
    step = np.ptp(drawn) / 65534
    np.testing.assert_allclose(drawn[..., 0], norm[..., 0], atol=2 * step)
    assert (array(packed, "norm_lower") <= drawn + 1e-3).all()
    assert (array(packed, "norm_upper") >= drawn - 1e-3).all()


def test_a_run_without_verdicts_or_f_has_none_to_choose(run: Run):
    curves = run.head_curves.drop_vars(
        [name for name in run.head_curves if str(name).startswith("f_")]
    )
    less = explorer(replace(run, verdicts=None, head_curves=curves))
    assert less.catalogue["claims"] == []
    assert [name for name, _ in less.catalogue["scores"]] == ["precision", "recall"]


def test_the_bundle_is_one_script_that_a_page_can_hold():
    bundle = vega_bundle()
    assert "vegaEmbed" in bundle
    assert "</script" not in bundle
    assert 5e5 < len(bundle) < 1.2e6
