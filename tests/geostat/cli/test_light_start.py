"""What reads, fits, confronts or renders a run starts without the libraries that run a model: they
take seconds to import.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.spine import Finished

HEAVY = ("torch", "transformers")
COMMANDS = {
    "theory": (
        "--help",
        "theory 12",
        "whatif --from RUN --head L0H0 --set N=2:8:3 --gram offset --out OUT/whatif",
        "tables RUN --only verdicts --out OUT/tables",
    ),
    "page": (
        "theory --errata",
        "tables RUN --out OUT/tables",
        "figures RUN --out OUT/figures",
        "report RUN --out OUT/report",
    ),
    "compare": ("compare RUN OTHER --quick --out OUT/comparison",),
    "fit and confront": ("fit RUN", "confront RUN --edition sharp"),
}
"""Commands, as they stand one after another in one process, by what they have in common."""


@pytest.mark.slow
@pytest.mark.parametrize("alike", ["theory", "page", "compare", "fit and confront"])
def test_a_command_that_runs_no_model_imports_nothing_that_does(
    alike: str, finished: Finished, tmp_path: Path
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    for copy in (run, other):
        shutil.copytree(finished.out, copy)
    given = [command.split() for command in COMMANDS[alike]]
    for name, path in {"RUN": run, "OTHER": other, "OUT": tmp_path}.items():
        given = [[word.replace(name, str(path)) for word in words] for words in given]
    program = (
        "import sys\nfrom geostat.cli.app import main\n"
        "from reports.figures import every\nfrom reports.page import page\nfew = every.plans\n"
        "every.plans = page.plans = lambda tree: few(tree)[:1]\n"
        # Each run is read once: reading is the same for all.
        "from empirical.store.store import Store\nread, known = Store._tree, {}\n"
        "def remembered(store, *asked):\n"
        "    key = store.path.parent.name, str(asked)\n"
        "    known[key] = known.get(key) or read(store, *asked)\n    return known[key].copy()\n"
        "Store._tree = remembered\n"
        f"for words in {given!r}:\n"
        "    sys.argv = ['geostat', *words]\n"
        "    try:\n        main()\n"
        "    except SystemExit as ended:\n        assert not ended.code, (words, ended.code)\n"
        f"    found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "    assert not found, (words, found)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
