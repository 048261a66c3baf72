"""`geostat plan` and `gs.plan`: designs of a larger run from a finished one."""

import json
import re

import numpy as np
import pytest
from support.spine import Finished, geostat, refused

import geostat as gs
from geostat.analyses.plan import arms
from geostat.errors import InputError


def of_kinds(finished: Finished, kinds: list[str]):
    """Return the finished run of three documents with the given kinds of text."""
    tree = finished.tree.copy()
    rows = finished.tree.attrs["manifest"]["documents"]
    documents = [row | {"kind": kind} for row, kind in zip(rows, kinds, strict=True)]
    tree.attrs = tree.attrs | {"manifest": tree.attrs["manifest"] | {"documents": documents}}
    return tree


def test_the_run_of_one_kind_has_the_errors_of_its_tables(finished: Finished):
    planned = gs.plan(of_kinds(finished, ["a"] * 3), "rho0")
    error = np.sqrt(np.median(finished.tree["similarity"]["rho0_se"].values ** 2))
    assert planned["error"][0] == pytest.approx(error)
    assert planned["half_width"][0] == pytest.approx(arms(3) * error)
    assert planned["design"].tolist() == ["this run", "twice the documents"]
    assert planned["error"][1] == pytest.approx(planned["error"][0] / np.sqrt(2))
    assert planned["tokens"].tolist() == [120, 240]


def test_a_wanted_width_is_reached_by_the_needed_designs_alone(finished: Finished):
    tree = of_kinds(finished, ["a", "a", "b"])
    first = gs.plan(tree, "precision")
    wanted = float(first["half_width"][0]) / 3
    planned = gs.plan(tree, "precision", wanted).set_index("design")
    needed = planned.filter(like="needed", axis=0).dropna(subset="half_width")
    assert len(needed) >= 3
    assert (needed["half_width"] <= wanted * (1 + 1e-12)).all()
    assert "twice the queries" in planned.index
    assert "twice the queries" not in gs.plan(tree, "rho0")["design"].tolist()
    share = 100 * wanted / finished.tree["queries"]["precision"].sel(n=4).mean().item()
    of_mean = gs.plan(tree, "precision", f"{share}%").set_index("design")
    assert of_mean.loc["needed, 1 a kind", "kinds"] == planned.loc["needed, 1 a kind", "kinds"]


def test_one_document_of_each_kind_plans_kinds_alone(finished: Finished):
    tree = of_kinds(finished, ["a", "b", "c"])
    planned = gs.plan(tree, "rho0", "10%")
    assert planned["design"].tolist() == ["this run", "twice the kinds", "needed, 1 a kind"]
    assert planned["error"][1] == pytest.approx(planned["error"][0] / np.sqrt(2))
    assert planned.attrs["variance"] == "100% between documents, each of its own kind"
    overview = gs.plan(tree)
    assert overview[["between_kinds", "error_twice_documents"]].isna().all(axis=None)
    assert gs.plan(tree, claim="similarity.exponential")["same_kinds"].isna().all()


def test_a_claim_is_planned_for_its_undetermined_heads(finished: Finished):
    claim = "similarity.exponential"
    verdicts = finished.tree["verdicts"].to_dataset().sel(claim=claim, claim_kv_head=claim)
    undetermined = verdicts["answer_kv_head"] == 0
    assert undetermined.sum() > 2
    tree = of_kinds(finished, ["a"] * 3)
    planned = gs.plan(tree, claim=claim, power=0.5)
    # With one kind a head needs K documents with t(K - 1) s/√K = distance, s its deviation.
    distance = abs(verdicts["estimate_kv_head"] - verdicts["tolerance"]).where(undetermined)
    deviation = verdicts["se_kv_head"] * np.sqrt(3)
    sizes = np.arange(2.0, 1e6)
    needed = np.sort(
        [
            sizes[(arms(sizes) / np.sqrt(sizes)) <= ratio][0]
            for ratio in (distance / deviation).values.ravel()
            if np.isfinite(ratio)
        ]
    )
    assert planned["documents"][2] == np.quantile(needed, 0.75, method="inverted_cdf")
    assert (gs.plan(tree, claim=claim)["documents"] >= planned["documents"]).all()


def test_the_command_prints_the_frame_with_its_cost(finished: Finished):
    said = geostat("plan", finished.out, "--quantity", "rho0", "--width", "10%", "--json")
    printed = json.loads(said.stdout)
    frame = gs.plan(finished.tree, "rho0", "10%")
    assert [row["design"] for row in printed["plan"]] == frame["design"].tolist()
    assert printed["plan"][0]["documents"] == 3
    seconds = json.loads(finished.store.with_suffix(".json").read_text())["seconds"]["capture"]
    assert printed["plan"][1]["seconds"] == round(2 * seconds)
    table = geostat("plan", finished.out)
    assert {name for name in ("C", "precision") if f" {name} " in table.stdout} == {
        "C",
        "precision",
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--quantity", "x"), "--quantity x: expected one of C, lam, .* Name one of those."),
        (("--width", "3"), "--width 3: was given without a quantity, .*--quantity."),
        (("--quantity", "C", "--width", "nan"), "--width nan: expected a number above 0, .*"),
        (("--claim", "bounds.sharp"), "--claim bounds.sharp: expected one of norms.cv, .*"),
        (("--claim", "norms.cv", "--width", "1"), "--claim norms.cv: was given with .*"),
        (("--claim", "norms.cv", "--power", "1"), "--power 1.0: expected 0.5 or more .*"),
    ],
)
def test_bad_input_is_refused_in_one_line(finished: Finished, arguments, expected: str):
    message = refused(geostat("plan", finished.out, *arguments))
    assert re.fullmatch(expected, message)


def test_a_run_without_fits_or_with_one_document_is_refused(finished: Finished, followup):
    with pytest.raises(InputError, match=r"has no /norms.* Use the result of geostat.fit"):
        gs.plan(finished.tree.filter(lambda node: node.name == "capture"), "C")
    with pytest.raises(InputError, match="the run has one document, expected at least 2"):
        gs.plan(followup)
