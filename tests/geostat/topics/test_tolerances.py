"""Tolerances: one with a source for every claim; a user's file replaces them or is refused."""

import re
from pathlib import Path

import pytest

from empirical.errors import InputError as MeasurementError
from geostat.errors import InputError
from geostat.topics.claims import CLAIMS, as_toml, read_tolerances, requirement
from geostat.topics.records import Tolerance


def test_large_and_missing_files_are_refused(tmp_path: Path):
    (tmp_path / "large").write_bytes(b"#" * 2**21)
    with pytest.raises(MeasurementError, match="holds 2097152 bytes, expected at most 1048576"):
        read_tolerances(tmp_path / "large")
    with pytest.raises(InputError, match=r"cannot be read .* Check the path\.$"):
        read_tolerances(tmp_path / "none.toml")


def test_every_claim_has_a_tolerance_with_a_source():
    tolerances = read_tolerances()
    assert set(tolerances) == {claim.key for claim in CLAIMS}
    assert all(tolerance.source for tolerance in tolerances.values())


def test_a_user_file_replaces_the_tolerances_it_names(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text('[norms.cv]\nat_most = 0.2\nsource = "a pilot"\n', encoding="utf-8")
    mine = {"norms.cv": Tolerance(value=0.2, source="a pilot")}
    assert read_tolerances(file) == read_tolerances() | mine


FORM = r", expected at_most = NUMBER and source = TEXT\. Use that form\.$"
WITHDRAWN = r"bounds\.sharp_measured\]? was withdrawn: the scatter .* Leave it out\.$"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[norms.cw]\nat_most = 1", r"\[norms.cw\] is not a claim, expected one of norms.cv, "),
        ("[norms.cv]\nat_least = 1", rf"\[norms.cv\] has 'at_least'{FORM}"),
        ("[norms.cv]\nsource = 'x'", rf"\[norms.cv\] has no 'at_most'{FORM}"),
        ("[norms.cv]\nat_most = -1", r"at_most = -1, expected a number ≥ 0\. Give one\.$"),
        ("[norms.cv]\nat_most = nan", r"at_most = nan, expected a number"),
        ("[norms.cv]\nat_most = '1'", r"at_most = '1', expected a number"),
        ('"norms.sink" = 0.5', r"norms.sink = 0.5, expected a table \[norms.sink\] with at_most"),
        ("norms = 3", r"\[norms\] is not a claim"),
        (f"[norms.cv]\nat_most = 1{'0' * 400}", r"at_most = an integer above the largest float"),
        (f"[norms.cv]\nat_most = {'9' * 5000}", r"is not valid TOML .*integer string"),
        (f"[norms.cv]\nat_most = {'[' * 3000}", r"is not valid TOML \(nested too deep\)"),
        ("[norms.cv", r"is not valid TOML .* start from a copy of .*tolerances.toml\.$"),
        ("[bounds.sharp_measured]\nat_most = 0.01", WITHDRAWN),
    ],
)
def test_an_invalid_tolerance_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"^{re.escape(str(file))}: .*{message}") as refused:
        read_tolerances(file)
    assert "\n" not in str(refused.value)


def test_a_withdrawn_claim_cannot_be_required():
    with pytest.raises(InputError, match=f"^--require bounds.sharp_measured holds 0: {WITHDRAWN}"):
        requirement("bounds.sharp_measured holds 0")


def test_the_built_in_tolerances_can_be_read_as_a_user_file(tmp_path: Path):
    (tmp_path / "mine.toml").write_text(as_toml(), encoding="utf-8")
    assert read_tolerances(tmp_path / "mine.toml") == read_tolerances()
