"""Optional groups on the page and in LaTeX; without one its figure is refused with the command."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from support import optional_groups as made_up
from support.figures import shown_alone
from support.latex import compiled, complaints, needs_latex
from support.optional_groups import run_with
from support.reports_tree import run_tree, with_groups

from reports.errors import InputError
from reports.page.page import write_page
from reports.run import Run
from reports.tables.paper import document
from reports.topics import ablation, effective, normaliser, predictive
from reports.topics.ablation import figure_ablation
from reports.topics.effective import figure_effective, figure_effective_layers
from reports.topics.normaliser import figure_normaliser
from reports.topics.predictive import figure_predictive
from reports.topics.sink_and_regimes import figure_sink

GROUPS = ("ablation", "effective", "normaliser", "predictive")
TOPICS = (ablation, effective, normaliser, predictive)


@pytest.mark.parametrize(
    ("groups", "questions", "table_names"),
    [
        (
            ["ablation"],
            ["How many tokens does a query need?"],
            "head_prediction head_function head_needs budgets regime_cuts contexts",
        ),
        (
            ["effective", "normaliser"],
            ["How many tokens does a query need?", "How do weights decay with length"],
            "effective effective_sets effective_curves normaliser",
        ),
    ],
    ids=["ablation alone", "effective and normaliser"],
)
def test_the_page_has_questions_figures_and_tables(
    groups, questions, table_names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown_alone(monkeypatch, *groups)
    tree = with_groups(**{name: getattr(made_up, name)() for name in groups})
    page = write_page(tree, tmp_path).read_text(encoding="utf-8")
    assert all(question in page for question in questions)
    for name in table_names.split():
        assert f'id="table-{name}"' in page
        assert (tmp_path / f"tables/{name}.tex").exists()
    for name in groups:
        before, figure, _ = page.partition(f'id="figure-{name}"')
        assert figure
        assert 'id="about-reach"' not in before  # the topic of what has no other
        assert (tmp_path / f"figures/{name}.pdf").exists()


@needs_latex
def test_the_tables_compile(tmp_path: Path):
    run = run_with(**{name: getattr(made_up, name)() for name in GROUPS})
    all_tables = [table for topic in TOPICS for table in topic.tables(run)]
    assert len(all_tables) == 12
    assert complaints(compiled(tmp_path, document(all_tables))) == []


@pytest.mark.parametrize(
    ("draw", "remedy"),
    [
        (figure_sink, "has no /sink; expected results of a confrontation"),
        (figure_ablation, "Measure them with `geostat ablate`"),
        (figure_effective, "Measure them with `geostat effective`"),
        (figure_effective_layers, "Measure them with `geostat effective --each layer`"),
        (figure_normaliser, "Measure them with `geostat normaliser`"),
        (figure_predictive, "expected predicted curves. Confront it again with --predict."),
    ],
)
def test_a_run_without_the_group_is_refused_with_the_command(draw, remedy: str):
    with pytest.raises(InputError) as raised:
        draw(Figure().subplots(1, 2), Run.of(run_tree()))
    assert remedy in str(raised.value)
