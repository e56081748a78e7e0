"""What sampling may cost is refused up front; what is done is told; either can end a run."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracles import FAMILIES

import logsuper as ls
from logsuper.sampling import SAMPLERS, Progress, log_partition, sample, sample_fields
from logsuper.solvers import kernels

CUT = ls.Cut(4, [(0, 1), (1, 2), (2, 3)], 0.5)
RUNS: dict[str, Callable[..., Any]] = {
    **{name: lambda f, name=name, **o: sample(f, 40, name, seed=0, **o) for name in SAMPLERS},
    "fields": lambda f, **o: sample_fields(f, np.zeros((40, f.n)), seed=0, **o),
    "ti": lambda f, **o: log_partition(f, "ti", n_samples=10, steps=4, seed=0, **o),
    "ais": lambda f, **o: log_partition(f, "ais", n_samples=10, steps=4, seed=0, **o),
}


class Counted:
    """A submodular function of a batch that knows how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        self.calls += 1
        return np.sqrt(X.sum(axis=1))


def counted(n: int = 6) -> tuple[ls.SetFunction, Counted]:
    function = Counted()
    f = ls.SetFunction(function, n, vectorized=True)
    function.calls = 0
    return f, function


@pytest.mark.parametrize("name", RUNS)
def test_bad_budgets_and_callbacks_are_refused_by_name(name: str) -> None:
    for budget, error, message in [
        (0, ValueError, "budget must be a positive number of operations, got 0"),
        (-1e9, ValueError, "budget must be a positive number"),
        (np.inf, ValueError, "budget must be finite"),
        (np.nan, ValueError, "budget must be finite"),
        ("1e9", TypeError, "budget must be a real number, got str"),
        (None, TypeError, "budget must be a real number, got NoneType"),
        (True, TypeError, "budget must be a real number, got bool"),
    ]:
        with pytest.raises(error, match=message):
            RUNS[name](CUT, budget=budget)
    with pytest.raises(TypeError, match="callback must be callable or None, got list"):
        RUNS[name](CUT, callback=[])


@pytest.mark.parametrize("name", ["cftp", "rejection", "gibbs", "perturb", "ti", "ais"])
def test_what_is_too_large_is_refused_before_any_work(name: str) -> None:
    f, function = counted()
    with pytest.raises(ls.TooLarge, match=r"would take at least .* but budget = 1e\+03") as caught:
        RUNS[name](f, budget=1e3)
    assert caught.value.operations > 1e3
    assert function.calls == 0
    assert "Raise budget, draw fewer samples" in str(caught.value)
    RUNS[name](f)
    assert function.calls > 0


@pytest.mark.parametrize("name", ["ancestral", "gibbs", "swendsen_wang", "perturb"])
def test_what_is_known_to_be_needed_is_enough(name: str) -> None:
    with pytest.raises(ls.TooLarge) as caught:
        RUNS[name](CUT, budget=1.0)
    needed = caught.value.operations
    assert np.array_equal(RUNS[name](CUT, budget=needed), RUNS[name](CUT))
    with pytest.raises(ls.TooLarge, match=f"^{name} would take"):
        RUNS[name](CUT, budget=0.99 * needed)


def test_all_points_of_a_path_are_counted_before_the_first() -> None:
    f, function = counted()
    options = {"n_samples": 10, "seed": 0, "sampler": "gibbs", "burn_in": 50}
    with pytest.raises(ls.TooLarge) as caught:
        sample(f, 10, "gibbs", budget=1.0, burn_in=50)
    once = caught.value.operations
    with pytest.raises(ls.TooLarge, match=r"^ti would take .* by 'gibbs' at 8 points"):
        log_partition(f, "ti", steps=8, budget=7 * once, **options)
    assert function.calls == 0
    log_partition(f, "ti", steps=8, budget=10 * once, **options)


def test_chains_that_are_too_long_are_refused_for_their_length() -> None:
    f = FAMILIES["facility location"](np.random.default_rng(0), 500)
    with pytest.raises(ls.TooLarge, match="1000000000 steps of 1 chains of 500 elements"):
        sample(f, 1, "gibbs", burn_in=10**9)
    with pytest.raises(ls.TooLarge, match=r"ais would take .* 1000000 chains"):
        log_partition(f, "ais", n_samples=10**6, steps=10**5)


def test_coupling_stops_where_going_further_would_exceed_the_budget() -> None:
    f = ls.Cut(3, [(0, 1), (1, 2)], 40.0)
    with pytest.raises(ls.NotCoalesced, match=r"within budget = 1e\+05 operations") as caught:
        sample(f, 5, seed=0, budget=1e5)
    assert "Raise budget and keep the seed" in str(caught.value)
    assert caught.value.differing == 3
    # five samples of two chains of three elements, of at least some operations each
    assert 0 < caught.value.sweeps < 1e5 / 30
    with pytest.raises(ls.NotCoalesced, match="max_iter = 64"):
        sample(f, 5, seed=0, max_iter=64)


@pytest.mark.parametrize("family", ["grid", "facility location", "callable"])
def test_a_budget_changes_whether_there_are_samples_but_not_which(family: str, seed: int) -> None:
    f = FAMILIES[family](np.random.default_rng(seed), 6)
    whole = sample(f, 20, seed=seed)
    refused = 0
    for budget in 10.0 ** np.arange(2, 12):
        try:
            assert np.array_equal(sample(f, 20, seed=seed, budget=budget), whole)
        except (ls.TooLarge, ls.NotCoalesced):
            refused += 1
            with pytest.raises((ls.TooLarge, ls.NotCoalesced)):
                sample(f, 20, seed=seed, budget=budget)
    assert 0 < refused < 10


def test_later_samples_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logsuper.sampling._cftp._HELD", 8)
    seen: list[Progress] = []
    sample(CUT, 40, seed=0, callback=seen.append)
    with pytest.raises(ls.NotCoalesced, match="within budget"):
        sample(CUT, 40, seed=0, budget=0.9 * seen[-1].operations)


def test_rejection_stops_at_its_budget() -> None:
    f = ls.Cut(6, [(i, j) for i in range(6) for j in range(i)], 3.0)
    with pytest.raises(ls.TooLarge, match=r"rejection accepted \d+ of \d+ tries") as caught:
        sample(f, 1000, "rejection", seed=0, budget=1e6)
    assert "budget = 1e+06" in str(caught.value) and caught.value.operations > 1e6


# ------------------------------------------------------------------------------------- progress


@pytest.mark.parametrize("name", RUNS)
def test_a_callback_hears_of_the_end(name: str) -> None:
    seen: list[Progress] = []
    with_callback = RUNS[name](CUT, callback=seen.append)
    last = seen[-1]
    assert last.finished == last.n_samples == {"ti": 50, "ais": 30}.get(name, 40)
    assert last.operations == pytest.approx(last.planned) and last.operations > 0
    without = RUNS[name](CUT)
    if name in ("ti", "ais"):
        assert without.value == with_callback.value
    else:
        assert np.array_equal(without, with_callback)


@pytest.mark.parametrize("name", RUNS)
def test_progress_only_grows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logsuper.sampling._budget._SECONDS", 0.0)
    seen: list[Progress] = []
    f = (
        CUT
        if name in ("ancestral", "swendsen_wang")
        else FAMILIES["callable"](np.random.default_rng(0), 4)
    )
    RUNS[name](f, callback=seen.append)
    assert len(seen) > 1
    for before, after in itertools.pairwise(seen):
        assert before.operations <= after.operations and before.planned <= after.planned
        assert before.finished <= after.finished and before.n_samples == after.n_samples
    assert all(p.operations <= p.planned * (1 + 1e-9) and p.finished <= p.n_samples for p in seen)


class Enough(Exception):
    pass


@pytest.mark.parametrize("name", RUNS)
def test_what_a_callback_raises_ends_the_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logsuper.sampling._budget._SECONDS", 0.0)
    told = []

    def stop(progress: Progress) -> None:
        told.append(progress)
        raise Enough

    with pytest.raises(Enough):
        RUNS[name](CUT, callback=stop)
    assert len(told) == 1


def test_a_slow_function_reports_within_a_sweep() -> None:
    class Slow(Counted):
        def __call__(self, X: np.ndarray) -> np.ndarray:
            time.sleep(0.02)
            return super().__call__(X)

    function = Slow()
    f = ls.SetFunction(function, 200, check=False, vectorized=True)
    started = time.monotonic()

    def stop(progress: Progress) -> None:
        raise Enough

    with pytest.raises(Enough):
        sample(f, 1, "gibbs", seed=0, callback=stop)  # a sweep takes four seconds
    assert time.monotonic() - started < 2.0


@pytest.mark.skipif(kernels() is None, reason="needs kernels")
def test_kernels_report_within_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logsuper.sampling._scan.PIECE", 1e15)
    monkeypatch.setattr("logsuper.sampling._budget._SECONDS", 0.0)
    f = ls.FacilityLocation(np.random.default_rng(0).random((300, 300)))
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        # whoever is called may use the library
        assert sample(CUT, 2, seed=0, callback=lambda _: None).shape == (2, 4)
        seen.append(progress)
        if len(seen) == 3:
            raise Enough

    for threads in (1, 2):
        seen.clear()
        started = time.monotonic()
        with pytest.raises(Enough):  # minutes, if nothing ended them
            sample(f, 2, "gibbs", seed=0, burn_in=10**6, callback=stop, n_jobs=threads)
        assert time.monotonic() - started < 5.0
        assert [p.operations for p in seen] == [0.0] * 3
    # nothing is left behind
    assert sample(CUT, 2, seed=0).shape == (2, 4)


def test_models_pass_budgets_and_callbacks_on() -> None:
    m = ls.LogSupermodular(CUT)
    for run in (
        lambda **o: m.sample(5, seed=0, **o),
        lambda **o: m.sample(5, "gibbs", seed=0, **o),
        lambda **o: m.log_partition("ti", seed=0, n_samples=5, steps=2, **o),
        lambda **o: m.log_partition("ais", seed=0, n_samples=5, steps=2, **o),
        lambda **o: m.marginals("sampling", seed=0, n_samples=5, **o),
        lambda **o: m.condition({0: 1}).sample(5, seed=0, **o),
    ):
        with pytest.raises(ls.TooLarge, match="budget = 1"):
            run(budget=1.0)
        seen: list[Progress] = []
        run(callback=seen.append)
        assert seen[-1].finished == seen[-1].n_samples


@pytest.mark.parametrize("name", [*SAMPLERS, "ti", "ais"])
def test_nothing_to_sample_costs_nothing(name: str) -> None:
    nothing = ls.Modular([])
    if name in SAMPLERS:
        assert sample(nothing, 3, name, budget=1.0).shape == (3, 0)
        assert sample(CUT, 0, name, seed=0, budget=1.0).shape == (0, 4)
    else:
        assert log_partition(nothing, name, budget=1.0).value == 0.0


def test_unknown_options_are_told_which_there_are() -> None:
    with pytest.raises(TypeError, match=r"cftp has no option 'time'.*max_iter, budget, callback"):
        sample(CUT, 1, time=3)
    with pytest.raises(TypeError, match=r"ais has no option 'time'.*budget, callback"):
        log_partition(CUT, "ais", time=3)


_INTERRUPTED = """
import os, signal, threading, time
import numpy as np
import logsuper as ls

signal.signal(signal.SIGINT, signal.default_int_handler)
callable_ = ls.SetFunction(lambda X: np.sqrt(X.sum(axis=1)), 40, check=False, vectorized=True)
facilities = ls.FacilityLocation(np.random.default_rng(0).random((200, 200)))
# what is imported when it is first used must not be interrupted half-way
ls.LogSupermodular(ls.Cut(2, [(0, 1)])).sample(1, "gibbs", seed=0)
ls.LogSupermodular(ls.Coverage([[0], [0]])).sample(1, "gibbs", seed=0)
for f in (callable_, facilities):
    sent = []
    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(0.3, send)
    timer.start()
    try:
        ls.LogSupermodular(f).sample(3, "gibbs", seed=0, burn_in=10**5, callback=lambda p: None)
    except KeyboardInterrupt:
        print(time.monotonic() - sent[0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_ctrl_c_ends_a_run_in_python_and_in_kernels() -> None:
    command = [sys.executable, "-W", "ignore", "-c", _INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    waited = [float(line) for line in done.stdout.split()]
    assert len(waited) == 2, "a run that takes minutes ended by itself"
    # within a second; the rest is for machines with more to do
    assert max(waited) < 5.0
