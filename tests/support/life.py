"""Life cycle of a small store on a disk that fails at each step in turn, and the state that
remains.

`python -m support.life WORK ERRNO STRIDE [lasting]` lets every STRIDE-th step fail, with `lasting`
also all later ones, each in a separate process, and prints one JSON object. Unless the disk keeps
failing, the remaining run is readable. A life cycle: create a store, append and settle three
documents, write results, extend the arrays, append a fourth document, write results again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from support.faults import failing_at
from support.places import contents
from support.stores import NORMS, PLAN, arrays, row

from empirical.errors import InputError
from empirical.store import stored_run
from empirical.store.lock import alone
from empirical.store.store import Store
from empirical.store.stored_run import StoredRun

WHOLE, REFUSED, OTHER = 0, 2, 3
"""Exit codes of a life: it came to its end; it was refused in a line; anything else."""


def live(path: Path) -> None:
    """Run a life cycle, or continue one, like repeated commands."""
    for documents in (3, 4):
        with alone(path):
            capture(path, documents)
        with alone(path):
            fit(path)


def capture(path: Path, documents: int) -> None:
    """Measure the missing ones of some documents."""
    if not path.exists():
        store = Store.create(path, provenance={"model": "m"}, plan=PLAN, documents=documents)
    else:
        store = Store.open(path)
        store.extend(documents)
    for index in range(len(store.documents), documents):
        store.append(row(f"document {index}"), arrays(index))
    store.settle()


def fit(path: Path) -> None:
    """Write results of all documents unless they exist."""
    store = Store.open(path)
    if "norms" not in store.results:
        store.put({"norms": NORMS * len(store.documents)})


def code_of(do: Callable[[], int]) -> int:
    """Run it in a separate process; returns its exit code."""
    process = os.fork()
    if process == 0:
        code = OTHER
        try:
            code = do()
        except InputError as refused:
            code = REFUSED if len(str(refused).splitlines()) == 1 else OTHER
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def lived(path: Path, step: int | None, error: int, counter: Path, *, lasting: bool) -> int:
    """Run on a disk whose given step fails."""
    failing_at(step, error, path.parent, counter, lasting=lasting)
    live(path)
    return WHOLE


def gone_on(path: Path) -> int:
    """Continue from the remaining state; every file is first verified against its digest."""
    live(path)
    return WHOLE


def looked_at(path: Path) -> int:
    """Read the remaining run, if any."""
    stored_run.PATIENCE = 0.05
    if path.exists():
        StoredRun.open(path).tree()
    return WHOLE


def main() -> None:
    """Let each step fail, check the remaining state, continue, compare."""
    work, error, stride = Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    lasting = sys.argv[4:] == ["lasting"]
    folder, counter = work / "out", work / "count"
    path = folder / "run.zarr"
    folder.mkdir(parents=True)
    assert code_of(lambda: lived(path, None, error, counter, lasting=False)) == WHOLE
    wanted, steps = contents(folder), int(counter.read_text())
    codes: dict[int, int] = {}
    different: dict[int, list[str]] = {}
    for step in range(1, steps + 1, stride):
        shutil.rmtree(folder)
        folder.mkdir()
        code = code_of(lambda: lived(path, step, error, counter, lasting=lasting))  # noqa: B023
        codes[code] = codes.get(code, 0) + 1
        seen = code_of(lambda: looked_at(path))
        again = code_of(lambda: gone_on(path))
        found = contents(folder)
        unlike = [name for name in {*found, *wanted} if found.get(name) != wanted.get(name)]
        if code not in (WHOLE, REFUSED) or seen > lasting * REFUSED or again or unlike:
            different[step] = [f"exit {code}, read {seen}, then {again}", *sorted(unlike)]
    print(json.dumps({"steps": steps, "codes": codes, "unlike": different}))


if __name__ == "__main__":
    main()
