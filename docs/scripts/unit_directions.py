"""Sharp bounds and exactly unit directions: the truth may exceed a bound that holds under Model
G.
"""

import numpy as np

from theory import envelope
from theory.evaluate.simulate import simulate

HEAD = ([0.5, 0.5, 0], 1.0, np.eye(3), 16, [2])
"""Weights, norm, Gram matrix, d and N."""


def main(draws: int = 200_000) -> None:
    """Print simulated E R for both kinds of directions, and the sharp upper bound."""
    bound = envelope(*HEAD, edition="sharp", sink=None).recall_upper[0]
    unit = simulate(*HEAD, directions="unit", draws=draws, sink=None).recall[0]
    model = simulate(*HEAD, draws=draws, sink=None).recall[0]
    print(f"sharp upper bound of E R: {bound:.3f}")
    print(f"E R, unit directions: {unit:.3f}")
    print(f"E R, Model G: {model:.3f}")


if __name__ == "__main__":
    main()
