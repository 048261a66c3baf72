"""Key results: on runs made up so that the answer is known, and on a real one."""

import json

import numpy as np
import pytest
import xarray as xr
from support.spine import Finished

from geostat.verdicts.scoreboard.key_results import key_results
from geostat.verdicts.scoreboard.lines import as_line

N = np.array([1, 2, 4, 8, 64])
CLAIMS = ("norms.cv", "similarity.exponential", "similarity.offset", "weights.shape_position")


def run(
    *,
    holds: int = 0,
    fails: int = 0,
    gain: tuple[float, ...] = (0.5, 0.4, 0.3),
    band: float = 0.1,
    inside: float = 0.8,
    error: float = 0.014,
    documents: int = 4,
    null: bool = True,
    drawn: bool = True,
    edition: str = "sharp",
) -> xr.DataTree:
    """Ten heads, of which so many hold and fail; gains at N = 2, 4, 8 over both baselines; the
    share of Recall inside its bounds, of 0.8 that are expected, and the error of their difference.
    """
    counts = {"holds": holds, "fails": fails, "undetermined": 10 - holds - fails, "no_estimate": 0}
    counts |= {"tested": 10, "tolerance": 0.25, "true_share": 0.5}
    counts |= {"true_share_lower": 0.25, "true_share_upper": 0.75}
    verdicts = xr.Dataset(
        {name: ("claim", [value] * len(CLAIMS)) for name, value in counts.items()},
        coords={"claim": list(CLAIMS)},
    )
    pooled = xr.Dataset(
        {
            **{f"whole{end}": ("parameter", [0.2]) for end in ("", "_lower", "_upper")},
            **{f"overall_mae_by_lag{end}": ("gram", [0.3]) for end in ("", "_lower", "_upper")},
        },
        coords={"parameter": ["cv_token"], "gram": ["exponential"]},
    )
    at = np.array([[np.nan, *gain, np.nan]] * 2)
    separable = xr.Dataset(
        {
            "precision_gain": (("null", "n"), at),
            "precision_gain_band_lower": (("null", "n"), at - band),
            "precision_gain_band_upper": (("null", "n"), at + band),
            **{
                f"precision_{name}": (("null", "n"), np.full(at.shape, value))
                for name, value in (("more", 6.0), ("less", 1.0), ("heads", 10.0))
            },
        },
        coords={"null": ["random_selection", "random_directions"], "n": N},
    )
    shares = {"recall_inside": inside, "recall_outside": 0.05, "recall_cells": 100}
    if drawn:
        shares |= {"recall_drawn_inside": 0.8, "recall_inside_se": 0.02}
        shares |= {"recall_drawn_gap": 0.8 - inside, "recall_drawn_gap_se": error}
    summary = xr.Dataset(
        {name: (("edition", "gram"), [[value]]) for name, value in shares.items()},
        coords={"edition": [edition], "gram": ["exponential"]},
    )
    capture = xr.Dataset(
        coords={
            "position": np.arange(64),
            "tokens": ("layer", [64] * 4),
            "document": np.arange(documents),
            "kv_head": np.arange(4),
        }
    )
    excess = np.full((1, 1, 4, 4, 2), -0.1)
    excess[:, :, -1, -1] = np.nan  # one of 16 value heads has no bounds
    laid = xr.Dataset(
        {"recall_excess": (("edition", "gram", "layer", "head", "n_envelope"), excess)},
        coords={
            "edition": [edition],
            "gram": ["exponential"],
            "kv_head_of_head": ("head", np.arange(4)),
        },
    )
    groups = {
        "envelope": laid,
        "capture": capture,
        "verdicts": verdicts,
        "pooled": pooled,
        "summary": summary,
    }
    if null:
        groups["separable"] = separable
    return xr.DataTree.from_dict({f"/{name}": data for name, data in groups.items()})


def results(tree: xr.DataTree) -> dict[str, dict]:
    return {one["key"]: one for one in map(json.loads, key_results(tree))}


@pytest.mark.parametrize(
    ("holds", "fails", "answer"),
    [
        (6, 1, "holds"),
        (1, 6, "fails"),
        (5, 5, "mixed"),
        (4, 2, "mixed"),
        (3, 2, "undetermined"),
        (5, 0, "undetermined"),
    ],
)
def test_an_assumption_is_answered_by_most_heads(holds, fails, answer):
    found = results(run(holds=holds, fails=fails))
    for key, claim, value in (
        ("norms", "norms.cv", 0.2),
        ("similarity", "similarity.exponential", 0.3),
        ("weights", "weights.shape_position", 0.5),
    ):
        one = found[key]
        assert (one["answer"], one["claim"], one["number"]["value"]) == (answer, claim, value)
        assert (one["counts"]["holds"], one["counts"]["fails"]) == (holds, fails)
    assert found["norms"]["number"]["tolerated"] == 0.25


@pytest.mark.parametrize(
    ("gain", "answer", "at"),
    [
        ((0.5, 0.4, 0.3), "holds", 2),
        ((-0.2, 0.1, 0.3), "holds", 8),
        ((0.05, 0.0, 0.0), "undetermined", 2),
        ((-0.5, -0.2, -0.4), "fails", 4),
    ],
)
def test_separability_is_answered_where_it_is_furthest_above_chance(gain, answer, at):
    found = results(run(gain=gain))
    for key in ("separability", "directions"):
        mixed = key == "directions" and gain[0] == -0.2
        assert found[key]["answer"] == ("mixed" if mixed else answer)
        assert found[key]["number"]["of"].endswith(f"at N = {at}")
        assert found[key]["counts"]["holds"] == 6
    assert ("take away at N = 2" in found["directions"]["verdict"]) == (gain[0] == -0.2)


@pytest.mark.parametrize(
    ("inside", "error", "answer"),
    [
        (0.83, 0.014, "holds"),
        (0.74, 0.014, "holds"),
        (0.7, 0.014, "undetermined"),
        (0.66, 0.014, "fails"),
        (0.8, 0.05, "undetermined"),
        (0.8, 0.0, "undetermined"),
        (0.3, 0.0, "undetermined"),
    ],
)
def test_bounds_fail_where_far_fewer_values_lie_inside_than_drawn_ones_do(inside, error, answer):
    """Up to 0.10 fewer is as expected; 95% of Student's t with 14 degrees of freedom is 2.14."""
    one = results(run(inside=inside, error=error))["bounds"]
    assert one["answer"] == answer
    assert one["number"]["expected"] == 0.8
    assert one["number"]["lower"] == pytest.approx(inside - 0.042896, abs=1e-5)
    assert one["number"]["upper"] == pytest.approx(inside + 0.042896, abs=1e-5)
    counts = one["counts"]
    assert (counts["holds"], counts["fails"]) == (round(100 * inside), 5)
    assert counts["holds"] + counts["fails"] + counts["undetermined"] == 100


def test_bounds_of_one_document_are_not_answered():
    """Of one document no value is known to lie outside, and no share to be off."""
    one = results(run(inside=0.3, documents=1))["bounds"]
    assert (one["answer"], one["number"]["value"]) == ("undetermined", 0.3)
    assert (one["number"]["lower"], one["number"]["upper"]) == (None, None)


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        ((-0.2, 0.1, 0.3), "at N = 2."),
        ((-0.2, -0.15, 0.3), "at N = 2 to 4."),
        ((-0.05, -0.2, 0.3), "separability."),
    ],
)
def test_where_directions_take_away_from_the_least_n_on_is_said(gain, said):
    """Half the band is 0.1."""
    assert results(run(gain=gain))["directions"]["verdict"].endswith(said)


def test_values_of_heads_lie_inside_or_outside():
    line = as_line(results(run(inside=0.8))["bounds"])
    assert line.endswith("of 100 values of heads and N 80 inside, 5 clearly outside")
    assert as_line(results(run(holds=6))["norms"]).endswith("of 10 value heads 6 hold, 0 fail")


def test_what_was_not_measured_is_open_and_says_so():
    without = results(run(null=False, edition="printed"))
    for key, word in (
        ("separability", "Not compared"),
        ("directions", "Not compared"),
        ("bounds", "not evaluated"),
    ):
        one = without[key]
        assert (one["answer"], one["number"]["value"]) == ("undetermined", None)
        assert word in one["verdict"]
        assert as_line(one).endswith("Measured: n/a")
    assert results(run(drawn=False))["bounds"]["answer"] == "undetermined"


def test_heads_that_are_all_undetermined_are_not_said_to_differ():
    """Some that hold beside some that fail is another thing than none of either."""
    none, split = results(run()), results(run(holds=5, fails=5))
    for key in ("norms", "similarity", "weights"):
        assert (none[key]["answer"], split[key]["answer"]) == ("undetermined", "mixed")
        assert "is undetermined" in none[key]["verdict"]
        assert "in some heads, not in others" in split[key]["verdict"]


def test_a_gain_that_cannot_lie_beyond_one_is_not_said_to():
    one = results(run(gain=(0.5, 0.4, 0.3), band=0.9))["separability"]
    assert (one["number"]["lower"], one["number"]["upper"]) == (pytest.approx(-0.4), 1.0)


def test_fits_without_pooled_ones_have_no_pooled_number():
    apart = run(holds=6)
    del apart["pooled"]
    for key in ("norms", "similarity"):
        one = results(apart)[key]
        assert (one["answer"], one["number"]["value"], one["number"]["tolerated"]) == (
            "holds",
            None,
            0.25,
        )


@pytest.mark.parametrize(("constant", "said"), [(10, True), (9, False)])
def test_similarity_is_said_to_decay_to_a_constant_where_most_heads_surely_do(constant, said):
    """Of ten heads six fail the exponential; of those, at least one more than half must do."""
    tree = run(fails=6)
    verdicts = tree["verdicts"].to_dataset().copy(deep=True)
    offset = verdicts["claim"].values == "similarity.offset"
    verdicts["holds"].values[offset], verdicts["fails"].values[offset] = constant, 0
    found = results(tree.assign({"verdicts": xr.DataTree(verdicts)}))["similarity"]
    assert (found["answer"], "to a constant" in found["verdict"]) == ("fails", said)


def every_verdict() -> set[str]:
    trees = [run(holds=h, fails=f) for h, f in ((6, 1), (1, 6), (5, 5))]
    trees += [run(gain=g) for g in ((-0.2, 0.1, 0.3), (0.05, 0.0, 0.0), (-0.5, -0.2, -0.4))]
    trees += [run(), run(inside=0.5), run(drawn=False), run(null=False, edition="printed")]
    return {one["verdict"] for tree in trees for one in results(tree).values()}


def test_a_verdict_has_at_most_fifteen_words():
    verdicts = every_verdict()
    assert len(verdicts) == 24
    for verdict in verdicts:
        assert len(verdict.split()) <= 15, verdict
        assert verdict.endswith(".")


def test_a_real_run_keeps_its_key_results(finished: Finished):
    kept = finished.tree["summary"].attrs["key_results"]
    assert kept == key_results(finished.tree)
    assert [json.loads(line)["key"] for line in kept] == [
        "norms",
        "similarity",
        "weights",
        "separability",
        "bounds",
        "directions",
    ]
