"""Scoreboard: statements of the paper, tested by their rules on runs with known answers."""

import json
import re
from typing import get_args

import numpy as np
import pytest
import xarray as xr
from support.scoreboards import N, tree
from support.spine import Finished

from geostat.topics import bounds, separability, sink
from geostat.topics.norms import norms_stable
from geostat.topics.records import Answer
from geostat.topics.similarity import sink_one_cosine
from geostat.topics.summary import STATEMENTS, families, scoreboard
from geostat.topics.weights import oscillation, recency_exponential, sink_weight


def test_every_statement_is_answered_and_stored_for_a_real_run(finished: Finished):
    rows = json.loads(finished.tree["summary"].attrs["scoreboard"])
    assert [row["key"] for row in rows] == [statement.key for statement in STATEMENTS]
    assert rows == scoreboard(finished.tree)
    for row in rows:
        assert row["answer"] in get_args(Answer), row["key"]
        assert all(row[key] for key in ("claim", "where", "paper", "rule", "here")), row
        assert "nan" not in row["here"] + row["why"], row


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
def test_heads_without_an_estimate_count_in_the_denominator(holds, fails, answer):
    counts = {"holds": holds, "fails": fails, "undetermined": 9 - holds - fails, "no_estimate": 1}
    # like a run of a geostat that knew no trivial answers
    limit = {"holds": 9}
    data = {name: ("claim", [value, value, limit.get(name, 0)]) for name, value in counts.items()}
    claims = ["norms.cv", "norms.cv_profile", "norms.cv_position"]
    verdicts = xr.Dataset(data, coords={"claim": claims})
    norms = xr.Dataset(
        {name: ("head", [0.2, 0.2]) for name in ("cv_token", "cv_profile", "cv_position")}
    )
    finding = norms_stable(tree(verdicts=verdicts, norms=norms))
    assert finding.answer == answer
    assert f"holds in {holds}, fails in {fails}, no estimate in 1 of 10 KV heads" in finding.here
    assert f"0.20 (holds in {holds}, fails in {fails}), in the limit" in finding.why
    assert "0.20 (holds in 9, fails in 0): averaging" in finding.why


@pytest.mark.parametrize(
    ("times", "answer"), [(500, "confirmed"), (100, "undetermined"), (10, "contradicted")]
)
def test_the_sink_weight_is_compared_with_a_hundred_times_the_plateau(times, answer):
    values = {"sink_to_plateau": times, "p_sink": 0.5, "p_base": 1e-5}
    values |= {"sink_to_plateau_lower": 0.8 * times, "sink_to_plateau_upper": 1.25 * times}
    weights = xr.Dataset({name: ("head", [value] * 15) for name, value in values.items()})
    weights["t1"] = "head", [9.0, 20.0, 8.0] * 5
    weights["t1_identified"] = "head", [1, 0, 0] + [0] * 12
    weights = weights.assign_coords(kv_head_of_head=("head", np.arange(15)))
    finding = sink_weight(tree(weights=weights))
    assert finding.answer == answer
    assert finding.here.startswith(f"median ratio {times:g}; intervals above 100 in")
    share = {"confirmed": "100% (72% to > 99%)"}.get(answer, "0% (0% to 28%)")
    assert finding.here.endswith(f"of 10 heads with a plateau, a share of {share} above")
    # heads of one KV head count as one: no majority is shown
    shared = weights.assign_coords(kv_head_of_head=("head", np.zeros(15, int)))
    assert sink_weight(tree(weights=shared)).answer == "undetermined"
    assert "the median ratio is 50,000, because" in finding.why
    assert finding.why.endswith("T₁ is identified in 1 head.")
    # No head has a plateau, so there is no ratio.
    missing = sink_weight(tree(weights=weights * np.nan))
    assert (missing.answer, missing.here[:16]) == ("undetermined", "median ratio n/a")
    older = weights.drop_vars("sink_to_plateau")
    assert sink_weight(tree(weights=older)).answer == "not testable here"


@pytest.mark.parametrize(("level", "answer"), [(0.3, "confirmed"), (0.05, "holds trivially")])
def test_a_cosine_of_the_sink_near_0_is_constant_trivially(level: float, answer: str):
    counts = {"holds": 3, "fails": 0, "undetermined": 0, "no_estimate": 0, "tolerance": 0.1}
    data = {name: ("claim", [value]) for name, value in counts.items()}
    verdicts = xr.Dataset(data, coords={"claim": ["similarity.sink"]})
    similarity = xr.Dataset(
        {name: ("head", [level, -level, 0.01]) for name in ("rho0", "sink_slope")}
    )
    finding = sink_one_cosine(tree(verdicts=verdicts, similarity=similarity))
    assert finding.answer == answer


FORM_VALUES = ("form_t1", "form_t2", "form_omega")


def test_an_unidentified_oscillation_is_undetermined_not_contradicted():
    identified = np.zeros((3, 4), dtype=bool)
    data = {name: (("form", "head"), np.ones((3, 4))) for name in FORM_VALUES}
    data["form_oscillation_identified"] = ("form", "head"), identified
    data["r2"] = "head", np.ones(4)
    weights = xr.Dataset(data, coords={"form": ["monotone", "shared", "separate"]})
    assert oscillation(tree(weights=weights)).answer == "undetermined"
    identified[2, :3] = True
    assert oscillation(tree(weights=weights)).answer == "undetermined"  # fewer than three periods
    weights["form_t2"] += 3 * 2 * np.pi  # three periods
    assert oscillation(tree(weights=weights)).answer == "confirmed"


@pytest.mark.parametrize(
    ("form", "answer"),
    [("monotone", "confirmed"), ("power_law", "contradicted"), ("constant", "undetermined")],
)
def test_exponential_growth_and_power_law_are_compared_by_held_out_loss(form, answer):
    rivals = ["constant", "no_plateau", "power_law", "monotone", "shared", "separate"]
    clearly = np.zeros((6, 3), dtype=bool)
    clearly[rivals.index(form), :2] = True
    weights = xr.Dataset(
        {"rival_clearly_lowest": (("rival", "head"), clearly), "r2": ("head", np.ones(3))},
        coords={"rival": rivals},
    )
    assert recency_exponential(tree(weights=weights)).answer == answer


@pytest.mark.parametrize("inside", [(20, 20), (9, 20)])
def test_the_printed_bounds_are_counted_but_not_tested_without_a_kappa(inside):
    variables = {}
    for name, number in zip(("precision", "recall"), inside, strict=True):
        parts = {"means_inside": number, "means_counted": 20, "width": 0.8, "inside": 0.8}
        for part, value in parts.items():
            variables[f"{name}_{part}"] = ("edition", "gram"), [[value]]
    summary = xr.Dataset(variables, coords={"edition": ["printed"], "gram": ["exponential"]})
    norms = xr.Dataset({"C": ("kv_head", [5.0, 5.82, 7.0])})
    finding = bounds.envelopes(tree(summary=summary, norms=norms))
    assert finding.answer == "not testable here"
    assert f"Precision at {inside[0]} of 20, Recall at {inside[1]} of 20" in finding.here
    assert "the median C is 5.8" in finding.why
    other = summary.assign_coords(edition=["sharp"])
    assert bounds.envelopes(tree(summary=other)).here == "the printed bounds were not evaluated"


@pytest.mark.parametrize(
    ("curve", "answer"),
    [
        ([1, 0.7, 0.6, 0.5, 0.4, 0.2, 0.4, 0.6], "confirmed"),
        ([1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], "undetermined"),
        ([1, 0.21, 0.21, 0.21, 0.21, 0.2, 0.21, 0.21], "undetermined"),
    ],
)
def test_precision_is_lowest_between_only_if_the_gap_exceeds_its_error(curve, answer):
    curves = {"precision_mean": ("n", curve), "precision_se": ("n", np.full(8, 0.01))}
    summary = xr.Dataset(curves, coords={"n": N})
    assert separability.lowest_between(tree(summary=summary)).answer == answer
    chance = xr.DataArray([[1, 0.5, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]], dims=("null", "n"))
    summary = summary.assign(precision_null=chance).assign_coords(null=["random_selection"])
    assert separability.lowest_between(tree(summary=summary)).why == (
        "Precision of the null baselines is lowest at N = 3 (randomly selected tokens)."
    )
    alone = separability.lowest_between(
        tree(summary=summary.assign(precision_se=("n", [np.nan] * 8)))
    )
    assert (alone.answer, "n/a" in alone.here) == ("undetermined", False)
    shaped = summary.assign(precision_null=summary["precision_mean"].expand_dims("null"))
    finding = separability.lowest_between(tree(summary=shaped))
    assert finding.answer == ("holds trivially" if answer == "confirmed" else answer)


@pytest.mark.parametrize(
    ("best", "answer"),
    [((3, 2), "confirmed"), ((3, 16), "undetermined"), ((8, 16), "contradicted")],
)
def test_small_sizes_are_best_if_both_gains_are_largest_there(best, answer):
    gain = np.stack([-np.abs(np.log(N / at)) for at in best])
    gain[:, 0] = 9.0  # N = 1 holds for any selection
    coords = {"null": ["random_selection", "permuted_values"], "n": N}
    separable = xr.Dataset({"precision_gain": (("null", "n"), gain)}, coords=coords)
    finding = separability.best_small(tree(separable=separable))
    assert finding.answer == answer
    assert f"N = {best[0]}, over permuted values at N = {best[1]}" in finding.here
    one_null = separable.sel(null=["random_selection"])
    assert separability.best_small(tree(separable=one_null)).answer == "not testable here"


@pytest.mark.parametrize(
    ("level", "half", "peak", "answer"),
    [
        (0.6, 0.1, 1, "confirmed"),
        (0.6, 0.7, 1, "undetermined"),
        (0.6, 0.1, 6, "undetermined"),
        (-0.6, 0.1, 1, "contradicted"),
    ],
)
def test_the_sink_correlation_is_tested_by_its_interval_and_peak(level, half, peak, answer):
    value = np.full(N.size, level)
    value[peak] += 0.1
    names = {"correlation": 0, "unattenuated": 0}
    names |= {"unattenuated_lower": -half, "unattenuated_upper": half}
    data = {name: (("measure", "n"), [value + shift]) for name, shift in names.items()}
    of_sink = xr.Dataset(data, coords={"measure": ["pearson"], "n": N})
    assert sink.sink_correlates(tree(sink=of_sink)).answer == answer
    noisy = of_sink.assign(unattenuated=of_sink["unattenuated"] * np.nan)
    for data, why in ((noisy, "too few or too noisy"), (of_sink * np.nan, "no head sees the sink")):
        missing = sink.sink_correlates(tree(sink=data))
        assert missing.answer == "not testable here"
        assert why in missing.here


def captured(recall: np.ndarray, rho: np.ndarray) -> xr.Dataset:
    """Return a capture of heads with this Recall and Precision, (document, layer, head, n), and ρ₀.

    The first head of a layer always selects the sink, the second never.
    """
    documents, (layers, heads), positions = len(recall), rho.shape, 8
    weight = np.ones((documents, layers, heads, positions))
    weight[:, :, 0, 0], weight[:, :, 1, 0] = 9.0, 0.1
    dims = ("document", "layer", "head")
    cosine = np.tile(rho[None, ..., None], (documents, 1, 1, positions))
    return xr.Dataset(
        {
            "recall": ((*dims, "n"), recall),
            "precision": ((*dims, "n"), recall),
            "attention_weight": ((*dims, "position"), weight),
            "sink_cosine": (("document", "layer", "kv_head", "position"), cosine),
        },
        coords={
            "n": N,
            "kv_head": np.arange(heads),
            "kv_head_of_head": ("head", np.arange(heads)),
            "tokens": ("layer", np.full(layers, positions)),
            "sink_visible": ("layer", np.ones(layers, dtype=bool)),
        },
    )


def test_the_correlation_is_quoted_for_heads_that_never_select_the_sink():
    """Recall rises with ρ₀ where the sink has the largest weight, and falls elsewhere."""
    random = np.random.default_rng(0)
    rho = random.normal(size=(20, 2))
    noise = 0.3 * random.normal(size=(8, 20, 2, 1))
    capture = captured(noise + (rho * [1, -1])[..., None] + np.zeros(N.size), rho)
    names = ("correlation", "unattenuated", "unattenuated_lower", "unattenuated_upper")
    data = {name: (("measure", "n"), np.full((1, N.size), 0.1)) for name in names}
    of_sink = xr.Dataset(data, coords={"measure": ["pearson"], "n": N})
    both = xr.DataTree.from_dict({"/capture": capture, "/sink": of_sink})
    quoted = re.search(
        r"In the 20 heads .* r = (.\d\.\d\d) \(.*\)\.", sink.sink_correlates(both).why
    )
    assert quoted is not None
    assert float(quoted[1].replace("−", "-")) < -0.9
    capture["attention_weight"][:, :, 1, 0] = 9.0
    assert "the opposite sign" not in sink.sink_correlates(both).why


@pytest.mark.parametrize(("of_null", "answer"), [(1.0, "holds trivially"), (0.0, "confirmed")])
def test_a_correlation_that_a_random_sink_has_too_holds_trivially(of_null, answer):
    """Precision and Recall rise with ρ₀; those with a random sink rise alike, or not."""
    random = np.random.default_rng(1)
    rho = random.normal(size=(20, 2))
    noise = random.normal(size=(2, 8, 20, 2, 1)) * 0.3 + np.zeros(N.size)
    capture = captured(rho[..., None] + noise[0], rho)
    own, drawn = rho[..., None] + 8 * noise[1], of_null * rho[..., None] + noise[1]
    values = (("document", "layer", "head", "n", "null"), np.stack([own, drawn], axis=-1))
    null = xr.Dataset(
        dict.fromkeys(("precision", "recall"), values),
        coords={"null": ["permuted_values", "permuted_sink"], "n": N},
    )
    names = ("correlation", "unattenuated", "unattenuated_lower", "unattenuated_upper")
    level = np.full((1, N.size), 0.5)
    data = {name: (("measure", "n"), level) for name in names}
    data |= {f"precision_{name}": ("n", level[0]) for name in names}
    of_sink = xr.Dataset(data, coords={"measure": ["pearson"], "n": N})
    run = xr.DataTree.from_dict({"/capture": capture, "/null": null, "/sink": of_sink})
    for statement in (sink.sink_correlates, sink.sink_precision):
        finding = statement(run)
        assert finding.answer == answer, finding
        of_values = r"uncorrected, r = (0\.\d+) \(.*\) over documents and KV heads, with permuted"
        found = re.search(rf"{of_values} values (0\.\d+) \(", finding.here)
        assert found is not None
        assert float(found[2]) < 0.85 < float(found[1])  # permuted values are noisier
        assert "with a random direction of the sink as well " in finding.here


@pytest.mark.parametrize(
    ("level", "answer"), [(0.3, "confirmed"), (0.1, "undetermined"), (-0.3, "contradicted")]
)
def test_the_correlation_of_precision_is_tested_by_its_interval_at_three(level, answer):
    names = {"correlation": 0, "unattenuated": 0}
    names |= {"unattenuated_lower": -0.2, "unattenuated_upper": 0.2}
    at_three = np.where(N == 3, level, -level)
    curves = {f"precision_{name}": ("n", at_three + shift) for name, shift in names.items()}
    data = xr.Dataset(curves, coords={"n": N})
    assert sink.sink_precision(tree(sink=data)).answer == answer
    older = data.drop_vars("precision_unattenuated")
    for incomplete in (data * np.nan, older):
        assert sink.sink_precision(tree(sink=incomplete)).answer == "not testable here"


@pytest.mark.parametrize(
    ("lower", "upper", "rising", "constant"),
    [
        ([0, 0, 0.1], [0.1, 0.1, 0], 3, 0),
        ([-0.1, -0.1, 0], [0.1, 0.1, 0.1], 1, 0),
        ([0, 0, 0], [0.0005, -0.1, 0.1], 1, 2),
    ],
)
def test_heads_count_if_a_printed_bound_rises_and_none_falls(
    monkeypatch, lower, upper, rising, constant
):
    change = np.array([[[*lower, np.nan]], [[*upper, np.nan]]])
    monkeypatch.setattr(sink, "change_with_sink_cosine", lambda *groups, **kwargs: change)
    empty = dict.fromkeys(("norms", "similarity"), xr.Dataset())
    finding = sink.sink_predicted(tree(**empty))
    assert finding.answer == "not testable here"
    assert f"none falls in {rising}, and no bound rises in {constant} of 3 heads" in finding.here
    change[:] = np.nan
    assert sink.sink_predicted(tree(**empty)).answer == "not testable here"


def test_one_run_has_one_family():
    assert families(tree()).answer == "not testable here"
