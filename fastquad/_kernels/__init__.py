"""The compiled kernels; their sources are in kernels/ at the top of the project."""
