"""Devices that a test of torch runs on: the CPU, and CUDA where there is one."""

from __future__ import annotations

import torch

DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
