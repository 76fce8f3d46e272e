"""The generative prior, measured: PPower, PGD and latent Levenberg–Marquardt, and PGD in PyTorch in the same run.

    python benchmarks/studies/generative.py [--only speed] [--draws 3] [--first-draw 0] [--threads 1] [--quick]

Prints markdown tables; docs/benchmarks-generative.md holds them. One draw is a Gaussian A and ten test images of MNIST,
x = image/‖image‖: from the whole test set where FASTQUAD_DATA names the folder of its files, else from the bundled
ones. Cosine similarity is averaged over images and draws, ± the standard deviation of that mean. `--first-draw` takes
other images and other A. The PyTorch part is left out where PyTorch is not installed. `--only lost` asks what decides
PGD at m = 80, and needs PyTorch and the whole test set. All else takes some ten minutes, `--quick` one.
"""

import argparse
import os
import time

N, N_IMAGES = 784, 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one draw, fewer settings")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--first-draw", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3, help="of each time, of which the median is taken")
    parser.add_argument("--threads", type=int, default=1, help="threads of fastquad, BLAS and PyTorch alike")
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine, with one thread")
    parser.add_argument("--only", choices=("speed", "range", "accuracy", "lost"), help="this part alone")
    options = parser.parse_args()
    if options.quick:
        options.draws = 1
    # BLAS reads these when NumPy is loaded.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "FASTQUAD_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    return options


OPTIONS = arguments() if __name__ == "__main__" else None

import numpy as np  # noqa: E402

import fastquad as fq  # noqa: E402

ACCURATE = {"PPower": fq.methods.PPower(), "PGD": fq.methods.PGD(), "LatentLM": fq.methods.LatentLM()}
FAST = {
    "PGD": fq.methods.PGD(),
    "PGD, all restarts to the end": fq.methods.PGD(race=False),
    "PGD, projection by LM": fq.methods.PGD(projection="lm"),
    "LatentLM": fq.methods.LatentLM(),
}


class Draw:
    """A, stored once, and ten images; measurements of any number and noise are taken from it."""

    def __init__(self, seed, m):
        self.seed, rng = seed, np.random.default_rng([77, seed])
        images = fq.datasets.mnist().test_images if os.environ.get("FASTQUAD_DATA") else fq.datasets.mnist_samples()[0]
        chosen = rng.choice(len(images), N_IMAGES, replace=False)
        X = images[chosen].reshape(N_IMAGES, N).astype(np.float64)
        self.X = X / np.linalg.norm(X, axis=1, keepdims=True)
        start = time.perf_counter()
        self.A = rng.standard_normal((m, N, N), dtype=np.float32)
        self.packed = {}
        self.pack(m)
        self.seconds = time.perf_counter() - start

    def pack(self, m):
        """The first m measurements, packed; only the last ones asked for are kept."""
        if m not in self.packed:
            self.packed = {m: fq.pack(self.A[:m])}
        return self.packed[m]

    def data(self, m, sigma=0.0):
        """Packed A and the measurements (10, m)."""
        A = self.pack(m)
        y = A.measure(np.ascontiguousarray(self.X.T)).T
        noise = np.random.default_rng([self.seed, int(1000 * sigma), m]).standard_normal(y.shape)
        return A, y + sigma * noise


def cosines(x, X):
    """Cosine similarity of the rows."""
    return np.einsum("bn,bn->b", x, X) / (np.linalg.norm(x, axis=1) * np.linalg.norm(X, axis=1))


def table(header, rows):
    """Print markdown."""
    print("| " + " | ".join(header) + " |")
    print("| " + " | ".join("---" for _ in header) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def accuracy(prior, draws, settings):
    """Mean cosine and passes of every method, for each (m, σ); and by how much LatentLM is better than PGD."""
    results = {setting: {name: [] for name in ACCURATE} for setting in settings}
    for draw in draws():
        for m, sigma in settings:
            A, Y = draw.data(m, sigma)
            for name, method in ACCURATE.items():
                solution = fq.solve(A, Y, prior=prior, method=method, norm=1.0, rng=0)
                results[m, sigma][name].append((cosines(solution.x, draw.X).mean(), solution.n_passes.mean()))
    rows = []
    for (m, sigma), result in results.items():
        cosine, passes = np.moveaxis(np.array([result[name] for name in ACCURATE]), 2, 0)  # each (methods, draws)
        cells = [f"{mean(values)} ({passes[i].mean():.1f})" for i, values in enumerate(cosine)]
        gains = cosine[-1] - cosine[-2]
        rows.append([str(m), f"{sigma:g}", *cells, mean(gains), f"{gains.min():+.3f}"])
    print("Cosine similarity, and passes over A in brackets\n")
    table(["m", "σ", *ACCURATE, "LatentLM − PGD", "its least in a draw"], rows)


def mean(values):
    """The mean, ± its standard deviation where it is known."""
    spread = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"


def in_range(prior, m=60, n_signals=20):
    """Distance and status for signals that the decoder can express."""
    rng = np.random.default_rng(0)
    X = prior.signal(rng.standard_normal((n_signals, prior.decoder.n_latent)))
    A = rng.standard_normal((m, N, N))
    rows = []
    for dtype in (np.float32, np.float64):
        packed = fq.pack(A, dtype=dtype)
        Y = packed.measure(np.ascontiguousarray(X.T)).T
        for norm in (1.0, None):
            solution = fq.solve(packed, Y, prior=prior, norm=norm)
            worst = max(fq.distance(x_hat, x) for x_hat, x in zip(solution.x, X, strict=True))
            exact = sum(status is fq.Status.EXACT for status in solution.status)
            passes = f"{solution.n_passes.mean():.1f}"
            rows.append([np.dtype(dtype).name, str(norm), f"{worst:.1e}", f"{exact} of {n_signals}", passes])
    print(f"Signals in the range of the decoder, m = {m}, LatentLM\n")
    table(["A", "norm given", "worst distance", "exact", "passes"], rows)


def lost(prior, m=80):
    """PGD where it loses some images, beside PyTorch: the first ten of the test set, and ten others, for each A."""
    images = fq.datasets.mnist().test_images
    ends = {}
    for seed in range(OPTIONS.first_draw, OPTIONS.first_draw + OPTIONS.draws):
        rng = np.random.default_rng([78, seed])
        A = rng.standard_normal((m, N, N), dtype=np.float32)
        for chosen in (np.arange(N_IMAGES), rng.choice(len(images), N_IMAGES, replace=False)):
            X = images[chosen].reshape(N_IMAGES, N).astype(np.float64)
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            Y = fq.as_measurements(A).measure(np.ascontiguousarray(X.T)).T
            found = {"best possible": prior.signal(prior.project(X))}
            for name, method in {"PPower": fq.methods.PPower(), **FAST}.items():
                found[name] = fq.solve(A, Y, prior=prior, method=method, norm=1.0, rng=0).x
            found["PGD in PyTorch"] = TorchPGD(prior.decoder, A, Y, OPTIONS.threads)()
            for name, x in found.items():
                ends.setdefault(name, []).append(cosines(x, X))
    rows = []
    for name, values in ends.items():
        values = np.array(values)
        sets = values.mean(axis=1)
        few = f"{(values < 0.8).sum()} of {values.size}"
        rows.append([name, mean(sets), f"{sets.min():.3f}, {sets.max():.3f}", few])
    print(f"Sets of ten images, m = {m}\n")
    table(["", "cosine", "least and greatest of a set", "images below 0.8"], rows)


def speed(prior, draw, m=200):
    """Whole solves of ten images, against PyTorch: all in turn, so that what else the machine does falls on all."""
    A, Y = draw.data(m)
    runs = {}
    try:
        runs["PGD in PyTorch"] = TorchPGD(prior.decoder, draw.A[:m], Y, OPTIONS.threads)
    except ImportError:
        print("(PyTorch is not installed: no comparison)\n")
    for name, method in FAST.items():
        runs[name] = lambda method=method: fq.solve(A, Y, prior=prior, method=method, norm=1.0, rng=0).x
    answers = {name: run() for name, run in runs.items()}  # and nothing is loaded or planned within the times
    times = {name: [] for name in runs}
    clock = time.process_time if OPTIONS.processor_time else time.perf_counter
    for _ in range(OPTIONS.repeats):
        for name, run in runs.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    rows = []
    for name, own in times.items():
        ratios = np.array(times.get("PGD in PyTorch", [])) / own if "PGD in PyTorch" in times else None
        ratio = "" if ratios is None else f"{np.median(ratios):.1f}×"
        rows.append([name, f"{np.median(own):.2f} s", ratio, f"{cosines(answers[name], draw.X).mean():.3f}"])
    print(f"Ten images, m = {m}, median of {OPTIONS.repeats}, {OPTIONS.threads} thread(s)\n")
    table(["", "time", "against PyTorch", "cosine"], rows)


class TorchPGD:
    """The paper's PGD as a good user of PyTorch writes it: all images and restarts in one batch, in float32.

    The symmetric part of A is taken beforehand, so that one product with it gives residual and gradient; parameters
    need no gradient; and the first projection needs only the products of w0.
    """

    def __init__(self, decoder, A, Y, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        self.m, self.n, _ = A.shape
        A = torch.from_numpy(np.ascontiguousarray(A))
        self.A = ((A + A.transpose(1, 2)) / 2).reshape(-1, self.n)
        self.Y = torch.from_numpy(np.ascontiguousarray(Y)).float()
        self.weights = [torch.tensor(W, dtype=torch.float32) for W in decoder.weights]
        self.biases = [torch.tensor(b, dtype=torch.float32) for b in decoder.biases]

    def signal(self, z):
        torch = self.torch
        h = z
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = torch.nn.functional.softplus(torch.addmm(b, h, W))
        x = torch.sigmoid(torch.addmm(self.biases[-1], h, self.weights[-1]))
        return x / x.norm(dim=1, keepdim=True)

    def project(self, v, restarts=5, n_steps=100):
        torch = self.torch
        z = torch.randn(len(v) * restarts, self.weights[0].shape[0], requires_grad=True)
        targets = v.repeat_interleave(restarts, dim=0)
        optimizer = torch.optim.Adam([z], lr=0.1)
        for _ in range(n_steps):
            optimizer.zero_grad()
            ((self.signal(z) - targets) ** 2).sum().backward()
            optimizer.step()
        with torch.no_grad():
            x = self.signal(z)
            nearest = ((x - targets) ** 2).sum(dim=1).view(-1, restarts).argmin(dim=1)
            return x.view(len(v), restarts, -1)[torch.arange(len(v)), nearest]

    def __call__(self, n_iter=10, step=0.9):
        torch = self.torch
        torch.manual_seed(0)
        w0 = torch.full((self.n,), self.n**-0.5)
        x = self.project(self.Y @ (self.A @ w0).view(self.m, self.n) / self.m)
        for _ in range(n_iter):
            W = (x @ self.A.T).view(len(x), self.m, self.n)
            r = torch.einsum("bij,bj->bi", W, x) - self.Y
            x = self.project(x - step * torch.einsum("bij,bi->bj", W, r) / self.m)
        return x.numpy()


def main():
    prior = fq.Generative(fq.decoders.mnist())
    if OPTIONS.only == "lost":
        return lost(prior)
    largest = 200 if OPTIONS.quick or OPTIONS.only == "speed" else 400
    first = Draw(OPTIONS.first_draw, largest)
    print(f"A with m = {largest}, n = {N} in float32, drawn and packed in {first.seconds:.1f} s\n")

    def draws():
        yield first
        for seed in range(1, OPTIONS.draws):
            yield Draw(OPTIONS.first_draw + seed, largest)

    if OPTIONS.only in (None, "speed"):
        speed(prior, first)
    if OPTIONS.only in (None, "range"):
        in_range(prior)
    if OPTIONS.only in (None, "accuracy"):
        noise_free = [(m, 0.0) for m in (10, 40, 80, 120, 200, 400)]
        noisy = [(200, sigma) for sigma in (0.1, 0.2, 0.5, 1.0, 2.0)]
        accuracy(prior, draws, [(40, 0.0), (200, 0.0), (200, 2.0)] if OPTIONS.quick else noise_free + noisy)


if __name__ == "__main__":
    main()
