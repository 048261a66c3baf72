"""Tables of verdicts, their links on the page, and tables of costs and rival forms."""

import json
import re

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from support.pages import Reader, page_html
from support.reports_tree import cells, group, with_groups
from support.verdicts import judged, verdicts

from reports.figures import style
from reports.page import page
from reports.page.record import claims
from reports.run import Run
from reports.topics.listed import tables
from reports.topics.verdicts import figure_claims, where_in_words


def test_skewness_has_two_decimals_and_no_negative_zero_and_adjusted_p_may_lack():
    data = verdicts()
    data["skew_kv_head"][0] = [[-0.001, -1.234], [np.nan, 0.5]]
    adjusted = [name for name in data if str(name).startswith("p_") and "_adjusted_" in str(name)]
    table = tables(with_groups(verdicts=data.drop_vars(adjusted)))["verdict_heads"]
    rows = table.frame().to_numpy().tolist()
    assert [row[5] for row in rows[:4]] == ["0.00", "−1.23", "n/a", "0.50"]
    assert {tuple(row[9:11]) for row in rows} == {("n/a", "n/a")}
    assert rows[0][7] == "0.010"


def test_trivial_answers_have_a_column_a_sign_and_a_colour():
    tree = judged()
    data = tree["verdicts"].to_dataset()
    (norms, bounds) = json.loads(data.attrs["claims"])
    data.attrs["claims"] = json.dumps([norms | {"flat": "gain_p"}, bounds])
    data["answer_kv_head"][0, 0, 0], data["holds"][0], data["holds_trivially"][0] = 2, 0, 1
    tree["verdicts"] = xr.DataTree(data)
    by_name = tables(tree)
    assert by_name["verdicts"].frame()["trivially"].tolist() == ["1", "n/a"]
    signs = by_name["verdict_heads"].narrow.frame()["1"].tolist()
    assert signs == ["=", "=", "−", "−", "·", "·", "", ""]
    assert by_name["verdict_layers"].frame().iloc[:, 1].tolist() == ["0 / 1", "0 / 0"]
    run = Run.of(tree)
    axes = Figure().subplots()
    figure_claims(axes, run)
    sky = [
        collection
        for collection in axes.collections
        if isinstance(collection, PolyCollection)
        and tuple(collection.get_facecolor()[0]) == to_rgba(style.SKY)
    ]
    assert [len(collection.get_paths()) for collection in sky] == [1]
    (row, _) = claims(run)
    assert row["by_layer"]["holds_trivially"] == [1, 0]
    assert (
        where_in_words(run, "norms.cv") == "Neither holds nor fails in most KV heads of any layer."
    )


def test_one_document_determines_nothing():
    by_name = tables(judged(documents=1))
    assert by_name["verdicts"].caption == (
        "One document gives no standard errors, so all heads are undetermined."
    )
    assert "nan" not in "".join(cells(by_name["verdict_heads"])).lower()


def shows(reader: Reader) -> dict[str, str]:
    """Return the claims of filtering links with the links' targets."""
    return {attrs["data-show"]: attrs["href"] for _, attrs in reader.tags if "data-show" in attrs}


@pytest.mark.usefixtures("one_figure")
def test_the_page_links_a_claim_to_its_verdicts():
    html = page_html(judged())
    reader = Reader(html)
    assert shows(reader) == dict.fromkeys(["norms.cv", "bounds.sharp"], "#table-verdict_heads")
    assert len(reader.ids) == len(set(reader.ids))
    names = {"verdicts", "verdict_layers", "verdict_heads"}
    assert {"claims", *(f"table-{name}" for name in names)} <= set(reader.ids)
    assert "&lt;sharp&gt;" in html
    without_scripts = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"\bnan\b", without_scripts, re.IGNORECASE)


@pytest.mark.slow
def test_verdicts_of_very_many_heads_are_only_a_file(monkeypatch):
    monkeypatch.setattr(page, "MOST_VERDICTS", 10)
    html = page_html(judged())
    assert "table-verdict_heads" in Reader(html).ids
    assert set(shows(Reader(html)).values()) == {"#table-verdict_heads"}
    assert "p (fails)" not in html


HIGHEST = "Recall loses most by fitted similarity: 40.0 percentage points of the cells; next"
NONE = "No assumption has a clearly highest cost for Recall."


@pytest.mark.parametrize(
    ("lead", "se", "sentence"),
    [(0.1, 0.05, HIGHEST), (0.2, 0.0, NONE), (-0.1, 0.15, NONE), (np.nan, np.nan, NONE)],
)
def test_the_assumption_with_the_highest_cost_is_stated(lead, se, sentence):
    shares = {
        "inside": [0.9, 0.7, 0.91, 0.5, 0.4],
        "cost": [0.0, 0.2, -0.01, 0.4, 0.5],
        "cost_se": [0.0, 0.03, 0.01, 0.02, 0.02],
        "cost_lower": [0.0, 0.1, -0.03, 0.3, 0.4],
        "width": [0.5, 0.45, 0.401, 0.3, 0.3],
    }
    data = {"moved": (("layer", "kv_head"), [[0.0, 0.2], [np.nan, 0.0]])}
    for score in ("precision", "recall"):
        data |= {f"{score}_{part}": ("swap", row) for part, row in shares.items()}
        for part, value in (("lead", 0.2), ("lead_lower", lead), ("lead_se", se)):
            data[f"{score}_{part}"] = ((), value)
    swaps = ["all", "all but weights", "all but norms", "all but similarity", "none"]
    coords = {"swap": swaps, "n_envelope": [2, 16]}
    ingredients = xr.Dataset(data, coords=coords, attrs={"gram": "exponential"})
    table = tables(with_groups(ingredients=ingredients))["ingredients"]
    rows = table.frame().to_numpy().tolist()
    assert [row[0] for row in rows] == [
        *("all three measured", "weights fitted", "norms fitted", "similarity fitted"),
        "all three fitted",
    ]
    assert rows[0][1:4] == ["90.0%", "n/a", "0.50"]
    assert rows[3][4:] == ["50.0%", "0.400 ± 0.020", "0.30"]
    for words in (
        "projected to the nearest positive semidefinite Gram matrix in 1 KV head.",
        "N = 2, 16,",
        sentence,
    ):
        assert words in table.caption


def test_rival_forms_have_counts_of_heads_by_rule():
    head, by_rival = ("layer", "head"), ("rival", "layer", "head")
    bic = [[[1.0, 1, 1, 1], [1, 1, 1, np.nan]], [[2.0, 2, 0, np.nan], [2, 2, 2, np.nan]]]
    loss = [[[1.0, 1, 1, 2], [1, 1, 1, 1]], [[2.0, 2, 0, 1], [2, 2, 2, 2]]]
    clearly = [[[True, True, False, False]] * 2, [[False] * 3 + [True]] * 2]
    significant = np.zeros((2, 2, 4), dtype=bool)
    significant[1, 1, 3] = True
    weights = group("weights").assign(
        preferred=(head, [[0, 0, 0, 1], [0, 0, 0, 1]]),
        form_chosen=(head, [[0, 0, 0, 1], [0, 0, 0, 0]]),
        preferred_differs=(head, [[True] * 4, [False] + [True] * 3]),
        rival_rmse=(by_rival, np.stack([np.full((2, 4), 0.5), np.full((2, 4), 0.75)])),
        rival_bic=(by_rival, bic),
        rival_loss_held_out=(by_rival, loss),
        rival_clearly_lowest=(by_rival, clearly),
        form_oscillation_identified=(("form", *head), significant),
    )
    weights = weights.assign_coords(rival=["power_law", "shared"], form=["monotone", "shared"])
    similarity = group("similarity").assign(chosen=(("layer", "kv_head"), [[1, 1], [0, -1]]))
    earlier = xr.Dataset({"recall_regained": ("swap", [0.1])})  # swaps in an earlier format
    groups = {"similarity": similarity, "weights": weights, "ingredients": earlier}
    by_name = tables(with_groups(**groups))
    assert "ingredients" not in by_name
    rows = by_name["rivals"].frame().to_numpy().tolist()
    # lowest loss, clearly, simplest within one standard error, lowest BIC (one head has none);
    # 7 heads prefer another form; 2 of these have an oscillation, one significant
    assert [" | ".join(row[1:7]) for row in rows] == [
        r"$e^{-\beta k}$, as printed | n/a | n/a | 1 | n/a | n/a",
        r"$c + (1-c) e^{-\beta k}$ | n/a | n/a | 2 | n/a | n/a",
        "a power of the distance to the last token | 6 | 4 | 6 | 6 | n/a",
        r"four phases, as printed (one $\eta$) | 2 | 2 | 2 | 1 | 1",
    ]
    assert rows[3][7] == "0.750 [0.750, 0.750]"
    assert "In 7 of 8 heads" in by_name["rivals"].caption
    assert "in 1 of them" in by_name["rivals"].caption
    (oscillation,) = [row for row in cells(by_name["weights"]) if "an oscillation" in row]
    _, meaning, share, _, heads = oscillation.split(" | ")
    assert meaning.startswith("an oscillation with the η of the growth, as printed,")
    assert (share, heads) == ("12.5% of heads", "8")
