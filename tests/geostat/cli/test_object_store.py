"""Runs in an object store: moto's server of S3, geostat in processes of its own with s3fs, on what
stands for two machines. There stands what a disk would hold, bit for bit, also after a kill.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.kills import contents
from support.spine import LENGTH

PACKAGES = Path(sys.prefix) / "object-store"
"""Where `make test-object-store` puts s3fs and moto: they want older packages than geostat's."""
PATIENCE = 600.0
"""Seconds until something is to have happened."""
RUN = "s3://measured/a/run.zarr"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PACKAGES.is_dir(), reason="needs `make test-object-store`"),
]

Starts = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def address() -> Iterator[str]:
    """A server of S3, with a bucket in it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env=os.environ | {"PYTHONPATH": str(PACKAGES)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    bucket = urllib.request.Request(f"http://127.0.0.1:{port}/measured", method="PUT")
    try:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(bucket, timeout=PATIENCE).close()
                break
            except urllib.error.URLError:
                assert server.poll() is None
                assert time.monotonic() < until, "the server does not answer"
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def reaching(address: str) -> dict[str, str]:
    """The environment of a process that has s3fs and reaches the server."""
    known = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    return {
        **os.environ,
        **known,
        "PYTHONPATH": str(PACKAGES),
        "FSSPEC_S3_ENDPOINT_URL": address,
    }


@pytest.fixture
def on(address: str, tmp_path: Path) -> Starts:
    """Start the command on a machine of that name."""

    def start(machine: str, *words: object) -> subprocess.Popen[str]:
        (tmp_path / machine).mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "geostat.cli.app", *map(str, words)],
            env=reaching(address) | {"GEOSTAT_CACHE": str(tmp_path / machine)},
            cwd=tmp_path / machine,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def ended(started: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code, and the last line on stderr."""
    _, said = started.communicate(timeout=PATIENCE)
    return started.returncode, (said.splitlines() or [""])[-1]


def asked(model: Path, text: Path, out: object) -> tuple[object, ...]:
    return ("capture", model, "--text", text, "--documents", 5, "--length", LENGTH, "--out", out)


def fetched(address: str, on: Starts, tmp_path: Path, machine: str) -> Path:
    """What a machine that never saw the run gets of it; that it is sound was looked at there."""
    assert ended(on(machine, "doctor", RUN))[0] == 0
    assert not list((tmp_path / machine).glob("runs/*/*.zarr"))  # only looked at
    subprocess.run(
        [sys.executable, "-c", f"import geostat as gs; gs.open({RUN!r})"],
        env=reaching(address) | {"GEOSTAT_CACHE": str(tmp_path / machine)},
        check=True,
    )
    return next((tmp_path / machine).glob("runs/*/run.zarr"))


@pytest.mark.parametrize("wait", [0.0, 0.05, 0.3])
def test_a_run_that_a_kill_met_is_completed_and_is_that_of_a_disk(
    address: str, on: Starts, tmp_path: Path, model_folder: Path, text_folder: Path, wait: float
) -> None:
    on_disk = asked(model_folder, text_folder, tmp_path / "disk" / "run.zarr")
    assert ended(on("disk", *on_disk))[0] == 0
    capture = on("here", *asked(model_folder, text_folder, RUN))
    copies = tmp_path / "here" / "runs"
    until = time.monotonic() + PATIENCE
    while not list(
        copies.glob("*/run.zarr/capture/document/journal/*.zip")
    ):  # a document counts, and is being sent
        assert time.monotonic() < until
        assert capture.poll() is None
        time.sleep(0.005)
    time.sleep(wait)
    capture.send_signal(signal.SIGKILL)
    capture.communicate()
    assert ended(on("here", *asked(model_folder, text_folder, RUN)))[0] == 0
    there = fetched(address, on, tmp_path, "elsewhere")
    assert contents(there) == contents(tmp_path / "disk" / "run.zarr")


def test_stages_of_two_machines_give_what_one_disk_holds(
    address: str, on: Starts, tmp_path: Path, model_folder: Path, text_folder: Path
) -> None:
    disk = tmp_path / "disk" / "run.zarr"
    for machine, words in (
        ("here", asked(model_folder, text_folder, RUN)),
        ("elsewhere", ("fit", RUN)),
        ("here", ("confront", RUN)),
        ("disk", asked(model_folder, text_folder, disk)),
        ("disk", ("fit", disk)),
        ("disk", ("confront", disk)),
    ):
        assert ended(on(machine, *words))[0] == 0, words
    assert contents(fetched(address, on, tmp_path, "a third")) == contents(disk)
    read = f"import xarray as xr; print(xr.open_zarr({RUN!r}, group='capture').sizes['document'])"
    said = subprocess.run(
        [sys.executable, "-c", read], env=reaching(address), capture_output=True, text=True
    )
    assert said.stdout == "5\n", said.stderr
    shutil.rmtree(tmp_path / "here" / "runs")  # a copy is no more than that
    assert ended(on("here", "tables", RUN, "--only", "verdicts"))[0] == 0
    assert (tmp_path / "here" / "report" / "tables").is_dir()


def test_two_machines_at_one_run_lose_nothing(
    address: str, on: Starts, tmp_path: Path, model_folder: Path, text_folder: Path
) -> None:
    assert ended(on("here", *asked(model_folder, text_folder, RUN)))[0] == 0
    both = [on(machine, "fit", RUN) for machine in ("here", "elsewhere")]
    codes, lines = zip(*(ended(one) for one in both), strict=True)
    assert 0 in codes, lines
    assert set(codes) <= {0, 2}, lines
    for line in (line for code, line in zip(codes, lines, strict=True) if code):
        assert "was changed from elsewhere" in line or "is being written from" in line
    assert fetched(address, on, tmp_path, "a third")


def test_a_store_that_does_not_answer_is_one_line_before_anything_is_measured(
    tmp_path: Path, model_folder: Path, text_folder: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
        words = [str(word) for word in asked(model_folder, text_folder, RUN)]
        said = subprocess.run(
            [sys.executable, "-m", "geostat.cli.app", *words],
            env=reaching(nobody) | {"GEOSTAT_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert said.returncode == 2
    assert len(said.stderr.splitlines()) == 1
    assert f"{RUN}: failed (Could not connect" in said.stderr
