"""Cost of top-N attention relative to transformers' eager attention: time and memory of one forward
pass.

    .venv/bin/python -m benchmarks.effective [--rounds 7] [--length 1024]

The built-in model's decoder, without its language-model head, reads one document. The plain fused
forward pass, the eager one, and forward passes with top-N attention by several rules and modes
alternate in one process. The script prints medians and the median ratio to the eager forward pass.
Memory: the peak of a separate process above that of the loaded model.
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

from benchmarks.capture import peak_memory, reset_peak
from empirical.intervention.cut import Cut, Mode, intervened
from empirical.intervention.rules import RANKINGS, SETS
from empirical.sources import builtin, models
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
    """Return the timed functions by name."""
    model = models.find(None).load()
    windows = corpus.windows(builtin.topics(), model.tokenizer, length=length, count=1)
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
    """Return seconds by name and round, in rotated order."""
    functions = contenders(length)
    names = list(functions)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        functions[name]()
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.perf_counter()
            functions[name]()
            taken[name].append(time.perf_counter() - started)
    return taken


def peak(name: str, length: int) -> int:
    """Return the peak memory in MB, above the loaded model, of a process that runs one function
    twice.
    """
    words = [sys.executable, "-m", "benchmarks.effective", "--peak", name, "--length", str(length)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        function = contenders(options.length)[options.peak]
        reset_peak()
        before = peak_memory()
        for _ in range(2):
            function()
        print(peak_memory() - before)
        return
    taken = times(options.rounds, options.length)
    print(f"{options.length} tokens, {torch.get_num_threads()} threads, {options.rounds} rounds\n")
    print("| | s | × eager | memory above the model, MB |\n|---|---|---|---|")
    for name, seconds in taken.items():
        ratios = [
            second / other for second, other in zip(seconds, taken["eager forward"], strict=True)
        ]
        print(
            f"| {name} | {statistics.median(seconds):.2f} | {statistics.median(ratios):.2f} |"
            f" {peak(name, options.length)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
