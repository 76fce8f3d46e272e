"""Tensors in parts, on the workers of a Dask cluster or chunk by chunk."""
