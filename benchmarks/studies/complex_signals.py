"""Complex signals: how often each method finds them, in how many passes, and what the answer is called.

Run as `python benchmarks/studies/complex_signals.py PART …` with the parts below, or without for all of them. Every
trial is one line of JSON in `--out`; a part that was run before goes on where it ended. `--table` prints what there is.

Hermitian matrices of the Gaussian unitary ensemble, E|h|² = 1; success is a relative distance below 1e-3 up to a phase.

    default       the default call at n = 100: (k, m) of DEFAULT, uniform nonzeros
    public        no prior, n = 100, m = 400: 100 trials
    dense         no prior, n = 100, m = 220
    amp           AMP at n = 64 with its first attempts, complex Gaussian nonzeros
    pursuit       pursuit alone, uniform nonzeros, at most 20 s each
    twf           TWF at n = 64, β = .5, that is 1.148 for moduli
    certificates  mixed small problems, many without enough measurements: is anything called EXACT that is wrong?
    noise         the default call on noisy data, n = 64
    time          the default call at n = k = 100, m = 300, against Wirtinger flow in complex NumPy, to 1e-8
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import fastquad as fq

DEFAULT = [(10, 100), (30, 200), (60, 200), (100, 210), (100, 250)]
AMP = {
    5: [32, 48, 64, 96, 128, 192], 10: [48, 56, 64, 96, 128], 20: [64, 72, 80, 96, 128, 192],
    40: [96, 104, 112, 128, 192, 256], 64: [128, 136, 144, 160, 192, 256, 320],
}  # fmt: skip
PURSUIT = [
    (300, 3, 10), (300, 3, 12), (300, 3, 16), (300, 3, 20), (300, 5, 25), (300, 5, 30), (300, 5, 40), (300, 5, 60),
    (300, 8, 60), (300, 8, 80), (300, 8, 120), (500, 3, 30), (500, 5, 60), (500, 8, 120),
]  # fmt: skip
NOISE = [(3, 100, 0.1), (3, 200, 0.1), (3, 400, 0.1), (3, 200, 1.0), (10, 200, 0.1)]


def hermitian(m, n, rng, dtype=np.complex128):
    """Matrices of the Gaussian unitary ensemble, packed."""
    parts = []
    for start in range(0, m, 64):
        count = min(64, m - start)
        A = rng.standard_normal((count, n, n)) + 1j * rng.standard_normal((count, n, n))
        parts.append(((A + A.transpose(0, 2, 1).conj()) / 2).astype(dtype))
    return fq.pack(np.concatenate(parts))


def signal(n, k, rng, kind="gaussian"):
    """k complex nonzeros of unit norm."""
    x = np.zeros(n, dtype=complex)
    draw = (lambda: rng.standard_normal(k)) if kind == "gaussian" else (lambda: rng.uniform(-0.5, 0.5, k))
    x[rng.permutation(n)[:k]] = draw() + 1j * draw()
    return x / np.linalg.norm(x)


def trial(n, k, m, seed, *, kind="gaussian", noise=0.0, dtype=np.complex128, **options):
    """One fresh instance solved: a record."""
    rng = np.random.default_rng([seed, n, k, m])
    H, x = hermitian(m, n, rng, dtype), signal(n, k, rng, kind)
    y = fq.measure(H, x) + noise * rng.standard_normal(m)
    start = time.process_time()
    found = fq.solve(H, y, rng=seed, n_threads=1, **options)
    record = {"n": n, "k": k, "m": m, "seed": seed, "noise": noise, "distance": float(fq.distance(found.x, x))}
    record |= {"status": found.status.name, "method": found.method, "passes": float(found.n_passes)}
    return record | {"cpu": time.process_time() - start, "n_iter": int(found.n_iter)}


def cells(part):
    """(how many trials, cell, options of `trial`) of a part."""
    if part == "default":
        return [(20, (100, k, m), {"kind": "uniform", "max_time": 60}) for k, m in DEFAULT]
    if part == "public":
        return [(100, (100, 100, 400), {})]
    if part == "dense":
        return [(20, (100, 100, 220), {"max_time": 60})]
    if part == "amp":
        method = fq.AMP(n_attempts=7)
        return [(10, (64, k, m), {"method": method, "max_time": 30}) for k, ms in AMP.items() for m in ms]
    if part == "pursuit":
        return [(10, cell, {"kind": "uniform", "method": "pursuit", "max_time": 20}) for cell in PURSUIT]
    if part == "twf":
        shape = [(64, k, m) for m in (64, 96, 128, 192, 256, 320) for k in (5, 10, 20, 40, 64)]
        return [(10, cell, {"method": "twf", "max_iter": 3000, "dtype": np.complex64}) for cell in shape]
    if part == "noise":
        return [(8, (64, k, m), {"noise": s, "max_time": 60}) for k, m, s in NOISE]
    raise ValueError(part)


def certificate_trials(first, count=1000):
    """Small problems of every shape, of which many have too few measurements, or special matrices."""
    for seed in range(first, first + count):
        rng = np.random.default_rng([7, seed])
        n, kind = int(rng.integers(2, 14)), int(rng.integers(0, 6))
        k = int(rng.integers(1, n + 1))
        m = int(rng.integers(max(2, k), 4 * n))
        A = rng.standard_normal((m, n, n)) + 1j * rng.standard_normal((m, n, n))
        if kind == 1:
            A = np.sign(A.real) + 1j * np.sign(A.imag)
        if kind == 2:
            A[:, : n // 2, n // 2 :] = A[:, n // 2 :, : n // 2] = 0
        if kind == 3:
            A = A.real.astype(complex)
        if kind == 4:
            A = A + A[:, ::-1, ::-1]
        H = (A + A.transpose(0, 2, 1).conj()) / 2
        x = signal(n, k, rng)
        found = fq.solve(H, fq.measure(H, x), rng=seed, n_threads=1, max_passes=300, max_time=5)
        yield {"seed": seed, "n": n, "k": k, "m": m, "kind": kind, "status": found.status.name,
               "success": bool(found.success), "distance": float(fq.distance(found.x, x))}  # fmt: skip


def wirtinger_flow(H, y, x, max_iter=20_000):
    """The steps of Wirtinger flow as it is usually written: spectral start, steps that grow to 0.2, whole arrays."""
    m = len(y)
    z = np.linalg.eigh(np.tensordot(y, H, 1) / m)[1][:, -1] * np.mean(y**2) ** 0.25
    for step in range(max_iter):
        W = H @ z
        r = (W @ z.conj()).real - y
        if step % 10 == 0 and fq.distance(z, x) < 1e-8:
            return step
        z = z - min(1 - np.exp(-step / 330), 0.2) * (r @ W) / m / np.linalg.norm(z) ** 2
    return max_iter


def time_trials(first, count=10):
    """The processor time of both on one instance each; the matrices are an array, which both take as it is."""
    fq.solve(hermitian(30, 10, np.random.default_rng(0)), np.ones(30))  # what is imported late is not timed
    for seed in range(first, first + count):
        rng = np.random.default_rng([seed, 100, 300])
        A = rng.standard_normal((300, 100, 100)) + 1j * rng.standard_normal((300, 100, 100))
        H, x = (A + A.transpose(0, 2, 1).conj()) / 2, signal(100, 100, rng)
        y = fq.measure(H, x)
        start = time.process_time()
        found = fq.solve(H, y, rng=seed, n_threads=1)
        middle = time.process_time()
        steps = wirtinger_flow(H, y, x)
        yield {"seed": seed, "cpu": middle - start, "wf": time.process_time() - middle, "steps": steps,
               "distance": float(fq.distance(found.x, x)), "passes": float(found.n_passes)}  # fmt: skip


def run(part, out, first):
    """Append the trials of a part that are not there yet, with seeds from `first` on."""
    lines = out.read_text().splitlines() if out.exists() else []
    done = set(lines if part == "time" else (line_key(json.loads(line)) for line in lines))
    with out.open("a") as stream:
        if part == "time":
            for record in time_trials(first + len(done), 10 - len(done)):
                print(json.dumps(record), file=stream, flush=True)
            return
        if part == "certificates":
            for record in certificate_trials(first + len(done), 1000 - len(done)):
                print(json.dumps(record), file=stream, flush=True)
            return
        # A trial of each cell in turn: what is there when time is up is a fair sample.
        for seed in range(first, first + max(count for count, _, _ in cells(part))):
            for count, (n, k, m), options in cells(part):
                if seed < first + count and (n, k, m, options.get("noise", 0.0), seed) not in done:
                    print(json.dumps(trial(n, k, m, seed, **options)), file=stream, flush=True)


def line_key(record):
    return (record["n"], record["k"], record["m"], record.get("noise", 0.0), record["seed"])


def table(part, out):
    """The figures of a part."""
    records = [json.loads(line) for line in out.read_text().splitlines()]
    if part == "certificates":
        wrong = [r for r in records if r["status"] == "EXACT" and r["distance"] > 1e-3]
        called = [r for r in records if r["success"] and r["distance"] > 1e-2]
        exact = sum(r["status"] == "EXACT" for r in records)
        print(f"{len(records)} problems, {exact} EXACT, {len(wrong)} of them wrong; {len(called)} wrong successes")
        return
    if part == "time":
        ratios = [r["wf"] / r["cpu"] for r in records]
        cpu, wf, steps, passes = (np.median([r[name] for r in records]) for name in ("cpu", "wf", "steps", "passes"))
        right = sum(r["distance"] < 1e-8 for r in records)
        print(f"{right} of {len(records)} right, {cpu:.3f} s in {passes:.1f} passes; "
              f"WF {wf:.2f} s in {steps:.0f} steps, "
              f"{np.median(ratios):.0f} times as long ({min(ratios):.0f} to {max(ratios):.0f})")  # fmt: skip
        return
    groups = {}
    for record in records:
        groups.setdefault((record["n"], record["k"], record["m"], record["noise"]), []).append(record)
    for (n, k, m, noise), group in sorted(groups.items()):
        right = [r for r in group if r["distance"] < 1e-3]
        called = sum(r["status"] == "EXACT" and r["distance"] < 1e-3 for r in group)
        wrong = sum(r["status"] == "EXACT" and r["distance"] > 1e-3 for r in group)
        passes = np.median([r["passes"] for r in right]) if right else np.nan
        error = np.median([r["distance"] for r in group])
        print(f"n={n:4d} k={k:4d} m={m:4d} noise={noise:4.2f}: {len(right):3d} of {len(group):3d} (EXACT {called}, "
              f"wrong {wrong}), median passes {passes:8.3g}, cpu {np.mean([r['cpu'] for r in group]):.2f} s, "
              f"distance {error:.2g}")  # fmt: skip


PARTS = ("default", "public", "dense", "amp", "certificates", "pursuit", "noise", "twf", "time")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--out", type=Path, default=Path("complex_signals"), help="folder of the records")
    parser.add_argument("--first", type=int, default=0, help="the first seed: another one is a fresh sample")
    parser.add_argument("--table", action="store_true", help="print the figures, run nothing")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {min(unknown)!r}")
    given.out.mkdir(parents=True, exist_ok=True)
    for part in given.parts or PARTS:
        path = given.out / f"{part}.jsonl"
        if not given.table:
            run(part, path, given.first)
        if path.exists():
            print(f"-- {part}")
            table(part, path)


if __name__ == "__main__":
    main()
