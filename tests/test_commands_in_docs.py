"""Commands quoted in README and docs: subcommands, options and modules exist."""

import importlib.util
import re
import shlex
from pathlib import Path

import typer

from geostat.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def quoted(page: Path, program: str) -> list[str]:
    """Return the arguments of `program` in the page's indented blocks, fences and inline code."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    inline = re.findall(rf"`(?:\.venv/bin/)?{program} ([^`\n]+)`", text)
    return inline + re.findall(rf"^ *\.venv/bin/{program} (.+)$", text, re.MULTILINE)


def test_quoted_geostat_commands_use_existing_options():
    group = typer.main.get_command(app)
    found = 0
    for page in PAGES:
        for line in quoted(page, "geostat"):
            name, *arguments = shlex.split(line, comments=True)
            if not re.fullmatch(r"[a-z]+", name):
                continue  # an option of geostat itself
            assert name in group.commands, f"{page.name}: geostat {line}"
            options = {
                o
                for param in group.commands[name].params
                for o in param.opts + param.secondary_opts
            }
            for argument in arguments:
                if re.match("--[a-z]", argument):
                    found += 1
                    assert argument in options, f"{page.name}: geostat {line}"
    assert found > 40


def test_quoted_modules_exist_and_accept_the_quoted_options():
    lines = [(page, line) for page in PAGES for line in quoted(page, "python")]
    modules = options = 0
    for page, line in lines:
        if not line.startswith("-m ") or line.startswith("-m pytest"):
            continue
        module, *arguments = shlex.split(line, comments=True)[1:]
        spec = importlib.util.find_spec(module)
        assert spec is not None, f"{page.name}: {line}"
        origin = Path(spec.origin)
        if spec.submodule_search_locations:
            origin = origin.with_name("__main__.py")
        text = origin.read_text(encoding="utf-8")
        modules += 1
        for argument in arguments:
            if argument.startswith("--"):
                options += 1
                names = f'"{argument}"', f'"{argument[2:]}"'
                assert any(name in text for name in names), f"{page.name}: {line}"
    assert modules > 20
    assert options > 10
