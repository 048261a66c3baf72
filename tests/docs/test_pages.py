"""Documentation pages: Python code runs, sentences are short, indexes are complete."""

import random
import re
import runpy
import statistics
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from support.families import letters, tiny
from support.places import DOCS, ROOT
from support.spine import Finished

import geostat as gs

PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SLOW = {"your_model.md", "own_tolerances.md"}
SLOW |= {"head_function.md", "effective_size.md"}  # as the examples of gs.ablate, gs.effective
SLOW |= {"tensors_from_elsewhere.md"}  # tests/docs/test_tensors_page.py
"""Pages whose code measures or confronts a run."""
FRONT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PLAIN = [FRONT[0], *sorted((DOCS / "tutorial").glob("*.md"))]
PLAIN += sorted(page for page in (DOCS / "how_to").glob("*.md") if page.stem != "README")
PLAIN += [
    DOCS / "explanation" / f"{name}.md"
    for name in ("verdicts", "bounds", "fits_weights", "precision_and_recall", "errata_graded")
]
WRITTEN = {"errata", "variables", "audit", "table1", "command_line", "claims", "signatures"}
"""Generated pages."""
QUOTING = "sentences"
"""A page that quotes the long sentences of a report."""
WORDS_A_SENTENCE = 25


def blocks(page: Path) -> str:
    return "\n".join(FENCE.findall(page.read_text(encoding="utf-8")))


@pytest.fixture
def folder_with_run(
    tmp_path: Path, monkeypatch, finished: Finished, model_folder: Path, text_folder: Path
) -> None:
    """Work in a folder with a run, a model and texts under the names that the pages use."""
    places = {"report": finished.out, "model": model_folder, "notes": text_folder}
    for name, place in places.items():
        (tmp_path / name).symlink_to(place)
    monkeypatch.chdir(tmp_path)


def run(page: Path, **variables: object) -> None:
    """Run all Python fences of a page in one namespace that contains `variables`."""
    exec(compile(blocks(page), str(page), "exec"), {"__name__": "page", **variables})
    plt.close("all")


QUICK = [page for page in PAGES if blocks(page) and page.name not in SLOW]


@pytest.mark.filterwarnings("ignore:omni_normtest")  # statsmodels, of a run of four layers
@pytest.mark.filterwarnings("ignore:Attempt to set non-positive xlim")  # curves of few sizes N
@pytest.mark.usefixtures("folder_with_run")
@pytest.mark.parametrize("page", QUICK, ids=lambda page: page.stem)
def test_python_code_of_a_page_runs(
    page: Path, finished: Finished, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("geostat.api.open", lambda path: finished.tree)  # verified once
    run(page)


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure", "folder_with_run")
@pytest.mark.parametrize("name", ["tutorial/your_model.md", "how_to/own_tolerances.md"])
def test_python_code_that_measures_or_confronts_runs(name: str):
    run(DOCS / name)


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure", "folder_with_run")
def test_python_code_of_readme_runs_with_a_model_in_memory():
    generator = random.Random(0)
    letter = "abcdefghijklmnopqrstuvwxyz"
    texts = ["".join(generator.choices(letter, k=1100)) + " end" for _ in range(3)]
    model = tiny("llama")
    model.config.max_position_embeddings = 1100
    run(ROOT / "README.md", model=model, tokenizer=letters(bos=True), texts=texts)


def test_pages_with_python_code_are_found():
    assert len(QUICK) > 10
    assert {page.name for page in PAGES if blocks(page)} >= SLOW


def sentences(text: str) -> list[str]:
    """Return the sentences of a page without fences, indented blocks, tables and headings."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    prose = [
        "" if line.startswith(("|", "#", "    ", "![")) else line for line in text.splitlines()
    ]
    paragraphs = re.split(r"\n\s*\n|\n(?=[-*] |\d\. )", "\n".join(prose))
    return [
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.?!:])[*)]*\s+(?=[A-Z*`\[(“])", " ".join(paragraph.split()))
        if len(sentence.split()) > 2
    ]


def lengths(page: Path) -> list[int]:
    return [len(sentence.split()) for sentence in sentences(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_no_sentence_of_a_plain_page_is_long(page: Path):
    assert 0 < max(lengths(page)) <= 2 * WORDS_A_SENTENCE


def test_sentences_are_short_on_average():
    pages = [page for page in [ROOT / "README.md", *PAGES] if page.stem not in WRITTEN | {QUOTING}]
    means = {page.name: statistics.mean(lengths(page)) for page in pages if lengths(page)}
    assert len(means) > 35
    assert {name: mean for name, mean in means.items() if mean >= WORDS_A_SENTENCE} == {}


@pytest.mark.parametrize("folder", ["tutorial", "how_to", "explanation", "reference", "studies"])
def test_the_readme_of_a_folder_lists_all_its_pages(folder: str):
    named = (DOCS / folder / "README.md").read_text(encoding="utf-8")
    pages = {page.stem for page in (DOCS / folder).glob("*.md")} - {"README"}
    assert [page for page in pages if named.count(page) < 2] == []  # in the table, and the toctree
    assert len(list((DOCS / folder).iterdir())) <= 16


def test_the_reference_lists_every_public_function():
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    described = set(re.findall(r"(?m)^\.\. auto(?:class|exception|function):: (.+)$", page))
    modules = set(re.findall(r"(?m)^\.\. automodule:: (.+)$", page))
    public = [getattr(gs, name) for name in gs.__all__]
    public += [getattr(gs.plot, name) for name in gs.plot.__all__]
    names = {
        f"{function.__module__}.{function.__qualname__}"
        for function in public
        if function is not gs.plot and function.__module__ not in modules
    }
    assert len(names) > 10
    assert names - described == set()


def test_no_page_quotes_python_dash_c():
    quoting = [page for page in [*FRONT, *PAGES] if "python -c" in page.read_text(encoding="utf-8")]
    assert quoting == []


def test_links_point_to_files_and_those_of_built_pages_into_the_documentation():
    unbuilt = {DOCS / name for name in runpy.run_path(str(DOCS / "conf.py"))["exclude_patterns"]}
    links = [
        (page, target)
        for page in [*FRONT, *PAGES]
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in target
    ]
    assert len(links) > 100
    assert [
        f"{page.name}: {target}"
        for page, target in links
        for file in [(page.parent / target).resolve()]
        if not file.exists()
        or (page in PAGES and page not in unbuilt and not file.is_relative_to(DOCS))
    ] == []
