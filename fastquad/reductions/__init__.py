"""Problems that `solve` takes by turning them into another: complex signals, linear terms, sparsity in a basis.

Each module wraps `solve`: what the user gave is translated into the problem that the solvers know, and the answer back.
"""
