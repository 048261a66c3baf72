"""Verdict tables: every answer stands with the estimate, interval, tolerance and test it rests
on, and the page leads from one to the other.
"""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray as xr
from support.pages import page_html
from support.reports_tree import run_tree
from support.verdicts import judged

from geostat.display.tree import with_display
from reports.page import page
from reports.tables.every import tables


def test_each_claim_is_told_with_its_tolerance_counts_and_share():
    made = tables(judged())
    assert list(made)[:3] == ["verdicts", "verdict_layers", "verdict_heads"]
    rows = made["verdicts"].frame().to_numpy().tolist()
    assert rows[0] == [
        "norms are constant",
        "≤ 0.05; §3.1",
        "1 (0)",
        "1 (1)",
        "1",
        "50% (32% to 68%) of 3 value heads; 1 more without an estimate",
        "8.9%",
    ]
    assert rows[1] == [
        "curves lie within <sharp> bounds",
        "|·| ≤ 0.01; a & b",
        "2 (2)",
        "2 (0)",
        "4",
        "n/a; 8 heads",
        "100%",
    ]
    assert "undetermined: neither, 3 documents do not settle it" in made["verdicts"].caption
    assert (
        "if at most 5% of those of a claim are to be false in expectation (Benjamini–Hochberg)"
        in made["verdicts"].caption
    )


def test_layers_count_what_holds_and_fails():
    rows = tables(judged())["verdict_layers"].frame().to_numpy().tolist()
    assert rows == [["0", "1 / 1", "2 / 1"], ["1", "0 / 0", "0 / 1"]]


def test_every_verdict_stands_with_what_it_rests_on():
    rows = tables(judged())["verdict_heads"].frame().to_numpy().tolist()
    assert len(rows) == 4 + 8
    assert rows[0] == [
        "norms.cv",
        "L0V0",
        "holds",
        "0.1000 ± 0.0010",
        "0.0980 to 0.102",
        "0.50",
        "≤ 0.05",
        "0.010",
        "<0.0001",
        "0.020",
        "0.50",
        "/norms/cv_token; and /norms/other_p",
    ]
    assert "moderated over the heads of the claim" in tables(judged())["verdict_heads"].caption
    assert rows[3][1:5] == ["L1V1", "no estimate", "n/a", "n/a"]
    assert rows[4][0:3] == ["bounds.sharp", "L0H0", "holds"]


@pytest.mark.parametrize(("skew", "shown"), [(-0.001, "0.00"), (-1.234, "−1.23"), (np.nan, "n/a")])
def test_a_skewness_has_two_decimals_and_no_negative_nothing(skew: float, shown: str):
    found = judged()
    found["verdicts"]["skew_kv_head"][:] = skew
    assert tables(found)["verdict_heads"].frame().to_numpy().tolist()[0][5] == shown


def test_a_verdict_on_bounds_names_the_bound_that_decided_with_its_own_p():
    rows = tables(judged())["verdict_heads"].frame().to_numpy().tolist()[4:]
    assert rows[0][7:11] == ["0.25", "0.75", "0.020", "0.50"]
    end = "at N = 7, edition sharp, gram offset; one of 80 bounds"
    assert rows[0][-1] == f"/envelope/precision_lower − precision {end}"
    assert rows[1][-1] == f"/envelope/precision − precision_upper {end}"
    assert rows[7][-1] == f"/envelope/recall − recall_upper {end}"


def test_verdicts_that_keep_no_adjusted_p_are_shown_without():
    run = judged()
    names = ("_adjusted_kv_head", "_adjusted_head")
    run["verdicts"] = xr.DataTree(
        run["verdicts"]
        .to_dataset()
        .drop_vars([name for name in run["verdicts"] if str(name).endswith(names)])
    )
    rows = tables(run)["verdict_heads"].frame().to_numpy().tolist()
    assert {tuple(row[9:11]) for row in rows} == {("n/a", "n/a")}
    assert rows[0][7] == "0.010"


def test_one_document_is_told_to_settle_nothing():
    made = tables(judged(documents=1))
    assert made["verdicts"].caption == "One document gives no standard errors: nothing is settled."
    assert not any(
        "nan" in cell.lower() for row in made["verdict_heads"].frame().to_numpy() for cell in row
    )


@pytest.mark.usefixtures("one_figure")
def test_a_run_without_verdicts_has_no_such_tables():
    made = tables(run_tree())
    assert not [name for name in made if name.startswith("verdict")]
    assert 'id="claims"' not in page_html(run_tree())


class Links(HTMLParser):
    """Ids, and links that show a claim."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.shows: dict[str, str] = {}

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        if told.get("id"):
            self.ids.append(told["id"])
        if tag == "a" and "data-show" in told:
            self.shows[told["data-show"]] = told["href"]


@pytest.fixture(scope="module")
def html():
    return page_html(judged())


def test_the_page_leads_from_a_claim_to_its_verdicts(html):
    reader = Links()
    reader.feed(html)
    assert reader.shows == {
        "norms.cv": "#table-verdict_heads",
        "bounds.sharp": "#table-verdict_heads",
    }
    assert len(reader.ids) == len(set(reader.ids))
    assert {"claims", "table-verdicts", "table-verdict_layers", "table-verdict_heads"} <= set(
        reader.ids
    )
    assert "&lt;sharp&gt;" in html
    assert not re.search(
        r"\bnan\b", re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL), re.IGNORECASE
    )


@pytest.mark.slow
def test_verdicts_of_very_many_heads_are_a_file_alone(monkeypatch):
    monkeypatch.setattr(page, "MOST_VERDICTS", 10)
    reader = Links()
    reader.feed(page_html(judged()))
    assert "table-verdict_heads" in reader.ids
    assert set(reader.shows.values()) == {"#table-verdict_heads"}
    assert "p (fails)" not in page_html(judged())


@pytest.mark.parametrize(
    ("lead", "se", "said"),
    [
        (
            0.1,
            0.05,
            "Recall loses most to fitted similarity, 40.0 percentage points of the cells; next,",
        ),
        (0.2, 0.0, "Recall loses clearly most to no one of them."),
        (-0.1, 0.15, "Recall loses clearly most to no one of them."),
        (np.nan, np.nan, "Recall loses clearly most to no one of them."),
    ],
)
def test_swapped_ingredients_say_which_assumption_costs_most(lead, se, said):
    shares = {
        "inside": [0.9, 0.7, 0.91, 0.5, 0.4],
        "cost": [0.0, 0.2, -0.01, 0.4, 0.5],
        "cost_se": [0.0, 0.03, 0.01, 0.02, 0.02],
        "cost_lower": [0.0, 0.1, -0.03, 0.3, 0.4],
        "width": [0.5, 0.45, 0.401, 0.3, 0.3],
    }
    scores = ("precision", "recall")
    data = {f"{name}_{part}": ("swap", row) for name in scores for part, row in shares.items()}
    data |= {f"{name}_lead": ((), 0.2) for name in scores}
    data |= {f"{name}_lead_lower": ((), lead) for name in scores}
    data |= {f"{name}_lead_se": ((), se) for name in scores}
    data |= {"moved": (("layer", "kv_head"), [[0.0, 0.2], [np.nan, 0.0]])}
    swaps = ["all", "all but weights", "all but norms", "all but similarity", "none"]
    run = run_tree()
    run["ingredients"] = xr.DataTree(
        xr.Dataset(
            data, coords={"swap": swaps, "n_envelope": [2, 16]}, attrs={"gram": "exponential"}
        )
    )
    table = tables(run)["ingredients"]
    rows = table.frame().to_numpy().tolist()
    assert [row[0] for row in rows] == [
        "all three measured",
        "weights fitted",
        "norms fitted",
        "similarity fitted",
        "all three fitted",
    ]
    assert rows[0][1:4] == ["90.0%", "n/a", "0.50"]
    assert rows[3][4:] == ["50.0%", "0.400 ± 0.020", "0.30"]
    assert "moved to the nearest that vectors can have in 1 value head." in table.caption
    assert "N = 2, 16," in table.caption
    assert said in table.caption


def test_swaps_of_an_earlier_version_are_left_out():
    run = run_tree()
    run["ingredients"] = xr.DataTree(xr.Dataset({"recall_regained": ("swap", [0.1])}))
    assert "ingredients" not in tables(run)


def test_rival_forms_are_counted_where_they_predict_best():
    run = run_tree()
    similarity, weights = (run[name].to_dataset() for name in ("similarity", "weights"))
    run["similarity"] = xr.DataTree(
        similarity.assign(chosen=(("layer", "kv_head"), [[1, 1], [0, -1]]))
    )
    rivals = ["power_law", "shared"]
    rmse = (("rival", "layer", "head"), np.stack([np.full((2, 4), 0.5), np.full((2, 4), 0.75)]))
    best = (("layer", "head"), [[0, 0, 0, 1], [0, 0, 0, 1]])
    bic = (
        ("rival", "layer", "head"),
        [[[1.0, 1, 1, 1], [1, 1, 1, np.nan]], [[2.0, 2, 0, np.nan], [2, 2, 2, np.nan]]],
    )
    loss = (bic[0], np.array([[[1.0, 1, 1, 2], [1, 1, 1, 1]], [[2.0, 2, 0, 1], [2, 2, 2, 2]]]))
    clearly = (bic[0], np.array([[[True, True, False, False]] * 2, [[False] * 3 + [True]] * 2]))
    more = {"rival_bic": bic, "rival_loss_left_out": loss, "rival_clearly_lowest": clearly}
    more["form_chosen"] = (best[0], [[0, 0, 0, 1], [0, 0, 0, 0]])
    more["preferred_differs"] = (best[0], [[True] * 4, [False] + [True] * 3])
    stands = np.zeros((2, 2, 4), dtype=bool)
    stands[1, 1, 3] = True
    more["form_oscillation_identified"] = (("form", *best[0]), stands)
    run["weights"] = xr.DataTree(
        weights.assign(preferred=best, rival_rmse=rmse, **more).assign_coords(
            rival=rivals, form=["monotone", "shared"]
        )
    )
    table = tables(with_display(run))["rivals"]
    rows = table.frame().to_numpy().tolist()
    # 7 heads prefer another form, 2 of them an oscillation, of which one stands out
    assert [row[6] for row in rows] == ["n/a", "n/a", "n/a", "1"]
    assert "In 7 of 8 heads" in table.caption
    assert "in 1 of them" in table.caption
    # lowest loss, clearly, simplest within one standard error, lowest BIC (one head has none)
    assert [row[1:6] for row in rows] == [
        [r"$e^{-\beta k}$, as printed", "n/a", "n/a", "1", "n/a"],
        [r"$c + (1-c) e^{-\beta k}$", "n/a", "n/a", "2", "n/a"],
        ["a power of the distance to the last token", "6", "4", "6", "6"],
        [r"four phases, as printed (one $\eta$)", "2", "2", "2", "1"],
    ]
    assert rows[3][7] == "0.750 [0.750, 0.750]"
    stated = tables(with_display(run))["weights"].frame().to_numpy().tolist()
    (oscillation,) = [row for row in stated if "an oscillation" in row[1]]
    assert oscillation[1].startswith("an oscillation with the growth’s own η, as printed,")
    assert (oscillation[2], oscillation[4]) == ("12.5% of heads", "8")
    assert "rivals" not in tables(run_tree())


def test_the_scoreboard_stands_as_it_was_answered():
    row = {
        "key": "norms_stable",
        "claim": "norms are constant",
        "where": "§3.1",
        "paper": "CV 0.02",
        "here": "CV 0.2 in 3 of 4 heads",
        "answer": "contradicted",
        "why": "as texts differ",
        "rule": "in more than half",
    }
    run = run_tree()
    summary = run["summary"].to_dataset().assign_attrs(scoreboard=json.dumps([row, row]))
    run["summary"] = xr.DataTree(summary)
    table = tables(run)["scoreboard"]
    assert table.frame().to_numpy().tolist()[0] == [
        row[key] for key in ("claim", "here", "answer", "paper", "why", "rule", "where")
    ]
    assert "2 contradicted." in table.caption
    assert "scoreboard" not in tables(run_tree())
