"""Tensors given by a few vectors."""
