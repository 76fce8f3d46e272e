"""Tensors whose entries are computed when they are needed."""
