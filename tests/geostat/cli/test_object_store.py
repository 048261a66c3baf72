"""Runs in an object store: moto's S3 server and geostat processes that act as two machines.

The object store holds what a disk would hold, bit for bit, also after a kill.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import PATIENCE, called, free_port, started, until
from support.kills import contents
from support.places import ROOT
from support.spine import LENGTH

PACKAGES = Path(sys.prefix) / "object-store"
"""Environment of `make test-object-store` with s3fs and moto, which need older packages."""
RUN = "s3://measured/a/run.zarr"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PACKAGES.is_dir(), reason="needs `make test-object-store`"),
]


@pytest.fixture
def address() -> Iterator[str]:
    """Start an S3 server with one bucket."""
    port = str(free_port())
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port],
        env=os.environ | {"PYTHONPATH": str(PACKAGES)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    bucket = urllib.request.Request(f"{address}/measured", method="PUT")

    def answers() -> bool:
        try:
            urllib.request.urlopen(bucket, timeout=PATIENCE).close()
        except urllib.error.URLError:
            return False
        return True

    try:
        until(answers, server)
        yield address
    finally:
        server.kill()
        server.wait()


class Machines:
    """Machines with s3fs and access to a server; each has a folder for its copies of runs."""

    def __init__(self, address: str, folder: Path) -> None:
        self.folder = folder
        packages = os.pathsep.join(map(str, (PACKAGES, ROOT)))
        names = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        names |= {"AWS_DEFAULT_REGION": "us-east-1", "FSSPEC_S3_ENDPOINT_URL": address}
        self.environment = names | {"PYTHONPATH": packages}

    def options(self, machine: str) -> dict:
        """Return the options of a process on a machine."""
        home = self.folder / machine
        home.mkdir(exist_ok=True)
        return {"env": self.environment | {"GEOSTAT_CACHE": str(home)}, "cwd": home}

    def start(self, machine: str, *words: object) -> subprocess.Popen[str]:
        return started(*words, **self.options(machine))

    def run(self, machine: str, *words: object) -> None:
        result = called(*words, **self.options(machine))
        assert result.code == 0, (words, result)

    def fetched(self, machine: str) -> Path:
        """Return the run as downloaded and verified by a machine."""
        self.run(machine, "doctor", RUN)
        assert not list((self.folder / machine).glob("runs/*/*.zarr"))  # only read
        code = f"import geostat as gs; gs.open({RUN!r})"
        assert called(code=code, **self.options(machine)).code == 0
        return next((self.folder / machine).glob("runs/*/run.zarr"))


@pytest.fixture
def machines(address: str, tmp_path: Path) -> Machines:
    return Machines(address, tmp_path)


@pytest.fixture
def capture(model_folder: Path, text_folder: Path) -> tuple[object, ...]:
    """Return the words of a capture, up to the value of --out."""
    size = ("--documents", 5, "--length", LENGTH)
    return ("capture", model_folder, "--text", text_folder, *size, "--out")


@pytest.mark.parametrize("wait", [0.0, 0.05, 0.3])
def test_a_killed_remote_run_is_completed_and_equals_a_local_run(
    machines: Machines, tmp_path: Path, capture: tuple[object, ...], wait: float
) -> None:
    machines.run("disk", *capture, tmp_path / "disk" / "run.zarr")
    killed = machines.start("here", *capture, RUN)
    journals = "runs/*/run.zarr/capture/document/journal/*.zip"
    # until a document is complete and being uploaded
    until(lambda: list((tmp_path / "here").glob(journals)), killed)
    time.sleep(wait)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    machines.run("here", *capture, RUN)
    assert contents(machines.fetched("elsewhere")) == contents(tmp_path / "disk" / "run.zarr")


def test_stages_on_two_machines_equal_stages_on_one_disk(
    machines: Machines, tmp_path: Path, capture: tuple[object, ...]
) -> None:
    disk = tmp_path / "disk" / "run.zarr"
    for run, places in ((RUN, ("here", "elsewhere", "here")), (disk, ("disk",) * 3)):
        machines.run(places[0], *capture, run)
        machines.run(places[1], "fit", run)
        machines.run(places[2], "confront", run)
    assert contents(machines.fetched("a third")) == contents(disk)
    code = f"import xarray as xr; print(xr.open_zarr({RUN!r}, group='capture').sizes['document'])"
    assert called(code=code, **machines.options("here")).stdout == "5\n"
    shutil.rmtree(tmp_path / "here" / "runs")  # the working copy is only a cache
    machines.run("here", "tables", RUN, "--only", "verdicts")
    assert (tmp_path / "here" / "report" / "tables").is_dir()


def test_an_unreachable_object_store_is_one_line_before_measuring(
    tmp_path: Path, capture: tuple[object, ...]
) -> None:
    machines = Machines(f"http://127.0.0.1:{free_port()}", tmp_path)
    result = called(*capture, RUN, **machines.options("here"))
    assert (result.code, result.stderr.count("\n")) == (2, 1), result
    assert f"{RUN}: failed (Could not connect" in result.stderr
