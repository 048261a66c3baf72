"""Commands that do not run a model start without torch and transformers, which import slowly."""

import shutil
from pathlib import Path

import pytest
from support.commands import called
from support.spine import Finished, argv

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
"""Commands that run in one process, by topic."""


@pytest.mark.slow
@pytest.mark.parametrize("alike", ["theory", "page", "compare", "fit and confront"])
def test_commands_without_a_model_do_not_import_torch(
    alike: str, finished: Finished, tmp_path: Path
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    for copy in (run, other):
        shutil.copytree(finished.out, copy)
    text = "\n".join(COMMANDS[alike])
    for name, path in {"RUN": run, "OTHER": other, "OUT": tmp_path}.items():
        text = text.replace(name, str(path))
    given = [argv(line) for line in text.splitlines()]
    program = (
        "import sys\nfrom geostat.cli.app import main\n"
        "from reports.page import page\nfrom reports.topics import listed\nfew = listed.plans\n"
        "listed.plans = page.plans = lambda tree: few(tree)[:1]\n"
        f"for words in {given!r}:\n"
        "    sys.argv = ['geostat', *words]\n"
        "    try:\n        main()\n"
        "    except SystemExit as ended:\n        assert not ended.code, (words, ended.code)\n"
        f"    found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "    assert not found, (words, found)\n"
    )
    result = called(code=program)
    assert result.code == 0, result.stderr
