"""Topics of a page: question, answer, how sure, and the commands that show it again."""

import json
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import Markup
from support.reports_tree import run_tree
from support.spine import Finished, geostat

import geostat as gs
from geostat.display.tree import with_display
from reports.figures.every import plans
from reports.page.cards import cards
from reports.page.plans import PLANS
from reports.page.svg import Shown
from reports.page.topics import Topic, drawn_head, topics
from reports.page.where import lines_of_claims, spans, where_in_words
from reports.run import Run
from reports.tables.every import tables

ORDER = [
    *("norms", "similarity", "weights", "separability", "bounds"),
    *("sink", "regimes", "directions", "reach"),
]


@pytest.fixture(scope="module")
def run(finished: Finished) -> Run:
    return Run.of(with_display(finished.tree))


@pytest.fixture(scope="module")
def made(finished: Finished, run: Run) -> dict[str, Topic]:
    known = tables(with_display(finished.tree))
    plan = next(plan for plan in plans(run) if plan.name == "similarity")
    figure = Shown(plan, 1, Markup(""), [], plan.caption(run))
    return {one.key: one for one in topics(run, cards(run), [figure], known, str(finished.out))}


def test_topics_stand_in_the_order_of_the_paper(made):
    assert list(made) == ORDER


def test_every_figure_and_table_belongs_to_one_topic_at_most(run):
    figures = [name for plan in PLANS for name in plan.figures]
    named = [name for plan in PLANS for name in plan.tables]
    assert len(set(figures)) == len(figures)
    assert len(set(named)) == len(named)
    assert {plan.name for plan in plans(run)} - {*figures, "claims", "idea"} == set()


def test_a_table_that_no_topic_names_stands_in_the_last(run):
    table = tables(run_tree())["norms"]
    *_, last = topics(run, [], [], {"one of a kind": table}, "report")
    assert last.key == "reach"
    assert last.tables == [table]


@pytest.mark.parametrize("key", ["norms", "weights", "bounds", "sink"])
def test_an_answer_is_that_of_the_run(made, run, key):
    topic = made[key]
    if key == "sink":
        assert topic.card is None
        assert topic.answers[0]["key"] == "sink_correlates"
        assert topic.answers[0]["symbol"] in "✓✗?–"
    else:
        told = map(json.loads, run.summary.attrs["key_results"])
        assert topic.card.verdict == next(one["verdict"] for one in told if one["key"] == key)


@pytest.mark.slow
def test_commands_run_as_they_stand(made, finished: Finished, tmp_path):
    figures, tables_again, fit = made["similarity"].again
    assert figures == f"geostat figures {finished.out} --only similarity"
    assert eval(fit, {"gs": gs}).startswith("[[")  # lmfit's report
    program, *words = tables_again.split()
    said = geostat(*words, "--out", tmp_path)
    assert said.code == 0, said.stderr
    assert (program, words[:3]) == ("geostat", ["tables", str(finished.out), "--only"])
    assert {path.stem for path in tmp_path.iterdir()} == set(words[3].split(","))
    assert made["weights"].again[-1].endswith('which="weights").fit_report()')


def test_the_head_that_is_fitted_is_the_head_that_is_drawn(run):
    layer, head = drawn_head(run, "norms")
    at = run.capture["kv_head_of_head"].sel(head=head).item()
    cv = run.norms["cv_token"]
    distance = abs(cv - cv.median())
    assert float(distance.sel(layer=layer, kv_head=at)) == float(distance.min())
    layer, head = drawn_head(run, "weights")
    place = run.display.attrs["weights_head"]
    assert (layer, head) == tuple(
        int(run.capture[name].values[at]) for name, at in zip(("layer", "head"), place, strict=True)
    )
    layer, head = drawn_head(run, "similarity")
    at = list(run.capture["head"].values).index(head)
    value_head = run.capture["kv_head_of_head"].values[at]
    place = run.display.attrs["similarity_head"]
    assert list(run.capture["kv_head"].values).index(value_head) == place[1]


def test_layers_are_named_where_most_heads_say_so(run):
    claim = str(run.verdicts["claim"].values[0])
    data = run.verdicts.copy(deep=True)
    answers = data["answer_kv_head"]
    answers.loc[{"claim_kv_head": claim}] = -1
    changed, first = replace(run, verdicts=data), data["layer"].values[0]
    assert where_in_words(changed, claim) == "Fails in most value heads of every layer."
    answers.loc[{"claim_kv_head": claim, "layer": first}] = 0
    said = where_in_words(changed, claim)
    assert said.startswith(f"Fails in most value heads of {data.sizes['layer'] - 1} of")
    assert str(first) not in said.partition(": ")[2].split(", ")
    answers.loc[{"claim_kv_head": claim}] = 0
    assert where_in_words(changed, claim).startswith("Settled in most value heads of no layer")
    assert where_in_words(changed, "no.claim") == ""


def test_each_assumption_has_a_line(run):
    words = [words for words, _ in lines_of_claims(run)]
    assert len(words) == 3
    assert lines_of_claims(Run.of(run_tree())) == []


@pytest.mark.parametrize(
    ("numbers", "said"), [([3], "3"), ([0, 1], "0, 1"), (list(np.arange(5)), "0 to 4")]
)
def test_neighbouring_layers_are_joined(numbers, said):
    assert spans(numbers) == said
