"""Error bars: what they are about lies in them about as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

import logsuper as ls
from benchmarks.coverage import QUESTIONS, Case, cases, main, measure
from logsuper.bounds import _logistic, _power

ALL = {case.name: case for case in cases(reference=60_000)}
QUESTION = {question.name: question for question in QUESTIONS}


@pytest.mark.parametrize("name", ["4x4, w = 2.5", "pair, decided", "3x3"])
@pytest.mark.parametrize("draws", [20, 50])
def test_few_draws_under_strong_coupling(name: str, draws: int) -> None:
    """Intervals from 20 to 50 draws covered 82 to 92 %."""
    cell = measure(QUESTION[f"logistic, {draws} draws"], ALL[name], runs=150)
    assert cell.coverage > 0.88  # 95 % less three standard deviations of 150 runs


@pytest.mark.parametrize("name", ["pair, decided", "3x3, decided"])
@pytest.mark.parametrize("question", [q for q in QUESTION if q.startswith("marginals")])
def test_marginals_that_never_differed_have_errors(name: str, question: str) -> None:
    """Standard errors were 0, and covered nothing."""
    case: Case = ALL[name]
    found = QUESTION[question].ask(case, 0)
    assert found.stderr is not None
    assert (found.stderr > 0).all()
    assert measure(QUESTION[question], case, runs=10).coverage > 0.85


def test_modular_functions_keep_their_certainty() -> None:
    f = ls.Modular([8.0, -8.0, 0.0])
    assert _logistic.log_partition(f, n_samples=50, seed=0).stderr < 1e-10
    assert _power.log_partition(f, n_samples=50, seed=0).stderr < 1e-9
    smoothed = _logistic.marginals(f, n_samples=50, form="smoothed", seed=0)
    np.testing.assert_allclose(smoothed.stderr, 0.0, atol=1e-12)


def test_the_command_counts_cells_that_are_too_low(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--runs", "4", "--reference", "2000", "--only", "logistic, 20", "--model", "pair"]
    low = main(arguments)
    shown = capsys.readouterr().out
    assert f"{low} cells below 90%" in shown
    assert "pair, decided" in shown
