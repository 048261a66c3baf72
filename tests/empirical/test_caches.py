"""Where caches lie, for a user with a home and for one without."""

import os
import tempfile
from pathlib import Path

import pytest

from empirical import caches
from empirical.caches import cache_folder, lend_caches, own_folder, place_in_cache, writable
from empirical.errors import InputError

LENT = ("NUMBA_CACHE_DIR", "MPLCONFIGDIR", "HF_HOME")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder."""
    folder = tmp_path / "tmp"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who can write neither a home nor the package: both would lie below a file."""
    (tmp_path / "file").touch()
    for name in ("GEOSTAT_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", *LENT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr(caches, "PACKAGE", tmp_path / "file" / "empirical")


@pytest.mark.usefixtures("homeless")
def test_without_a_home_caches_go_to_a_temporary_folder_of_the_user(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    lend_caches()
    own = temporary / f"geostat-{os.getuid()}"
    assert [os.environ[name] for name in LENT] == [
        str(own / name) for name in ("numba", "mplconfigdir", "hf")
    ]
    assert own.stat().st_mode & 0o777 == 0o700
    assert place_in_cache("model") == own / "model"


@pytest.mark.usefixtures("homeless")
def test_what_the_user_named_is_left_alone(temporary: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        os,
        "environ",
        {
            **os.environ,
            "NUMBA_CACHE_DIR": "a",
            "MPLCONFIGDIR": "b",
            "HF_HOME": "c",
            "GEOSTAT_CACHE": "/d",
        },
    )
    lend_caches()
    assert [os.environ[name] for name in LENT] == ["a", "b", "c"]
    assert place_in_cache("model") == Path("/d/model")
    assert list(temporary.iterdir()) == []


def test_with_a_home_nothing_is_lent(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("GEOSTAT_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", *LENT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    lend_caches()
    assert not set(LENT) & os.environ.keys()
    assert place_in_cache("model") == tmp_path / ".cache" / "geostat" / "model"
    assert list(temporary.iterdir()) == []


def test_a_cache_that_may_only_be_read_is_read(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("GEOSTAT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "geostat" / "model").mkdir(parents=True)
    monkeypatch.setattr(caches, "writable", lambda folder: False)
    assert place_in_cache("model") == tmp_path / "geostat" / "model"
    assert place_in_cache("other").is_relative_to(temporary)


@pytest.mark.parametrize(
    "trap",
    [
        "open to others",
        "a link",
        "a file",
        "in a folder where others may swap it",
        "nothing temporary",
    ],
)
def test_no_folder_that_another_user_could_write_is_taken(
    temporary: Path, trap: str, monkeypatch: pytest.MonkeyPatch
):
    own = temporary / f"geostat-{os.getuid()}"
    if trap == "open to others":
        own.mkdir()
        own.chmod(0o755)
    elif trap == "a link":
        (temporary / "elsewhere").mkdir(mode=0o700)
        own.symlink_to(temporary / "elsewhere")
    elif trap == "a file":
        own.touch(mode=0o600)
    elif trap == "nothing temporary":
        monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    else:
        temporary.chmod(0o777)
    assert own_folder() is None
    if trap.startswith("in a folder"):
        temporary.chmod(0o1777)
        assert own_folder() == own


@pytest.mark.skipif(os.getuid() != 0, reason="another user's folder can be made by root only")
def test_a_folder_of_another_user_is_not_taken(temporary: Path):
    own = temporary / f"geostat-{os.getuid()}"
    own.mkdir(mode=0o700)
    os.chown(own, 65534, 65534)
    assert own_folder() is None


def test_a_home_that_is_not_known_is_not_a_folder_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert writable(Path("some/cache"))
    assert not writable(Path("~/.cache/numba"))
    monkeypatch.setenv("GEOSTAT_CACHE", "~nobody-of-this-name/cache")
    with pytest.raises(InputError, match="no such home is known"):
        cache_folder()
