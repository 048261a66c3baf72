"""Experiments that run the model with interventions: effective size, ablation, normaliser."""
