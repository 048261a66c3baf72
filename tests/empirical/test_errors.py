"""Boundaries: whatever another program raises is one line, and what stops a process passes."""

import pytest
from support.raising import RAISED, refused

from empirical.errors import InputError, StoreError, boundary


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_any_error_is_one_short_line(error):
    said = r"^a.txt: fails \(.*\), expected none. Mend it.$"
    with refused(said) as caught, boundary("a.txt: fails", "expected none. Mend it."):
        raise error
    assert len(str(caught.value)) < 300
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), InputError("a"), StoreError("b")]
)
def test_interrupts_and_known_errors_pass_through(error):
    with pytest.raises(type(error)) as caught, boundary("a.txt: fails", "expected none."):
        raise error
    assert caught.value is error
