"""Tolerances: one with a source for every claim, a user's over the built-in ones, and a wrong file
refused.
"""

import os
from pathlib import Path

import pytest

from empirical.errors import InputError as MeasurementError
from geostat.errors import InputError
from geostat.verdicts.claims import CLAIMS
from geostat.verdicts.tolerances import DEFAULT_TOLERANCES, Tolerance, read_tolerances


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="no paths of open files here")
def test_tolerances_may_come_through_a_pipe_that_ends_and_through_nothing_else(tmp_path: Path):
    end, start = os.pipe()
    with os.fdopen(start, "w") as file:
        file.write("[norms.cv]\nat_most = 0.2\n")
    assert read_tolerances(Path(f"/dev/fd/{end}"))["norms.cv"].value == 0.2
    os.close(end)
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(MeasurementError, match="zero: is a pipe, a device or a socket, expected"):
        read_tolerances(tmp_path / "zero")
    (tmp_path / "large").write_bytes(b"#" * 2**21)
    with pytest.raises(MeasurementError, match="holds 2097152 bytes, expected at most 1048576"):
        read_tolerances(tmp_path / "large")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        read_tolerances(tmp_path)


def test_every_claim_has_a_tolerance_with_a_source():
    found = read_tolerances()
    assert set(found) == {claim.key for claim in CLAIMS}
    assert all(tolerance.source for tolerance in found.values())


def test_a_user_s_file_replaces_the_tolerances_it_names(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text('[norms.cv]\nat_most = 0.2\nsource = "a pilot"\n', encoding="utf-8")
    found = read_tolerances(file)
    assert found["norms.cv"] == Tolerance(value=0.2, source="a pilot")
    assert found["norms.sink"] == read_tolerances()["norms.sink"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[norms.cw]\nat_most = 1\n",
            r"\[norms.cw\] is no claim, expected one of norms.cv, .*\. Name one of those\.$",
        ),
        (
            "[norms.cv]\nat_least = 1\n",
            (
                r"\[norms.cv\] has 'at_least', expected at_most = NUMBER and source = TEXT\. Write"
                r" it so\.$"
            ),
        ),
        ("[norms.cv]\nsource = 'x'\n", r"\[norms.cv\] has no 'at_most', expected at_most = NUMBER"),
        (
            "[norms.cv]\nat_most = -1\n",
            r"\[norms.cv\] at_most = -1, expected a number of at least 0\. Give one\.$",
        ),
        ("[norms.cv]\nat_most = nan\n", r"at_most = nan, expected a number"),
        ("[norms.cv]\nat_most = '1'\n", r"at_most = '1', expected a number"),
        (
            '"norms.sink" = 0.5\n',
            (
                r"norms.sink = 0.5, expected a table \[norms.sink\] with at_most = NUMBER and"
                r" source = TEXT\. Write it so\.$"
            ),
        ),
        ("norms = 3\n", r"\[norms\] is no claim"),
        (f"[norms.cv]\nat_most = 1{'0' * 400}\n", r"at_most = a whole number beyond"),
        (f"[norms.cv]\nat_most = {'9' * 5000}\n", r"is no TOML .*integer string"),
        (f"[norms.cv]\nat_most = {'[' * 3000}\n", r"is no TOML \(nested too deep\)"),
        ("[norms.cv\n", r"is no TOML .* Start from a copy of .*tolerances.toml\.$"),
    ],
)
def test_a_wrong_file_of_tolerances_is_refused_in_one_line(tmp_path: Path, text: str, line: str):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=line) as refused:
        read_tolerances(file)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_of_tolerances_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"cannot be read .* Check the path\.$"):
        read_tolerances(tmp_path / "none.toml")


def test_the_built_in_file_can_be_given_as_a_user_s():
    assert read_tolerances(DEFAULT_TOLERANCES) == read_tolerances()
