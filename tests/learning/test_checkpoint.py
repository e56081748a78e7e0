"""A run that was interrupted ends as if it had not been; another one's state is refused."""

import re

import numpy as np
import pytest
from objective_oracles import long, quiet, same, silhouettes

import logsuper as ls
from logsuper._base._files import load_arrays, save_arrays
from logsuper.learning import FreshNoise, Objective, Penalty, make_examples
from logsuper.learning._checkpoint import fingerprint
from logsuper.learning._descent import descend, logistic


class StopError(Exception):
    pass


def stop_after(count):
    """Return a callback that raises at the given line of the history."""
    lines = []

    def callback(line):
        lines.append(line)
        if len(lines) == count:
            raise StopError

    return callback


@long
@pytest.mark.parametrize("noise", ["fresh", "fixed"])
@pytest.mark.parametrize("rule", ["adaptive", "printed"])
def test_resumed_run_is_identical(tmp_path, noise, rule):
    data = silhouettes(scale=True)
    penalty = Penalty.of(data.layout, modular=0.1)
    path = tmp_path / "folder" / "fit.npz"

    def learned(**options):
        return quiet(
            logistic, data, penalty, noise=noise, steps=rule, tol=1e-5, max_iter=150, **options
        )

    whole = learned()
    for count in (1, 2):
        with pytest.raises(StopError):
            learned(checkpoint=path, callback=stop_after(count), n_jobs=2)
        assert path.exists()
    resumed = learned(checkpoint=path)
    same(whole, resumed)
    # a finished run is not run again
    lines = []
    same(whole, learned(checkpoint=path, callback=lines.append))
    assert not lines


def test_interruption_at_any_step(tmp_path, monkeypatch):
    data = silhouettes(6)
    penalty = Penalty.of(data.layout, modular=0.1)
    whole = quiet(logistic, data, penalty, tol=0.0, max_iter=40)
    loss, calls = Objective.loss, []

    def failing(self, *args):
        calls.append(args)
        if len(calls) % 11 == 0:
            raise KeyboardInterrupt
        return loss(self, *args)

    monkeypatch.setattr(Objective, "loss", failing)
    path = tmp_path / "fit.npz"
    resumed = None
    while resumed is None:
        try:
            resumed = quiet(logistic, data, penalty, tol=0.0, max_iter=40, checkpoint=path)
        except KeyboardInterrupt:
            assert len(calls) < 100
    assert len(calls) > 40
    same(whole, resumed)


@long
def test_more_steps_continue(tmp_path):
    data = silhouettes()
    penalty = Penalty.of(data.layout, modular=0.1)
    path = tmp_path / "fit.npz"
    quiet(logistic, data, penalty, max_iter=33, tol=0.0, checkpoint=path)
    longer = quiet(logistic, data, penalty, max_iter=60, tol=0.0, checkpoint=path)
    same(longer, quiet(logistic, data, penalty, max_iter=60, tol=0.0))


def test_other_problems_are_refused(tmp_path):
    data = silhouettes()
    penalty = Penalty.of(data.layout, modular=0.1)
    path = tmp_path / "fit.npz"

    def learned(data=data, penalty=penalty, **options):
        return quiet(logistic, data, penalty, max_iter=3, checkpoint=path, **options)

    learned()
    learned(n_jobs=2)  # the number of threads does not matter
    for changed in [
        {"data": silhouettes(19)},
        {"penalty": Penalty.of(data.layout, modular=0.2)},
        {"seed": 1},
        {"n_samples": 3},
        {"batch": 2},
        {"rate": 0.5},
        {"steps": "separate"},
        {"average": False},
        {"noise": "fixed"},
        {"start": data.layout.fill(alpha=1.0)},
    ]:
        with pytest.raises(ValueError, match=rf"checkpoint {re.escape(str(path))} was written"):
            learned(**changed)


def test_fingerprint_sees_every_part_of_the_data():
    rng = np.random.default_rng(0)
    shape = (3, 4)
    x, z = rng.integers(0, 2, (2, 5, *shape))
    edges = len(ls.prepare(ls.grid_cuts(shape)).edges)
    base = {
        "labels": x,
        "observed": z,
        "channel": ls.Flips(0.1),
        "features": rng.normal(size=(5, *shape, 2)),
        "edge_weights": rng.exponential(size=(5, edges)),
    }

    def number(factor=1.0, samples=2, **changes):
        functions = [factor * cut for cut in ls.grid_cuts(shape)]
        data = make_examples(functions, **{**base, **changes})
        return fingerprint(Objective.supervised(data, FreshNoise(samples, seed=0)), ())

    numbers = [
        number(),
        number(samples=3),
        number(factor=2.0),
        number(labels=1 - x),
        number(observed=1 - z),
        number(channel=ls.Flips(0.2)),
        number(channel=ls.Missing(0.5, ls.Flips(np.full(shape, 0.3)))),
        number(features=base["features"] + 1.0),
        number(edge_weights=base["edge_weights"] + 1.0),
        number(scale=True),
        number(modular="shared"),
    ]
    assert len(set(numbers)) == len(numbers)
    assert number() == numbers[0]


def test_damaged_and_foreign_files_are_refused(tmp_path):
    data = silhouettes(3)
    path = tmp_path / "fit.npz"
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="not a file of logsuper"):
        logistic(data, Penalty.of(data.layout), checkpoint=path)
    assert path.read_bytes() == b"something else"


def test_seed_is_needed(tmp_path):
    data = silhouettes(3)
    with pytest.raises(ValueError, match="checkpoint needs a seed"):
        logistic(data, Penalty.of(data.layout), seed=None, checkpoint=tmp_path / "a")
    objective = Objective.supervised(data, FreshNoise(1, seed=0))
    with pytest.raises(ValueError, match="checkpoint needs a seed"):
        descend(objective, Penalty.of(data.layout), seed=None, checkpoint=tmp_path / "a")


def test_malformed_checkpoints_are_refused(tmp_path):
    data = silhouettes(3)
    penalty = Penalty.of(data.layout, modular=0.1)
    path = tmp_path / "fit.npz"

    def learned():
        return quiet(logistic, data, penalty, max_iter=30, tol=0.0, checkpoint=path)

    learned()
    header, arrays = load_arrays(path, "checkpoint", 1)
    size = data.layout.size

    def changed(name, place, value):
        array = arrays[name].copy()
        array[place] = value
        return {name: array}

    line = header["history"][0]
    cases = [
        ({}, changed("theta", 3, np.nan), r"theta\[3\] = nan is not finite"),
        ({}, changed("average", 0, -np.inf), r"average\[0\] = -inf is not finite"),
        ({}, changed("theta", 0, -1.0), r"theta\[0\] = -1: below 0"),
        ({}, changed("squares", 5, -1.0), r"squares\[5\] = -1: below 0"),
        ({}, changed("theta", 1, 1e300), r"theta\[1\] = 1e\+300: beyond"),
        ({}, changed("squares", 1, 1e300), r"squares\[1\] = 1e\+300: beyond"),
        ({}, {"theta": arrays["theta"][:-1]}, rf"theta has shape \({size - 1},\), not \({size},\)"),
        ({}, {"squares": arrays["squares"][None]}, "squares has shape"),
        ({}, {"average": None}, "average"),
        ({"step": -1}, {}, "step must be at least 0"),
        ({"step": 2.5}, {}, "step must be an integer"),
        ({"step": None}, {}, "step must be an integer"),
        ({"step": 0}, {}, "steps of its history do not increase"),
        ({"cuts": ...}, {}, "cuts"),
        ({"history": 3}, {}, "not iterable"),
        ({"history": [line[:3]]}, {}, "not enough values"),
        ({"history": [[*line[:2], float("nan"), *line[3:]]]}, {}, "an objective must be finite"),
        ({"history": [[*line[:4], "x"]]}, {}, "gap"),
        ({"history": ...}, {}, "history"),
    ]
    for about, numbers, reason in cases:
        kept = {key: value for key, value in {**header, **about}.items() if value is not ...}
        held = {key: value for key, value in {**arrays, **numbers}.items() if value is not None}
        save_arrays(path, "checkpoint", 1, kept, held)
        before = path.read_bytes()
        with pytest.raises(ValueError, match=rf"checkpoint .*fit.npz is malformed .*{reason}"):
            learned()
        assert path.read_bytes() == before
    save_arrays(path, "checkpoint", 1, {}, {})
    with pytest.raises(ValueError, match="other data, options or seed"):
        learned()


def test_a_changed_byte_is_refused(tmp_path):
    data = silhouettes(3)
    penalty = Penalty.of(data.layout, modular=0.1)
    path = tmp_path / "fit.npz"
    quiet(logistic, data, penalty, max_iter=3, checkpoint=path)
    whole = path.read_bytes()
    for place in (10, len(whole) // 2, len(whole) - 100, len(whole) - 1):
        broken = bytearray(whole)
        broken[place] ^= 1
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"fit\.npz: .*truncated or corrupted"):
            logistic(data, penalty, max_iter=3, checkpoint=path)
