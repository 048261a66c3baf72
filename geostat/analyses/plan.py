"""Designs: how many kinds of text, documents and queries a wanted interval needs.

The value of an analysed query is level + kind + document + query, with independent random effects
nested in this order. The variance of a mean of G kinds, K documents in equal shares and Q queries
each is σ_kind²/G + σ_document²/K + σ_query²/(KQ); its interval is Student's t on G − 1 degrees of
freedom, as kinds are the sample. Components come from mean squares, summed over heads
(`geostat.analyses.kinds_of_text`), each at least 0. Kinds of one document each cannot be told from
their documents, and count as kinds; documents of one kind are then the sample.
Sources: Searle, Casella & McCulloch (1992), "Variance Components", ch. 3; Cochran (1977), "Sampling
Techniques", ch. 10; interval of an error: Arvesen & Layard (1975). Imports numpy and scipy.special.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtrit

from geostat.analyses.kinds_of_text import FEWEST_KINDS, OneWay
from geostat.statistics.arrays import FloatArray, ratio
from geostat.statistics.jackknife import LEVEL, Estimate, jackknife

MOST: Final = 1_000_000
"""Largest number of kinds, or of documents of one kind, that is searched."""


def arms(units: FloatArray | float, power: float = 0.5) -> FloatArray:
    """Return the distance, in standard errors, at which a 95% interval of this many sampled units
    excludes a value with a probability of `power`; at 0.5 the half-width of the interval.

    >>> [float(arms(8, power).round(3)) for power in (0.5, 0.8)]
    [2.365, 3.261]
    """
    degrees = np.asarray(units, dtype=np.float64) - 1
    return np.asarray(stdtrit(degrees, 0.5 + LEVEL / 2) + stdtrit(degrees, power))


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components of one effect, and the design of the run that they come from.

    Arrays have shape (replicate,): the estimate, then the values without one kind each (without one
    document each, if there is one kind).
    """

    between_kinds: FloatArray
    between_documents: FloatArray
    between_queries: FloatArray
    kinds: int
    documents: int
    queries: int
    mean_square: float
    """Mean square over documents, all treated as exchangeable."""
    sizes: float
    """Σn²/K of the documents n of each kind; K/G if kinds are equally frequent."""

    @property
    def confounded(self) -> bool:
        """Whether each kind has one document, so that kinds and documents cannot be told apart."""
        return 1 < self.kinds == self.documents

    def variance(self, kinds: float, documents: float, queries: float) -> FloatArray:
        """Return the variance of the mean of a design, (replicate,)."""
        return (
            self.between_kinds / kinds
            + self.between_documents / documents
            + self.between_queries / (documents * queries)
        )

    def error(self, kinds: float, documents: float, queries: float) -> Estimate:
        """Return the standard error of a design, with the jackknife of its logarithm over kinds.

        In simulations of 4 and 8 kinds the interval covers 88% to 97%.
        """
        variance = self.variance(kinds, documents, queries)
        with np.errstate(divide="ignore"):
            logs = np.log(variance) / 2
        if (self.kinds if self.kinds > 1 else self.documents) < FEWEST_KINDS:
            logs[1:] = np.nan
        return jackknife(logs[0], logs[1:]).exp(np.sqrt(variance[0]))

    def of_run(self) -> Estimate:
        """Return the standard error of the run's own design."""
        return self.error(self.documents / self.sizes, self.documents, self.queries)

    def sampled(self, kinds: int, documents: int) -> int:
        """Return the number of sampled units: kinds, or documents of a single kind."""
        return kinds if self.kinds > 1 else documents

    def fewest(
        self, width: FloatArray | float, per_kind: int, queries: int, power: float = 0.5
    ) -> FloatArray:
        """Return the fewest kinds with `per_kind` documents each (or documents of a single kind)
        whose `arms` are at most `width`; infinity above MOST.
        """
        units = np.arange(2, MOST + 1, dtype=np.float64)
        first = self.variance(1, per_kind, queries)[0]
        found = np.searchsorted(-arms(units, power) * np.sqrt(first / units), -np.asarray(width))
        return np.where(found < len(units), found + 2.0, np.inf)

    def more_documents(
        self, width: FloatArray | float, queries: int, power: float = 0.5
    ) -> FloatArray:
        """Return the fewest documents of each of the run's kinds whose `arms` are at most `width`;
        infinity if the kinds alone differ too much.
        """
        left = (np.asarray(width) / arms(self.kinds, power)) ** 2 - self.between_kinds[
            0
        ] / self.kinds
        within = self.between_documents[0] + self.between_queries[0] / queries
        return np.maximum(np.ceil(ratio(within / self.kinds, left, np.inf)), 1.0)


def components(table: OneWay, between_queries: FloatArray, queries: int) -> Components:
    """Return the variance components of one effect.

    Args:
        table: values of documents, means over their queries.
        between_queries: variance over the queries of each document, mean over heads, (document,); 0
            if the values do not depend on the query.
        queries: analysed queries of a document.
    """
    labels, counts = np.unique(table.kinds, return_counts=True)
    everything = np.arange(len(table.kinds))
    groups = table.kinds if len(labels) > 1 else everything
    subsets = [everything, *(np.flatnonzero(groups != group) for group in np.unique(groups))]
    levels = np.array(
        [
            _of_levels(OneWay(table.rows[kept], table.kinds[kept]), between_queries[kept], queries)
            for kept in subsets
        ]
    )
    return Components(
        between_kinds=levels[:, 0],
        between_documents=levels[:, 1],
        between_queries=levels[:, 2],
        kinds=len(labels),
        documents=len(table.kinds),
        queries=queries,
        mean_square=table.mean_square(),
        sizes=float((counts**2).sum() / counts.sum()),
    )


def _of_levels(
    table: OneWay, between_queries: FloatArray, queries: int
) -> tuple[float, float, float]:
    """Return the components between kinds, documents and queries."""
    kinds, documents = len(np.unique(table.kinds)), len(table.kinds)
    of_query = float(between_queries.mean())
    if documents < 2:
        return np.nan, np.nan, of_query
    if not 1 < kinds < documents:
        rest = max(table.mean_square() - of_query / queries, 0.0)
        return (rest, 0.0, of_query) if kinds > 1 else (0.0, rest, of_query)
    between, within, size = table.squares()
    return max((between - within) / size, 0.0), max(within - of_query / queries, 0.0), of_query
