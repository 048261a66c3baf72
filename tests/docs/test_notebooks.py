"""Notebooks: every cell runs in Jupyter; test_pages.py runs their code."""

from pathlib import Path

import jupytext
import nbclient
import pytest
from support.places import DOCS
from support.spine import Finished

NOTEBOOKS = ("tour_of_one_model", "what_if_study")


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.filterwarnings("default")  # of the libraries that drive a kernel
def test_a_notebook_runs(
    name: str, finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("PYTHONPATH", str(DOCS.parent))
    (tmp_path / "report").symlink_to(finished.out)
    notebook = jupytext.read(DOCS / "notebooks" / f"{name}.md")
    client = nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) >= 5
    assert all(cell.execution_count for cell in cells)


def test_every_notebook_is_tested():
    assert {path.stem for path in (DOCS / "notebooks").glob("*.md")} == {"README", *NOTEBOOKS}
