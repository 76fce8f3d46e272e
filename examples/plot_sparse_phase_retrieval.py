r"""
Sparse phase retrieval
======================

A signal of 1,000 entries of which 10 are not zero, from the intensities :math:`(a_i^\top x)^2` of few random vectors.
SPARTA, CoPRAM and hard thresholding pursuit need to know that there are 10. :func:`fastquad.solve` does not, and it
needs fewer measurements than any of them. ``benchmarks/studies/measured_world.py sparse`` has 20 trials per point.
"""

import matplotlib.pyplot as plt
import numpy as np
import peers

import fastquad as fq

N, K, TRIALS = 1000, 10, 5
COUNTS = (60, 100, 150, 250, 400)
METHODS = {
    # Most take less than a second, a few some seconds; with 60 measurements more time does not help.
    "fastquad (k unknown)": lambda a, y: fq.solve(fq.RankOneTensor(a), y, max_time=15 if len(a) > 60 else 2).x,
    "SPARTA": lambda a, y: peers.sparta(a, np.sqrt(y), K, max_iter=300),
    "CoPRAM": lambda a, y: peers.copram(a, np.sqrt(y), K, max_iter=20),
    "HTP": lambda a, y: peers.htp(a, np.sqrt(y), K, max_iter=50),
}

# %%
# The same problems for all of them.


def instance(m, seed):
    rng = np.random.default_rng([m, seed])
    a, x = rng.standard_normal((m, N)), np.zeros(N)
    x[rng.permutation(N)[:K]] = rng.standard_normal(K)
    return a, x


rates = {name: [] for name in METHODS}
for m in COUNTS:
    problems = [instance(m, seed) for seed in range(TRIALS)]
    for name, method in METHODS.items():
        found = [fq.distance(method(a, (a @ x) ** 2), x) < 1e-3 for a, x in problems]
        rates[name].append(np.mean(found))
    print(m, {name: f"{rate[-1]:.2f}" for name, rate in rates.items()})

# %%
figure, ax = plt.subplots(figsize=(6, 4))
for marker, (name, rate) in zip("os^x", rates.items(), strict=True):
    ax.plot(COUNTS, rate, f"{marker}-", lw=2.5 if "fastquad" in name else 1, ms=8, label=name)
ax.set(xlabel="measurements m", ylabel="recovered", ylim=(-0.05, 1.05), title=f"n = {N}, {K} nonzeros")
ax.legend(frameon=False)
figure.tight_layout()
plt.show()
