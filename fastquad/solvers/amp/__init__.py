"""Approximate message passing: see `fastquad.solvers.amp.solver` for the method, `run` for its loop."""
