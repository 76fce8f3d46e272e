r"""
The state of a grid of 2,869 buses, and its bad meters
======================================================

A model of the European transmission grid (PEGASE), as pandapower has it. `fastquad.grids.from_pandapower` makes
quadratic measurements of a net: its table of meters, or as here the results of a power flow. From these, with errors of
1 % and five meters that are wrong, the voltages of all buses are estimated, without a start, in volts and degrees with
their standard errors; and the wrong meters are found by their residuals.
"""

import logging
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandapower
import pandapower.networks

import fastquad as fq

logging.getLogger("pandapower").setLevel(logging.ERROR)
warnings.simplefilter("ignore")

# %%
# The net, and what its meters would show: P and Q at all buses and at both ends of all lines and transformers, and the
# squares of all voltages.

net = pandapower.networks.case2869pegase()
pandapower.runpp(net, calculate_voltage_angles=True, numba=False)
meters = fq.grids.from_pandapower(net)
A, exact = meters.A, meters.y
print(A)
kind = np.unique([label.split()[0] for label in meters.labels], return_inverse=True)[1]
sigma = 0.01 * np.sqrt(np.bincount(kind, exact**2) / np.bincount(kind))[kind]
rng = np.random.default_rng(0)
y = exact + sigma * rng.standard_normal(A.m)
wrong = np.sort(rng.choice(A.m, 5, replace=False))
y[wrong] += 20 * sigma[wrong] * rng.choice([-1, 1], 5)

# %%
# A residual follows the error of its own meter only as far as the others contradict it: by the *redundancy* of the
# meter, which `fastquad.diagnose` computes for all of them. Divided by its root, residuals of good meters are standard
# normal. The solve says STAGNATED as long as the noise does not explain what is left; the worst meter is then given no
# weight, and so on.

weight = sigma.copy()
start, first, suspects = None, None, []
began = time.perf_counter()
while True:
    solution = fq.solve(A, y, noise=weight, x0=start)
    redundancy = fq.diagnose(A, solution.x, noise=weight).redundancy
    normalised = np.abs(y - A.measure(solution.x)) / (weight * np.sqrt(np.maximum(redundancy, 1e-6)))
    first = normalised if first is None else first
    start = solution.x
    if normalised.max() < 5:
        break
    suspects.append(int(np.argmax(normalised)))
    print(f"{solution.status.name}: {meters.labels[suspects[-1]]} is {normalised.max():.1f} deviations off")
    weight[suspects[-1]] *= 1e4
print(f"{solution.status.name} in {time.perf_counter() - began:.1f} s")
print("Wrong were:", [meters.labels[i] for i in wrong])
assert sorted(suspects) == wrong.tolist()

# %%
# The state, with its errors: angles are relative to the reference bus.

answer = meters.state(solution)
for row in answer.to_rows()[:5]:
    print({key: value if isinstance(value, str) else round(float(value), 4) for key, value in row.items()})

# %%
# What the meters can tell, before any of them is read: no direction is unseen here, and no meter is critical.

print(fq.diagnose(A, solution.x, noise=sigma, labels=meters.labels))

# %%
# The errors of the estimated voltages beside what the answer expects of them: most of an error is common to all, as all
# voltages share their mean. And the residuals of the first fit, in which the five meters stand out.

names = {name: k for k, name in enumerate(meters.buses)}
at = np.array([names[f"bus {bus}"] for bus in net.bus.index if f"bus {bus}" in names])
true = net.res_bus.loc[[bus for bus in net.bus.index if f"bus {bus}" in names]]
off, error = answer.vm_pu[at] - true.vm_pu.to_numpy(), answer.vm_stderr[at]
order = np.argsort(error)
figure, (errors, residuals) = plt.subplots(1, 2, figsize=(10, 3.6))
errors.fill_between(np.arange(len(at)), -2 * error[order], 2 * error[order], color="0.85", lw=0, label="± 2 stderr")
errors.plot(off[order], ".", color="C0", ms=2, label="error", rasterized=True)
errors.set(xlabel="bus, by its standard error", ylabel="error of |V| / p.u.")
errors.legend(frameon=False, loc="upper left")
residuals.plot(first, ".", color="0.6", ms=2, label="all meters", rasterized=True)
residuals.plot(wrong, first[wrong], "o", mfc="none", color="C3", label="wrong ones")
residuals.set(xlabel="meter", ylabel="|normalised residual|", yscale="log", ylim=(1e-2, None))
residuals.legend(framealpha=1, edgecolor="none", loc="lower right")
figure.tight_layout()
