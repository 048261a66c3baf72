"""Numbers in README.md: every one is named, and those of a run are told from others."""

from pathlib import Path

import pytest
from support.places import ROOT
from support.spine import Finished

from docs.scripts.readme_numbers import (
    QUOTED,
    README,
    compared,
    main,
    quoted,
    section,
    unexplained,
)

TEXT = section(README.read_text(encoding="utf-8"))


def test_every_number_of_the_findings_comes_from_a_run():
    assert len(QUOTED) > 20
    assert unexplained(TEXT) == []


def test_a_number_that_no_run_gives_is_found():
    assert unexplained(TEXT + " In 17% of heads.") == ["17%"]


def test_words_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="does not say"):
        quoted(QUOTED[0], "nothing of the kind")


@pytest.mark.slow
def test_another_run_gives_other_numbers(finished: Finished, capsys: pytest.CaptureFixture[str]):
    rows = compared(finished.tree, TEXT)
    has = {one.words: value for one, _, value in rows}
    precision = float(finished.tree["queries"]["precision"].sel(n=2).mean())
    assert has["Precision is {} at N = 2"].startswith(f"{precision:.3f} ± ")
    assert has["{} documents of"] == "3"
    told = main(str(finished.out))
    assert told == sum(said != value for _, said, value in rows) > 10
    assert capsys.readouterr().out.count("DIFFERS") == told


@pytest.mark.slow
def test_readme_says_what_the_run_at_report_holds(capsys: pytest.CaptureFixture[str]):
    run = ROOT / "report"
    if not (run / "run.zarr").exists():
        pytest.skip("there is no run at report/: make report")
    assert main(str(run)) == 0, capsys.readouterr().out


def test_readme_is_short():
    assert len(Path(README).read_text(encoding="utf-8").splitlines()) <= 65
