"""Boundaries: whatever another program raises is one line, and what stops a process passes."""

import pytest
from support.raising import RAISED

from empirical.errors import InputError, StoreError, boundary


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_is_raised_is_one_short_line(error: BaseException):
    with pytest.raises(InputError) as caught, boundary("a.txt: fails", "expected none. Mend it."):
        raise error
    line = str(caught.value)
    assert line.startswith("a.txt: fails (")
    assert line.endswith("), expected none. Mend it.")
    assert "\n" not in line
    assert len(line) < 300
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), InputError("a"), StoreError("b")]
)
def test_what_stops_a_process_passes_and_so_does_what_has_its_line(error: BaseException):
    with pytest.raises(type(error)) as caught, boundary("a.txt: fails", "expected none."):
        raise error
    assert caught.value is error
