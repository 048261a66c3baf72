"""The errors of this room that a user can mend, and what a disk says of what a user can mend.
Imports the standard library.
"""

from __future__ import annotations

import errno

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""A disk without space."""
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""A file or folder that may not be read or written."""


class InputError(ValueError):
    """Bad input, said in one line: what was seen, what was expected, the remedy."""


class StoreError(RuntimeError):
    """A store on disk is damaged, said in one line: what was seen, and how to get the run back."""
