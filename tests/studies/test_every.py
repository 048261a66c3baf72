"""All studies in one command: each exists, and a failure sets the exit code."""

import sys
from pathlib import Path

import pytest

from studies import __main__ as every


def test_the_command_lists_every_runnable_study():
    folder = Path(every.__file__).parent
    files = [*folder.glob("[!_]*.py"), *folder.glob("*/__main__.py")]
    paths = [file for file in files if 'if __name__ == "__main__"' in file.read_text()]
    runnable = {path.parent.name if path.stem == "__main__" else path.stem for path in paths}
    assert {study.split()[0] for study in every.STUDIES} | {*every.ALONE} == runnable


@pytest.mark.parametrize(("studies", "code"), [(("none",), 1), ((), 0)])
def test_a_study_that_fails_is_printed_and_fails_the_command(monkeypatch, capsys, studies, code):
    monkeypatch.setattr(every, "STUDIES", studies)
    monkeypatch.setattr(sys, "argv", ["studies"])
    with pytest.raises(SystemExit) as exit_info:
        every.main()
    assert exit_info.value.code == code
    output = capsys.readouterr().out
    assert output.startswith("== studies.none") == bool(code)
    assert ("No module named studies.none" in output) == bool(code)
