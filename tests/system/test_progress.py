"""Bars: shown where somebody looks, after two seconds, and never in the way."""

import logging
import subprocess
import sys
import threading

import numpy as np
import pytest
from tqdm import tqdm

import fastquad as fq
from fastquad.system import progress


@pytest.fixture
def impatient(monkeypatch, capsys):
    """Bars at once; what they showed on stderr since the last call."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)
    fq.set_progress(True)
    yield lambda: capsys.readouterr().err
    fq.set_progress(None)


@pytest.fixture
def problem():
    return fq.problems.gaussian(m=60, n=30, k=3, rng=0)


def test_a_solve_shows_passes_residual_and_stage(impatient, problem):
    fq.solve(problem.A, problem.y)
    shown = impatient()
    assert "solve (auto)" in shown
    assert "passes" in shown
    assert "residual" in shown
    assert "likely coordinates" in shown


def test_a_budget_gives_a_bar_with_the_time_left(impatient, problem):
    fq.solve(problem.A, problem.y, method="twf", max_passes=50)
    shown = impatient()
    assert "/50 passes" in shown
    assert "%|" in shown
    assert "<" in shown


def test_a_bar_that_is_not_full_goes_away_all_the_same(impatient, monkeypatch):
    """tqdm leaves a notebook's bar, in red, where n < total; a solve that needs less than its budget is a success."""
    left = []

    class Widget(tqdm):
        def close(self):
            left.append(bool(self.total and self.n < self.total))
            super().close()

    monkeypatch.setattr(progress, "_tqdm", lambda: Widget)
    with progress.Bar("work", total=10) as bar:
        bar.advance(3)
    assert left[0] is False


def test_a_batch_counts_its_signals(impatient):
    batch = fq.problems.gaussian(m=60, n=30, k=3, n_signals=3, rng=0)
    fq.solve(batch.A, batch.y)
    assert "/3 signals" in impatient()


def test_packing_checking_and_reading_show_bars(impatient, problem, tmp_path):
    fq.pack(problem.A, tmp_path / "A.fq")
    assert "packing" in impatient()
    fq.open(tmp_path / "A.fq")
    assert "checking A.fq" in impatient()
    large = fq.GaussianTensor(600, 150, 0)
    fq.pack(large, tmp_path / "large.fq")
    fq.open(tmp_path / "large.fq", memory="18 MB").products(np.ones(150))
    assert "a pass over A" in impatient()


def test_an_experiment_shows_its_bar_before_the_first_trial_ends(impatient, tmp_path):
    small = {"n": 10, "k": [2], "m": [20], "methods": ["TWF"]}
    fq.experiments.reproduce("fig2", tmp_path / "fig2", trials=1, settings=small, workers=1)
    shown = impatient()
    assert "fig2:   0%|" in shown
    assert "0/1 trials" in shown


def test_the_answer_does_not_depend_on_the_bar(impatient, problem):
    watched = fq.solve(problem.A, problem.y)
    fq.set_progress(False)
    assert np.array_equal(fq.solve(problem.A, problem.y).x, watched.x)


def test_what_is_quick_shows_nothing(capsys, problem):
    fq.set_progress(True)
    try:
        fq.solve(problem.A, problem.y)
    finally:
        fq.set_progress(None)
    assert capsys.readouterr().err == ""


def test_nobody_looks_at_a_pipe_or_at_another_thread(monkeypatch):
    assert not progress.wanted()  # pytest captures stderr
    fq.set_progress(True)
    try:
        seen = []
        thread = threading.Thread(target=lambda: seen.append(progress.wanted()))
        thread.start()
        thread.join()
        assert progress.wanted()
        assert seen == [False]
    finally:
        fq.set_progress(None)
    monkeypatch.setenv("FASTQUAD_PROGRESS", "1")
    assert progress.wanted()


def test_a_bar_that_is_not_shown_does_not_import_tqdm():
    code = (
        "import sys, fastquad as fq; p = fq.problems.gaussian(m=60, n=30, k=3, rng=0); fq.solve(p.A, p.y, verbose=1);"
        "print('tqdm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert "exact after" in done.stderr


def test_the_logger_hears_steps_and_ends(caplog, problem):
    with caplog.at_level(logging.DEBUG, logger="fastquad"):
        fq.solve(problem.A, problem.y)
    said = caplog.text
    assert "stage: " in said
    assert "step 1: residual" in said
    assert "exact after" in said


def test_what_is_no_choice_is_refused():
    with pytest.raises(TypeError, match="`show` must be True, False or None"):
        fq.set_progress("yes")
