"""Interventions on attention: every query keeps a few tokens, and the loss that this costs."""
