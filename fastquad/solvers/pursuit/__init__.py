"""Pursuit: greedy growth of supports on screened blocks of A."""
