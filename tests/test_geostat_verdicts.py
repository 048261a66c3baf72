"""Verdicts: each rests on the estimate, error, tolerance and test that stand beside it, and a user's tolerance or requirement is obeyed."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from conftest import Finished
from scipy import stats

from geostat.claims import CLAIMS, DEFAULT_TOLERANCES, Tolerance, tolerances
from geostat.equivalence import FAILS, HOLDS, NO_ESTIMATE, UNDETERMINED, PValues, answers
from geostat.errors import InputError
from geostat.verdicts import claim_rows, give_verdicts, requirement


def test_a_verdict_follows_from_the_estimate_error_and_tolerance_beside_it(finished: Finished):
    verdicts = give_verdicts(finished.tree)
    norms = finished.tree["norms"].to_dataset()
    one = verdicts.sel(claim_kv_head="norms.cv")
    assert np.array_equal(one["estimate_kv_head"].values, norms["cv_token"].values)
    assert np.array_equal(one["se_kv_head"].values, norms["cv_token_se"].values)
    t = stats.t(finished.tree["capture"].sizes["document"] - 1)
    p = t.cdf((norms["cv_token"].values - 0.05) / norms["cv_token_se"].values)
    assert one["p_holds_kv_head"].values == pytest.approx(p)
    assert one["p_fails_kv_head"].values == pytest.approx(1 - p)
    assert one["upper_kv_head"].values == pytest.approx(norms["cv_token_upper"].values)
    expected = answers(PValues(holds=p, fails=1 - p), np.ones(p.shape, bool))
    assert np.array_equal(one["answer_kv_head"].values, expected)
    counts = verdicts.sel(claim="norms.cv")
    assert int(counts["fails"]) == (expected == FAILS).sum()
    assert int(counts["holds"]) == (expected == HOLDS).sum()
    assert int(counts["tested"]) == expected.size == int(counts["holds"] + counts["fails"] + counts["undetermined"])
    assert float(counts["true_at_most"]) == pytest.approx(1 - 0.95 * (expected == FAILS).mean())
    assert float(counts["true_at_least"]) == pytest.approx(0.95 * (expected == HOLDS).mean())


def test_bounds_hold_only_where_every_size_and_side_does(finished: Finished):
    verdicts = give_verdicts(finished.tree)
    envelope = finished.tree["envelope"].to_dataset().sel(edition="sharp", gram="offset")
    one = verdicts.sel(claim_head="bounds.sharp_offset")
    inner = (envelope["n_envelope"].values > 1) & (envelope["n_envelope"].values < finished.tree["capture"].sizes["position"])
    excess = []
    for name in ("precision", "recall"):
        measured = envelope[name].transpose("layer", "head", "n_envelope").values
        excess += [envelope[f"{name}_lower"].values - measured, measured - envelope[f"{name}_upper"].values]
    worst = np.concatenate([part[..., inner] for part in excess], axis=-1).max(axis=-1)
    assert one["estimate_head"].values == pytest.approx(worst)
    beyond = worst > 0.01
    assert not (one["answer_head"].values[beyond] == HOLDS).any()
    assert not (one["answer_head"].values[~beyond] == FAILS).any()


@pytest.mark.parametrize(
    ("precision", "recall", "answer"), [(0.0, 0.0, HOLDS), (0.3, 0.0, UNDETERMINED), (0.9, 0.0, FAILS), (0.0, 0.3, FAILS)]
)
def test_documents_that_lie_close_together_tell_little_of_texts_unlike_them(
    finished: Finished, precision: float, recall: float, answer: int
):
    """Precision of 0.1 in all, within 0.001: were it 1 in a fifth of texts, its mean would be 0.3; eight documents may well miss those. Recall scatters."""
    groups = {f"/{name}": finished.tree[name].to_dataset() for name in finished.tree.children}
    envelope = groups["/envelope"].copy(deep=True)
    envelope.attrs["documents"] = 8
    for name, lower in (("precision", precision), ("recall", recall)):
        envelope[name][:], envelope[f"{name}_se"][:] = 0.1, 0.001
        for side, edge in (("lower", lower), ("upper", 1.0)):
            envelope[f"{name}_{side}"][:], envelope[f"{name}_{side}_gap_se"][:] = edge, 0.001
    groups["/envelope"] = envelope
    one = give_verdicts(xr.DataTree.from_dict(groups)).sel(claim_head="bounds.sharp")
    assert (one["answer_head"] == answer).all()


def test_another_tolerance_gives_another_verdict(finished: Finished):
    strict, lax = (
        give_verdicts(finished.tree, {"norms.cv": Tolerance(value=value, source="test")})["answer_kv_head"].sel(claim_kv_head="norms.cv")
        for value in (0.0, 10.0)
    )
    assert (strict == FAILS).all()
    assert (lax == HOLDS).all()


def test_every_verdict_says_where_its_estimate_stands(finished: Finished):
    rows = claim_rows(give_verdicts(finished.tree))
    assert {row["key"] for row in rows} == {claim.key for claim in CLAIMS}
    for row in rows:
        _, group, variable = row["estimate"].split("/")
        data = finished.tree[group].to_dataset().sel(row.get("select", {}))
        assert variable in data, row
        assert row["source"]
        assert row["tolerance"] >= 0


def test_one_document_settles_nothing(finished: Finished):
    groups = {f"/{name}": finished.tree[name].to_dataset() for name in finished.tree.children}
    for name in ("/norms", "/similarity", "/weights"):
        data = groups[name]
        groups[name] = data.assign({v: data[v] * np.nan for v in data if str(v).endswith(("_se", "_lower", "_upper"))})
    unknown = [v for v in groups["/envelope"] if str(v).endswith("_se")]
    groups["/envelope"] = groups["/envelope"].assign({v: groups["/envelope"][v] * np.nan for v in unknown})
    verdicts = give_verdicts(xr.DataTree.from_dict(groups))
    assert (verdicts["answer_kv_head"] == UNDETERMINED).all()
    assert (verdicts["undetermined"] == verdicts["tested"]).all()


def test_a_head_without_an_estimate_is_not_counted(finished: Finished):
    groups = {f"/{name}": finished.tree[name].to_dataset().copy(deep=True) for name in finished.tree.children}
    for part in ("", "_se"):
        groups["/norms"][f"cv_token{part}"][0, 0] = np.nan
    verdicts = give_verdicts(xr.DataTree.from_dict(groups))
    assert verdicts["answer_kv_head"].sel(claim_kv_head="norms.cv").values[0, 0] == NO_ESTIMATE
    assert int(verdicts["tested"].sel(claim="norms.cv")) == groups["/norms"]["cv_token"].size - 1


def test_heads_without_growth_are_counted_and_said_but_not_tested(finished: Finished):
    groups = {f"/{name}": finished.tree[name].to_dataset().copy(deep=True) for name in finished.tree.children}
    weights, (layers, heads) = groups["/weights"], groups["/weights"]["growth"].shape
    weights["growth"][:], weights["growth_se"][:], weights["growth_p"][:] = 2.0, 0.05, 0.001
    weights["growth"][0, 0], weights["growth_p"][0, 0] = np.nan, 0.6
    weights["growth_se"][0, 0] = np.nan
    weights["growth_p"][0, 1] = 0.2  # an estimate, but as large a growth is found in noise
    verdicts = give_verdicts(xr.DataTree.from_dict(groups))
    one = verdicts.sel(claim_head="weights.growth")
    assert one["answer_head"].values[0, :2].tolist() == [NO_ESTIMATE, UNDETERMINED]
    assert (one["answer_head"].values.ravel()[2:] == HOLDS).all()
    assert one["p_holds_head"].values[0, 1] == 0.2
    counts = verdicts.sel(claim="weights.growth")
    assert (int(counts["tested"]), int(counts["no_estimate"])) == (layers * heads - 1, 1)
    assert "(1 more without an estimate)" in requirement("weights.growth holds 0.5").met(verdicts)[1]


def test_claims_whose_fits_a_run_lacks_are_left_out(finished: Finished):
    groups = {f"/{name}": finished.tree[name].to_dataset() for name in ("capture", "norms")}
    assert set(give_verdicts(xr.DataTree.from_dict(groups))["claim"].values) == {claim.key for claim in CLAIMS if claim.group == "norms"}


def test_every_claim_has_a_tolerance_with_a_source():
    found = tolerances()
    assert set(found) == {claim.key for claim in CLAIMS}
    assert all(tolerance.source for tolerance in found.values())


def test_a_user_s_file_replaces_the_tolerances_it_names(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text('[norms.cv]\nat_most = 0.2\nsource = "a pilot"\n', encoding="utf-8")
    found = tolerances(file)
    assert found["norms.cv"] == Tolerance(value=0.2, source="a pilot")
    assert found["norms.sink"] == tolerances()["norms.sink"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[norms.cw]\nat_most = 1\n", r"\[norms.cw\] is no claim, expected one of norms.cv, .*\. Name one of those\.$"),
        ("[norms.cv]\nat_least = 1\n", r"\[norms.cv\] has 'at_least', expected at_most = NUMBER and source = TEXT\. Write it so\.$"),
        ("[norms.cv]\nsource = 'x'\n", r"\[norms.cv\] has no 'at_most', expected at_most = NUMBER"),
        ("[norms.cv]\nat_most = -1\n", r"\[norms.cv\] at_most = -1, expected a number of at least 0\. Give one\.$"),
        ("[norms.cv]\nat_most = nan\n", r"at_most = nan, expected a number"),
        ("[norms.cv]\nat_most = '1'\n", r"at_most = '1', expected a number"),
        ("norms = 3\n", r"\[norms\] is no claim"),
        ("[norms.cv\n", r"is no TOML .* Start from a copy of .*tolerances.toml\.$"),
    ],
)
def test_a_wrong_file_of_tolerances_is_refused_in_one_line(tmp_path: Path, text: str, line: str):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=line) as refused:
        tolerances(file)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_of_tolerances_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"cannot be read .* Check the path\.$"):
        tolerances(tmp_path / "none.toml")


def test_the_built_in_file_can_be_given_as_a_user_s():
    assert tolerances(DEFAULT_TOLERANCES) == tolerances()


def test_a_requirement_is_met_or_not_by_the_share_of_heads(finished: Finished):
    verdicts = give_verdicts(finished.tree, {"norms.cv": Tolerance(value=10.0, source="test")})
    met, line = requirement("norms.cv holds 0.9").met(verdicts)
    assert met
    assert line == "norms.cv holds in 100.0% of 8 heads, as required at least 90.0%"
    met, line = requirement("norms.cv fails 0.1").met(verdicts)
    assert not met
    assert line == "norms.cv fails in 0.0% of 8 heads, required at least 10.0%"
    with pytest.raises(InputError, match="the run has no verdict on it"):
        requirement("bounds.sharp holds 1").met(
            give_verdicts(
                xr.DataTree.from_dict({"/norms": finished.tree["norms"].to_dataset(), "/capture": finished.tree["capture"].to_dataset()})
            )
        )


@pytest.mark.parametrize(
    "text", ["norms.cv", "norms.cv holds", "norms.cv is 0.9", "norms.cv holds 1.1", "norms.cv holds -1", "norms.cw holds 0.9", ""]
)
def test_a_requirement_that_says_nothing_is_refused(text: str):
    with pytest.raises(InputError, match=r"^--require .*(expected a claim|is no claim)"):
        requirement(text)
