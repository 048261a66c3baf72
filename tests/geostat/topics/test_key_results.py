"""Key results, on synthetic runs with known answers and on a real one."""

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from geostat.datasets.separability import RANGES
from geostat.topics import separability
from geostat.topics.summary import as_line, key_results

N = np.array([1, 2, 4, 8, 64])
CLAIMS = ("norms.cv", "similarity.exponential", "similarity.offset", "weights.shape_position")
PARTS = ("", "_lower", "_upper")


def run(
    *,
    holds: int = 0,
    trivially: int = 0,
    fails: int = 0,
    gain: tuple[float, ...] = (0.5, 0.4, 0.3),
    band: float = 0.1,
    inside: float | tuple[float, ...] = 0.8,
    error: float = 0.014,
    documents: int = 4,
    null: bool = True,
    drawn: bool = True,
    edition: str = "sharp",
) -> xr.DataTree:
    """Return a run of ten heads, of which `holds`, `trivially` and `fails` do so in every claim
    (none trivially in norms.cv). `gain`: over both baselines at N = 2, 4, 8, with half width
    `band`; `inside`: share of Recall inside its bounds, in all ranges of N or in each, of which 0.8
    is expected; the limits of the difference are 2 `error` away, and unknown for an error of 0.
    """
    bounded = {"edition": [edition], "gram": ["exponential"]}
    counts: dict[str, Any] = {"holds": holds, "fails": fails, "no_estimate": 0}
    counts["holds_trivially"] = np.array([0] + [trivially] * (len(CLAIMS) - 1))
    counts["undetermined"] = 10 - sum(counts.values())
    counts |= {"tested": 10, "tolerance": 0.25, "true_share": 0.5}
    counts |= {"true_share_lower": 0.25, "true_share_upper": 0.75}
    verdicts = {
        name: ("claim", np.broadcast_to(value, len(CLAIMS))) for name, value in counts.items()
    }
    pooled = {f"whole{part}": ("parameter", [0.2]) for part in PARTS}
    errors = np.array([0.2, 0.4, np.nan])[None, None]
    similarity = {
        "mae_by_lag": (("gram", "layer", "kv_head"), errors),
        "mae_by_lag_without": (
            ("gram", "layer", "kv_head", "document"),
            np.repeat(errors[..., None], documents, axis=-1),
        ),
    }
    gains = np.array([[np.nan, *gain, np.nan]] * 2)
    separable = {"": gains, "_band_lower": gains - band, "_band_upper": gains + band}
    separable = {f"precision_gain{part}": values for part, values in separable.items()}
    for name, value in (("more", 6.0), ("less", 1.0), ("heads", 10.0)):
        separable[f"precision_{name}"] = np.full(gains.shape, value)
    share = np.broadcast_to(inside, 3)
    means = {"inside": share, "outside": np.full(3, 0.05)}
    if drawn:
        means |= {"drawn_inside": np.full(3, 0.8), "drawn_gap": 0.8 - share}
    by_range = np.array(list(means.values()))[:, None, None]
    half = np.array([2 * (error or np.nan) if name == "drawn_gap" else 0.04 for name in means])
    dims = ("measure", "edition", "gram", "size_range")
    ranges = {
        f"recall_by_range{end}": (dims, by_range + sign * half[:, None, None, None])
        for end, sign in (("", 0), ("_lower", -1), ("_upper", 1))
    }
    ranges["recall_by_range"] = (dims, by_range)
    excess = np.full((1, 1, 4, 4, 5), -0.1)
    excess[:, :, -1, -1] = np.nan  # one of 16 KV heads has no bounds
    envelope = {"recall_excess": (("edition", "gram", "layer", "head", "n_envelope"), excess)}
    phases = {"growth_identified": True, "t1": 9.0, "p_sink_lower": 0.2, "p_base_upper": 0.1}
    weights = {name: (("layer", "head"), [[value] * 4]) for name, value in phases.items()}
    oscillates = [[[False] * 4], [[True, True, False, False]]]
    weights["form_oscillation_identified"] = ("form", "layer", "head"), oscillates
    weights["t1"] = ("layer", "head"), [[9.0, 8.0, 9.0, 9.0]]
    labels = {"position": range(64), "document": range(documents), "kv_head": range(4)}
    groups = {
        "envelope": xr.Dataset(envelope, bounded | {"n_envelope": [1, 2, 4, 8, 64]}),
        "capture": xr.Dataset(coords=labels | {"tokens": ("layer", [64] * 4)}),
        "verdicts": xr.Dataset(verdicts, {"claim": list(CLAIMS)}),
        "weights": xr.Dataset(weights),
        "pooled": xr.Dataset(pooled, {"parameter": ["cv_token"]}),
        "similarity": xr.Dataset(similarity, {"gram": ["exponential"]}),
        "summary": xr.Dataset(
            {"recall_cells": (("edition", "gram"), [[100]])} | ranges,
            bounded | {"measure": list(means), "size_range": list(RANGES)},
        ),
    }
    if null:
        groups["separable"] = xr.Dataset(
            {name: (("null", "n"), values) for name, values in separable.items()},
            {"null": ["random_selection", "permuted_values"], "n": N},
        )
    return xr.DataTree.from_dict({f"/{name}": data for name, data in groups.items()})


def results(tree: xr.DataTree | None = None, **options: Any) -> dict[str, dict]:
    lines = key_results(run(**options) if tree is None else tree)
    return {result["key"]: result for result in map(json.loads, lines)}


@pytest.mark.parametrize(
    ("holds", "fails", "answer", "words"),
    [
        (6, 1, "holds", ""),
        (1, 6, "fails", ""),
        (5, 5, "mixed", "in some heads, not in others"),
        (4, 2, "mixed", ""),  # requires heads that hold and heads that fail
        (3, 2, "undetermined", ""),
        (5, 0, "undetermined", ""),
        (0, 0, "undetermined", "is undetermined"),
    ],
)
def test_an_assumption_is_answered_by_most_heads(holds, fails, answer, words):
    by_key = results(holds=holds, fails=fails)
    for key, claim, value in (
        ("norms", "norms.cv", 0.2),
        ("similarity", "similarity.exponential", 0.3),
        ("weights", "weights.shape_position", 0.5),
    ):
        result = by_key[key]
        assert (result["answer"], result["claim"]) == (answer, claim)
        assert result["number"]["value"] == pytest.approx(value)
        assert (result["counts"]["holds"], result["counts"]["fails"]) == (holds, fails)
        assert words in result["verdict"]
    assert by_key["norms"]["number"]["tolerated"] == 0.25
    assert by_key["weights"]["verdict"].endswith(" All four phases are fitted in 1 of 4 heads.")


@pytest.mark.parametrize(
    ("holds", "trivially", "fails", "answer"),
    [
        (5, 1, 0, "holds trivially"),
        (6, 4, 0, "holds"),
        (0, 5, 5, "mixed"),
        (0, 5, 0, "undetermined"),
        (0, 4, 6, "fails"),
    ],
)
def test_trivial_heads_make_no_assumption_hold(holds, trivially, fails, answer):
    by_key = results(holds=holds, trivially=trivially, fails=fails)
    words = f"{holds} hold, {trivially} hold trivially, {fails} fail"
    for key in ("similarity", "weights"):
        assert by_key[key]["answer"] == answer
        assert as_line(by_key[key]).endswith(f" {words}")
        assert ("trivial ones" in by_key[key]["verdict"]) == (answer == "holds trivially")
    assert by_key["norms"]["answer"] != "holds trivially"


@pytest.mark.parametrize(
    ("gain", "answer", "at"),
    [
        ((0.5, 0.4, 0.3), "holds", 2),
        ((-0.2, 0.1, 0.3), "holds", 8),
        ((0.05, 0.0, 0.0), "undetermined", 2),
        ((-0.5, -0.2, -0.4), "fails", 4),
    ],
)
def test_separability_is_answered_at_the_largest_gain(gain, answer, at):
    by_key = results(gain=gain)
    for key in ("separability", "geometry"):
        mixed = key == "geometry" and gain[0] == -0.2
        assert by_key[key]["answer"] == ("mixed" if mixed else answer)
        assert by_key[key]["number"]["of"].endswith(f"at N = {at}")
        assert by_key[key]["counts"]["holds"] == 6


@pytest.mark.parametrize(
    ("inside", "error", "answer"),
    [
        (0.83, 0.014, "holds"),
        (0.74, 0.014, "holds"),
        (0.7, 0.014, "undetermined"),
        (0.66, 0.014, "fails"),
        (0.8, 0.06, "undetermined"),
        (0.8, 0.0, "undetermined"),
        (0.3, 0.0, "undetermined"),
        ((0.8, 0.5, 0.1), 0.014, "mixed"),
        ((0.5, 0.8, 0.8), 0.014, "mixed"),
        ((0.8, 0.7, 0.8), 0.014, "undetermined"),
        ((0.8, 0.7, 0.1), 0.014, "mixed"),
        ((0.7, 0.7, 0.1), 0.014, "fails"),
    ],
)
def test_bounds_fail_if_far_fewer_values_lie_inside_than_expected(inside, error, answer):
    """The tolerance is 0.10, in each range of N."""
    bounds = results(inside=inside, error=error)["bounds"]
    share = np.broadcast_to(inside, 3)
    numbers = [bounds["number"], *bounds["also"]]
    assert bounds["answer"] == answer
    assert [number["value"] for number in numbers] == share.tolist()
    assert numbers[0]["of"] == "Recall inside sharp bounds at N ≤ 4"
    assert [number["of"] for number in numbers[1:]] == list(RANGES)[1:]
    for number in numbers:
        assert number["expected"] == 0.8
        assert number["upper"] - number["value"] == pytest.approx(0.04)
    counts = bounds["counts"]  # 15 heads at N = 2 and 4
    assert counts["of"] == "values of heads at N ≤ 4"
    assert (counts["holds"], counts["fails"]) == (round(30 * share[0]), round(30 * 0.05))
    assert sum(counts[name] for name in ("holds", "fails", "undetermined")) == 30


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ((0.8, 0.5, 0.1), "below expected at N ≤ 4 only"),
        ((0.5, 0.8, 0.8), "at only some N"),
        ((0.7, 0.7, 0.1), "more often than expected at some N"),
    ],
)
def test_the_verdict_on_bounds_leads_with_the_working_sizes(inside, words):
    bounds = results(inside=inside)["bounds"]
    assert words in bounds["verdict"]
    assert "N > 64: 0." in as_line(bounds)


def test_bounds_of_one_document_are_undetermined():
    """With one document there is no interval, neither for a value nor for a share."""
    bounds = results(inside=0.3, documents=1)["bounds"]
    assert (bounds["answer"], bounds["number"]["value"]) == ("undetermined", 0.3)
    assert (bounds["number"]["lower"], bounds["number"]["upper"]) == (None, None)
    assert (bounds["counts"]["fails"], bounds["counts"]["undetermined"]) == (0, 21)


@pytest.mark.parametrize(
    ("gain", "ending"),
    [
        ((-0.2, 0.1, 0.3), "It is lower at N = 2."),
        ((-0.2, -0.15, 0.3), "It is lower at N = 2 to 4."),
        ((-0.05, -0.2, 0.3), "It is lower at N = 4."),
        ((0.2, -0.05, 0.3), "exceeds that of permuted values."),
    ],
)
def test_sizes_at_which_permuted_values_are_more_separable_are_named(gain, ending):
    """The half width of the band is 0.1."""
    assert results(gain=gain)["geometry"]["verdict"].endswith(ending)


@pytest.mark.parametrize("other", [0.05, 0.15])
@pytest.mark.parametrize("name", ["permuted_octaves", "other_head"])
def test_stronger_nulls_that_separate_as_well_are_named(name, other):
    """The half width of the band is 0.1."""
    tree = run(gain=(0.2, 0.3, 0.3))
    null = tree["separable"].to_dataset().assign_coords(null=["random_selection", name])
    null = null.sel(null=[name])
    null["precision_gain_band_lower"] = xr.full_like(null["precision_gain"], other - 0.1)
    both = xr.concat([tree["separable"].to_dataset(), null], "null")
    tree["separable"] = xr.DataTree(both)
    verdict = results(tree)["geometry"]["verdict"]
    words = f"Precision is at no N detectably above that {separability.STRONGER[name]}"
    counts = " (6 heads above and 1 below at N = 4)"
    assert (f"{words}{counts}" in verdict) == (other < 0.1)


@pytest.mark.parametrize(("of_directions", "trivial"), [(-0.2, True), (0.0, False), (0.2, False)])
def test_separability_is_trivial_where_random_directions_do_better(of_directions, trivial):
    """The half width of the band is 0.1."""
    tree = run(gain=(0.2, 0.5, 0.3))
    both = tree["separable"].to_dataset()
    directions = both.sel(null=["random_selection"]).assign_coords(null=["random_directions"])
    directions["precision_gain"] += of_directions - directions["precision_gain"]
    for side, half in (("lower", -0.1), ("upper", 0.1)):
        directions[f"precision_gain_band_{side}"] = directions["precision_gain"] + half
    tree["separable"] = xr.DataTree(xr.concat([both, directions], "null"))
    answer = results(tree)["separability"]["answer"]
    assert answer == ("holds trivially" if trivial else "holds")


def test_without_permuted_values_the_selection_by_geometry_is_undetermined():
    tree = run()
    of_selection = tree["separable"].to_dataset().sel(null=["random_selection"])
    tree["separable"] = xr.DataTree(of_selection)
    result = results(tree)["geometry"]
    assert result["answer"] == "undetermined"
    assert result["verdict"].startswith("Values permuted among content tokens were not measured")


def test_counts_of_values_are_called_inside_and_outside():
    line = as_line(results(inside=0.8)["bounds"])
    assert line.endswith("of 30 values of heads at N ≤ 4 24 inside, 2 clearly outside")


def test_missing_measurements_are_undetermined_and_named():
    without = results(null=False, edition="printed")
    for key, words in (
        ("separability", "Randomly selected tokens were not measured"),
        ("geometry", "Values permuted among content tokens were not measured"),
        ("bounds", "not evaluated"),
    ):
        result = without[key]
        assert (result["answer"], result["number"]["value"]) == ("undetermined", None)
        assert words in result["verdict"]
        assert as_line(result).endswith("Measured: n/a")
    assert results(drawn=False)["bounds"]["answer"] == "undetermined"


def test_limits_of_a_gain_are_cut_to_one():
    number = results(gain=(0.5, 0.4, 0.3), band=0.9)["separability"]["number"]
    assert (number["lower"], number["upper"]) == (pytest.approx(-0.4), 1.0)


def test_without_pooled_fits_there_is_no_pooled_number():
    result = results(run(holds=6).drop_nodes("pooled"))["norms"]
    assert result["answer"] == "holds"
    assert (result["number"]["value"], result["number"]["tolerated"]) == (None, 0.25)


@pytest.mark.parametrize(("documents", "upper"), [(1, None), (3, pytest.approx(0.3))])
def test_the_error_of_similarity_is_the_mean_over_kv_heads(documents: int, upper):
    number = results(run(holds=6, documents=documents))["similarity"]["number"]
    assert (number["value"], number["upper"]) == (pytest.approx(0.3), upper)


@pytest.mark.parametrize(("constant", "named"), [(10, True), (9, False)])
def test_decay_to_a_constant_is_named_if_it_must_hold_in_most_heads(constant, named):
    """Six of ten heads fail the exponential form; more than half of all heads must do both."""
    tree = run(fails=6)
    verdicts = tree["verdicts"].to_dataset().copy(deep=True)
    offset = verdicts["claim"].values == "similarity.offset"
    verdicts["holds"].values[offset], verdicts["fails"].values[offset] = constant, 0
    result = results(tree.assign({"verdicts": xr.DataTree(verdicts)}))["similarity"]
    assert (result["answer"], "to a constant" in result["verdict"]) == ("fails", named)


def test_a_sentence_of_a_verdict_has_at_most_fifteen_words():
    cases: list[dict[str, Any]] = [{"holds": h, "fails": f} for h, f in ((6, 1), (1, 6), (5, 5))]
    cases += [{"trivially": 6}]
    cases += [{"gain": g} for g in ((-0.2, 0.1, 0.3), (0.05, 0.0, 0.0), (-0.5, -0.2, -0.4))]
    cases += [
        {},
        {"inside": 0.5},
        {"inside": (0.8, 0.5, 0.1)},
        {"inside": (0.5, 0.8, 0.8)},
        {"drawn": False},
        {"null": False, "edition": "printed"},
    ]
    verdicts = {result["verdict"] for case in cases for result in results(**case).values()}
    assert len(verdicts) == 30
    for verdict in verdicts:
        assert max(len(sentence.split()) for sentence in verdict.split(". ")) <= 15, verdict
        assert verdict.endswith(".")


def test_a_real_run_stores_its_key_results(finished: Finished):
    stored = finished.tree["summary"].attrs["key_results"]
    assert stored == key_results(finished.tree)
    keys = ["norms", "similarity", "weights", "separability", "bounds", "geometry"]
    assert [json.loads(line)["key"] for line in stored] == keys
