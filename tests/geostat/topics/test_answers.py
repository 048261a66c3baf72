"""Verdicts: consistency with estimates, errors, tolerances and tests; requirements on them."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from support.spine import Finished

from geostat.bounds.gaps import CODES
from geostat.errors import InputError
from geostat.statistics.equivalence import (
    FAILS,
    HOLDS,
    HOLDS_TRIVIALLY,
    NO_ESTIMATE,
    UNDETERMINED,
    against,
    mean_of_equals,
)
from geostat.statistics.moderation import HEADS, moderated
from geostat.topics.claims import CLAIMS, requirement
from geostat.topics.verdicts import claim_rows, counted_claims, give_verdicts, recounted

T = stats.t(7)
"""Student's t of eight documents."""


@pytest.fixture(scope="module")
def verdicts(finished: Finished) -> xr.Dataset:
    return give_verdicts(finished.tree)


def verdicts_of(groups: dict[str, xr.Dataset]) -> xr.Dataset:
    return give_verdicts(xr.DataTree.from_dict(groups))


def test_a_verdict_follows_from_its_estimate_error_and_tolerance(
    finished: Finished, verdicts: xr.Dataset
):
    norms = finished.tree["norms"].to_dataset()
    norms_cv, counts = verdicts.sel(claim_kv_head="norms.cv"), verdicts.sel(claim="norms.cv")
    cv = norms["cv_token"].values
    documents = np.full(cv.shape, float(finished.tree["capture"].sizes["document"]))
    parts = (norms[f"cv_token_{part}"].values for part in ("se", "skew"))
    errors = moderated(*parts, documents, norms["cv_token_without"].values)
    p = against(cv, errors, 0.05, "at_most")
    expected = {"estimate": cv, "p_holds": p.holds, "p_fails": p.fails}
    expected |= {part: getattr(errors, part) for part in ("se", "degrees", "skew")}
    for name, values in expected.items():
        np.testing.assert_array_equal(norms_cv[f"{name}_kv_head"].values, values, err_msg=name)
    upper, lower = norms_cv["upper_kv_head"].values, norms_cv["lower_kv_head"].values
    assert upper == pytest.approx(norms["cv_token_upper"].values)
    answers = np.select([upper <= 0.05, lower >= 0.05], [HOLDS, FAILS], UNDETERMINED)
    assert np.array_equal(norms_cv["answer_kv_head"].values, answers)
    for name, code in (("holds", HOLDS), ("fails", FAILS), ("undetermined", UNDETERMINED)):
        assert int(counts[name]) == (answers == code).sum()
    assert int(counts["tested"]) == answers.size
    for name in ("holds", "fails"):
        significant = (norms_cv[f"p_{name}_adjusted_kv_head"] <= 0.05).sum()
        assert int(counts[f"{name}_adjusted"]) == int(significant) <= int(counts[name])


def test_every_effect_is_tested_with_the_skewness_of_its_documents(
    finished: Finished, verdicts: xr.Dataset
):
    for claim in CLAIMS:
        selected = verdicts.sel({f"claim_{claim.of}": claim.key})
        se, skew = (selected[f"{part}_{claim.of}"].values for part in ("se", "skew"))
        enough = not claim.bounds and (se > 0).sum() >= HEADS
        assert np.array_equal(np.isfinite(skew), (se > 0) & enough), claim.key
    # Pooled effects have no verdict.
    assert not any(name.endswith("_skew") for name in finished.tree["pooled"].to_dataset())


def test_bounds_hold_only_if_every_size_and_side_holds(finished: Finished, verdicts: xr.Dataset):
    envelope = finished.tree["envelope"].to_dataset().sel(edition="sharp", gram="offset")
    selected = verdicts.sel(claim_head="bounds.sharp_offset")
    excess = []
    for name in ("precision", "recall"):
        excess.append(envelope[f"{name}_lower"] - envelope[name])
        excess.append(envelope[name] - envelope[f"{name}_upper"])
    n, tokens = envelope["n_envelope"], finished.tree["capture"].sizes["position"]
    worst = xr.concat(excess, "side").where((n > 1) & (n < tokens)).max(("side", "n_envelope"))
    worst = worst.transpose("layer", "head").values
    assert (selected["estimate_head"].values <= worst + 1e-12).all()
    beyond = worst > 0.01
    assert not (selected["answer_head"].values[beyond] == HOLDS).any()
    assert not (selected["answer_head"].values[~beyond] == FAILS).any()
    assert float(verdicts["within"].sel(claim="bounds.sharp_offset")) == pytest.approx(
        1 - beyond.mean()
    )


def with_curves(
    finished: Finished, level: float, se: float, **bounds: float
) -> dict[str, xr.Dataset]:
    """Return a run of 8 documents with both curves at `level`, and these bounds at every N."""
    groups = finished.groups()
    envelope = groups["/envelope"]
    envelope.attrs["documents"] = 8
    for name in ("precision", "recall"):
        envelope[name][:], envelope[f"{name}_se"][:] = level, se
        for side in ("lower", "upper"):
            envelope[f"{name}_{side}"][:] = bounds.get(f"{name}_{side}", bounds.get(side))
            envelope[f"{name}_{side}_gap_se"][:] = se
    return groups


@pytest.mark.parametrize(
    ("others", "name", "excess", "se", "answer"),
    [
        (-0.4, "recall_upper", 0.2, 0.01, FAILS),
        (-0.4, "recall_lower", 0.2, 0.01, FAILS),
        (-0.5, "recall_lower", -0.4, 0.05, HOLDS),
        (-0.5, "precision_upper", -0.45, 0.01, HOLDS),
        (-0.5, "precision_lower", -0.01, 0.02, UNDETERMINED),
    ],
)
def test_a_verdict_on_bounds_names_the_deciding_bound(
    finished: Finished, others: float, name: str, excess: float, se: float, answer: int
):
    """Another bound is exceeded by more, but with too large an error to decide."""
    groups = with_curves(finished, 0.5, 0.01, lower=0.5 + others, upper=0.5 - others)
    envelope = groups["/envelope"]
    sign = 1 if name.endswith("lower") else -1
    envelope[name][..., 3], envelope[f"{name}_gap_se"][..., 3] = 0.5 + sign * excess, se
    if answer == FAILS:
        envelope["precision_upper"][..., 5], envelope["precision_upper_gap_se"][..., 5] = 0.1, 0.5
    selected = verdicts_of(groups).sel(claim_head="bounds.sharp")
    assert (selected["answer_head"] == answer).all()
    assert {CODES[int(code)] for code in selected["cell_bound_head"].values.ravel()} == {name}
    n, tokens = envelope["n_envelope"].values, groups["/capture"]["tokens"].values[:, None]
    assert (selected["cell_n_head"] == n[3]).all()
    cells = 4 * ((n > 1) & (n < tokens)).sum(axis=1)[:, None]
    assert (selected["cell_count_head"] == cells).all()
    p_fails = T.sf((excess - 0.01) / se)
    expected = {"estimate": excess, "se": se, "upper": excess + T.ppf(0.975) * se}
    if answer == FAILS:
        expected["cell_p_fails"] = np.broadcast_to(2 * p_fails * cells, selected["se_head"].shape)
        assert np.array_equal(selected["cell_p_fails_head"], selected["p_fails_head"])
        assert float(selected["cell_p_holds_head"].max()) == pytest.approx(1.0)
    else:
        assert np.array_equal(selected["cell_p_holds_head"], selected["p_holds_head"])
        limit = np.array(0.5 + sign * (excess - 0.01))
        side = "at_least" if sign == 1 else "at_most"
        unseen = mean_of_equals(np.array(0.5), limit, 8, side).holds
        expected["cell_p_holds"] = max(min(1, 2 * (1 - p_fails)), float(unseen))
    for part, value in expected.items():
        assert selected[f"{part}_head"].values == pytest.approx(value), part


def test_an_undetermined_estimate_has_the_p_value_of_the_same_bound(finished: Finished):
    """Precision exceeds a bound by 0.05 with a large error, Recall by less with a small error.

    The estimate is that of Precision, so p_fails of the cell is not that of Recall.
    """
    groups = with_curves(finished, 0.5, 0.01, lower=0.0, upper=1.0)
    envelope = groups["/envelope"]
    count = verdicts_of(groups)["cell_count_head"].sel(claim_head="bounds.sharp").values[0, 0]
    for name, place, bound, se in (
        ("precision", 3, 0.55, 0.4),
        ("recall", 4, 0.54, 0.03 / T.isf(0.1 / count)),
    ):
        envelope[f"{name}_lower"][..., place] = bound
        envelope[f"{name}_lower_gap_se"][..., place] = se
    selected = verdicts_of(groups).sel(claim_head="bounds.sharp")
    assert (selected["answer_head"] == UNDETERMINED).all()
    # p_holds is 1 for both; the larger excess decides
    assert (selected["cell_bound_head"] == 0).all()
    for part, value in {"estimate": 0.05, "p_fails": 0.2, "cell_p_fails": 1.0}.items():
        assert selected[f"{part}_head"].values == pytest.approx(value)


def test_other_claims_name_no_bound(verdicts: xr.Dataset):
    selected = verdicts.sel(claim_head="weights.growth")
    assert (selected["cell_bound_head"] == -1).all()
    assert (selected["cell_count_head"] == 0).all()
    assert selected["cell_p_fails_head"].isnull().all()


def test_answers_follow_the_p_values_and_adjusted_p_values_are_larger(verdicts: xr.Dataset):
    for unit in ("head", "kv_head"):
        answer, estimate = verdicts[f"answer_{unit}"], verdicts[f"estimate_{unit}"]
        for word, code in (("holds", HOLDS), ("fails", FAILS)):
            p, adjusted = (verdicts[f"p_{word}{end}_{unit}"] for end in ("", "_adjusted"))
            assert ((p <= 0.05) & estimate.notnull()).equals(answer == code)
            assert (adjusted >= p - 1e-12).where(adjusted.notnull(), True).all()
    norms = verdicts.sel(claim_kv_head="norms.cv_profile")
    expected = stats.false_discovery_control(norms["p_fails_kv_head"].values.ravel())
    assert norms["p_fails_adjusted_kv_head"].values.ravel() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("precision", "recall", "answer"),
    [(0.0, 0.0, HOLDS), (0.3, 0.0, UNDETERMINED), (0.9, 0.0, FAILS), (0.0, 0.3, FAILS)],
)
def test_documents_with_little_spread_do_not_exclude_rare_values(
    finished: Finished, precision: float, recall: float, answer: int
):
    """Precision is 0.1 ± 0.001 in all documents. If it is 1 in a fifth of texts, its mean is 0.3,
    and eight documents may miss those texts.
    """
    bounds = {"precision_lower": precision, "recall_lower": recall, "upper": 1.0}
    groups = with_curves(finished, 0.1, 0.001, **bounds)
    assert (verdicts_of(groups).sel(claim_head="bounds.sharp")["answer_head"] == answer).all()


def test_every_verdict_names_the_variable_of_its_estimate(finished: Finished, verdicts: xr.Dataset):
    rows = claim_rows(verdicts)
    assert {row["key"] for row in rows} == {claim.key for claim in CLAIMS}
    for row in rows:
        _, group, *variable = row["estimate"].split("/")
        data = finished.tree[group].to_dataset().sel(row.get("select", {}))
        assert set(variable or json.loads(verdicts.attrs["bounds"]).values()) <= set(data), row
        assert row["source"]
        assert row["tolerance"] >= 0
    second = {row["key"]: row["second_test"] for row in rows if "second_test" in row}
    flat = {claim.key: f"/{claim.group}/gain_over_constant_p" for claim in CLAIMS if claim.flat}
    assert second == {"weights.growth": "/weights/growth_p"} | flat
    assert {key.partition(".")[0] for key in flat} == {"similarity", "weights"}
    assert {row["key"] for row in rows if "flat" in row} == set(flat)


def test_a_claim_holds_only_where_its_form_beats_a_constant(finished: Finished):
    """The misfit is far within its tolerance in all heads; held-out losses differ."""
    weights = (groups := finished.groups())["/weights"]
    for name, value in (("misfit", 0.1), ("misfit_se", 0.01), ("gain_over_constant_p", 0.001)):
        weights[name][:] = value
    weights["gain_over_constant_p"][0, :3] = [0.2, np.nan, 0.045]
    verdicts = verdicts_of(groups)
    selected = verdicts.sel(claim_head="weights.shape_position")
    answers = selected["answer_head"].values.ravel().tolist()
    assert answers == [HOLDS_TRIVIALLY] * 2 + [HOLDS] * 14
    assert selected["p_holds_head"].values[0, :3].tolist() == [0.2, 1.0, 0.045]
    counts = verdicts.sel(claim="weights.shape_position")
    numbers = ("holds", "holds_trivially", "fails", "undetermined", "no_estimate", "holds_adjusted")
    assert [int(counts[name]) for name in numbers] == [14, 2, 0, 0, 0, 13]  # 0.045 · 16/14 > 5%
    assert requirement("weights.shape_position holds trivially 12.5%").met(verdicts)[0]
    assert not requirement("weights.shape_position holds 0.9").met(verdicts)[0]


def test_a_run_without_trivial_answers_counts_none(finished: Finished):
    verdicts = give_verdicts(finished.tree).drop_vars("holds_trivially")
    (row,) = (row for row in counted_claims(verdicts) if row["key"] == "weights.shape")
    assert row["holds_trivially"] == 0
    assert not requirement("weights.shape holds trivially 0.01").met(verdicts)[0]
    assert "holds_trivially" not in recounted(verdicts)


def test_with_one_document_every_verdict_is_undetermined(finished: Finished):
    groups = finished.groups()
    for name in ("/norms", "/similarity", "/weights", "/envelope"):
        ends = "_se" if name == "/envelope" else ("_se", "_lower", "_upper")
        data = groups[name]
        groups[name] = data.assign({v: data[v] * np.nan for v in data if str(v).endswith(ends)})
    verdicts = verdicts_of(groups)
    assert (verdicts["answer_kv_head"] == UNDETERMINED).all()
    assert (verdicts["undetermined"] == verdicts["tested"]).all()


def test_heads_without_growth_are_counted_but_not_tested(finished: Finished):
    weights = (groups := finished.groups())["/weights"]
    # head 1 has an estimate, but noise has as large a growth
    for name, of_all, of_two in (
        ("growth", 2.0, [np.nan, 2.0]),
        ("growth_se", 0.05, [np.nan, 0.05]),
        ("growth_p", 0.001, [0.6, 0.2]),
    ):
        weights[name][:], weights[name][0, :2] = of_all, of_two
    verdicts = verdicts_of(groups)
    selected = verdicts.sel(claim_head="weights.growth")
    answers = selected["answer_head"].values.ravel().tolist()
    assert answers == [NO_ESTIMATE, UNDETERMINED] + [HOLDS] * 14
    searched = 16 / 15  # the search covers 16 heads
    assert selected["p_holds_head"].values[0, 1] == pytest.approx(0.2 * searched)
    counts = verdicts.sel(claim="weights.growth")
    assert (int(counts["tested"]), int(counts["no_estimate"])) == (15, 1)
    met, line = requirement("weights.growth holds 0.5").met(verdicts)
    assert met
    holding = "weights.growth holds in 87.5% of 16 heads (1 without an estimate)"
    assert line == f"{holding}, meeting the required 50.0%"


def test_claims_without_fits_are_left_out_and_cannot_be_required(finished: Finished):
    groups = {f"/{name}": finished.tree[name].to_dataset() for name in ("capture", "norms")}
    verdicts = verdicts_of(groups)
    assert set(verdicts["claim"].values) == {
        claim.key for claim in CLAIMS if claim.group == "norms"
    }
    with pytest.raises(InputError, match="the run has no verdict on this claim"):
        requirement("bounds.sharp holds 1").met(verdicts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"norms.cv{text}", "expected a claim") for text in ("", " holds", " is 0.9")),
        *((f"norms.cv holds {share}", "expected a claim") for share in ("1.1", "-1")),
        ("norms.cw holds 0.9", r"norms\.cw is not a claim, expected one of norms\.cv"),
        ("", "expected a claim"),
    ],
)
def test_an_invalid_requirement_is_refused(text: str, message: str):
    with pytest.raises(InputError, match=rf"^--require .*{message}"):
        requirement(text)
