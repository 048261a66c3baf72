"""Refusals of `geostat whatif`: one line with a remedy, exit code 2, nothing written.

What the theory refuses for any caller is tested in tests/theory/what_if.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from support.spine import argv, geostat, refused

COSINES = 0.2 + 0.8 * np.exp(-0.5 * np.abs(np.subtract.outer(np.arange(9), np.arange(9))))


def spoilt(place: tuple[int, int], value: float, *, mirrored: bool = True) -> np.ndarray:
    """Return a Gram with one changed entry."""
    gram = COSINES.copy()
    gram[place] = value
    if mirrored:
        gram[place[::-1]] = value
    return gram


GRAMS = {
    "wide.npy": COSINES[:, :4],
    "asymmetric.npy": spoilt((2, 5), 0.1, mirrored=False),
    "hole.npy": spoilt((2, 3), np.nan),
    "products.npy": 3 * COSINES,
    "diagonal.npy": spoilt((4, 4), 0.9),
    "good.npy": COSINES,
    "headless.npy": np.array([0.5, 0.2]),
    "words.npy": np.array([["a", "b"], ["c", "d"]]),
    "cube.npy": np.ones((2, 2, 2)),
}
FILES = {
    "header.csv": b"a,b\n1,0\n0,1\n",
    "ragged.csv": b"1,0\n0\n",
    "empty.csv": b"",
    "words.csv": b"\xff\xfe\x00",
    "torn.npz": b"PK\x03\x04 torn",
    "pickle.npy": b"no array",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files above."""
    folder = tmp_path_factory.mktemp("grams")
    for name, array in GRAMS.items():
        np.save(folder / name, array)
    np.savez(folder / "two.npz", first=COSINES, second=COSINES)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


REFUSED = """
--set lam=-0.1 => lam = -0.1: expected finite numbers from 0
--set d=-64 => d = -64: expected whole numbers from 1
--set p_sink=-0.1 => p_sink = -0.1: expected finite numbers from 0 to 1
--set p_base=0 => p_base = 0: expected finite numbers above 0 to 1
--set rho0=1.5 => rho0 = 1.5: expected finite numbers from -1 to 1
--set T1=-1 => T1 = -1: expected whole numbers from 0, or shares of L such as 0.5L
--set d=inf => all of them finite numbers
--set beta=1:inf:5 => all of them finite numbers
--set T2=1.2L => T2 = 1.2L: expected from 0L to 1L
--set T1=0.1:0.5L:3 => some values are shares of L, expected all
--set N=0 => N = 0: expected whole numbers from 1
--gram asymmetric.npy => gram is 0.1 at row 2, column 5 but 0.378504 at row 5, column 2
--gram wide.npy => gram has shape (9, 4), expected (T, T)
--gram cube.npy => gram has shape (2, 2, 2), expected (T, T)
--gram hole.npy => gram is nan at row 2, column 3, expected finite cosines
--gram products.npy => gram is 3 at row 0, column 0, expected cosines from -1 to 1. Divide
--gram diagonal.npy => gram is 0.9 at row 4, column 4, expected 1 on the diagonal. Divide
--gram headless.npy => gram by lag starts with 0.5, expected the cosine at lag 0
--gram words.npy => gram: expected numbers
--gram header.csv => --gram header.csv: cannot be read (could not convert string 'a'
--gram ragged.csv => --gram ragged.csv: cannot be read (the number of columns changed from 2 to 1
--gram empty.csv => --gram empty.csv: cannot be read (it is empty), expected a square array
--gram torn.npz => --gram torn.npz: cannot be read (File is not a zip file), expected
--gram words.csv => --gram words.csv: cannot be read ('utf-8' codec can't decode
--gram ./ => --gram .: no such file, expected
--gram pickle.npy => --gram pickle.npy: cannot be read (it is not a NumPy file), expected
--gram two.npz => it holds the arrays first, second, none of them called gram
--gram absent.npy => --gram absent.npy: no such file
--gram measured => --gram measured was given without a head
--gram good.npy --set beta=1,2 => beta is set beside a measured Gram, expected none of rho0, beta,
--gram good.npy --set L=64 => L = 64: expected 8, as the measured Gram has 9 tokens. Leave L out
--gram good.npy --set N=10 => N = 10 at L = 8: expected N from 1 to T
--set beta=0.1:1:10001 => a range of 10,001 values, expected at most 10,000. Give a smaller COUNT
--find N=1:1e15 --target 0.5 => values of N need
--find N=1:inf --target 0.5 => expected a parameter, or one with the range to search
--find beta --target 0.5 --set N=2,3 => --set N takes 2 values, but --find
--find beta=2:1 --target 0.5 => beta: expected a range to search, low below high
(nothing) => no parameter was given, expected one or more
--elasticity --set N=2,3 => --set N takes several values, but --elasticity needs one point
--elasticity --find N --target 0.5 => --elasticity and --find were both given
--find N => --find was given without --target, expected both
--target 0.5 => --target was given without --find, expected both
--find N --target 0.5 --bound recall_lower --bound recall_upper => 2 bounds were given
--find N --target 0.5 --bound recall => 'recall' is not a bound
--set N=1 --set N=2 => --set N was given more than once
--set N=1 --edition first => edition is 'first', expected one of printed
"""
"""Arguments => part of the message."""


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_invalid_studies_are_one_line_with_a_remedy_and_write_nothing(
    row: str, here: Path, monkeypatch: pytest.MonkeyPatch
):
    words, message = row.split(" => ")
    monkeypatch.chdir(here)
    before = sorted(here.iterdir())
    line = refused(geostat("whatif", *argv(words.replace("(nothing)", "")), "--out", "out"))
    assert message in line
    assert re.search(r"expected|needs|given", line)
    assert sorted(here.iterdir()) == before
