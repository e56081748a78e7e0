"""When work goes to other processes, and in which parts; `tests/test_cluster.py` has real ones."""

import numpy as np
import pytest

from logsuper.learning import _team
from logsuper.learning._team import Team


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(_team, "count_workers", lambda: 3)


@pytest.mark.parametrize(
    ("pixels", "count", "parts"),
    [
        (2500, 5, 0),  # less than two parts of the least size
        (2500, 20, 4),  # the least size
        (2500, 10_000, 24),  # eight parts per process
        (1 << 20, 400, 100),  # the most that a process gets at once
    ],
)
def test_parts(workers, pixels, count, parts):
    rows = np.arange(count)
    found = Team(pixels).split(rows)
    assert len(found) == parts
    if parts:
        np.testing.assert_array_equal(np.concatenate(found), rows)


def test_no_parts_for_one_process(monkeypatch):
    monkeypatch.setattr(_team, "count_workers", lambda: 1)
    assert not Team(2500).split(np.arange(1000))


@pytest.mark.parametrize(("pace", "wanted"), [(1e-5, False), (1e-3, True)])
def test_short_passes_stay_here(monkeypatch, pace, wanted):
    clock, tried = [0.0], []
    monkeypatch.setattr(_team.time, "perf_counter", lambda: clock[0])

    def attempt(some):
        tried.append(len(some))
        clock[0] += pace * len(some)

    team = Team(2500)
    for _ in range(2):
        assert team.is_worth_while(np.arange(1000), attempt) == wanted
    assert tried == [(1 << 14) // 2500]  # one small part, once
