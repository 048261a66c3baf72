"""How a command measures, apart from what it measures. Imports the console when asked."""

from __future__ import annotations

from typing import Any


def how_to_measure(given: dict[str, Any]) -> dict[str, Any]:
    """Read --fresh, --null and --quiet."""
    from geostat.cli.progress import talk
    from geostat.errors import InputError

    if given["fresh"] and given["resume"]:
        raise InputError(
            "--fresh and --resume were both given, expected one. --fresh throws the old run away,"
            " --resume completes it."
        )
    return {"fresh": given["fresh"], "null": given["null"], "console": talk(quiet=given["quiet"])}
