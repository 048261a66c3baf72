"""Tensors from elsewhere: attention weights and values that another program made."""
