"""How a signal is found: one file an algorithm, each opening with its derivation."""
