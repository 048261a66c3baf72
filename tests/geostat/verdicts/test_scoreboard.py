"""The paper's claims, each answered by its rule: on runs made up so that the answer is known."""

import json
from typing import get_args

import numpy as np
import pytest
import xarray as xr
from support.scoreboards import N, tree
from support.spine import Finished

from geostat.verdicts.scoreboard import experiments, sink
from geostat.verdicts.scoreboard.assumptions import (
    norms_stable,
    oscillation,
    recency_exponential,
    sink_weight,
)
from geostat.verdicts.scoreboard.finding import Answer, by_majority
from geostat.verdicts.scoreboard.scoreboard import CLAIMS, finding, scoreboard


def test_every_claim_of_a_real_run_is_answered_and_kept(finished: Finished):
    rows = json.loads(finished.tree["summary"].attrs["scoreboard"])
    assert [row["key"] for row in rows] == list(CLAIMS)
    assert rows == scoreboard(finished.tree)
    for row in rows:
        assert row["answer"] in get_args(Answer), row["key"]
        assert all(row[key] for key in ("claim", "where", "paper", "rule", "here")), row
        assert "nan" not in row["here"] + row["why"], row


def test_a_majority_is_more_than_half_of_all_heads():
    assert by_majority(51, 0, 100) == "confirmed"
    assert by_majority(50, 50, 100) == "undetermined"
    assert by_majority(0, 51, 100) == "contradicted"


@pytest.mark.parametrize(
    ("holds", "fails", "answer"),
    [
        (5, 4, "mixed"),
        (3, 2, "undetermined"),
        (5, 0, "undetermined"),
        (6, 1, "confirmed"),
        (0, 6, "contradicted"),
    ],
)
def test_heads_without_an_estimate_count_among_all(holds, fails, answer):
    counts = {"holds": holds, "fails": fails, "tested": 9, "no_estimate": 1}
    verdicts = xr.Dataset({name: ("claim", [value]) for name, value in counts.items()})
    verdicts = verdicts.assign_coords(claim=["norms.cv"])
    norms = xr.Dataset({name: ("head", [0.2, 0.2]) for name in ("cv_token", "cv_profile")})
    one = norms_stable(tree(verdicts=verdicts, norms=norms))
    assert one.answer == answer
    assert f"holds in {holds}, fails in {fails} of 10 value heads" in one.here


@pytest.mark.parametrize(
    ("sink", "answer"), [(0.5, "confirmed"), (0.1, "undetermined"), (0.01, "contradicted")]
)
def test_the_sink_weight_is_compared_with_a_hundred_times_the_plateau(sink, answer):
    heads = np.ones(3)
    weights = xr.Dataset(
        {
            **{f"p_sink{end}": ("head", sink * heads) for end in ("", "_lower", "_upper")},
            "p_base": ("head", 1e-3 * heads),
            "p_base_lower": ("head", 0.5e-3 * heads),
            "p_base_upper": ("head", 2e-3 * heads),
            "mass_plateau": ("head", 0.2 * heads),
            "t1": ("head", 40 * heads),
        }
    )
    one = sink_weight(tree(weights=weights))
    assert one.answer == answer
    assert one.here.startswith(f"median ratio {sink / 1e-3:g}; surely above 100 in")
    assert one.why.endswith(f"the median ratio is {sink / (0.2 / 40):g}.")
    # no head has a plateau, so none has a ratio
    none = sink_weight(tree(weights=weights * np.nan))
    assert (none.answer, none.why[-4:]) == ("undetermined", "n/a.")


def test_an_oscillation_that_does_not_stand_out_is_no_evidence_against_one():
    heads, forms = 4, ["monotone", "shared", "separate"]
    stands = np.zeros((3, heads), dtype=bool)
    weights = xr.Dataset(
        {
            "form_oscillation_identified": (("form", "head"), stands),
            "r2": ("head", np.ones(heads)),
            **{f"form_{name}": (("form", "head"), np.ones((3, heads))) for name in ("t1", "t2")},
            "form_omega": (("form", "head"), np.ones((3, heads))),
        },
        coords={"form": forms},
    )
    assert oscillation(tree(weights=weights)).answer == "undetermined"
    stands[2, :3] = True
    assert oscillation(tree(weights=weights)).answer == "undetermined"  # of no period: a bend
    weights["form_t2"] += 3 * 2 * np.pi  # three periods
    assert oscillation(tree(weights=weights)).answer == "confirmed"


@pytest.mark.parametrize(
    ("form", "answer"),
    [("monotone", "confirmed"), ("power_law", "contradicted"), ("constant", "undetermined")],
)
def test_an_exponential_phase_is_told_from_a_power_by_documents_left_out(form, answer):
    rivals = ["constant", "no_plateau", "power_law", "monotone", "shared", "separate"]
    clearly = np.zeros((6, 3), dtype=bool)
    clearly[rivals.index(form), :2] = True
    weights = xr.Dataset(
        {"rival_clearly_lowest": (("rival", "head"), clearly), "r2": ("head", np.ones(3))},
        coords={"rival": rivals},
    )
    assert recency_exponential(tree(weights=weights)).answer == answer


@pytest.mark.parametrize(
    ("inside", "answer"),
    [((20, 20), "confirmed"), ((20, 12), "undetermined"), ((9, 20), "contradicted")],
)
def test_envelopes_hold_where_mean_curves_lie_inside_at_every_size(inside, answer):
    at = {
        f"{name}_{part}": (("edition", "gram"), [[value]])
        for name, number in zip(("precision", "recall"), inside, strict=True)
        for part, value in (
            ("means_inside", number),
            ("means_counted", 20),
            ("width", 0.8),
            ("inside", 0.8),
        )
    }
    summary = xr.Dataset(at, coords={"edition": ["printed"], "gram": ["exponential"]})
    assert experiments.envelopes(tree(summary=summary)).answer == answer
    other = summary.assign_coords(edition=["sharp"])
    assert experiments.envelopes(tree(summary=other)).answer == "not testable here"


@pytest.mark.parametrize(
    ("curve", "answer"),
    [
        ([1, 0.7, 0.6, 0.5, 0.4, 0.2, 0.4, 0.6], "confirmed"),
        ([1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], "undetermined"),
        ([1, 0.21, 0.21, 0.21, 0.21, 0.2, 0.21, 0.21], "undetermined"),
    ],
)
def test_precision_is_lowest_between_only_by_more_than_its_error(curve, answer):
    summary = xr.Dataset(
        {"precision_mean": ("n", curve), "precision_se": ("n", np.full(8, 0.01))}, coords={"n": N}
    )
    assert experiments.lowest_between(tree(summary=summary)).answer == answer
    chance = xr.DataArray([[1, 0.5, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]], dims=("null", "n"))
    summary = summary.assign(precision_null=chance).assign_coords(null=["random_selection"])
    assert experiments.lowest_between(tree(summary=summary)).why == (
        "By chance Precision is lowest at N = 3 (tokens selected at random)."
    )


@pytest.mark.parametrize(
    ("best", "answer"),
    [((3, 2), "confirmed"), ((3, 16), "undetermined"), ((8, 16), "contradicted")],
)
def test_small_sizes_are_best_where_both_gains_are_largest_there(best, answer):
    gain = np.stack([-np.abs(np.log(N / at)) for at in best])
    gain[:, 0] = 9.0  # N = 1 holds for any selection
    names = ["random_selection", "random_directions"]
    separable = xr.Dataset(
        {"precision_gain": (("null", "n"), gain)}, coords={"null": names, "n": N}
    )
    one = experiments.best_small(tree(separable=separable))
    assert one.answer == answer
    assert f"N = {best[0]}, over random directions at N = {best[1]}" in one.here
    alone = separable.sel(null=["random_selection"])
    assert experiments.best_small(tree(separable=alone)).answer == "not testable here"


@pytest.mark.parametrize(
    ("level", "half", "peak", "answer"),
    [
        (0.6, 0.1, 1, "confirmed"),
        (0.6, 0.7, 1, "undetermined"),
        (0.6, 0.1, 6, "undetermined"),
        (-0.6, 0.1, 1, "contradicted"),
    ],
)
def test_the_sink_correlates_where_the_interval_and_the_peak_say_so(level, half, peak, answer):
    value = np.full(N.size, level)
    value[peak] += 0.1
    names = {"unattenuated": 0, "unattenuated_lower": -half, "unattenuated_upper": half}
    data = xr.Dataset(
        {name: (("measure", "n"), [value + shift]) for name, shift in names.items()},
        coords={"measure": ["pearson"], "n": N},
    )
    data["correlation"] = data["unattenuated"]
    assert sink.sink_correlates(tree(sink=data)).answer == answer
    assert sink.sink_correlates(tree(sink=data * np.nan)).answer == "not testable here"
    assert "too few, or too noisy" in sink.sink_correlates(tree(sink=data * np.nan)).here


@pytest.mark.parametrize(
    ("level", "answer"), [(0.3, "confirmed"), (0.1, "undetermined"), (-0.3, "contradicted")]
)
def test_precision_correlates_where_the_interval_at_three_says_so(level, answer):
    names = {"unattenuated": 0, "unattenuated_lower": -0.2, "unattenuated_upper": 0.2}
    at_three = np.where(N == 3, level, -level)
    data = xr.Dataset(
        {f"precision_{name}": ("n", at_three + shift) for name, shift in names.items()},
        coords={"n": N},
    )
    data["precision_correlation"] = data["precision_unattenuated"]
    assert sink.sink_precision(tree(sink=data)).answer == answer
    older = data.drop_vars("precision_unattenuated")
    for nothing in (data * np.nan, older):
        assert sink.sink_precision(tree(sink=nothing)).answer == "not testable here"


@pytest.mark.parametrize(
    ("lower", "upper", "answer"),
    [
        ([0, 0, 0.1], [0.1, 0.1, 0], "confirmed"),
        ([-0.1, -0.1, 0], [0.1, 0.1, 0.1], "undetermined"),
        ([0, 0, 0], [0.0005, -0.1, 0.1], "contradicted"),
    ],
)
def test_a_link_is_predicted_where_a_bound_rises_and_none_falls(monkeypatch, lower, upper, answer):
    change = np.array([[[*lower, np.nan]], [[*upper, np.nan]]])
    monkeypatch.setattr(sink, "change_with_sink_cosine", lambda *groups, **asked: change)
    none = dict.fromkeys(("norms", "similarity"), xr.Dataset())
    found = sink.sink_predicted(tree(**none))
    assert found.answer == answer
    assert "of 3 heads" in found.here
    change[:] = np.nan
    assert sink.sink_predicted(tree(**none)).answer == "not testable here"


def test_one_run_has_one_family():
    assert finding("families", tree()).answer == "not testable here"
