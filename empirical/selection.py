"""Public import path of top-N selection and separability (`empirical.measure.selection`)."""

from empirical.measure.selection import Convention, default_n, separability

__all__ = ["Convention", "default_n", "separability"]
