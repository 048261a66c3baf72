"""What `geostat whatif` refuses: one line with what was seen, what was expected and the remedy,
exit code 2, nothing written.
"""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from geostat.cli import app

COSINES = 0.2 + 0.8 * np.exp(-0.5 * np.abs(np.subtract.outer(np.arange(9), np.arange(9))))


def spoilt(place, value, mirrored=True):
    """A Gram with one entry changed."""
    gram = COSINES.copy()
    gram[place] = value
    if mirrored:
        gram[place[::-1]] = value
    return gram


GRAMS = {
    "wide.npy": COSINES[:, :4],
    "asymmetric.npy": spoilt((2, 5), 0.1, mirrored=False),
    "impossible.npy": spoilt((2, 3), -0.9),
    "hole.npy": spoilt((2, 3), np.nan),
    "endless.npy": spoilt((2, 3), np.inf),
    "products.npy": 3 * COSINES,
    "diagonal.npy": spoilt((4, 4), 0.9),
    "good.npy": COSINES,
    "lags.npy": np.array([1.0, -0.9, 0.9, 0.9]),
    "headless.npy": np.array([0.5, 0.2]),
    "words.npy": np.array([["a", "b"], ["c", "d"]]),
    "cube.npy": np.ones((2, 2, 2)),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files above."""
    monkeypatch.chdir(tmp_path)
    for name, array in GRAMS.items():
        np.save(name, array)
    np.savez("two.npz", first=COSINES, second=COSINES)
    Path("header.csv").write_text("a,b\n1,0\n0,1\n", encoding="utf-8")
    Path("ragged.csv").write_text("1,0\n0\n", encoding="utf-8")
    Path("empty.csv").write_text("", encoding="utf-8")
    Path("words.csv").write_bytes(b"\xff\xfe\x00")
    Path("torn.npz").write_bytes(b"PK\x03\x04 torn")
    Path("pickle.npy").write_bytes(b"no array")
    return tmp_path


SHORT = "--set L=64 "
REFUSED = {
    "negative decay": ("--set beta=-1", "beta = -1: expected finite numbers above 0"),
    "no decay": ("--set beta=0,1", "beta = 0: expected finite numbers above 0"),
    "negative ratio": ("--set lam=-0.1", "lam = -0.1: expected finite numbers from 0"),
    "negative norm": ("--set C=-1", "C = -1: expected finite numbers above 0"),
    "negative constant": (
        "--set kappa=-0.1:0.1:3",
        "kappa = -0.1: expected finite numbers above 0",
    ),
    "negative head size": ("--set d=-64", "d = -64: expected whole numbers from 1"),
    "negative weight of the sink": (
        "--set p_sink=-0.1",
        "p_sink = -0.1: expected finite numbers from 0 to 1",
    ),
    "no weight of the plateau": (
        "--set p_base=0",
        "p_base = 0: expected finite numbers above 0 to 1",
    ),
    "cosine beyond 1": ("--set rho0=1.5", "rho0 = 1.5: expected finite numbers from -1 to 1"),
    "negative position": (
        "--set T1=-1",
        "T1 = -1: expected whole numbers from 0, or shares of L such as 0.5L",
    ),
    "not a number": ("--set beta=nan", "--set beta=nan: expected beta=VALUE"),
    "infinite": ("--set d=inf", "all of them finite numbers"),
    "infinite range": ("--set beta=1:inf:5", "all of them finite numbers"),
    "no whole number": ("--set N=1.5", "N = 1.5: expected whole numbers from 1"),
    "phases out of order": (
        SHORT + "--set T1=60 --set T2=50",
        "T1 = 60, T2 = 50: no such attention profile, expected 0 <= T1 <= T2 <= L = 64",
    ),
    "shares out of order": (
        SHORT + "--set T1=0.9L --set T2=0.5L",
        "T1 = 58, T2 = 32: no such attention profile",
    ),
    "phases beyond L": (
        SHORT + "--set T2=65",
        "T2 = 65: no such attention profile, expected 0 <= T1 <= T2 <= L = 64",
    ),
    "share beyond L": ("--set T2=1.2L", "T2 = 1.2L: expected from 0L to 1L"),
    "a share that is none": ("--set T1=0.5L,10", "some values are shares of L, expected all"),
    "a range of one share": ("--set T1=0.1:0.5L:3", "some values are shares of L, expected all"),
    "a share of something else": ("--set N=0.5L", "--set N=0.5L: expected N=VALUE"),
    "no size": ("--set N=0", "N = 0: expected whole numbers from 1"),
    "size beyond T": (
        SHORT + "--set N=66",
        "N = 66 at L = 64: expected N from 1 to T = L + 1. Use a smaller N or a larger L",
    ),
    "size beyond the shortest": (
        "--set L=8,64 --set N=2:64:4",
        "N = 64 at L = 8: expected N from 1 to T",
    ),
    "all on the sink": (
        "--set p_sink=1",
        "p_sink = 1: no such attention profile, expected 0 <= p_sink < 1",
    ),
    "more than all on the sink": (
        "--set p_sink=1.5",
        "p_sink = 1.5: expected finite numbers from 0 to 1",
    ),
    "a profile that sums to more": (
        SHORT + "--set p_base=0.5",
        "p_base = 0.5, p_sink = 0.3: no such attention profile, expected weights that sum",
    ),
    "a negative weight": (
        SHORT + "--set eta=1.5",
        "eta = 1.5: no such attention profile, expected |eta| <= 1",
    ),
    "a negative strength": (
        "--set eta=-0.1",
        "eta = -0.1: expected finite numbers from 0 (strength of the oscillation",
    ),
    "a negative growth": (
        "--set growth=-0.1,0.1",
        "growth = -0.1: expected finite numbers from 0 (rate of the growth",
    ),
    "a negative frequency": (
        "--set omega=-1",
        "omega = -1: expected finite numbers from 0 (frequency of the oscillation",
    ),
    "a stretch without effect": (
        "--set stretch=2",
        (
            "stretch is set, but the exponential Gram is not stretched, expected none given. Use"
            " --gram"
        ),
    ),
    "a constant without effect": (
        "--set kappa=0.1,5 --edition sharp",
        "kappa is set, but the sharp edition has no such constant, expected none given",
    ),
    "a growth without end": ("--set growth=900", "expected a growth that stays finite"),
    "asymmetric": (
        "--gram asymmetric.npy",
        (
            "gram is 0.1 at row 2, column 5 but 0.378504 at row 5, column 2, expected a symmetric"
            " matrix. Use (gram"
        ),
    ),
    "no vectors": (
        "--gram impossible.npy",
        "gram: its smallest eigenvalue is -0.656, expected none below 0",
    ),
    "no vectors with these lags": (
        "--gram lags.npy --set rho0=0",
        "gram: its smallest eigenvalue is -",
    ),
    "wrong shape": ("--gram wide.npy", "gram has shape (9, 4), expected (T, T)"),
    "three axes": ("--gram cube.npy", "gram has shape (2, 2, 2), expected (T, T)"),
    "a hole in the Gram": (
        "--gram hole.npy",
        "gram is nan at row 2, column 3, expected finite cosines",
    ),
    "an endless cosine": (
        "--gram endless.npy",
        "gram is inf at row 2, column 3, expected finite cosines",
    ),
    "inner products": (
        "--gram products.npy",
        "gram is 3 at row 0, column 0, expected cosines from -1 to 1. Divide",
    ),
    "no unit diagonal": (
        "--gram diagonal.npy",
        "gram is 0.9 at row 4, column 4, expected 1 on the diagonal. Divide",
    ),
    "lags without lag 0": (
        "--gram headless.npy",
        "gram by lag starts with 0.5, expected the cosine at lag 0",
    ),
    "words for cosines": ("--gram words.npy", "gram: expected numbers"),
    "a header": (
        "--gram header.csv",
        "--gram header.csv: cannot be read (could not convert string 'a'",
    ),
    "ragged rows": (
        "--gram ragged.csv",
        "--gram ragged.csv: cannot be read (the number of columns changed from 2 to 1",
    ),
    "an empty file": (
        "--gram empty.csv",
        "--gram empty.csv: cannot be read (it is empty), expected a square array",
    ),
    "a torn file": (
        "--gram torn.npz",
        "--gram torn.npz: cannot be read (File is not a zip file), expected",
    ),
    "no text": ("--gram words.csv", "--gram words.csv: cannot be read ('utf-8' codec can't decode"),
    "a folder": ("--gram ./", "--gram .: no such file, expected"),
    "no array": (
        "--gram pickle.npy",
        "--gram pickle.npy: cannot be read (it is no file of NumPy's), expected",
    ),
    "several arrays": (
        "--gram two.npz",
        "it holds the arrays first, second, none of them called gram",
    ),
    "no such file": ("--gram absent.npy", "--gram absent.npy: no such file"),
    "no such Gram": ("--gram sine", "gram is 'sine', expected one of exponential"),
    "measured without a head": ("--gram measured", "--gram measured needs a head"),
    "decay beside a Gram": (
        "--gram good.npy --set beta=1,2",
        (
            "beta is set beside a measured Gram, expected none of beta, rho0, c, stretch. Leave"
            " beta out"
        ),
    ),
    "a sink beside a Gram": (
        "--gram good.npy --set rho0=0.1",
        "rho0 is set beside a measured Gram",
    ),
    "another length": (
        "--gram good.npy --set L=64",
        "L = 64: expected 8, as the measured Gram has 9 tokens. Leave L out",
    ),
    "size beyond the Gram": (
        "--gram good.npy --set N=10",
        "N = 10 at L = 8: expected N from 1 to T",
    ),
    "unknown name": (
        "--set banana=1",
        "--set banana=1: 'banana' is no parameter, expected one of N, L, d",
    ),
    "no values": ("--set beta=", "--set beta=: expected beta=VALUE"),
    "multiples beside numbers": ("--set beta=1,x2", "--set beta=1,x2: expected beta=VALUE"),
    "more points than memory": (
        "--set N=1:900:900 --set beta=0.1:1:10000 --set eta=0.01:0.1:100 --set d=1:1000:1000",
        "900,000,000,000 points need",
    ),
    "more values in a range than anybody reads": (
        "--set beta=0.1:1:10001",
        "a range of 10,001 values, expected at most 10,000. Give a smaller COUNT",
    ),
    "more profiles than memory": (
        SHORT + " ".join(f"--set {name}=0.01:0.1:1000" for name in ("eta", "p_sink", "omega")),
        "1,000,000,000 points need",
    ),
    "more sizes than memory": ("--find N=1:1e15 --target 0.5", "values of N need"),
    "sizes without end": (
        "--find N=1:inf --target 0.5",
        "expected a parameter, or one with the range to search",
    ),
    "search of several values": (
        "--find beta --target 0.5 --set N=2,3",
        "--set N takes 2 values, but --find",
    ),
    "a search of nothing": (
        "--find foo --target 0.5",
        "'foo' cannot be searched for, expected one of N, d, kappa, beta, rho0, c, stretch, lam",
    ),
    "a search of a position": (
        "--find T1 --target 0.5",
        "growth, omega, C. Use one of those, or let T1 vary with --set",
    ),
    "a target that is none": ("--find N --target nan", "target is nan, expected a probability"),
    "an upside-down range": (
        "--find beta=2:1 --target 0.5",
        "beta: expected a range to search, low below high",
    ),
    "nothing": ("", "no parameter was given, expected one or more to vary or fix"),
    "elasticity over a range": (
        "--elasticity --set N=2,3",
        "--set N takes several values, but --elasticity needs one point",
    ),
    "elasticity and search": (
        "--elasticity --find N --target 0.5",
        "--elasticity and --find were both given",
    ),
    "elasticity of nothing": (
        "--elasticity --set rho0=0.9",
        "no vectors have the Gram of this point",
    ),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_one_line_with_a_remedy_and_leaves_nothing(
    words: str, message: str, here: Path, capsys, monkeypatch
):
    before = sorted(here.iterdir())
    monkeypatch.setattr(sys, "argv", ["geostat"])
    with pytest.raises(SystemExit) as exit_:
        app.app(["whatif", *words.split(), "--out", "out"])
    said = capsys.readouterr()
    assert exit_.value.code == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert message in said.err
    assert re.search(r"expected|needs|given", said.err)
    assert sorted(here.iterdir()) == before
