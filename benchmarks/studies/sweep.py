"""A sweep over noise, measurements, sizes and kinds of A: is the default call right between the cases it was made for?

    python -m benchmarks.studies.sweep [--cells 2000] [--seconds 300] [--csv FILE] [--map PNG] [--compare TREE or FILE]

A cell is drawn from its seed and its number alone: the noise is 1e-12 to 1 by half decades, relative to the rms of the
measurements; m/n is one of thirteen ratios, which include n, n + 1, 2 n and 2 n ± 1; n is 5 to 200; k is 1 to n, and
the nonzeros have sizes from 0.5 to 1.5. In a quarter of the cells `noise=` is given. Each cell is solved by the default
call and compared with the optimum, which is nonlinear least squares from the truth on the true support. Small cells run
first. With `--csv` each cell is appended to the file at once, and a second call goes on from there.

dist         the distance to the signal, relative
over         dist over that of the optimum
predictable  each nonzero is above 8 standard errors, m >= 1.5 (f + k log(n/k)), n >= 20, where f is the number of free
             real numbers: k, or 2 k - 1 for complex signals
right        dist is at most twice the optimum or twice the standard error of x, whichever is larger, which is < 0.25
refused      right, but not called a success
wrong        a success further off than 3 `error` (at least 1e-3), or than 0.75
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import fastquad as fq
from benchmarks.studies import trials
from benchmarks.studies.trials import Array, Model, column

NOISE = tuple(float(f"{10 ** (-12 + i / 2):.3g}") for i in range(25))
SIZES = (5, 10, 20, 60, 100, 200)
RATIOS: dict[str, Callable[[int], float]] = {
    "0.3": lambda n: 0.3 * n, "0.5": lambda n: 0.5 * n, "0.8": lambda n: 0.8 * n, "1": lambda n: n,
    "1+1/n": lambda n: n + 1, "1.05": lambda n: 1.05 * n, "1.2": lambda n: 1.2 * n, "1.5": lambda n: 1.5 * n,
    "2-1/n": lambda n: 2 * n - 1, "2": lambda n: 2 * n, "2+1/n": lambda n: 2 * n + 1, "3": lambda n: 3 * n,
    "5": lambda n: 5 * n,
}  # fmt: skip
KINDS = ("gaussian", "packed", "rank one array", "rank one", "low rank array", "low rank", "sparse", "hermitian")
#: Only for what hangs: the default call has no such budget.
_MAX_SECONDS = 60.0


class Cell(NamedTuple):
    """One problem of the sweep."""

    kind: str
    n: int
    ratio: str
    k: int
    noise: float
    told: bool

    @property
    def m(self) -> int:
        return max(1, round(RATIOS[self.ratio](self.n)))

    @property
    def cost(self) -> int:
        """What a pass reads."""
        return self.m * self.n**2

    @property
    def free(self) -> int:
        """The real numbers that are not known of x."""
        return 2 * self.k - 1 if self.kind == "hermitian" else self.k


class Posed(NamedTuple):
    """The data of a cell."""

    A: Any
    x: Array
    y: Array
    sigma: float
    model: Model
    support: Array


def cell(seed: int, number: int) -> Cell:
    """The cell of this number."""
    rng = np.random.default_rng([seed, number])
    kind, ratio = str(rng.choice(KINDS)), str(rng.choice(list(RATIOS)))
    n, noise = int(rng.choice(SIZES)), float(rng.choice(NOISE))
    if kind == "hermitian" and n == 200:
        n = 100  # of the memory
    k = n if rng.random() < 0.25 else int(np.exp(rng.uniform(0, np.log(n + 1))))
    return Cell(kind, n, ratio, min(max(k, 1), n), noise, bool(rng.random() < 0.25))


def posed(cell: Cell, rng: np.random.Generator) -> Posed:
    """Draw A, x and the noise."""
    m, n, k = cell.m, cell.n, cell.k
    support = np.sort(rng.choice(n, k, replace=False))
    values = rng.uniform(0.5, 1.5, k) * rng.choice([-1, 1], k)
    if cell.kind == "hermitian":
        values = values * np.exp(2j * np.pi * rng.random(k))
    x = np.zeros(n, dtype=values.dtype)
    x[support] = values
    A, model = _measurements(cell.kind, m, n, support, rng)
    z = model(trials.real_coordinates(values))[0]
    # sparse matrices may miss x altogether
    sigma = cell.noise * float(np.sqrt(np.mean(z**2))) or cell.noise
    return Posed(A, x, z + sigma * rng.standard_normal(m), sigma, model, support)


def _measurements(kind: str, m: int, n: int, support: Array, rng: np.random.Generator) -> tuple[Any, Model]:
    """A as it is given, and its model on the support."""
    if kind in ("rank one", "rank one array"):
        a = rng.standard_normal((m, 1, n))
        given = fq.RankOneTensor(a[:, 0]) if kind == "rank one" else a[:, 0, :, None] * a
        return given, trials.model_of_factors(a, np.ones((m, 1)), support)
    if kind in ("low rank", "low rank array"):
        a, w = rng.standard_normal((m, 3, n)), rng.standard_normal((m, 3))
        given = fq.LowRankTensor(a, w) if kind == "low rank" else (a.transpose(0, 2, 1) * w[:, None]) @ a
        return given, trials.model_of_factors(a, w, support)
    if kind == "sparse":
        # a tenth of the entries, and three a row at least
        filled = int(np.ceil(max(0.1 * n, min(3, n)) * n))
        each = []
        for _ in range(m):
            places = rng.choice(n * n, filled, replace=False)
            each.append(scipy.sparse.csr_array((rng.standard_normal(filled), np.divmod(places, n)), shape=(n, n)))
        dense = np.array([one[support][:, support].toarray() for one in each])
        return fq.SparseTensor(each), trials.model_of_arrays(dense, np.arange(support.size))
    A = rng.standard_normal((m, n, n))
    if kind == "hermitian":
        A = A + 1j * rng.standard_normal((m, n, n))
        A = (A + A.conj().transpose(0, 2, 1)) / 2
    return fq.pack(A) if kind == "packed" else A, trials.model_of_arrays(A, support)


def run(cell: Cell, seed: Sequence[int], *, only_predictable: bool = False) -> dict[str, Any] | None:
    """Pose a cell, solve it, and compare it with the optimum."""
    rng = np.random.default_rng(list(seed))
    data = posed(cell, rng)
    truth = trials.real_coordinates(data.x[data.support])
    gauge = int(np.iscomplexobj(data.x))
    stderr = trials.standard_errors(data.model, truth, data.sigma, gauge)
    predictable, expected, optimum = False, np.nan, np.nan
    if stderr is not None and cell.m >= cell.free:
        size = np.abs(data.x[data.support])
        per_entry = np.hypot(stderr[: cell.k], stderr[cell.k :]) if gauge else stderr
        enough = cell.m >= 1.5 * (cell.free + cell.k * np.log(cell.n / cell.k))
        predictable = bool(enough and cell.n >= 20 and np.all(size >= 8 * per_entry))
        expected = float(np.linalg.norm(stderr) / np.linalg.norm(data.x))
        best = trials.least_squares(data.model, truth, data.y)
        values = best[: cell.k] + 1j * best[cell.k :] if gauge else best
        optimum = float(fq.distance(values, data.x[data.support]))
    if only_predictable and not predictable:
        return None
    options: dict[str, Any] = {"noise": data.sigma} if cell.told else {}
    answer = trials.solved(
        lambda: fq.solve(data.A, data.y, max_time=_MAX_SECONDS, rng=int(seed[-1]), **options),
        lambda found: float(fq.distance(found, data.x)),
    )
    right = bool(expected < 0.25 and answer.dist <= 2 * max(optimum, expected))
    return {
        "seed": seed[0], "number": seed[1], "repeat": seed[2], **cell._asdict(), "m": cell.m, "free": cell.free,
        "predictable": predictable, "status": answer.status, "success": answer.success, "dist": answer.dist,
        "optimum": optimum, "expected": expected, "over": answer.dist / optimum if optimum > 0 else np.nan,
        "error": answer.error, "claim": answer.dist / answer.error if answer.error > 0 else np.nan,
        "right": right, "refused": right and not answer.success, "wrong": trials.is_wrong(answer, exact=False),
        "seconds": answer.seconds, "passes": answer.passes,
    }  # fmt: skip


# -- what it says -------------------------------------------------------------------------------------------------


def summary(rows: Sequence[Mapping[str, str]]) -> str:
    """What the predictable cells show, all and by kind; then all cells."""
    lines = [
        f"{'predictable cells':24}{'cells':>6}{'success':>9}{'refused':>9}{'wrong':>7}{'dist/opt: median':>18}"
        f"{'99 %':>9}{'worst':>9}{'dist/error: median':>20}{'above 3':>9}{'no error':>10}"
    ]
    sure = [row for row in rows if row["predictable"] == "True"]
    low, high = ([row for row in sure if (float(row["noise"]) < 1e-3) == part] for part in (True, False))
    groups = {"all": sure, "no factors": [row for row in sure if "rank" not in row["kind"]]}
    groups |= {"noise < 1e-3": low, "noise >= 1e-3": high}
    groups |= {kind: [row for row in sure if row["kind"] == kind] for kind in KINDS}
    lines += [f"{name:24}" + _line(group) for name, group in groups.items() if group]
    right = [row for row in rows if row["right"] == "True"]
    known = [row for row in rows if np.isfinite(float(row["optimum"]))]
    lines.append(
        f"all cells: {len(rows)}, determined {len(known)}, right {len(right)}, of them refused "
        f"{sum(row['refused'] == 'True' for row in right)}; successes {sum(row['success'] == 'True' for row in rows)}, "
        f"of them wrong {sum(row['wrong'] == 'True' for row in rows)}; {column(rows, 'seconds').sum():.0f} s"
    )
    repeated = _repeated(rows)
    if repeated:
        lines.append(f"cells whose repeats are all right: {len(repeated)}")
        lines.append(f"{'':24}" + _line([row for group in repeated for row in group]))
    return "\n".join(lines)


def _repeated(rows: Sequence[Mapping[str, str]]) -> list[list[Mapping[str, str]]]:
    """The predictable cells that ran 20 times or more, always to a right answer."""
    by_cell: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for row in rows:
        by_cell.setdefault((row["seed"], row["number"]), []).append(row)
    return [group for group in by_cell.values() if len(group) >= 20 and all(
        row["predictable"] == "True" and row["right"] == "True" for row in group
    )]  # fmt: skip


def _line(rows: Sequence[Mapping[str, str]]) -> str:
    over, success = column(rows, "over"), column(rows, "success") == 1
    over = np.where(np.isfinite(over), over, np.inf)
    # where the optimum interpolates, or has one number, its distance says little of the error
    judged = success & (column(rows, "free") >= 3) & (column(rows, "m") - column(rows, "free") >= 10)
    claims, stated = column(rows, "claim"), np.isfinite(column(rows, "claim"))
    some = over.size > 0
    claim = f"{np.median(claims[judged & stated]):20.2f}" if (judged & stated).any() else f"{'–':>20}"
    return (
        f"{len(rows):6}{success.mean() if some else 0:9.1%}{int(column(rows, 'refused').sum()):9}"
        f"{int(column(rows, 'wrong').sum()):7}{np.median(over):18.3f}"
        f"{np.quantile(over, 0.99, method='lower'):9.3g}{over.max():9.3g}{claim}"
        f"{int((success & stated & (claims > 3)).sum()):9}{int((success & ~stated).sum()):10}"
    )


def draw_map(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Two maps each over noise and m/n, and over noise and n: dist over the optimum, and what is refused."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    known = [row for row in rows if float(row["expected"]) < 0.25]
    figure, axes = plt.subplots(2, 2, figsize=(15, 8), constrained_layout=True)
    for line, (name, values) in zip(axes, (("ratio", list(RATIOS)), ("n", [str(n) for n in SIZES])), strict=True):
        over, refused = np.full((2, len(values), len(NOISE)), np.nan)
        for i, value in enumerate(values):
            for j, noise in enumerate(NOISE):
                here = [row for row in known if row[name] == value and float(row["noise"]) == noise]
                if here:
                    over[i, j] = np.log10(np.clip(np.median(column(here, "over")), 0.1, 1e6))
                right = [row for row in here if row["right"] == "True"]
                if right:
                    refused[i, j] = np.mean(column(right, "refused"))
        for axis, image, title, top in (
            (line[0], over, "log10 of dist / optimum, median", 4), (line[1], refused, "right and refused, share", 1),
        ):  # fmt: skip
            shown = axis.imshow(image, aspect="auto", vmin=0, vmax=top, cmap="viridis", origin="lower")
            axis.set_xticks(range(0, 25, 2), [f"{level:g}" for level in NOISE[::2]], rotation=60)
            axis.set_yticks(range(len(values)), values)
            axis.set(xlabel="noise", ylabel="m/n" if name == "ratio" else "n", title=title)
            figure.colorbar(shown, ax=axis)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def comparison(rows: Sequence[dict[str, str]], other: Sequence[dict[str, str]]) -> str:
    """What became of the same cells in another tree or file."""
    pairs = trials.paired(rows, other, ("seed", "number", "repeat"))
    lines = [f"{len(pairs)} cells in both; there -> here"]
    for name, keep in (("predictable", True), ("all", False)):
        both = [pair for pair in pairs if not keep or pair[1]["predictable"] == "True"]
        if not both:
            continue
        there, here = [a for a, _ in both], [b for _, b in both]
        lines.append(
            f"{name:12}{len(both):6} cells: " + ", ".join(
                f"{word} {int(column(there, word).sum())} -> {int(column(here, word).sum())}"
                for word in ("success", "right", "refused", "wrong")
            ) + f", seconds {column(there, 'seconds').sum():.1f} -> {column(here, 'seconds').sum():.1f}"
        )  # fmt: skip
    for a, b in pairs:
        lost = (a["success"], b["success"]) == ("True", "False") and a["wrong"] == "False"
        if lost or (b["wrong"], a["wrong"]) == ("True", "False") or (a["right"], b["right"]) == ("True", "False"):
            lines.append(
                f"  worse: {b['number']:>5} {b['kind']:15} n={b['n']} m={b['m']} k={b['k']} noise={b['noise']} "
                f"{a['status']} -> {b['status']}, over {a['over']} -> {b['over']}, error {a['error']} -> {b['error']}"
            )
    return "\n".join(lines)


# -- the command --------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cells", type=int, default=2000, help="the first so many cells of the seed")
    parser.add_argument("--first", type=int, default=0, help="the number of the first cell")
    parser.add_argument("--numbers", help="only these cells, with commas between them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=1, help="draw each cell so often; 20 for the sure cells")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no cell after so long")
    parser.add_argument("--kinds", help=f"only these, with commas between them: {', '.join(KINDS)}")
    parser.add_argument("--sizes", help="only these n")
    parser.add_argument("--ratios", help="only these m/n")
    parser.add_argument("--noise", nargs=2, type=float, default=(0, np.inf), metavar=("FROM", "TO"))
    parser.add_argument("--predictable", action="store_true", help="only cells that must succeed")
    parser.add_argument("--csv", type=Path, help="where to keep the trials, and to go on from")
    parser.add_argument("--map", type=Path, help="a PNG")
    parser.add_argument("--tree", type=Path, help="solve with the package of this tree")
    parser.add_argument("--compare", type=Path, help="a CSV of the same cells, or a tree to run them in")
    parser.add_argument("--show", action="store_true", help="list each cell")
    return parser


def _chosen(given: argparse.Namespace) -> list[tuple[int, Cell]]:
    """The cells that were asked for, small ones first."""
    numbers: Sequence[int] = range(given.first, given.first + given.cells)
    if given.numbers:
        numbers = [int(number) for number in given.numbers.split(",")]
    low, high = given.noise
    wanted = {
        name: text.split(",") for name, text in (("kind", given.kinds), ("n", given.sizes), ("ratio", given.ratios))
        if text
    }  # fmt: skip
    chosen = []
    for number in numbers:
        drawn = cell(given.seed, number)
        if 0.99 * low <= drawn.noise <= 1.01 * high and all(
            str(getattr(drawn, name)) in texts for name, texts in wanted.items()
        ):
            chosen.append((number, drawn))
    return sorted(chosen, key=lambda pair: pair[1].cost)


def _trials(given: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    begin = time.perf_counter()
    for number, drawn in _chosen(given):
        for repeat in range(given.repeats):
            if time.perf_counter() - begin > given.seconds:
                return
            if (str(given.seed), str(number), str(repeat)) in done:
                continue
            row = run(drawn, (given.seed, number, repeat), only_predictable=given.predictable)
            if row is None:
                break
            if given.show:
                print(
                    f"{number:5} {drawn.kind:15} n={drawn.n} m={drawn.m} k={drawn.k} noise={drawn.noise:g} "
                    f"{'told ' if drawn.told else ''}{row['status']} over {row['over']:.3g} claim {row['claim']:.3g} "
                    f"{row['seconds']:.2f} s{' refused' * row['refused']}{' WRONG' * row['wrong']}"
                )
            yield row


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells, and print what they show."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    given = _parser().parse_args(arguments)
    if given.tree is not None:
        return trials.in_tree(given.tree.resolve(), "benchmarks.studies.sweep", trials.without(arguments, "--tree"))
    old = trials.read(given.csv) if given.csv is not None and given.csv.exists() else []
    done = {(row["seed"], row["number"], row["repeat"]) for row in old}
    rows = old + list(trials.written(given.csv, _trials(given, done)))
    if rows:
        print(summary(rows))
        if given.map is not None:
            draw_map(rows, given.map)
    if rows and given.compare is not None:
        print(comparison(rows, _other(given, rows)))
    return 0


def _other(given: argparse.Namespace, rows: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The trials to compare with: of a file, or run now in another tree."""
    if given.compare.is_file():
        return trials.read(given.compare)
    path = (given.csv or Path("sweep.csv")).with_suffix(".there.csv").resolve()
    numbers = ",".join(sorted({row["number"] for row in rows}, key=int))
    trials.in_tree(
        given.compare.resolve(), "benchmarks.studies.sweep",
        ["--numbers", numbers, "--seed", str(given.seed), "--repeats", str(given.repeats), "--csv", str(path)],
    )  # fmt: skip
    return trials.read(path)


if __name__ == "__main__":
    sys.exit(main())
