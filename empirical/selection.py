"""Top-N selection and separability, under their public path; they stand in
`empirical.measure.selection`.
"""

from empirical.measure.selection import separability
from empirical.measure.sizes import Convention, default_n

__all__ = ["Convention", "default_n", "separability"]
