"""A short attack on the compiled kernels: `python -m tests.fuzzing.kernels` makes it a long one."""

import importlib

import pytest

pytest.importorskip("logsuper._kernels")

from tests.fuzzing import (
    kernels,
)
from tests.fuzzing.kernel_calls import entries
from tests.fuzzing.kernel_tree_calls import MAKERS


def test_every_entry_is_attacked():
    for name in kernels.available():
        assert entries(importlib.import_module(name)) == MAKERS.keys()


def test_a_short_attack():
    found = kernels.run(5.0, seed=1)
    bad = {key: count for key, count in found.items() if key[1] not in ("result", "clear error")}
    assert not bad
    assert {entry for entry, outcome in found if outcome == "result"} == MAKERS.keys()


def test_an_entry_that_is_not_reached_is_a_failure(monkeypatch):
    monkeypatch.setattr(kernels, "FEWEST", 10**9)
    found = kernels.run(0.5, seed=2)
    assert {entry for entry, outcome in found if outcome == "wrong"} == MAKERS.keys()
