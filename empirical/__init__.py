"""Measurement of a transformer's attention heads: text, models, the tap, separability, baselines,
the store.
"""

from __future__ import annotations

import os
import sys

from empirical.caches import redirect_caches

if "torch" not in sys.modules and not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    # The threads of a forward pass spin for milliseconds after each layer, on the cores that the
    # measurements of that layer need. A shorter wait does not slow the forward down. The OpenMP
    # runtime reads the setting only once, when torch loads it.
    os.environ["GOMP_SPINCOUNT"] = "10000"
if "numpy" not in sys.modules:
    # OpenBLAS threads also spin, for 26 ms (2^26 cycles) after each product; here for 2^16.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")

redirect_caches()
