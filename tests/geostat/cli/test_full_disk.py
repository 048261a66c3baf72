"""A full disk, a small tmpfs: the error is one line, and the same command resumes with more
space.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.places import contents
from support.spine import Finished, capturing, geostat

from empirical.store.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return a function that mounts a disk of a given size in bytes, or enlarges it."""
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
def test_a_stage_on_a_full_disk_is_one_line_and_can_be_repeated(
    disk: Callable[[int], Path],
    finished: Finished,
    model_folder: Path,
    text_folder: Path,
    stage: str,
    share: float,
) -> None:
    place = disk(1 << 30) / "report"
    run = place / "run.zarr"

    def begin() -> int:
        """Restore what stands before the stage; returns the used bytes of the disk."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        if stage != "capture":
            shutil.copytree(finished.store, run)
        if stage == "fit":
            store = Store.open(run)
            store.put({}, drops=store.results)
        return shutil.disk_usage(place).used

    command = [stage, place]
    if stage == "capture":
        command = capturing(model_folder, text_folder, place, documents=3, n="default")
    command += ["--quiet"]
    before = begin()
    assert geostat(*command).code == 0
    needed, whole = shutil.disk_usage(place).used - before, contents(place)
    disk(begin() + int(share * needed))
    result = geostat(*command)
    assert (result.code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result
    assert (
        "No space left on device" in result.stderr or "no space left on the disk" in result.stderr
    )
    if run.exists():
        assert geostat("doctor", place).code in {0, 2}, "sound, if it has space to finish a move"
    disk(1 << 30)
    if run.exists():
        assert geostat("doctor", place).code == 0
    assert geostat(*command).code == 0
    actual = contents(place)
    names = {*actual, *whole} - {"run.json"}
    assert [name for name in names if actual.get(name) != whole.get(name)] == []
