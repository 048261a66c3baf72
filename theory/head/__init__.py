"""One head: weights, Gram, ranking, results."""
