"""Sharp bounds and directions of exact length: the truth may lie beyond a bound of Model G."""

import numpy as np

from theory import envelope
from theory.audit.simulate import simulate

HEAD = ([0.5, 0.5, 0], 1.0, np.eye(3), 16, [2])
"""Weights, norm, cosines, d and N."""


def main(draws: int = 200_000) -> None:
    """Print simulated E R for both kinds of directions beside the sharp upper bound."""
    bound = envelope(*HEAD, edition="sharp", sink=None).recall_upper[0]
    unit = simulate(*HEAD, directions="unit", draws=draws, sink=None).recall[0]
    model = simulate(*HEAD, draws=draws, sink=None).recall[0]
    print(f"sharp upper bound of E R: {bound:.3f}")
    print(f"E R, unit directions: {unit:.3f}")
    print(f"E R, Model G: {model:.3f}")


if __name__ == "__main__":
    main()
