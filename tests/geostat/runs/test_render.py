"""Output folder of a page, and errors of a run that cannot be rendered."""

from pathlib import Path

import pytest
import xarray as xr

from empirical.errors import StoreError
from geostat.errors import InputError, shown_whole
from geostat.runs.accessor import RunMethods
from geostat.runs.render import _checked_folder


@pytest.mark.parametrize("raised", [KeyError("a\nb\u202e"), RecursionError("x"), UnicodeError("y")])
def test_unexpected_rendering_errors_become_one_line(raised: Exception):
    line = r"^r\.zarr: cannot be shown .* to replace .*\.$"
    with pytest.raises(InputError, match=line) as caught, shown_whole("r.zarr"):
        raise raised
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("raised", [InputError("a"), StoreError("b"), OSError("c"), MemoryError()])
def test_explained_errors_pass_through(raised: Exception):
    with pytest.raises(type(raised)) as caught, shown_whole("r.zarr"):
        raise raised
    assert caught.value is raised


def test_a_notebook_raises_the_same_line():
    run = xr.DataTree.from_dict({"/verdicts": xr.Dataset(attrs={"claims": "no JSON"})})
    with pytest.raises(InputError, match="the run: cannot be shown"):
        repr(RunMethods(run))


@pytest.mark.parametrize("name", ["tables", "figures", "tables/tokens_40"])
def test_links_inside_the_output_folder_are_refused(tmp_path: Path, name: str):
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "report"
    elsewhere.mkdir()
    (out / name).parent.mkdir(parents=True)
    (out / name).symlink_to(elsewhere)
    with pytest.raises(InputError, match=f"{name}: is a link, expected a folder to write in"):
        _checked_folder(None, out, "figures", "tables")


def test_only_the_folder_named_by_the_user_may_be_a_link(tmp_path: Path):
    link = tmp_path / "tables"
    link.symlink_to(tmp_path)
    assert _checked_folder(link, link) == link
    with pytest.raises(InputError, match="is a link"):
        _checked_folder(None, link)
