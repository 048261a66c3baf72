"""Measures the attention heads of a transformer: text, models, the tap, separability, baselines, the store."""
