"""The paper's experiments as functions and by the command: tiny settings, kills, and bad arguments."""

import csv
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from commands import assert_one_line_error

import fastquad as fq
from fastquad import cli
from fastquad.experiments import experiment, statistics, workers
from fastquad.experiments.figures import digits, phase
from fastquad.experiments.records import Records

TINY = {"n": 20, "k": [2, 15], "m": [10, 50], "max_iter": 200, "max_passes": 20}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def in_process(monkeypatch):
    """Trials run here, and are counted: starting an interpreter takes longer than a tiny trial."""
    seen = []

    def run(units, **_):
        for unit in units:
            seen.append(unit[2:])
            yield workers.perform(unit)

    monkeypatch.setattr(workers, "run", run)
    return seen


def run_command(*arguments):
    return CliRunner().invoke(cli.main, ["reproduce", *map(str, arguments)])


def small(figure, **settings):
    """Arguments that make a figure tiny."""
    return [figure, *(f"--set={name}={json.dumps(value)}" for name, value in settings.items())]


def table(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


# -- what comes out ---------------------------------------------------------------------------------------------


def test_the_table_is_what_the_trials_say(in_process):
    result = fq.experiments.reproduce("fig2", "out", trials=3, settings=TINY)
    assert len(in_process) == 4 * 3
    assert len(result.rows) == 4 * 4
    for row in result.rows:
        same = [t for t in result.trials if all(t[key] == row[key] for key in ("method", "m", "k"))]
        assert [t["trial"] for t in same] == [0, 1, 2]
        assert row["rate"] == np.mean([t["distance"] < 1e-3 for t in same])
        assert 0 <= row["low"] <= row["rate"] <= row["high"] <= 1
    easy = next(row for row in result.rows if (row["method"], row["m"], row["k"]) == ("AMP–LM", 50, 2))
    hopeless = next(row for row in result.rows if (row["method"], row["m"], row["k"]) == ("WF", 10, 15))
    assert (easy["rate"], hopeless["rate"]) == (1.0, 0.0)


def test_files_hold_settings_versions_times_and_the_table(in_process):
    result = fq.experiments.reproduce("fig2", "out", trials=2, settings=TINY)
    with open("out/fig2.json", encoding="utf-8") as stream:
        said = json.load(stream)
    assert said["settings"] == {**fq.experiments.FIGURES["fig2"].settings, **TINY}
    assert said["sessions"][0]["versions"]["numpy"] == np.__version__
    assert said["seeds"] == "[2, m, k, trial]"
    assert said["trials"] == 8
    assert said["cpu_seconds"] > 0
    assert said["wall_seconds"] > 0
    assert len(said["rows"]) == len(result.rows) == len(table("out/fig2.csv"))
    assert len(table("out/fig2-trials.csv")) == len(result.trials)
    assert not [name for name in os.listdir("out") if name.endswith(".part")]


def test_a_trial_is_the_same_whenever_it_is_run():
    settings = fq.experiments.FIGURES["fig2"].settings | TINY
    cell = {"m": 50, "k": 2}
    first, second = (phase.trial(settings, cell, 1) for _ in range(2))
    for row in (*first, *second):
        row.pop("cpu")
    assert first == second
    assert first[0]["distance"] != phase.trial(settings, cell, 2)[0]["distance"]


def test_spectral_starts_get_nearer_with_m(in_process):
    result = fq.experiments.reproduce("fig1", "out", trials=5, settings={"n": 40, "k": 2, "m": [20, 400]})
    median = {(row["start"], row["m"]): row["median"] for row in result.rows}
    for start in ("SI", "SI-S"):
        assert median[start, 400] < median[start, 20]
    assert median["SI-S", 400] < median["SI", 400]


def test_noise_falls_with_m_to_the_bound_of_least_squares(in_process):
    settings = {"n": 30, "m": [100, 400], "sigma": [0.1]}
    result = fq.experiments.reproduce("fig3", "out", trials=5, settings=settings)
    mean = {(row["method"], row["m"]): row["mean"] for row in result.rows}
    for method in ("TWF", "AMP–LM", "least squares"):
        assert mean[method, 400] < mean[method, 100]
    # A posterior mean may be a little nearer than least squares on the true support.
    assert mean["least squares", 400] <= mean["AMP–LM", 400] * 1.05
    assert mean["AMP–LM", 400] < mean["TWF", 400]
    assert all(row["slope"] < 0 for row in result.rows)


def test_digits_of_each_method(in_process):
    settings = {"m": [40], "images": 2, "restarts": 1, "adam_steps": 10, "iterations": 1}
    result = fq.experiments.reproduce("fig4", "out", settings=settings)
    assert [row["method"] for row in result.rows] == [digits.BEST, "PPower", "PGD1", "PGD", "LatentLM"]
    assert all(-1 <= row["mean"] <= result.rows[0]["mean"] <= 1 for row in result.rows)
    true = [row for row in result.trials if row["method"] == "true"]
    for row, image in zip(true, digits.images(2, 0)[1], strict=True):
        np.testing.assert_allclose(digits.picture(row["pixels"]).ravel(), image, atol=1e-3)
    assert "pixels" not in table("out/fig4-trials.csv")[0]


def test_a_batch_of_digits_is_the_same_for_every_m(monkeypatch):
    """So that curves over m, and pictures at each, are of the same images."""
    first, again = digits.images(10, 3), digits.images(10, 3)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_allclose(np.linalg.norm(first[1], axis=1), 1)
    assert set(first[0]) != set(digits.images(10, 4)[0])
    monkeypatch.setattr(digits, "nearest", lambda prior, X: X)
    settings = digits.FEW | {"images": 3, "methods": []}
    shown = [
        [row["pixels"] for row in digits.trial(settings, {"m": m, "sigma": sigma}, 0) if row["method"] == "true"]
        for m, sigma in ((5, 0.0), (9, 0.0), (9, 0.5))
    ]
    assert len(shown[0]) == 3
    assert shown[1] == shown[2] == shown[0]


@pytest.mark.parametrize("figure", fq.experiments.FIGURES)
def test_plots(in_process, figure):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    settings = {
        "fig1": {"n": 20, "k": 2, "m": [20, 40]},
        "fig2": TINY,
        "fig3": {"n": 20, "m": [40, 80]},
        "noise": {"n": 20, "k": [2, 20], "m": [40, 60], "sigma": [0.1, 0.5], "max_iter": 20},
    }.get(figure, {"m": [10, 20], "images": 2, "restarts": 1, "adam_steps": 2, "iterations": 1})
    if figure in ("fig4", "fig5", "fig7", "fig8"):
        settings["m"] = [10]
    result = fq.experiments.reproduce(figure, "out", trials=1, settings=settings)
    png, svg = result.draw(Path("out"))
    plt.close("all")
    assert png.read_bytes().startswith(b"\x89PNG")
    text = svg.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "<dc:date>" not in text


# -- resuming ---------------------------------------------------------------------------------------------------


def test_a_rerun_does_only_what_is_missing(in_process):
    first = fq.experiments.reproduce("fig2", "out", trials=1, settings=TINY)
    assert len(in_process) == 4
    again = fq.experiments.reproduce("fig2", "out", trials=1, settings=TINY)
    assert len(in_process) == 4
    assert again.rows == first.rows
    more = fq.experiments.reproduce("fig2", "out", trials=2, settings=TINY)
    assert len(in_process) == 8
    assert {number for _, number in in_process[4:]} == {1}
    assert {row["trials"] for row in more.rows} == {2}
    # With fewer than there are, the same as if there were no more.
    assert fq.experiments.reproduce("fig2", "out", trials=1, settings=TINY).rows == first.rows


def test_a_line_that_was_cut_short_is_run_again(in_process):
    whole = fq.experiments.reproduce("fig2", "out", trials=2, settings=TINY)
    path = Records(Path("out")).path
    path.write_bytes(path.read_bytes()[:-20])
    again = fq.experiments.reproduce("fig2", "out", trials=2, settings=TINY)
    assert len(in_process) == 8 + 1
    for before, after in zip(whole.rows, again.rows, strict=True):
        assert before | {"mean_cpu": 0} == after | {"mean_cpu": 0}
    assert all(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


def test_a_damaged_line_is_told():
    path = Records(Path("out")).path
    path.parent.mkdir()
    path.write_text('{"session": {}, "started": ""}\nnonsense\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 2 of .*trials\.jsonl"):
        fq.experiments.reproduce("fig2", "out", trials=1, settings=TINY)


def test_other_settings_in_the_folder(in_process):
    fq.experiments.reproduce("fig2", "out", trials=1, settings=TINY)
    with pytest.raises(ValueError, match=r"`output`.*other settings \(n\)"):
        fq.experiments.reproduce("fig2", "out", trials=1, settings=TINY | {"n": 21})
    assert len(in_process) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
def test_two_runs_in_one_folder(in_process):
    records = Records(Path("out"))
    records.claim(fq.experiments.FIGURES["fig2"].settings | TINY)
    with records.appending({}), pytest.raises(ValueError, match="another run"):
        fq.experiments.reproduce("fig2", "out", trials=1, settings=TINY)


def finished(folder):
    try:
        with open(f"{folder}/fig2/trials.jsonl", encoding="utf-8") as stream:
            return sum('"trial"' in line for line in stream)
    except FileNotFoundError:
        return 0


def alive(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as stream:
        return [int(child) for child in stream.read().split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_killed_halfway_and_resumed(number, code):
    """The command in a process of its own, with two workers: they end with it, and the same command goes on."""
    settings = {"n": 40, "k": [5], "m": [60], "methods": ["WF"]}
    arguments = [*small("fig2", **settings), "--trials", "40", "--workers", "2", "-o", "out"]
    command = [sys.executable, "-m", "fastquad", "reproduce", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        limit = time.monotonic() + 120
        while finished("out") < 3:
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.01)
        helpers = children(process.pid)
        assert helpers
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code
    assert b"Traceback" not in errors
    before = finished("out")
    assert 3 <= before < 40
    while any(map(alive, helpers)):
        assert time.monotonic() < limit
        time.sleep(0.05)
    done = subprocess.run(command, check=True, capture_output=True)
    assert json.loads(done.stdout)["fig2"]["trials"] == 40
    assert done.stderr == b"" or b"matplotlib" in done.stderr
    assert finished("out") == 40
    with open("out/fig2/trials.jsonl", encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream]
    assert sorted(record["trial"] for record in records if "trial" in record) == list(range(40))
    assert sum("session" in record for record in records) == 2


TRIALS = """
import os, signal

def about(settings, cell, number):
    return [{"pid": os.getpid(), "threads": os.environ["OPENBLAS_NUM_THREADS"]}]

def failing(settings, cell, number):
    return 1 // 0

def killed(settings, cell, number):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def trials(tmp_path, monkeypatch):
    """A module of trials that workers can import too."""
    (tmp_path / "trials_of_this_test.py").write_text(TRIALS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("trials_of_this_test")
    del sys.modules["trials_of_this_test"]


def test_a_trial_runs_in_a_process_with_one_thread(trials, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    (record,) = filter(None, workers.run([(trials.about, {}, {}, 0)], workers=2))
    (row,) = record["rows"]
    assert row["pid"] != os.getpid()
    assert row["threads"] == "1"
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"


def test_an_error_in_a_trial_is_raised(trials):
    with pytest.raises(ZeroDivisionError):
        list(workers.run([(trials.failing, {}, {}, 0)], workers=1))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_worker_that_was_killed_is_told(trials):
    with pytest.raises(MemoryError, match="goes on"):
        list(workers.run([(trials.killed, {}, {}, 0)], workers=1))


def test_trials_on_a_dask_cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        result = fq.experiments.reproduce("fig2", "out", trials=2, settings=TINY, scheduler=cluster.scheduler_address)
    assert result.about["trials"] == 8


# -- the command ------------------------------------------------------------------------------------------------


def test_the_command_reports_what_it_wrote(in_process):
    result = run_command(*small("fig2", **TINY), "--trials", 1, "-o", "here")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)["fig2"]
    assert report["trials"] == 4
    assert "here/fig2/fig2.csv" in report["files"]
    assert all(os.path.getsize(path) for path in report["files"])


def test_all_means_every_figure(monkeypatch):
    seen = {}

    def reproduce(name, folder, **options):
        seen[name] = folder, options
        about = {"trials": 1, "cpu_seconds": 0.1, "wall_seconds": 0.1}
        return SimpleNamespace(about=about, draw=lambda folder: [])

    monkeypatch.setattr(fq.experiments, "reproduce", reproduce)
    result = run_command("all", "--quick", "--workers", 3, "-o", "out")
    assert list(seen) == list(json.loads(result.stdout)) == [*(f"fig{number}" for number in range(1, 9)), "noise"]
    for name, (folder, options) in seen.items():
        assert folder == Path("out", name)
        assert (options["quick"], options["workers"], options["trials"]) == (True, 3, None)


def test_quick_means_fewer_trials_of_the_same(in_process):
    quick = fq.experiments.reproduce("fig2", "out", quick=True, settings=TINY)
    experiment = fq.experiments.FIGURES["fig2"]
    assert {row["trials"] for row in quick.rows} == {experiment.quick_trials}
    assert experiment.quick_trials < experiment.trials == 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["FIGURE"]),
        (["fig9"], ["fig9", "fig8"]),
        (["fig1", "nonsense"], ["nonsense"]),
        (["fig2", "--trials", "0"], ["--trials"]),
        (["fig2", "--trials", "many"], ["--trials", "many"]),
        (["fig2", "--workers", "0"], ["--workers"]),
        (["fig2", "--workers", "2", "--scheduler", "tcp://nowhere:1"], ["--workers", "--scheduler"]),
        (["fig2", "--set", "n"], ["--set", "NAME=VALUE"]),
        (["fig2", "--set", "colour=3"], ["colour", "methods"]),
        (["fig2", "--set", "n=[1,2]"], ["'n'", "int"]),
        (["fig2", "-o", "file"], ["file"]),
        (["fig2", "--colour"], ["--colour"]),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(monkeypatch, arguments, words):
    monkeypatch.setattr(experiment, "write", lambda *_: pytest.fail("ran a trial"))
    open("file", "w").close()
    assert_one_line_error(run_command(*arguments), *words)


def test_a_scheduler_that_does_not_answer():
    pytest.importorskip("distributed")
    with pytest.raises(ValueError, match=r"`scheduler`.*nowhere"):
        workers.connect("nonsense://nowhere:1")


# -- intervals --------------------------------------------------------------------------------------------------


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(0)
    trials, covered = 400, {"rate": 0, "median": 0, "mean": 0}
    for _ in range(trials):
        low, high = statistics.rate_interval(rng.binomial(30, 0.3), 30)
        covered["rate"] += low <= 0.3 <= high
        values = rng.exponential(size=30)
        low, high = statistics.median_interval(values)
        covered["median"] += low <= np.log(2) <= high
        low, high = statistics.mean_interval(rng.standard_normal(30))
        covered["mean"] += low <= 0 <= high
    # Three standard errors below 95%; the first two are conservative.
    assert min(covered.values()) >= 0.917 * trials
    assert covered["mean"] <= 0.983 * trials


def test_intervals_at_the_edges():
    assert statistics.rate_interval(0, 10)[0] == 0.0
    assert statistics.rate_interval(10, 10)[1] == 1.0
    assert statistics.median_interval([3.0, 1.0]) == (1.0, 3.0)
    assert np.isnan(statistics.mean_interval([1.0])).all()
