"""Compiled functions: numba's `njit` without the interpreter's lock, with an on-disk cache where
one is writable. Imports numba.

numba caches compiled code next to the source file, otherwise in the user's cache directory. It
refuses `cache=True` if neither is writable; each process then compiles again.
"""

from __future__ import annotations

from functools import partial

import numba


def _is_cacheable() -> bool:
    """Return whether numba has a writable cache directory; numba checks this when it decorates."""
    try:
        numba.njit(cache=True)(_is_cacheable)
    except RuntimeError:
        return False
    return True


compiled = partial(numba.njit, nogil=True, cache=_is_cacheable())
"""Decorator with the options of `numba.njit`: compiles a function at its first call."""
