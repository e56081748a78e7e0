"""Certified numbers hold in floating point, at any magnitude."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import rational
from oracles import brute_log_partition, enumerate_x
from rational import attack

import logsuper as ls
from logsuper.bounds import Bound, _heavy, _methods, _strips
from logsuper.bounds._exact_numbers import BITS, to_float, to_floats, to_integer
from logsuper.solvers._native import kernels
from logsuper.structures import structure_of

METHODS = ["exact", "enumeration", "elimination", "transfer", "strips"]


def holds(bound, truth):
    low, high = bound.interval
    return low <= truth <= high


# ------------------------------------------------------------------------- what was once wrong


def ring_with_a_tail(weight):
    """Return a chain of 30 whose first three elements are tied by huge weights."""
    edges = [(i, i + 1) for i in range(29)] + [(0, 2)]
    w = np.full(30, 0.5)
    w[0], w[1], w[-1] = weight, weight / 2, weight / 3
    return ls.Cut(30, edges, w) - ls.Modular(np.r_[0.3, -0.1, 0.1, np.zeros(27)])


@pytest.mark.parametrize("weight", [1e12, 1e16, 4e17, 1e100, 1e300])
def test_hard_constraints_written_as_weights(weight):
    # W = 100 is as good as infinite: the rest of the sum is below exp(-50)
    truth = 13.654433817331  # the sum over the other 28 values of the tied elements and the chain
    m = ls.LogSupermodular(ring_with_a_tail(weight))
    for bound in (m.log_partition(), m.log_partition("elimination")):
        assert bound.target == "exact" and bound.certified
        assert bound.value == pytest.approx(truth, abs=1e-11) and holds(bound, bound.value)
    b = m.bracket()
    assert b.lower <= truth + 1e-11 and truth - 1e-11 <= b.upper and 0 < b.width < 1e-10


@pytest.mark.parametrize("weight", [1e16, 4e17, 1e200])
@pytest.mark.parametrize("method", ["elimination", "transfer", "strips"])
def test_a_grid_with_one_huge_edge(method, weight):
    def grid(w):
        across, down = ls.grid_cuts((5, 6))
        first = np.full(len(across.weights), 0.5)
        first[7] = w
        fields = np.linspace(-0.4, 0.6, 30)
        return across.with_weights(first) + 0.5 * down - ls.Modular(fields)

    # a weight of 200 is as good as infinite: states that pay it have a share below exp(-190)
    near = _methods.log_partition(grid(200.0), "elimination")
    found = _methods.log_partition(grid(weight), method)
    assert found.target == "exact" and found.value == pytest.approx(near.value, abs=1e-10)


def test_a_small_grid_with_a_huge_edge_is_not_called_exact_unless_it_is():
    across, down = ls.grid_cuts((2, 3))
    f = across.with_weights([1e16, 0.5, 0.5, 0.5]) + 0.5 * down
    found = _methods.log_partition(f, "strips")
    assert found.target == "exact" and found.interval[1] - found.interval[0] < 1e-9
    assert holds(found, float(rational.log_partition(f)[0]))
    # asked directly, without what makes huge numbers harmless, it says how wide it is
    raw = _strips.log_partition(f)
    assert raw.target == "estimate" and raw.certified and " in [" in repr(raw)
    assert raw.interval[0] <= float(rational.log_partition(f)[0]) <= raw.interval[1]


# ---------------------------------------------------------------------------- numbers of all sizes


def test_numbers_of_all_sizes_against_exact_arithmetic():
    models = 80 if kernels() else 40
    counts, faults = attack(models, seed=11)
    assert faults == []
    for method in (*rational.METHODS, "bracket"):
        assert counts[method, "models"] >= models / 8
        assert counts[method, "narrow"] >= 0.95 * counts[method, "models"]


@pytest.mark.parametrize("model", [59, 148, 1828])
def test_marginals_by_enumeration_hold_where_all_states_of_an_element_are_rare(model):
    f = rational.FAMILIES[model % len(rational.FAMILIES)](np.random.default_rng([0, model]))
    found, truth = _methods.marginals(f, "enumeration"), rational.log_partition(f)[1]
    for low, p, high in zip(found.lower, truth, found.upper, strict=True):
        assert Fraction(float(low)) <= p <= Fraction(float(high))


def test_the_oracle_agrees_with_float64(seed):
    rng = np.random.default_rng(seed)
    for make in rational.FAMILIES:
        f = make(rng)
        scale = 1.0 / max(1.0, np.abs(f(enumerate_x(f.n))).max())
        g = scale * f
        log_z, _ = rational.log_partition(g)
        assert float(log_z) == pytest.approx(brute_log_partition(g), rel=1e-10, abs=1e-10)


# --------------------------------------------------------------------------------- light functions


def test_ordinary_functions_are_left_alone(seed):
    rng = np.random.default_rng(seed)
    f = ls.Cut(4, [(0, 1), (2, 3)], [100.0, 2.0]) - ls.Modular(rng.normal(size=4) * 1e3)
    assert _heavy.lighten(f) is None
    assert _heavy.lighten(ls.LogDet(np.eye(3))) is None


def test_a_light_grid_is_a_grid():
    across, down = ls.grid_cuts((20, 30))
    w = across.weights.copy()
    w[::7] = 1e15
    t = np.linspace(-1.0, 1.0, 600)
    t[::11] *= 1e9
    light = _heavy.lighten(across.with_weights(w) + 2.0 * down - ls.Modular(t))
    assert structure_of(light.f).grid.shape == (1, 20, 30)
    assert max(np.abs(part).max() for part in numbers(light.f)) < 1e3
    assert light.constant > 1e9 and light.error < 1e-15 * light.constant
    conditioned, _ = (across.with_weights(w) + 2.0 * down).condition({5: 1, 100: 0})
    assert _strips.brackets(_heavy.lighten(conditioned).f)[0].certified


def numbers(f):
    return [atom.weights if isinstance(atom, ls.Cut) else atom.t for _, atom in f.terms()]


def test_costs_that_cancel_are_pushed_away(seed):
    # three states tie at 1e16, to be told apart by fields of order 1: no cap helps, a flow does
    rng = np.random.default_rng(seed)
    t = rng.normal(size=4).round(3)
    huge = 2.0**54
    fields = t + np.array([huge, -huge, 0.0, 0.0])
    f = ls.Cut(4, [(0, 1), (1, 2), (2, 3)], [huge, 0.5, huge]) - ls.Modular(fields)
    truth, mean = rational.log_partition(f)
    light = _heavy.lighten(f)
    assert max(np.abs(part).max() for part in numbers(light.f)) < 1e3
    found = _methods.log_partition(f, "exact")
    assert Fraction(found.interval[0]) <= truth <= Fraction(found.interval[1])
    marginals = _methods.marginals(f, "exact")
    np.testing.assert_allclose(marginals, [float(p) for p in mean], atol=1e-12)


def test_log_z_beyond_float64_is_refused():
    f = ls.Cut(3, [(0, 1)], 1.0) - ls.Modular([1.7e308, 1.7e308, 0.0])
    with pytest.raises(ValueError, match=r"overflow|is -?inf"):
        _methods.log_partition(f, "exact")


def test_integers_of_any_size():
    for value in (0.0, 1.0, -0.3, 1e300, -1e300, 2.0**-BITS, 5e-324, -1e-320, 1.7e308):
        whole = to_integer(value)
        assert abs(Fraction(whole, 1 << BITS) - Fraction(value)) < Fraction(1, 1 << BITS)
        assert to_float(whole) == pytest.approx(value, rel=1e-15, abs=2.0**-BITS)
    large = to_integer(1e16) + to_integer(0.3)
    assert sum(map(Fraction, to_floats(large))) == Fraction(large, 1 << BITS)
    assert to_float(1 << 2000) == math.inf and to_float(-(1 << 2000)) == -math.inf


# ------------------------------------------------------------------------------- what a bound says


def test_exact_is_only_said_of_what_is_known_to_a_millionth():
    assert Bound.exactly(1.0, 4e-7, "m").target == "exact"
    assert Bound.exactly(1.0, 6e-7, "m").target == "estimate"
    # four units in the last place of 1e16 are 8
    assert Bound.exactly(1e16, 0.5, "m").target == "exact"
    assert Bound.exactly(1e16, 8.0, "m").target == "estimate"
    assert Bound.exactly(1.0, 1e-7, "m").shifted(1e17).target == "exact"


def test_repr_shows_an_interval_that_is_wider_than_the_digits():
    assert repr(Bound.exactly(1.5, 1e-13, "m")) == "<exact 1.5 by m, certified>"
    wide = repr(Bound.exactly(1.5, 0.25, "m"))
    assert wide == "<estimate 1.5 in [1.25, 1.75] by m, certified>"


def test_shifts_round_outward(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        value, constant = rng.normal(size=2) * 10.0 ** rng.uniform(-5, 18, 2)
        truth = Fraction(value) + Fraction(constant)
        bound = Bound(value, "exact", "m", certified=True, interval=(value, value))
        low, high = bound.shifted(constant).interval
        assert Fraction(low) <= truth <= Fraction(high)
        assert Fraction(dataclasses.replace(bound, target="lower").shifted(constant).value) <= truth
        assert Fraction(dataclasses.replace(bound, target="upper").shifted(constant).value) >= truth


def test_log_prob_from_both_sides_under_huge_weights():
    m = ls.LogSupermodular(ls.Cut(2, [(0, 1)], 1e16) - ls.Modular([0.3, 0.2]))
    lower, upper = (m.log_prob([1, 1], side) for side in ("lower", "upper"))
    truth = 0.5 - math.log1p(math.exp(0.5))
    assert lower <= truth <= upper and upper - lower < 1e-12
