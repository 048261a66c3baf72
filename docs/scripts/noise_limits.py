"""Detection limits of the tests on weights, for the noise of one query of 1,024 tokens."""

from studies.weights import limits

TOKENS = 1025


def main(tokens: int = TOKENS) -> None:
    """Print the smallest detectable amplitude and growth."""
    amplitude, growth = limits(tokens)
    print(f"an oscillation stands out from an amplitude of {amplitude:.2f} on")
    print(f"growth stands out from {growth:.2f} nats on")


if __name__ == "__main__":
    main()
