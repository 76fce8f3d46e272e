"""Tensors stored as arrays: raw, as the user has them, or packed."""
