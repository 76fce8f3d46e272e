"""The batch script and the benchmark of large tensors, on small ones."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fastquad as fq

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "examples" / "large_n.py"
BENCHMARK = ROOT / "benchmarks" / "studies" / "large_n.py"

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="comes with the source tree")


def run(script, *arguments, **options):
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def test_a_tensor_that_is_never_stored():
    result = run(SCRIPT, "-m", 200, "-n", 1000, "-k", 4)
    assert result.returncode == 0, result.stderr
    line = json.loads(result.stdout)
    assert line["status"] == "exact"
    assert line["distance"] < 1e-9
    # Nobody sees a bar that is not on a terminal.
    assert result.stderr == ""


def test_a_tensor_on_disk_again_and_again(tmp_path):
    size = ("-m", 1000, "-n", 100, "-k", 4, "--store", tmp_path / "A.fq")
    options = ("--checkpoint", tmp_path / "solve.ck", "--memory", "17 MB", "--output", tmp_path / "x.npy")
    # Interrupted between packing and the end: out of passes, as a job may be out of time.
    first = run(SCRIPT, *size, *options, "--max-passes", 0.01)
    assert first.returncode == 1, first.stderr
    result = run(SCRIPT, *size, *options)
    assert result.returncode == 0, result.stderr
    line = json.loads(result.stdout)
    assert line["distance"] < 1e-6
    assert len(np.load(tmp_path / "x.npy")) == 100
    assert "GB were read from disk" in line["message"]
    assert json.loads(run(SCRIPT, *size, *options).stdout) == line


def test_a_tensor_of_ones_own(tmp_path):
    problem = fq.problems.gaussian(m=90, n=40, k=4, rng=0)
    np.save(tmp_path / "A.npy", problem.A)
    np.save(tmp_path / "y.npy", problem.y)
    options = ("--tensor", tmp_path / "A.npy", "--data", tmp_path / "y.npy", "--output", tmp_path / "x.npy")
    assert run(SCRIPT, *options).returncode == 0
    assert fq.distance(np.load(tmp_path / "x.npy"), problem.x) < 1e-9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tensor", "none.npy"), "`--data` must be given"),
        (("--tensor", "none.npy", "--data", "none.npy"), "none.npy"),
        (("-m", "0"), "`m` must be a positive integer"),
        (("-m", "30", "-n", "20", "-k", "2", "--memory", "much"), "`memory` must be a number of bytes"),
    ],
)
def test_bad_input(arguments, said, tmp_path):
    result = run(SCRIPT, *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_bar(capsys):
    spec = importlib.util.spec_from_file_location("large_n_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bar = module.Bar()

    class State:
        n_iter, n_passes, residual = 3, 1.5, 1e-3

    bar(State)
    bar(State)  # too soon to be drawn again
    bar.close()
    drawn = capsys.readouterr().err
    # from 1 to 1e-9, a residual of 1e-3 is a third of the way
    assert drawn.count("#") == 10
    assert drawn.count(".") >= 20
    assert "step 3, 1.5 passes, residual 1.0e-03" in drawn
    assert drawn.endswith("\n")


def test_the_benchmark_runs_and_cleans_up(tmp_path):
    result = run(BENCHMARK, "stored", "products", "--scale", 8, "--yes", "--folder", tmp_path)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    targets = {line["target"]: line for line in lines if "target" in line}
    assert targets["sparse: solved"]["met"], result.stderr
    assert targets["dense: solved"]["met"]
    assert "speed of full passes over the disk's" in targets
    assert list(tmp_path.iterdir()) == []


def test_the_benchmark_asks_first(tmp_path):
    result = run(BENCHMARK, "stored", "--folder", tmp_path, "--scale", 20, stdin=subprocess.DEVNULL)
    assert result.returncode == 1
    assert "say --yes" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_the_benchmark_cleans_up_where_it_is_stopped(tmp_path):
    command = [sys.executable, str(BENCHMARK), "stored", "--scale", "4", "--yes", "--folder", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*/*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) != 0
    assert list(tmp_path.iterdir()) == []
