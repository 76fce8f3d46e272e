"""Arithmetic on plain numbers: nothing here knows of A, x or y."""
