"""Mean field: any distribution of independent elements bounds log Z from below."""

import numpy as np
import pytest
from oracles import FAMILIES, brute_log_partition

from logsuper import ConcaveCardinality, Cut, LogDet, Modular, grid_cuts
from logsuper.bounds import NotApplicable, _mean_field, _superdifferential
from logsuper.bounds._margins import extreme_gains
from logsuper.bounds._mean_field import _ascend, _objective, log_partition, marginals, search

CLOSED = [
    "modular",
    "cut",
    "cut, wide weights",
    "directed cut",
    "grid",
    "cardinality",
    "cardinality of a subset",
    "cardinality + modular",
    "coverage",
    "facility location",
    "P^n Potts",
]


def expit(v):
    return 1 / (1 + np.exp(-np.clip(v, -700, 700)))


@pytest.mark.parametrize("name", CLOSED)
def test_lies_between_the_supergradients_and_log_z(name, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 8)
    bound = log_partition(f)
    truth = brute_log_partition(f)
    assert bound.target == "lower"
    assert bound.certified
    assert bound.value <= truth  # with no tolerance at all
    below = _superdifferential.log_partition(f).value
    assert below <= bound.value + 1e-9 * (1 + abs(truth))


@pytest.mark.parametrize("name", CLOSED)
def test_every_point_is_a_bound(name, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[name](rng, 7)
    logits = rng.normal(size=(50, 7)) * 4
    logits[0] = 1e4 * np.sign(logits[0])
    values, _ = _objective(f, logits)
    truth = brute_log_partition(f)
    assert (values <= truth + 1e-10 * (1 + abs(truth))).all()
    # a vertex has no entropy: the value there is -f
    assert values[0] == pytest.approx(-f(logits[0] > 0), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", CLOSED)
def test_the_best_point_is_stationary(name, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 7)
    value, logits, _, _ = search(f, tol=1e-14, max_iter=20_000)
    q = expit(np.clip(logits, -700, 700))
    _, updates = _objective(f, logits[None])
    np.testing.assert_allclose(expit(np.clip(updates[0], -700, 700)), q, atol=2e-5)
    np.testing.assert_allclose(marginals(f, tol=1e-14, max_iter=20_000), q, atol=1e-9)
    assert log_partition(f).value <= value + 1e-9 * (1 + abs(value))


def test_bounds_never_fall_on_the_way(seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES["grid"](rng, 12) * 3.0
    start = rng.normal(size=(6, 12)) * 3
    values = [_ascend(f, start, 0.0, sweeps)[0] for sweeps in range(1, 30)]
    rounding = 1e-13 * (1 + np.abs(values[0]))
    assert (np.diff(values, axis=0) >= -rounding).all()
    assert (values[0] >= _objective(f, start)[0]).all()


@pytest.mark.parametrize("name", ["modular", "cut", "cut, wide weights", "directed cut", "grid"])
def test_element_by_element_and_all_together_find_the_same(name, monkeypatch, seed):
    f = FAMILIES[name](np.random.default_rng(seed), 9)
    starts = -np.stack([*extreme_gains(f), extreme_gains(f)[0]])
    values, logits, _ = _ascend(f, starts, 1e-16, 5000)
    np.testing.assert_allclose(values, _objective(f, logits)[0], rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(_mean_field, "kernels", lambda: None)
    others, there, _ = _ascend(f, starts, 1e-16, 5000)
    np.testing.assert_allclose(values, others, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(expit(logits), expit(there), atol=1e-4)


def test_repeated_edges_and_isolated_elements_add_up():
    cut = Cut(4, [(0, 1)], 0.5) + Cut(4, [(0, 1), (1, 2)], 0.25) - Modular([1.0, 0.0, -1.0, 3.0])
    merged = Cut(4, [(0, 1), (1, 2)], [0.75, 0.25]) - Modular([1.0, 0.0, -1.0, 3.0])
    assert log_partition(cut).value == pytest.approx(log_partition(merged).value, abs=1e-9)


def test_the_extreme_starts_meet_the_extreme_fixed_points(seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES["grid"](rng, 10) * 2.0
    top, bottom = extreme_gains(f)
    _, ends, _ = _ascend(f, -np.stack([top, bottom]), 1e-15, 20_000)
    _, others, _ = _ascend(f, rng.normal(size=(20, 10)) * 5, 1e-15, 20_000)
    low, high = expit(ends)
    assert (expit(others) >= low - 1e-4).all()
    assert (expit(others) <= high + 1e-4).all()


def test_two_elements_by_hand():
    # one fixed point, q = 1/2, at weak coupling; two others appear at w > 2
    for w, q in [(0.5, 0.5), (1.5, 0.5)]:
        f = Cut(2, [(0, 1)], w)
        assert log_partition(f).value == pytest.approx(2 * np.log(2) - w / 2, abs=1e-9)
        np.testing.assert_allclose(marginals(f), q, atol=1e-4)
    assert log_partition(Cut(2, [(0, 1)], 4.0)).value > 2 * np.log(2) - 2.0 + 0.1


def test_modular_functions_are_exact():
    f = Modular([1.0, -2.0, 0.0, 800.0])
    assert log_partition(f).value == pytest.approx(brute_log_partition(f), abs=1e-11)
    np.testing.assert_allclose(marginals(f), expit(-np.minimum(f.t, 700)), atol=1e-300)


def test_permutation_and_components(seed):
    rng = np.random.default_rng(seed)
    edges = np.array([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
    w, t = 2 * rng.exponential(size=5), rng.normal(size=5)
    f = Cut(5, edges, w) - Modular(t)
    order = rng.permutation(5)
    g = Cut(5, order[edges], w) - Modular(t[np.argsort(order)])
    assert log_partition(f).value == pytest.approx(log_partition(g).value, abs=1e-8)
    both = Cut(10, np.vstack([edges, edges + 5]), np.tile(w, 2)) - Modular(np.tile(t, 2))
    assert log_partition(both).value == pytest.approx(2 * log_partition(f).value, abs=1e-7)


def test_starts_and_limits_are_options(seed):
    f = FAMILIES["grid"](np.random.default_rng(seed), 9)
    truth = brute_log_partition(f)
    rough = log_partition(f, starts=np.full(9, 0.5), max_iter=1)
    fine = log_partition(f, starts=[[0.5] * 9, [1.0] * 9, [0.0] * 9], max_iter=500)
    assert rough.value <= fine.value <= truth
    assert rough.solves == 0
    assert rough.details["sweeps"] == 1
    for bad, match in [
        ({"starts": "many"}, 'starts must be "auto"'),
        ({"starts": np.full(9, 2.0)}, r"starts\[0\] = 2 is not a probability"),
        ({"starts": np.empty((0, 9))}, "at least one row"),
        ({"tol": -1.0}, "tol must be at least 0"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
    ]:
        with pytest.raises(ValueError, match=match):
            log_partition(f, **bad)


def test_refuses_what_has_no_closed_form_by_name():
    f = Cut(3, [(0, 1)]) + LogDet(np.eye(3) + 0.1)
    with pytest.raises(NotApplicable, match=r"mean_field needs .* closed form, got LogDet\(n=3\)"):
        log_partition(f)
    with pytest.raises(NotApplicable, match="mean_field"):
        marginals(f)


def test_an_image_and_a_large_count():
    rng = np.random.default_rng(0)
    across, down = grid_cuts((50, 50))
    f = 0.4 * across + 0.4 * down - Modular(rng.normal(size=2500))
    assert log_partition(f).solves == 0  # one fixed point: no other start is needed
    n = 300
    g = 0.1 * ConcaveCardinality(lambda k: k * (n - k) / n, n=n) - Modular(rng.normal(size=n))
    value = log_partition(g, starts=np.full(n, 0.5)).value
    # exact by counts: e_k is the sum of exp(t'x) over the sets of size k
    t = -g.terms()[-1][1].t
    logs = np.full(n + 1, -np.inf)
    logs[0] = 0.0
    for field in t:
        logs[1:] = np.logaddexp(logs[1:], logs[:-1] + field)
    k = np.arange(n + 1)
    truth = np.logaddexp.reduce(logs - 0.1 * k * (n - k) / n)
    assert truth - 1.0 <= value <= truth
