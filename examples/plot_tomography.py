r"""
A quantum state from counts of Pauli strings
============================================

An experiment prepares the same state of q qubits again and again. Each time it measures one *Pauli string*, a letter X,
Y, Z or I for each qubit, and writes down a bit for each. The mean of the parity of these bits is an expectation,
:math:`y_i = \psi^* P_i \psi`, which is quadratic in the :math:`2^q` amplitudes of a pure state. All :math:`4^q` strings
would determine any state; far fewer determine a pure one.

`fq.PauliTensor` takes the strings. It stores two masks for each, and no matrix.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import fastquad as fq

QUBITS, STRINGS, SHOTS = 5, 240, 1000
rng = np.random.default_rng(5)


def expectation(label, counts):
    """The mean parity of the bits of all letters but I, and its standard deviation, from counts such as {"01": 7}."""
    shots = sum(counts.values())
    ones = [sum(bit == "1" and letter != "I" for bit, letter in zip(bits, label, strict=True)) for bits in counts]
    y = sum(count * (-1) ** k for count, k in zip(counts.values(), ones, strict=True)) / shots
    # One count more on either side keeps the deviation above zero where all parities agree.
    p = (shots * (1 + y) / 2 + 1) / (shots + 2)
    return y, 2 * np.sqrt(p * (1 - p) / shots)


def fidelity(x, psi):
    """The probability that a measurement takes one state for the other."""
    return abs(np.vdot(x, psi)) ** 2 / np.vdot(x, x).real / np.vdot(psi, psi).real


# %%
# A W state, one excitation that all qubits share, with phases that grow from qubit to qubit.

psi = np.zeros(2**QUBITS, dtype=complex)
psi[1 << np.arange(QUBITS)] = np.exp(0.6j * np.arange(QUBITS)) / np.sqrt(QUBITS)

# %%
# What the experiment gives: for each string the counts of bits, as Qiskit writes them. Here they are drawn at random,
# from the state after each qubit was turned to the axis of its letter.

TURNS = {
    "I": np.eye(2),
    "Z": np.eye(2),
    "X": np.array([[1, 1], [1, -1]]) / np.sqrt(2),
    "Y": np.array([[1, -1j], [1, 1j]]) / np.sqrt(2),
}


def run(label, psi, shots, rng, purity=1.0):
    """The counts of bits of so many shots; a share 1 − purity of them is pure chance."""
    turned = psi.reshape((2,) * QUBITS)
    for qubit, letter in enumerate(label):
        turned = np.moveaxis(np.tensordot(TURNS[letter], turned, (1, qubit)), 0, qubit)
    chances = purity * np.abs(turned.ravel()) ** 2 + (1 - purity) / 2**QUBITS
    drawn = rng.multinomial(shots, chances / chances.sum())
    return {f"{bits:0{QUBITS}b}": int(count) for bits, count in enumerate(drawn) if count}


labels = set()
while len(labels) < STRINGS:
    label = "".join(rng.choice(list("IXYZ"), QUBITS))
    labels |= {label} - {"I" * QUBITS}
labels = sorted(labels)
results = {label: run(label, psi, SHOTS, rng) for label in labels}
first = labels[0]
print(first, dict(list(results[first].items())[:4]), "…", f"mean parity {expectation(first, results[first])[0]:.3f}")

# %%
# Labels and counts are all that the solve gets. `error` is the distance that it expects of its own x; the fidelity that
# goes with a distance d is :math:`1 - d^2`.

y, sigma = np.array([expectation(label, results[label]) for label in labels]).T
A = fq.PauliTensor(labels)
start = time.perf_counter()
solution = fq.solve(A, y, noise=sigma)
seconds = time.perf_counter() - start
print(solution)
print(f"{len(labels)} of {4**QUBITS} strings, {SHOTS} shots each, {seconds:.2f} s: {solution.status.name}.")
print(f"Expected fidelity {1 - solution.error**2:.4f}, true fidelity {fidelity(solution.x, psi):.4f}.")
assert solution.success
assert 1 - fidelity(solution.x, psi) < (3 * solution.error) ** 2

# %%
# The string I…I was left out on purpose: it is always one, and without it the length of x is free. If a share of the
# shots is pure chance, all other expectations shrink by the same factor p, so that :math:`\|x\|^2 = p`: the length of x
# says how much of the state is pure.

mixed = {label: run(label, psi, SHOTS, rng, purity=0.8) for label in labels}
y_mixed, sigma_mixed = np.array([expectation(label, mixed[label]) for label in labels]).T
shrunk = fq.solve(A, y_mixed, noise=sigma_mixed)
whole, part = (np.vdot(x, x).real for x in (solution.x, shrunk.x))
print(f"‖x‖² is {whole:.3f}; with a fifth of the shots lost {part:.3f}.")

# %%
# Beside it what is in use: gradient descent on the factored state, with the step of its largest eigenvalue and with
# momentum (MiFGD, Kim et al. 2023), from a spectral start, on the same expectations.


def factored_gradient(A, y, steps=1000, momentum=0.75):
    """x and its seconds."""
    start = time.perf_counter()
    n = A.n
    lifted = np.array([A.gradient(e, y) / 2 for e in np.eye(n, dtype=complex)])
    values, vectors = np.linalg.eigh(n / A.m * lifted.T)
    x = np.sqrt(max(values[-1], 0.1)) * vectors[:, -1]
    before, step = x, n / A.m / 16
    for _ in range(steps):
        ahead = x + momentum * (x - before)
        before, x = x, ahead - step * A.gradient(ahead, A.measure(ahead) - y) / n
    return x, time.perf_counter() - start


theirs, their_seconds = factored_gradient(A, y)
print(f"Factored gradient: infidelity {1 - fidelity(theirs, psi):.4f} in {their_seconds:.2f} s; ")
print(f"here {1 - fidelity(solution.x, psi):.4f} in {seconds:.2f} s.")

# %%
# The amplitudes: their lengths with bars of two standard errors, and the phases of the five that are there. On the
# right what more shots buy.

at = np.argsort(-np.abs(psi))[:QUBITS]
at.sort()
x = solution.x * np.exp(-1j * np.angle(np.vdot(psi, solution.x)))
figure, (lengths, phases, shots_axis) = plt.subplots(1, 3, figsize=(11, 3.2), width_ratios=(3, 1.4, 1.8))
lengths.bar(np.arange(len(psi)), np.abs(psi), color="0.85", label="prepared")
lengths.errorbar(
    np.arange(len(x)), np.abs(x), 2 * solution.stderr, fmt=".", color="C1", capsize=2, lw=1, label="found, ± 2 stderr"
)
lengths.set(xlabel="basis state", ylabel="|amplitude|", xticks=at, xticklabels=[f"{k:0{QUBITS}b}" for k in at])
lengths.tick_params(axis="x", rotation=90, labelsize=8)
lengths.legend(frameon=False, loc="upper right")
phases.plot(np.arange(QUBITS), np.unwrap(np.angle(psi[at])), "s", color="0.7", ms=9, label="prepared")
phases.plot(np.arange(QUBITS), np.unwrap(np.angle(x[at])), ".", color="C1", label="found")
phases.set(xlabel="excited qubit", ylabel="phase / rad", xticks=np.arange(QUBITS))
many = (100, 300, 1000, 3000, 10_000)
expected, true = [], []
for shots in many:
    data = np.array([expectation(label, run(label, psi, shots, rng)) for label in labels]).T
    found = fq.solve(A, data[0], noise=data[1])
    expected.append(np.nan if found.error is None else found.error**2)
    true.append(1 - fidelity(found.x, psi))
shots_axis.loglog(many, true, "o-", color="C1", label="true")
shots_axis.loglog(many, expected, "s--", color="C0", mfc="none", label="error²")
shots_axis.set(xlabel="shots for each string", ylabel="infidelity")
shots_axis.legend(frameon=False)
figure.tight_layout()
