"""Top-N attention beside transformers' own eager attention: seconds and memory of one forward.

    .venv/bin/python -m benchmarks.effective [--rounds 7] [--length 1024]

The built-in model's decoder, one document. The plain fused forward, the eager one, and forwards
with top-N attention by several rules and modes take turns in one process; the head that predicts
tokens is run by none. Printed: medians, and the median of the rounds' ratios to the eager forward.
Memory: the peak of a process of its own, above what the loaded model takes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import empirical  # noqa: F401  # isort: skip - before torch, as the command does

import numpy as np
import torch

from benchmarks.capture import forget, highest
from empirical.intervention.cut import Cut, Mode, intervened
from empirical.intervention.rules import RANKINGS, SETS
from empirical.sources import builtin_texts, models
from empirical.sources import windows as corpus
from empirical.tap.interface import forward, implementation

WAYS: tuple[tuple[str, int | None, Mode], ...] = (
    ("attention", 1, "deletion"),
    ("attention", 16, "deletion"),
    ("attention", 16, "renormalisation"),
    ("attention", 128, "renormalisation"),
    ("attention", 512, "renormalisation"),
    ("contribution", 16, "deletion"),
    ("recent", 16, "renormalisation"),
    ("entmax15", None, "deletion"),
)


def contenders(length: int) -> dict[str, Callable[[], object]]:
    """What takes turns, by name."""
    model = models.find(None).load()
    windows = corpus.windows(builtin_texts.topics(), model.tokenizer, length=length, count=1)
    ids = torch.as_tensor(windows.token_ids.astype(np.int64))
    decoder = model.model.get_decoder()

    def eager() -> None:
        with implementation(decoder, "eager"):
            forward(decoder, ids, None)

    out: dict[str, Callable[[], object]] = {
        "plain fused forward": partial(forward, decoder, ids, None),
        "eager forward": eager,
    }
    for rule, n, mode in WAYS:
        cut = Cut(rule={**RANKINGS, **SETS}[rule], mode=mode, n=n)
        name = f"{rule}{'' if n is None else f', N = {n}'}, {mode}"
        out[name] = partial(intervened, model.model, ids, partial(_everywhere, cut))
    return out


def _everywhere(cut: Cut, layer: int) -> Cut:
    return cut


def times(rounds: int, length: int) -> dict[str, list[float]]:
    """Seconds of each, round by round, in rotated order."""
    ways = contenders(length)
    names = list(ways)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        ways[name]()
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.perf_counter()
            ways[name]()
            taken[name].append(time.perf_counter() - started)
    return taken


def peak(name: str, length: int) -> int:
    """Most memory of a process that runs one of them twice, above the loaded model's, in MB."""
    words = [sys.executable, "-m", "benchmarks.effective", "--peak", name, "--length", str(length)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        way = contenders(given.length)[given.peak]
        forget()
        before = highest()
        for _ in range(2):
            way()
        print(highest() - before)
        return
    taken = times(given.rounds, given.length)
    print(f"{given.length} tokens, {torch.get_num_threads()} threads, {given.rounds} rounds\n")
    print("| | s | × eager | memory above the model, MB |\n|---|---|---|---|")
    for name, seconds in taken.items():
        ratios = [own / other for own, other in zip(seconds, taken["eager forward"], strict=True)]
        print(
            f"| {name} | {statistics.median(seconds):.2f} | {statistics.median(ratios):.2f} |"
            f" {peak(name, given.length)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
