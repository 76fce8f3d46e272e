"""A power grid as sparse measurements: a ring with chords, of lines and transformers between 1 and 10,000 per unit."""

import numpy as np

import fastquad as fq


def grid(n=40, seed=0, meters=1.0, flows=1.0):
    """P and Q at all buses and at both ends of a share of the lines, |V|² at a share of the buses.

    Returns the measurements, the kind of each, and voltages at which powers are of about one.
    """
    rng = np.random.default_rng([1, seed])
    lines = [(i, (i + 1) % n) for i in range(n)] + [(i, (i + n // 3) % n) for i in range(0, n, 5)]
    Y, entries, kinds = np.zeros((n, n), dtype=complex), [], []

    def add(kind, flow):
        """P and Q of `V_a conj(Σ_b Y_ab V_b)`: the entry (b, a) of the matrix is conj(Y_ab)."""
        for step, factor in enumerate((1.0, -1j)):
            entries.extend((len(kinds), b, a, np.conj(value) * factor) for a, b, value in flow)
            kinds.append(kind + step)

    for f, t in lines:
        y = 10 ** rng.uniform(0, 4) / (0.1 + 1j)
        tap = rng.choice([1.0, 0.95, 1.05]) * np.exp(1j * rng.choice([0.0, 0.05]))
        ends = (f, t, (y + 0.02j) / abs(tap) ** 2, -y / np.conj(tap)), (t, f, y + 0.02j, -y / tap)
        measured = rng.random() < flows
        for a, b, own, other in ends:
            Y[a, a] += own
            Y[a, b] += other
            if measured:
                add(2, [(a, a, own), (a, b, other)])
    for a in range(n):
        add(0, [(a, b, Y[a, b]) for b in np.flatnonzero(Y[a])])
    for bus in np.flatnonzero(rng.random(n) < meters):
        entries.append((len(kinds), bus, bus, 1.0))
        kinds.append(4)
    V = np.ones(n, dtype=complex)
    drawn = 0.1 * (rng.standard_normal(n - 1) + 1j * rng.standard_normal(n - 1))
    V[1:] = np.linalg.solve(Y[1:, 1:], drawn - Y[1:, 0])
    i, j, k, values = map(np.array, zip(*entries, strict=True))
    return fq.SparseTensor.from_entries(i, j, k, values, m=len(kinds), n=n), np.array(kinds), V


def typical(z, kinds):
    """The rms of the kind of each measurement."""
    return np.sqrt(np.bincount(kinds, z**2) / np.maximum(np.bincount(kinds), 1))[kinds]
