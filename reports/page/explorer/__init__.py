"""Explorer of heads: a map of all heads coloured by any quantity, and the curves of one of them."""
