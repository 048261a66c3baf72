"""A disk that is really full: a small file system in memory. One line, and the same command goes on
once there is space.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.places import contents
from support.spine import LENGTH, Finished, geostat

from empirical.store.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a disk of so many bytes; asked again it makes it larger."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(size: int) -> Path:
        again = ["remount"] if place.is_mount() else []
        options = ",".join([*again, f"size={size}"])
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode:
            pytest.skip("a file system cannot be mounted here")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True, check=False)


@pytest.mark.parametrize("stage", ["capture", "fit", "confront", "report"])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.6, 0.9])
def test_a_stage_on_a_full_disk_says_so_and_ends_once_there_is_space(
    tmp_path: Path,
    disk: Callable[[int], Path],
    finished: Finished,
    model_folder: Path,
    text_folder: Path,
    stage: str,
    share: float,
) -> None:
    wanted = tmp_path / "wanted"
    start = {"capture": [], "fit": ["capture"]}.get(stage, ["capture", "fit"])
    place = disk(1 << 30) / "report"

    def begun(out: Path) -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        if start:
            shutil.copytree(finished.store, out / "run.zarr")
        if start == ["capture"]:
            store = Store.open(out / "run.zarr")
            store.put({}, drops=store.results)

    def used() -> int:
        free = shutil.disk_usage(place)
        return free.total - free.free

    size = ["--documents", 3, "--length", LENGTH]
    words = {"capture": ["capture", model_folder, "--text", text_folder, *size, "--out", place]}
    command = [*words.get(stage, [stage, place]), "--quiet"]
    begun(place)
    before = used()
    assert geostat(*command).code == 0
    shutil.copytree(place, wanted)
    needed = used() - before
    begun(place)
    disk(used() + int(share * needed))
    said = geostat(*command)
    assert (said.code, said.stdout, said.stderr.count("\n")) == (2, "", 1), said
    assert "No space left on device" in said.stderr or "no space left on the disk" in said.stderr
    if (place / "run.zarr").exists():
        assert geostat("doctor", place).code in {0, 2}, "sound, if it has space to finish a move"
    disk(1 << 30)
    if (place / "run.zarr").exists():
        assert geostat("doctor", place).code == 0
    assert geostat(*command).code == 0
    unlike = {"run.json"}
    found, whole = contents(place), contents(wanted)
    assert [name for name in {*found, *whole} - unlike if found.get(name) != whole.get(name)] == []
