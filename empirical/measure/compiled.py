"""Compiled functions, kept between processes where a folder for them can be written. Imports numba.

numba looks for that folder beside the function's file, then in the user's cache, and refuses to compile where it may write to neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function when it is first called (options of `numba.njit`); it releases the interpreter's lock."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder can be written: each process compiles anew
            return numba.njit(nogil=True, **options)(function)

    return decorate
