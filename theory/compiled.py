"""Compiled functions: numba's `njit` without the interpreter's lock, kept between processes where
they can be. Imports numba.

numba keeps what it compiled beside the function's file, else in the user's cache, and refuses to
compile where it may write to neither: then each process compiles anew.
"""

from __future__ import annotations

from functools import partial

import numba


def _can_be_kept() -> bool:
    """Say whether there is a folder that numba may write to: it is asked when a function is
    decorated.
    """
    try:
        numba.njit(cache=True)(_can_be_kept)
    except RuntimeError:
        return False
    return True


compiled = partial(numba.njit, nogil=True, cache=_can_be_kept())
"""Decorator with the options of `numba.njit`: compiles a function when it is first called."""
