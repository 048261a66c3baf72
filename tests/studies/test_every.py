"""All studies in one command: each exists, and one that fails is told by the exit code."""

import sys
from pathlib import Path

import pytest

from studies import __main__ as every


def test_every_study_that_can_be_run_is_among_them():
    files = Path(every.__file__).parent.glob("[!_]*.py")
    of_their_own = {one.stem for one in files if 'if __name__ == "__main__"' in one.read_text()}
    assert {study.split()[0] for study in every.STUDIES} == of_their_own


@pytest.mark.parametrize(("studies", "code"), [(("none",), 1), ((), 0)])
def test_a_study_that_fails_is_printed_and_fails_the_command(monkeypatch, capsys, studies, code):
    monkeypatch.setattr(every, "STUDIES", studies)
    monkeypatch.setattr(sys, "argv", ["studies"])
    with pytest.raises(SystemExit) as ended:
        every.main()
    assert ended.value.code == code
    said = capsys.readouterr().out
    assert said.startswith("== studies.none") == bool(code)
    assert ("No module named studies.none" in said) == bool(code)
