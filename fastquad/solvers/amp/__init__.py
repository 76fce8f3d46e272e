"""Approximate message passing: see `fastquad.solvers.amp.amp`."""
