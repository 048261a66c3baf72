"""Explorer data equal the run; packed arrays read back as by the page."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from support.pages import unpacked

from reports.page.explorer import SCORES, Explorer, Pack, explorer, vega_bundle, what_if
from reports.run import Run, claims_of


@pytest.fixture(scope="module")
def packed(run: Run) -> Explorer:
    return explorer(run)


def array(packed: Explorer, name: str) -> np.ndarray:
    return unpacked(packed.catalogue["arrays"], packed.arrays, name)


def test_the_menu_has_every_quantity_once_with_its_unit(packed: Explorer, run: Run):
    quantities = packed.catalogue["quantities"]
    by_key = {quantity["key"]: quantity for quantity in quantities}
    assert len(by_key) == len({quantity["label"] for quantity in quantities}) == len(quantities)
    for key, unit in (
        ("similarity.beta.offset", "1/token"),
        ("norms.C", "value norm"),
        ("norms.cv_token", ""),
    ):
        assert by_key[key]["unit"] == unit
    parts = {"norms.flags", "norms.C_se", "norms.C_lower", "weights.eta_reason"}
    assert parts & set(by_key) == set()
    assert not [key for key in by_key if "document." in key or key.startswith("norms.lam_document")]
    assert by_key["similarity.chosen"]["words"][0] == "exponential"
    assert "similarity.beta.constant" not in by_key  # the constant form has no β


def test_the_menu_lists_claims_then_quantities_with_limits(packed: Explorer, run: Run):
    by_key = {quantity["key"]: quantity for quantity in packed.catalogue["quantities"]}
    claims = [f"verdicts.{claim['key']}" for claim in claims_of(run.verdicts)]
    assert list(by_key)[4 : 4 + len(claims)] == claims
    limits = [quantity.get("limits", False) for key, quantity in by_key.items() if "." in key]
    after = limits[len(claims) :]
    assert after == sorted(after, reverse=True)


def test_quantities_and_limits_equal_the_run(packed: Explorer, run: Run):
    selected = run.similarity.sel(gram="offset").transpose("layer", "kv_head", ...)
    stopped = selected["beta_at_bound"].astype(bool)
    assert stopped.any()  # not estimates, stored separately
    for name, expected in (
        ("", selected["beta"].where(~stopped)),
        (" end", selected["beta"].where(stopped)),
        (" lower", selected["beta_lower"]),
        (" upper", selected["beta_upper"]),
    ):
        drawn = array(packed, f"similarity.beta.offset{name}")
        np.testing.assert_allclose(drawn, expected, rtol=1e-6)
    codes = run.verdicts["answer_head"].sel(claim_head="weights.shape").transpose("layer", "head")
    np.testing.assert_array_equal(array(packed, "verdicts.weights.shape"), codes)


def test_scores_and_bounds_equal_the_run_at_every_n(packed: Explorer, run: Run):
    capture, sizes = run.capture, run.envelope["n_envelope"].values
    printed = run.envelope["edition"].values.tolist().index("printed")
    assert np.isnan(array(packed, "f_inner_bound_lower")[printed]).all()  # void: erratum 18
    for score in SCORES:
        mean = capture[score].sel(n=sizes).mean("document").transpose("layer", "head", "n")
        np.testing.assert_allclose(array(packed, score), mean, atol=1e-4)
        for side in ("lower", "upper"):
            bound = run.envelope[f"{score}_{side}"].clip(0, 1)
            bound = bound.transpose("edition", "gram", "layer", "head", "n_envelope").copy()
            if score == "f_inner":
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


def test_a_run_without_verdicts_or_f_has_no_such_choices(run: Run):
    of_f = [name for name in run.head_curves if str(name).startswith("f_")]
    reduced = explorer(replace(run, verdicts=None, head_curves=run.head_curves.drop_vars(of_f)))
    assert reduced.catalogue["claims"] == []
    assert [name for name, _ in reduced.catalogue["scores"]] == ["precision", "recall"]


def test_the_vega_bundle_can_be_embedded():
    bundle = vega_bundle()
    assert "vegaEmbed" in bundle
    assert "</script" not in bundle
    assert 5e5 < len(bundle) < 1.2e6


def back(pack: Pack, name: str) -> np.ndarray:
    return unpacked(pack.directory, pack.base64(), name)


NUMBERS = st.floats(-1e6, 1e6) | st.just(np.nan)
TINY = np.finfo(np.float64).tiny
"""Smallest normal float64; smaller values and steps lose precision."""


@given(arrays.arrays(np.float64, arrays.array_shapes(max_dims=3, max_side=6), elements=NUMBERS))
def test_a_curve_is_stored_to_half_a_step_and_nan_stays_nan(values):
    pack = Pack()
    pack.add_float32("before", np.arange(3))
    pack.add_int16({"curve": values})
    stored = back(pack, "curve")
    np.testing.assert_array_equal(np.isnan(stored), np.isnan(values))
    known = values[~np.isnan(values)]
    if known.size:
        step = (known.max() - known.min()) / 65534
        error = np.abs(stored - values)[~np.isnan(values)].max()
        assert error <= 0.5 * step * (1 + 1e-6) + 1e-9 * np.abs(known).max() + TINY


def test_weights_of_many_orders_of_magnitude_keep_relative_precision():
    values = np.array([1e-9, 3e-5, 0.5, 0.0, np.nan])
    pack = Pack()
    pack.add_int16({"weight": values}, logarithm=True)
    stored = back(pack, "weight")
    np.testing.assert_allclose(stored[:3], values[:3], rtol=2e-4)
    assert np.isnan(stored[3:]).all()


def test_float32_is_aligned_and_what_it_cannot_hold_is_infinite_without_a_warning():
    pack = Pack()
    pack.add_int16({"curve": np.arange(1)})  # two bytes
    pack.add_float32("value", np.array([[1.5, np.nan, 1e300]]))
    assert pack.directory["value"]["start"] % 4 == 0
    np.testing.assert_array_equal(back(pack, "value"), [[1.5, np.nan, np.inf]])


def test_packing_preserves_the_order_of_limits_and_values():
    rng = np.random.default_rng(0)
    value, width = rng.random((2, 2000)) * [[1], [1e-5]]
    pack = Pack()
    pack.add_int16({"x": value, "low": value - width, "high": value + 3 * width})
    x, low, high = (back(pack, name) for name in ("x", "low", "high"))
    assert (low <= x).all()
    assert (x <= high).all()


def test_packed_bounds_equal_the_run(run: Run):
    pack = Pack()
    panel = what_if(run, pack)
    for name in ("precision_lower", "precision_upper", "recall_lower", "recall_upper"):
        bound = run.sensitivity[name].values.clip(0, 1)
        restored = back(pack, f"what if {name.replace('_', ' ')}")
        np.testing.assert_allclose(restored, bound, atol=2e-5)
    for name in ("value", "moved"):
        restored = back(pack, f"what if {name}")
        np.testing.assert_allclose(restored, run.sensitivity[name].values, rtol=1e-5)
    assert panel["n"] == run.sensitivity["n_envelope"].values.tolist()
    assert [key for key, _, _ in panel["parameters"]] == ["beta", "c", "rho0", "lam", "d"]


def test_sizes_beyond_the_visible_tokens_and_a_panel_without_numbers_are_omitted(run: Run):
    tokens = int(run.sensitivity["n_envelope"][3])
    capture = run.capture.assign_coords(tokens=run.capture["tokens"] * 0 + tokens)
    panel = what_if(replace(run, capture=capture), Pack())
    assert panel["n"] == run.sensitivity["n_envelope"].values[:3].tolist()
    nothing = run.sensitivity.assign(of_head=run.sensitivity["of_head"] * 0 - 1)
    for sensitivity in (None, nothing):
        assert what_if(replace(run, sensitivity=sensitivity), Pack()) is None
