"""Topics of a page: question, answer, remarks on bounds, and the commands that reproduce it."""

from dataclasses import replace
from math import nan

import pytest
import xarray as xr
from markupsafe import Markup
from support.reports_tree import run_tree
from support.spine import Finished, geostat

import geostat as gs
from reports.page.cards import cards
from reports.page.svg import Shown
from reports.page.topics import Topic, drawn_head, topics
from reports.run import Run, key_results
from reports.text.number import percent
from reports.topics import bounds
from reports.topics.listed import ENTRIES, plans, tables
from reports.topics.verdicts import lines_of_claims, where_in_words


@pytest.fixture(scope="module")
def by_key(finished: Finished, tree: xr.DataTree, run: Run) -> dict[str, Topic]:
    plan = next(plan for plan in plans(run) if plan.name == "similarity")
    figure = Shown(plan, 1, Markup(""), [], plan.caption(run))
    of_run = topics(run, cards(run), [figure], tables(tree), str(finished.out))
    return {topic.key: topic for topic in of_run}


def test_topics_follow_the_order_of_the_paper(by_key):
    assert list(by_key) == [
        *("norms", "similarity", "weights", "separability", "bounds"),
        *("sink", "regimes", "geometry", "reach"),
    ]


def test_every_figure_and_table_belongs_to_one_topic_at_most(run):
    figures = [name for entry in ENTRIES for name in entry.figures]
    named = [name for entry in ENTRIES for name in entry.tables]
    assert len(set(figures)) == len(figures)
    assert len(set(named)) == len(named)
    assert {plan.name for plan in plans(run)} <= {*figures, "claims", "idea"}


def test_a_table_without_a_topic_is_in_the_last_topic(run):
    table = tables(run_tree())["norms"]
    *_, last = topics(run, [], [], {"one of a kind": table}, "report")
    assert last.key == "reach"
    assert last.tables == [table]


def test_an_answer_is_the_key_result_of_the_run_or_of_the_scoreboard(by_key, run):
    verdicts = {result["key"]: result["verdict"] for result in key_results(run.summary.attrs)}
    for key in ("norms", "weights", "bounds"):
        assert by_key[key].card.verdict == verdicts[key]
    assert by_key["sink"].card is None
    assert by_key["sink"].answers[0]["key"] == "sink_correlates"
    assert by_key["sink"].answers[0]["symbol"] in "✓✗?–"


@pytest.mark.slow
def test_commands_on_the_page_run(by_key, finished: Finished, tmp_path):
    figures, tables_again, fit = by_key["similarity"].again
    assert figures == f"geostat figures {finished.out} --only similarity"
    assert eval(fit, {"gs": gs}).startswith("[[")  # lmfit's report
    program, *words = tables_again.split()
    process = geostat(*words, "--out", tmp_path)
    assert process.code == 0, process.stderr
    assert (program, words[:3]) == ("geostat", ["tables", str(finished.out), "--only"])
    assert {path.stem for path in tmp_path.iterdir()} == set(words[3].split(","))
    assert by_key["weights"].again[-1].endswith('which="weights").fit_report()')


def test_the_command_fits_the_drawn_head(run):
    layers, heads, kv_heads, kv_head_of_head = (
        run.capture[name].values.tolist()
        for name in ("layer", "head", "kv_head", "kv_head_of_head")
    )
    kv_head_of = dict(zip(heads, kv_head_of_head, strict=True))
    layer, head = drawn_head(run, "weights")
    assert (layers.index(layer), heads.index(head)) == tuple(run.display.attrs["weights_head"])
    layer, head = drawn_head(run, "similarity")
    drawn = (layers.index(layer), kv_heads.index(kv_head_of[head]))
    assert drawn == tuple(run.display.attrs["similarity_head"])
    layer, head = drawn_head(run, "norms")
    distance = abs(run.norms["cv_token"] - run.norms["cv_token"].median())
    assert float(distance.sel(layer=layer, kv_head=kv_head_of[head])) == float(distance.min())


def test_layers_are_listed_by_the_majority_of_heads(run):
    claim = str(run.verdicts["claim"].values[0])
    data = run.verdicts.copy(deep=True)
    answers = data["answer_kv_head"]
    answers.loc[{"claim_kv_head": claim}] = -1
    changed, first = replace(run, verdicts=data), data["layer"].values[0]
    assert where_in_words(changed, claim) == "Fails in most KV heads of every layer."
    answers.loc[{"claim_kv_head": claim, "layer": first}] = 0
    sentence = where_in_words(changed, claim)
    assert sentence.startswith(f"Fails in most KV heads of {data.sizes['layer'] - 1} of")
    assert str(first) not in sentence.partition(": ")[2].split(", ")
    answers.loc[{"claim_kv_head": claim}] = 0
    assert where_in_words(changed, claim).startswith("Neither holds nor fails in most KV heads")
    assert where_in_words(changed, "no.claim") == ""


def test_each_assumption_has_a_line(run):
    assert len(lines_of_claims(run)) == 3
    assert lines_of_claims(Run.of(run_tree())) == []


def test_costs_are_listed_with_intervals_largest_first(run: Run):
    data = run.needed("ingredients")
    [sentence] = bounds.every_cost(run)
    costs = {
        words: 100 * float(data["recall_cost"].sel(swap=f"all but {name}"))
        for name, words in bounds.FITTED.items()
    }
    positions = [sentence.index(words) for words in sorted(costs, key=lambda words: -costs[words])]
    assert positions == sorted(positions)
    for words, value in costs.items():
        after = sentence.partition(f"{words} ")[2].partition(" (")[0]
        assert float(after.replace("−", "-")) == pytest.approx(value, abs=0.06)
    assert sentence.count("includes differences between documents") == 1
    inside = percent(float(data["recall_inside"].sel(swap="all")))
    assert sentence.startswith(
        f"With all ingredients measured, {inside} lie inside (mean over N = 2, "
    )
    for name, words in bounds.FITTED.items():
        in_short = bounds.cost_in_short(run, name)
        assert in_short.startswith("Cost to bounds")
        assert ("with differences between documents" in in_short) == (name == "weights")
        by_n = 100 * data["recall_cost_by_n"].sel(swap=f"all but {name}").values
        shown = [float(cost.replace("−", "-")) for cost in in_short.rpartition(": ")[2].split(", ")]
        assert shown == pytest.approx(by_n, abs=0.06)
        earlier = data.drop_vars([name for name in data if "by_n" in str(name)])
        in_short = bounds.cost_in_short(replace(run, ingredients=earlier), name)
        value, limits = in_short.rpartition(": ")[2].split(" ", 1)
        assert f"{words} {value} {limits[:-1]}" in sentence


def test_unknown_costs_are_not_listed(run: Run):
    data = run.needed("ingredients")
    unknown = data.assign(recall_cost=data["recall_cost"] * nan)
    for ingredients in (None, unknown):
        assert bounds.every_cost(replace(run, ingredients=ingredients)) == []
    assert bounds.cost_in_short(run, "bounds") == ""
    assert bounds.cost_in_short(replace(run, ingredients=None), "norms") == ""
