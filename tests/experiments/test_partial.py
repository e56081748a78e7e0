import json

import numpy as np
import pytest

from logsuper.experiments import _origin
from logsuper.experiments._partial import Partial

ARGUMENTS = {"decays": (1.0, 3.0), "points": 50}


def test_every_digit_and_what_is_not_known_come_back(tmp_path, seed):
    array = np.random.default_rng(seed).normal(size=(2, 3, 4)) * 10.0 ** np.arange(-150, 150, 75)
    array[0, 1, 2] = np.nan
    Partial(tmp_path / "new", ARGUMENTS).store("part", array)
    again = Partial(tmp_path / "new", ARGUMENTS).load("part", array.shape)
    assert np.array_equal(again, array, equal_nan=True)


@pytest.mark.parametrize("other", [{"points": 51}, {"decays": (1.0,)}, {"more": None}])
def test_other_arguments_do_not_find_it(tmp_path, other):
    Partial(tmp_path, ARGUMENTS).store("part", np.zeros(3))
    assert Partial(tmp_path, {**ARGUMENTS, **other}).load("part", (3,)) is None
    assert Partial(tmp_path, ARGUMENTS).load("other", (3,)) is None


def test_other_source_does_not_find_it(tmp_path, monkeypatch):
    Partial(tmp_path, ARGUMENTS).store("part", np.zeros(3))
    monkeypatch.setattr(_origin, "source", lambda: "another")
    assert Partial(tmp_path, ARGUMENTS).load("part", (3,)) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"arguments": {}}', "\x00"])
def test_a_damaged_file_is_as_good_as_none(tmp_path, damage):
    store = Partial(tmp_path, ARGUMENTS)
    store.store("part", np.zeros(3))
    store.path("part").write_text(damage)
    assert store.load("part", (3,)) is None


def test_a_file_of_the_wrong_size_is_as_good_as_none(tmp_path):
    store = Partial(tmp_path, ARGUMENTS)
    store.store("part", np.zeros(3))
    assert store.load("part", (4,)) is None
    content = json.loads(store.path("part").read_text())
    content["arguments"]["points"] = 1
    store.path("part").write_text(json.dumps(content))
    assert store.load("part", (3,)) is None
