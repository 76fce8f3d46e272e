"""Recover sparse signals from far fewer quadratic measurements than a dense one would need."""

import fastquad as fq

print(f"{'unknowns':>9} {'nonzeros':>9} {'measurements':>13} {'distance':>10} {'passes over A':>14}  status")
for n, k, m in [(100, 20, 150), (100, 100, 150), (500, 5, 50)]:
    problem = fq.problems.gaussian(m=m, n=n, k=k, rng=0)
    solution = fq.solve(problem.A, problem.y)
    distance = fq.distance(solution.x, problem.x)
    print(f"{n:9} {k:9} {m:13} {distance:10.1e} {solution.n_passes:14.2f}  {solution.status.name.lower()}")
    if not solution.success or distance > 1e-8:
        raise SystemExit(f"not recovered: {solution.message}")
