"""Document jackknife inside lmfit's ModelResult: errors and correlations of parameters over
documents, in place of lmfit's.

lmfit takes lags and tokens as independent. Those of one document are not, and its errors come out
many times too small. Source: Efron & Stein (1981), as in `jackknife`. Imports numpy, lmfit and the
room that counts in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import lmfit
import numpy as np

from geostat.errors import InputError
from geostat.statistics.arrays import FloatArray, ratio
from reports.text.number import count

INDEPENDENT: Final = (
    "chi-square, AIC and BIC take lags and tokens as independent, which they are not"
)


class DocumentResult(lmfit.model.ModelResult):
    """lmfit's result whose stderr, correl, covar and uvars are a document jackknife's; None where
    documents give no error.

    `fit_report()` says so. What lmfit works out from chi-square alone is refused.
    """

    documents: int
    """How many documents carry the fit."""
    ndata: int
    """How many lags or tokens were fitted."""

    @property
    def errors_from(self) -> str:
        """Where the errors come from, in words."""
        if self.documents < 2:
            return f"one document: no errors; {INDEPENDENT}"
        return f"± is a jackknife over {self.documents} documents; {INDEPENDENT}"

    def fit_report(self, *args: Any, **keywords: Any) -> str:
        """Return lmfit's report, behind a line on where its errors come from."""
        return f"[[Errors]]\n    {self.errors_from}\n{super().fit_report(*args, **keywords)}"

    def _repr_html_(self, *args: Any, **keywords: Any) -> str:
        return f"<p>{self.errors_from}.</p> {super()._repr_html_(*args, **keywords)}"

    def eval_uncertainty(self, *args: Any, **keywords: Any) -> FloatArray:
        """Return lmfit's band about the curve, with Student's t on K − 1 degrees of freedom; an
        InputError if documents give no error.
        """
        if self.covar is None:
            raise InputError(
                f"{count(self.documents, 'document')} gave the fit no errors, expected two or more."
                " Capture more documents."
            )
        data, self.ndata = (
            self.ndata,
            self.nvarys + self.documents - 1,
        )  # of which lmfit makes the degrees of freedom
        try:
            return np.asarray(super().eval_uncertainty(*args, **keywords))
        finally:
            self.ndata = data

    def conf_interval(self, **keywords: Any) -> dict[str, Any]:
        """Refused by an InputError, and so is `ci_report`."""
        raise InputError(
            "lmfit's intervals take lags and tokens as independent, expected ones over documents."
            " Use x_lower and x_upper of geostat.fit."
        )


def with_document_errors(
    result: lmfit.model.ModelResult, without: Mapping[str, FloatArray]
) -> DocumentResult:
    """Put a document jackknife's errors in place of lmfit's in its fit to the mean over documents,
    which is changed and returned.

    `without` is each free parameter without each document that carries the fit, by name,
    (document,), NaN where it has no error. Errors are None where there are fewer than two documents
    or one of them was not fitted without.
    """
    result.__class__ = DocumentResult
    names = list(result.var_names)
    documents = len(next(iter(without.values())))
    each = np.stack([without[name] for name in names]) if names else np.empty((0, documents))
    away = each - each.mean(axis=1, keepdims=True)
    covariance = (
        (documents - 1) / documents * away @ away.T
        if documents > 1
        else np.full((len(names), len(names)), np.nan)
    )
    size = np.sqrt(np.diagonal(covariance))
    whole = bool(names) and bool(np.isfinite(covariance).all())
    scale = np.outer(size, size)
    correlation = ratio(covariance, scale, 0.0)
    for row, name in enumerate(names):
        parameter = result.params[name]
        parameter.stderr = float(size[row]) if np.isfinite(size[row]) else None
        parameter.correl = (
            {other: float(correlation[row, k]) for k, other in enumerate(names) if k != row}
            if whole
            else None
        )
    result.covar = covariance if whole else None
    result.uvars = result.params.create_uvars(covar=covariance) if whole else None
    result.documents, result.errorbars = documents, whole
    for name in ("covar", "uvars", "errorbars"):
        setattr(result.result, name, getattr(result, name))
    return result
