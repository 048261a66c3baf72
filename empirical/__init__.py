"""Measures the attention heads of a transformer: text, models, the tap, separability, baselines,
the store.
"""

from __future__ import annotations

import os
import sys

from empirical.caches import lend_caches

if "torch" not in sys.modules and not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    # The threads of a forward pass spin for milliseconds after each layer, on the cores that the
    # measurements of that layer need. Waiting shorter does not slow the forward down. It can be
    # told to the OpenMP runtime only before torch loads it.
    os.environ["GOMP_SPINCOUNT"] = "10000"
if "numpy" not in sys.modules:
    # So do those of OpenBLAS, for 26 ms after each product of matrices: 2^26 cycles. Here 2^16.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")

lend_caches()
