"""Certified bounds hold in exact arithmetic, whatever float64 makes of the numbers."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from oracles import enumerate_x

import logsuper as ls
from logsuper.bounds import _dominant, _methods
from logsuper.bounds._margins import at_least, at_most
from logsuper.structures import Pairwise, pairwise_of

EXACT = Context(prec=460, Emin=-(10**9), Emax=10**9)
LOWER, UPPER = ("superdifferential", "mean_field", "bethe"), ("lfield", "trw")


def exact_log_partition(
    edges: np.ndarray, w: np.ndarray, t: np.ndarray
) -> tuple[Fraction, Decimal]:
    """Return log Z as the largest exponent and a logarithm between 0 and n log 2."""
    weights, fields = ([Fraction(float(v)) for v in numbers] for numbers in (w, t))
    scores = []
    for x in enumerate_x(len(t)).tolist():
        paid = sum((c for c, (i, j) in zip(weights, edges.tolist(), strict=True) if x[i] != x[j]),
                   Fraction(0))  # fmt: skip
        scores.append(sum((c for c, on in zip(fields, x, strict=True) if on), Fraction(0)) - paid)
    top = max(scores)
    total = Decimal(0)
    for score in scores:
        less = score - top
        if less > -1000:
            value = EXACT.divide(Decimal(less.numerator), Decimal(less.denominator))
            total = EXACT.add(total, EXACT.exp(value))
    return top, EXACT.ln(total)


def sign(bound: float, truth: tuple[Fraction, Decimal]) -> int:
    """Return the sign of bound - truth."""
    rest = Fraction(bound) - truth[0]
    return int(
        EXACT.compare(EXACT.divide(Decimal(rest.numerator), Decimal(rest.denominator)), truth[1])
    )


def heavy_triangle() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = 9
    edges = np.array([*((i, i + 1) for i in range(n - 1)), (0, 2)])
    w = np.full(len(edges), 0.5)
    w[[0, 1, -1]] = 1e16, 5e15, 1e16 / 3
    return edges, w, np.r_[0.3, -0.1, 0.1, np.zeros(n - 3)]


def random_model(
    rng: np.random.Generator, scales: list[float] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return edges, weights and fields; each number has one of the scales, or any of 1e+-300."""
    n = int(rng.integers(2, 8))
    edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.6])
    edges = edges.reshape(-1, 2).astype(np.int64)

    def numbers(size: int) -> np.ndarray:
        if scales is None:
            return 10.0 ** rng.uniform(-300, 300, size)
        return rng.choice(scales, size) * rng.uniform(0.5, 1.5, size)

    return edges, numbers(len(edges)), numbers(n) * rng.choice([-1.0, 0.0, 1.0], n)


REGIMES = {
    "1e16 and .3": [0.3, 1.0, 1e16],
    "1e8 and 1": [1.0, 1e8],
    "1e-6 to 1e12": [1e-6, 1.0, 1e3, 1e12],
    "anything": None,
}


@pytest.mark.parametrize("regime", REGIMES)
def test_bounds_hold_against_exact_arithmetic(regime: str) -> None:
    rng = np.random.default_rng(8)
    answers = 0
    for _ in range(25):
        edges, w, t = random_model(rng, REGIMES[regime])
        truth = exact_log_partition(edges, w, t)
        f = ls.Cut(len(t), edges, w) - ls.Modular(t)
        for method in (*LOWER, *UPPER):
            try:
                value = _methods.log_partition(f, method).value
            except ValueError as error:
                assert "overflow" in str(error)
                continue
            answers += 1
            assert np.isfinite(value), method
            assert sign(value, truth) in ((-1, 0) if method in LOWER else (0, 1)), method
    assert answers > 90


def test_heavy_edges_cost_no_precision() -> None:
    """The cluster is one element to the bounds; the truth is that of a weight of 100."""
    edges, w, t = heavy_triangle()
    truth = exact_log_partition(edges, w, t)
    same = exact_log_partition(edges, np.minimum(w, 100.0), t)
    assert abs(float(truth[0]) + float(truth[1]) - float(same[0]) - float(same[1])) < 1e-12
    f = ls.Cut(len(t), edges, w) - ls.Modular(t)
    value = float(truth[0]) + float(truth[1])
    # what is left is a path, on which both are exact
    assert value - 1e-9 < _methods.log_partition(f, "bethe").value <= value
    assert value <= _methods.log_partition(f, "trw").value < value + 0.1
    q = ls.LogSupermodular(f).marginals("bethe").values
    assert q[0] == q[1] == q[2]


def test_a_contracted_model_is_below_and_a_capped_one_above() -> None:
    rng = np.random.default_rng(3)
    for scales in ([0.3, 1e5], [1.0, 1e3, 1e9], None):
        for _ in range(20):
            edges, w, t = random_model(rng, scales)
            w, t = np.minimum(w, 1e200), np.clip(t, -1e200, 1e200)
            truth = exact_log_partition(edges, w, t)
            model = Pairwise(len(t), edges, w, t)
            small, label = _dominant.contracted(model)
            assert label.max(initial=0) == small.n - 1
            if small.error == 0.0:
                top, rest = exact_log_partition(small.edges, small.weights, small.t)
                assert top <= truth[0] and (top < truth[0] or rest <= truth[1])
            moderate, constant = _dominant.capped(model)
            top, rest = exact_log_partition(moderate.edges, moderate.weights, moderate.t)
            top += sum((Fraction(float(c)) for c in constant), Fraction(0))
            assert top >= truth[0]
            assert float(top - truth[0]) + float(rest - truth[1]) > -1e-40


def test_sums_are_rounded_outwards() -> None:
    parts = [np.array([1e16, 0.3]), np.array([-1e16])]
    assert at_most(parts, 0.0) < 0.3 < at_least(parts, 0.0)
    assert at_most(parts, 0.1) < 0.2 < 0.4 < at_least(parts, 0.1)


def test_the_normal_form_knows_what_its_fields_lost() -> None:
    t = np.array([1e16, 1.0])
    f = ls.Cut(2, [(0, 1)], 1.0) - ls.Modular(t)
    assert pairwise_of(f).error == 0.0
    # half of the weight of an arc joins the field: .3 beside 1e16
    g = ls.Cut.directed(2, [(0, 1)], [0.6]) + ls.RobustPn(
        2, [[0, 1]], threshold=[1e16], weights=[[1e16, 1e16]]
    )
    assert 0.1 < pairwise_of(g).error < 100.0
