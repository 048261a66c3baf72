"""Devices of torch tests: the CPU, and CUDA if available."""

from __future__ import annotations

import torch

DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
