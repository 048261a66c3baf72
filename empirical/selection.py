"""Public import path of top-N selection and separability (`empirical.measure.selection`)."""

from empirical.measure.convention import Convention
from empirical.measure.selection import separability
from empirical.measure.sizes import default_n

__all__ = ["Convention", "default_n", "separability"]
