"""Packed tensors in a folder on disk."""
