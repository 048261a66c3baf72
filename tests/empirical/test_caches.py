"""Where caches lie, for a user with a home and for one without."""

import os
import tempfile
from pathlib import Path

import pytest
from support.raising import refused

from empirical import caches
from empirical.caches import cache_folder, place_in_cache, private_folder, redirect_caches, writable

LENT = ("NUMBA_CACHE_DIR", "MPLCONFIGDIR", "HF_HOME")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, in an environment that names no cache."""
    folder = tmp_path / "tmp"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for name in ("GEOSTAT_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", *LENT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return folder


@pytest.fixture
def homeless(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who can write neither a home nor the package: both would lie below a file."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr(caches, "PACKAGE", tmp_path / "file" / "empirical")


@pytest.mark.usefixtures("homeless")
def test_without_a_home_caches_go_to_a_temporary_folder_of_the_user(temporary):
    redirect_caches()
    own = temporary / f"geostat-{os.getuid()}"
    places = [str(own / name) for name in ("numba", "mplconfigdir", "hf")]
    assert [os.environ[name] for name in LENT] == places
    assert own.stat().st_mode & 0o777 == 0o700
    assert place_in_cache("model") == own / "model"


@pytest.mark.usefixtures("homeless")
def test_user_defined_caches_are_kept(temporary):
    os.environ.update(dict(zip(LENT, "abc", strict=True)), GEOSTAT_CACHE="/d")
    redirect_caches()
    assert [os.environ[name] for name in LENT] == ["a", "b", "c"]
    assert place_in_cache("model") == Path("/d/model")
    assert list(temporary.iterdir()) == []


def test_with_a_home_no_cache_is_redirected(temporary, tmp_path):
    redirect_caches()
    assert not set(LENT) & os.environ.keys()
    assert place_in_cache("model") == tmp_path / ".cache" / "geostat" / "model"
    assert list(temporary.iterdir()) == []


def test_the_cache_folder_follows_the_environment(temporary, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/geostat")
    monkeypatch.setenv("GEOSTAT_CACHE", "~/own")
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("GEOSTAT_CACHE", "~nobody-of-this-name/cache")
    with refused("no such home is known"):
        cache_folder()


def test_a_read_only_cache_is_read(temporary, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "geostat" / "model").mkdir(parents=True)
    monkeypatch.setattr(caches, "writable", lambda folder: False)
    assert place_in_cache("model") == tmp_path / "geostat" / "model"
    assert place_in_cache("other").is_relative_to(temporary)


@pytest.mark.parametrize(
    "trap", ["open to others", "a link", "a file", "others may swap it", "nothing temporary"]
)
def test_a_folder_writable_by_others_is_not_used(temporary, trap, monkeypatch):
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
    assert private_folder() is None
    if trap == "others may swap it":
        temporary.chmod(0o1777)
        assert private_folder() == own


@pytest.mark.skipif(os.getuid() != 0, reason="another user's folder can be made by root only")
def test_a_folder_of_another_user_is_not_used(temporary):
    own = temporary / f"geostat-{os.getuid()}"
    own.mkdir(mode=0o700)
    os.chown(own, 65534, 65534)
    assert private_folder() is None


def test_an_unknown_home_is_no_local_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert writable(Path("some/cache"))
    assert not writable(Path("~/.cache/numba"))
