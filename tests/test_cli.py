"""The command line: files made by plain NumPy, pipes, exit codes, and errors of one line."""

import io
import json
import os
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner
from commands import assert_one_line_error

import fastquad as fq
from fastquad import cli
from fastquad._kernels import packed
from fastquad.system import threads


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A solvable problem as A.npy and y.npy, in the current folder; the true signal."""
    monkeypatch.chdir(tmp_path)
    problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    np.save("A.npy", problem.A)
    np.save("y.npy", problem.y)
    return problem


def run(*arguments, **options):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments], **options)


# -- solve ------------------------------------------------------------------------------------------------------


def test_solve_writes_x_and_reports(files):
    result = run("solve", "A.npy", "y.npy", "-o", "x")
    assert result.exit_code == 0
    assert result.stderr == ""
    # Under exactly the name that was given.
    assert fq.distance(np.load("x"), files.x) < 1e-8
    report = json.loads(result.stdout)
    assert report["success"] is True
    assert report["status"] == "exact"
    assert report["nonzeros"] == np.count_nonzero(np.load("x"))
    assert report["residual"] < 1e-9


def test_a_checkpoint_goes_on(files):
    arguments = ("solve", "A.npy", "y.npy", "-o", "x", "--checkpoint", "solve.ck", "--memory", "1GB")
    assert run(*arguments, "--max-passes", 0.001).exit_code == 1
    first, again = run(*arguments), run(*arguments)
    assert first.exit_code == 0
    assert json.loads(again.stdout) == json.loads(first.stdout)
    np.save("y.npy", np.load("y.npy") + 1)
    assert_one_line_error(run(*arguments), "belongs to another solve: y differs")


def test_options_reach_the_solver(files, monkeypatch):
    seen = {}
    original = fq.solve

    def spy(A, y, **options):
        seen.update(options)
        return original(A, y, **options)

    monkeypatch.setattr(fq, "solve", spy)
    options = "--method spf --k 3 --noise 0 --norm 0.5 --tol 1e-6 --max-iter 7 --max-passes 20 --max-time 9"
    run("solve", "A.npy", "y.npy", "-o", "x.npy", *options.split(), "--n-threads", 1, "--seed", 5)
    assert seen.pop("prior").k == 3
    assert seen == {
        "method": "spf", "noise": 0.0, "norm": 0.5, "tol": 1e-6, "max_iter": 7, "max_passes": 20.0, "max_time": 9.0,
        "n_threads": 1, "rng": 5, "x0": None,
    }  # fmt: skip


def test_out_of_budget_is_exit_code_1_and_x_is_written(files):
    result = run("solve", "A.npy", "y.npy", "-o", "x.npy", "--method", "twf", "--max-iter", 2)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["status"] == "max_iter"
    assert np.load("x.npy").shape == (30,)


def test_batch(files):
    np.save("Y.npy", fq.measure(files.A, np.stack([files.x, 2 * files.x])))
    result = run("solve", "A.npy", "Y.npy", "-o", "X.npy")
    assert result.exit_code == 0
    assert np.load("X.npy").shape == (2, 30)
    assert json.loads(result.stdout)["status"] == ["exact", "exact"]


def test_one_failure_in_a_batch_is_no_success(files):
    noise = np.random.default_rng(0).standard_normal(60)
    np.save("Y.npy", np.stack([fq.measure(files.A, files.x), noise]))
    result = run("solve", "A.npy", "Y.npy", "-o", "X.npy", "--max-passes", 30)
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["success"] is False
    assert report["status"][0] == "exact"


def test_decoder(files):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((3, 16)), rng.standard_normal((16, 30))]
    decoder = fq.decoders.Decoder(weights, [np.zeros(16), np.zeros(30)], ["tanh", "sigmoid"])
    decoder.save("decoder.npz")
    x = fq.Generative(decoder).signal(rng.standard_normal(3))
    np.save("y.npy", fq.measure(files.A, x))
    result = run("solve", "A.npy", "y.npy", "-o", "x.npy", "--decoder", "decoder.npz")
    assert result.exit_code == 0
    assert fq.distance(np.load("x.npy"), x) < 1e-6
    assert_one_line_error(run("solve", "A.npy", "y.npy", "-o", "x.npy", "--decoder", "y.npy"), "decoder")


def test_pipe_through_a_process(files):
    """y on stdin, x on stdout, the report on stderr; nothing else, for neither is a terminal."""
    buffer = io.BytesIO()
    np.save(buffer, files.y)
    command = [sys.executable, "-m", "fastquad", "solve", "A.npy", "-", "-o", "-"]
    done = subprocess.run(command, input=buffer.getvalue(), capture_output=True, check=True)
    assert fq.distance(np.load(io.BytesIO(done.stdout)), files.x) < 1e-8
    assert json.loads(done.stderr)["status"] == "exact"


def test_progress_where_stderr_is_a_terminal(files):
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    command = [sys.executable, "-m", "fastquad", "solve", "A.npy", "y.npy", "-o", "x.npy"]
    hurry = "import fastquad.system.progress as p; p.PATIENCE = p._INTERVAL = 0; from fastquad.cli import main; main()"
    command[1:3] = ["-c", hurry]
    done = subprocess.run(command, stderr=theirs, stdout=subprocess.PIPE, check=True)
    os.close(theirs)
    seen = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"solve (auto)" in seen
    assert json.loads(done.stdout)["success"]


# -- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.npy", "y.npy"], ["missing.npy", "no file"]),
        (["A.npy", "missing.npy"], ["missing.npy", "no file"]),
        (["text.npy", "y.npy"], ["A", "text.npy", ".npy array"]),
        (["A.npy", "text.npy"], ["fastquad: Y:", "text.npy", ".npy array"]),
        (["A.npy", "empty.npy"], ["fastquad: Y:", "empty.npy"]),
        (["A.npy", "pickled.npy"], ["fastquad: Y:", "pickled.npy"]),
        (["A.npy", "archive.npz"], ["archive.npz", "one array"]),
        (["y.npy", "y.npy"], ["A", "(m, n, n)", "(60,)"]),
        (["A.npy", "short.npy"], ["Y must", "(60,)", "(59,)"]),
        (["A.npy", "nan.npy"], ["Y must", "finite"]),
        (["A.npy", "y.npy", "--method", "nonsense"], ["nonsense", "pursuit"]),
        (["A.npy", "y.npy", "--method", "spf"], ["k"]),
        (["A.npy", "y.npy", "--method", "latent"], ["generative"]),
        (["A.npy", "y.npy", "--max-time", "-1"], ["--max-time"]),
        (["A.npy", "y.npy", "--max-time", "soon"], ["--max-time", "soon"]),
        (["A.npy", "y.npy", "--n-threads", "0"], ["--n-threads"]),
        (["A.npy", "y.npy", "--k", "3", "--decoder", "mnist"], ["--k", "--decoder"]),
        (["A.npy", "y.npy", "--colour", "red"], ["--colour"]),
        (["A.npy"], ["Y"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(files, tmp_path, arguments, words):
    (tmp_path / "text.npy").write_text("1 2 3\n4 5 6\n")
    (tmp_path / "empty.npy").write_bytes(b"")
    np.save("pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez("archive.npz", y=files.y)
    np.save("short.npy", files.y[:-1])
    np.save("nan.npy", np.full(60, np.nan))
    assert_one_line_error(run("solve", *arguments, "-o", "x.npy"), *words)
    assert not (tmp_path / "x.npy").exists()


def test_output_is_checked_before_the_work(files, monkeypatch):
    monkeypatch.setattr(fq, "solve", lambda *_, **__: pytest.fail("solved in vain"))
    assert_one_line_error(run("solve", "A.npy", "y.npy", "-o", "missing/x.npy"), "missing/x.npy")
    assert_one_line_error(run("solve", "A.npy", "y.npy"), "-o")


def test_unknown_command():
    assert_one_line_error(run("sovle"), "sovle")


def test_interrupt_before_the_first_step(files, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fq, "solve", interrupted)
    result = run("solve", "A.npy", "y.npy", "-o", "x.npy")
    assert result.exit_code == 130
    assert result.stderr == "fastquad: interrupted; there is no x yet.\n"


@pytest.mark.parametrize("signals", [1, 2])
def test_an_interrupted_solve_keeps_its_best_x(files, monkeypatch, signals):
    """Ctrl-C after the third step: the iterate that fits best is written, and the next command starts from it."""
    whole, steps = fq.solve, []

    def interrupted(*arguments, **options):
        def see(state):
            steps.append(state)
            if len(steps) == 3 * signals:
                raise KeyboardInterrupt

        return whole(*arguments, callback=see, **options)

    np.save("y.npy", files.y if signals == 1 else np.stack([files.y] * signals))
    monkeypatch.setattr(fq, "solve", interrupted)
    result = run("solve", "A.npy", "y.npy", "-o", "x.npy", "--method", "twf")
    assert result.exit_code == 130
    assert "--x0 x.npy goes on" in result.stderr
    x = np.load("x.npy")
    best = min((state for state in steps if not state.signal), key=lambda state: state.residual)
    assert np.array_equal(np.atleast_2d(x)[0], best.x)
    monkeypatch.setattr(fq, "solve", whole)
    assert run("solve", "A.npy", "y.npy", "-o", "x.npy", "--x0", "x.npy").exit_code == 0


@pytest.mark.parametrize(
    ("command", "function", "words"),
    [
        (["pack", "A.npy", "A.fq"], "fastquad.pack", "A.fq.partial: the same command goes on"),
        (["reproduce", "fig1"], "fastquad.experiments.reproduce", "the same command goes on"),
    ],
)
def test_what_can_go_on_says_so(files, monkeypatch, command, function, words):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(function, interrupted)
    result = run(*command)
    assert result.exit_code == 130
    assert words in result.stderr


def test_verbose_tells_steps_and_quiet_hides_bars(files):
    said = run("solve", "A.npy", "y.npy", "-o", "x.npy", "-v").stderr
    assert "stage: " in said
    assert "exact after" in said
    assert "step 1:" not in said
    assert "step 1:" in run("solve", "A.npy", "y.npy", "-o", "x.npy", "-vv").stderr
    assert run("solve", "A.npy", "y.npy", "-o", "x.npy", "--quiet").stderr == ""


def test_messages_fit_the_command_line(files):
    report = json.loads(run("solve", "A.npy", "y.npy", "-o", "x.npy", "--method", "twf", "--max-iter", 2).stdout)
    assert "Raise --max-iter" in report["message"]
    assert "--x0 x.npy" in report["message"]
    assert "solution.x" not in report["message"]


def test_priors_by_name(files, monkeypatch):
    seen = {}
    whole = fq.solve
    monkeypatch.setattr(fq, "solve", lambda *a, **options: seen.update(options) or whole(*a, **options))
    assert run("solve", "A.npy", "y.npy", "-o", "x.npy", "--prior", "sparse", "--outliers").exit_code == 0
    assert isinstance(seen["prior"], fq.Sparse)
    for name, kind in (("nonnegative", fq.Sparse), ("piecewise", fq.PiecewiseConstant), ("zero-one", fq.Discrete)):
        run("solve", "A.npy", "y.npy", "-o", "x.npy", "--prior", name, "--max-passes", 1)
        assert isinstance(seen["prior"], kind)
    assert seen["outliers"] is True
    assert_one_line_error(run("solve", "A.npy", "y.npy", "-o", "x.npy", "--prior", "sparse", "--k", 3), "--k")


@pytest.mark.parametrize(
    ("words", "expected"),
    [("fastquad so", "solve"), ("fastquad reproduce fig", "fig8"), ("fastquad solve --ma", "--max-time")],
)
def test_the_shell_completes(words, expected):
    environment = {**os.environ, "_FASTQUAD_COMPLETE": "bash_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split()) - 1)
    command = [sys.executable, "-c", "from fastquad.cli import main; main(prog_name='fastquad')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert expected in done.stdout


def test_help_of_the_benchmarks():
    assert "pytest" in run("bench", "--help").stdout
    assert "ten minutes or more" in run("bench", "--help").stdout


def test_the_usage_of_solve_shows_what_it_must_have():
    assert "solve -o X [OPTIONS] A Y" in run("solve", "--help").stdout


def test_an_empty_file_is_named_as_such(files):
    open("empty.npy", "w").close()
    assert_one_line_error(run("solve", "A.npy", "empty.npy", "-o", "x.npy"), "it is empty")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which nothing can be made")
def test_an_output_that_cannot_be_made_is_named(files):
    with pytest.raises(OSError, match=r"`path`: '/proc/x.npz' cannot be written"):
        fq.solve("A.npy", files.y).save("/proc/x.npz")


# -- the other commands -------------------------------------------------------------------------------------------


def test_info(files):
    about = json.loads(run("info").stdout)
    assert about["versions"]["numpy"] == np.__version__
    assert about["threads"] == threads.resolve(None)
    tensor = json.loads(run("info", "A.npy").stdout)
    assert (tensor["m"], tensor["n"], tensor["dtype"], tensor["bytes"]) == (60, 30, "float64", files.A.nbytes)
    assert_one_line_error(run("info", "missing.npy"), "missing.npy")


def test_pack_passes_on_what_it_is_given(files, monkeypatch):
    seen = []

    def spy(A, path, **options):
        seen.append((A, path, options))
        return fq.measurements.pack(A, dtype=options["dtype"])

    monkeypatch.setattr(fq, "pack", spy)
    result = run("pack", "A.npy", "A.fq", "--dtype", "float32")
    assert seen == [("A.npy", "A.fq", {"dtype": "float32", "n_threads": None})]
    report = json.loads(result.stdout)
    assert (report["kind"], report["dtype"], report["path"]) == ("PackedTensor", "float32", "A.fq")


def test_bench_without_the_source_tree(monkeypatch, tmp_path):
    monkeypatch.setattr(fq, "__file__", str(tmp_path / "fastquad" / "__init__.py"))
    assert_one_line_error(run("bench"), "source tree")


def test_demo_of_sparse_signals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("demo", "--no-digits")
    assert result.exit_code == 0
    assert result.stdout.count("exact") == 3
    assert not list(tmp_path.iterdir())


def test_demo_of_digits(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fastquad.demo.sparse_signals", lambda say: True)
    result = run("demo")
    assert result.exit_code == 0
    assert "ten digits of 784 pixels from 120 measurements" in result.stdout
    assert (tmp_path / "demo.png").stat().st_size > 10_000


def test_help_names_every_option():
    assert run().stdout == run("--help").stdout
    for name, command in cli.main.commands.items():
        assert name in run("--help").stdout
        text = run(name, "--help").stdout if name != "bench" else ""
        for parameter in command.params:
            if isinstance(parameter, click.Option) and text:
                assert parameter.opts[-1] in text


def test_importing_fastquad_does_not_import_click_or_matplotlib():
    script = "import sys, fastquad; sys.exit(bool({'click', 'matplotlib', 'torch', 'jax'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_info_tells_the_machine():
    about = json.loads(run("info").stdout)
    assert about["simd"] == packed.simd
    assert about["blas"][0]["internal_api"]


@pytest.mark.parametrize(("word", "lacking"), [("student", "dof"), ("quantised", "step")])
def test_noise_without_its_parameter(files, word, lacking):
    result = run("solve", "A.npy", "y.npy", "-o", "x.npy", "--noise", word)
    assert_one_line_error(result, f"{word} needs its parameter {lacking}, such as {word}:4.")
