"""Measurements of one layer as batched torch operations, on the device where the layer lives."""
