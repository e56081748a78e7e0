"""log Z and marginals in exact rational arithmetic, and an attack with numbers of all sizes.

    python -m tests.rational --models 2000 --seed 0

draws models of up to 12 elements whose weights and fields span 1e-300 to 1e300, asks every exact
method that applies, and counts the certified intervals that miss the truth and those that are wide.
"""

from __future__ import annotations

import argparse
import collections
import decimal
import sys
from fractions import Fraction

import numpy as np

from logsuper.bounds import NotApplicable, TooLarge, _methods
from logsuper.functions import (
    ConcaveCardinality,
    Coverage,
    Cut,
    Modular,
    PnPotts,
    RobustPn,
    SubmodularFunction,
    grid_cuts,
)
from logsuper.model import LogSupermodular

METHODS = ("exact", "enumeration", "elimination", "transfer", "cardinality", "strips")
# An interval is narrow if it is no wider than this, relative to max(1, |log Z|).
NARROW = 1e-9

_DIGITS = decimal.Context(prec=60)
# States that cost this much more than the best have a float64 of 0 as their share.
_FORGET = 1000


# -------------------------------------------------------------------------------------- the truth


def value(f: SubmodularFunction, x: tuple[int, ...]) -> Fraction:
    """Return f(x) for the numbers that f holds, without rounding."""
    return sum((Fraction(weight) * _atom(atom, x) for weight, atom in f.terms()), Fraction(0))


def _atom(f: SubmodularFunction, x: tuple[int, ...]) -> Fraction:
    if isinstance(f, Modular):
        return _sum(f.t[np.array(x, dtype=bool)])
    if isinstance(f, Cut):
        i, j = f.edges.T
        point = np.array(x)
        return _sum(f.weights[point[i] != point[j]])
    if isinstance(f, ConcaveCardinality):
        return Fraction(float(f.g[sum(x[i] for i in f.subset)]))
    if isinstance(f, Coverage):
        covered = {int(g) for g, i in zip(f.group, f.member, strict=True) if x[i]}
        return _sum(f.weights[sorted(covered)])
    if isinstance(f, PnPotts):
        mixed = [len({x[i] for i in members}) > 1 for members in f.members]
        return _sum(f.weights[np.array(mixed, dtype=bool)])
    if isinstance(f, RobustPn):
        total = Fraction(0)
        for members, prices, threshold in zip(f.members, f.weights, f.threshold, strict=True):
            for point, sign in ((x, 1), ((0,) * len(x), -1)):
                deviate = [point[i] == f.side for i in members]
                total += sign * min(Fraction(float(threshold)), _sum(prices[deviate]))
        return total
    raise TypeError(f"no exact value for {f!r}")


def _sum(numbers: np.ndarray) -> Fraction:
    return sum(map(Fraction, np.asarray(numbers).tolist()), Fraction(0))


def log_partition(f: SubmodularFunction) -> tuple[Fraction, list[Fraction]]:
    """Return log Z and the marginals, to some 40 digits after the point, whatever their size."""
    states = [tuple(map(int, np.binary_repr(k, f.n)[::-1])) for k in range(2**f.n)]
    values = [value(f, x) for x in states]
    least = min(values)
    total, ones = decimal.Decimal(0), [decimal.Decimal(0)] * f.n
    for x, v in zip(states, values, strict=True):
        if v - least < _FORGET:
            fine = decimal.Decimal(int((least - v) * 10**45)).scaleb(-45, _DIGITS)
            mass = _DIGITS.exp(fine)
            total = _DIGITS.add(total, mass)
            ones = [_DIGITS.add(p, mass) if bit else p for p, bit in zip(ones, x, strict=True)]
    log_z = Fraction(_DIGITS.ln(total)) - least
    return log_z, [Fraction(_DIGITS.divide(p, total)) for p in ones]


# ------------------------------------------------------------------------------------- the models


def _numbers(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return weights, and numbers of either sign, of very different sizes or that nearly cancel."""
    kind = rng.integers(4)
    if kind == 3:
        huge = 10.0 ** rng.uniform(5, 17)
        some = np.array([huge, huge / 2, huge / 3, huge + 1.0, 1.0, 0.3])
        weights, fields = rng.choice(some, size), rng.choice(some, size)
    else:
        low, high = [(-300, 300), (-5, 20), (-1, 17)][kind]
        weights, fields = 10.0 ** rng.uniform(low, high, (2, size))
    if rng.random() < 0.4:
        fields = rng.exponential(size=size)
    return weights, fields * rng.choice([-1.0, 1.0], size)


def _grid(rng: np.random.Generator) -> SubmodularFunction:
    shape = [(1, 5), (2, 2), (2, 3), (3, 3), (2, 5), (3, 4)][rng.integers(6)]
    size = shape[0] * shape[1]
    total = Modular(_numbers(rng, size)[1])
    weights, _ = _numbers(rng, 4 * size)
    for cut in grid_cuts(shape):
        total = cut.with_weights(rng.choice(weights, len(cut.weights))) + total
    return total


def _cut(rng: np.random.Generator) -> SubmodularFunction:
    n = int(rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 12], p=[0.1] * 8 + [0.15, 0.05]))
    pairs = np.array([(i, j) for i in range(n) for j in range(i)]).reshape(-1, 2)
    pairs = rng.permutation(pairs)[: int(rng.integers(0, len(pairs) + 1))]
    weights, _ = _numbers(rng, len(pairs))
    cut = Cut(n, pairs, weights)
    factor = rng.choice([1.0, 0.1, 3.0])
    return factor * cut + Modular(_numbers(rng, n)[1])


def _pairwise_in_disguise(rng: np.random.Generator) -> SubmodularFunction:
    n = int(rng.integers(3, 8))
    members = [rng.permutation(n)[:2] for _ in range(int(rng.integers(1, 5)))]
    weights, fields = _numbers(rng, 4 * n)
    limits = rng.choice(weights[:n], len(members))
    prices = [rng.choice(weights[n:], 2) for _ in members]
    robust = RobustPn(n, members, limits, prices, side=int(rng.integers(2)))
    potts = PnPotts(n, rng.permutation(n)[:3], float(weights[-1]))
    return robust + potts + Modular(fields[:n])


def _count(rng: np.random.Generator) -> SubmodularFunction:
    n = int(rng.integers(1, 11))
    subset = np.sort(rng.permutation(n)[: int(rng.integers(1, n + 1))])
    scale = 10.0 ** rng.uniform(*[(-300, 290), (-2, 17)][rng.integers(2)])
    g = scale * np.sqrt(np.arange(len(subset) + 1.0))
    fields = _numbers(rng, n)[1] if rng.random() < 0.5 else rng.choice([1, -1], n) * scale
    return ConcaveCardinality(g, n, subset) + Modular(fields)


def _coverage(rng: np.random.Generator) -> SubmodularFunction:
    n, items = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    weights, _ = _numbers(rng, items)
    sets = [np.flatnonzero(rng.random(items) < 0.5) for _ in range(n)]
    return Coverage(sets, np.minimum(weights, 1e299)) + Modular(_numbers(rng, n)[1])


FAMILIES = [_grid, _cut, _cut, _pairwise_in_disguise, _count, _coverage]


# ------------------------------------------------------------------------------------- the attack


def attack(models: int, seed: int) -> tuple[collections.Counter, list[str]]:
    """Return counts by method of "models", "narrow", "missed", "refused", and what went wrong."""
    counts: collections.Counter = collections.Counter()
    faults = []
    for k in range(models):
        rng = np.random.default_rng([seed, k])
        f = FAMILIES[k % len(FAMILIES)](rng)
        log_z, marginals = log_partition(f)
        name = f"model {k} of seed {seed}"
        for method in METHODS:
            try:
                bound = _methods.log_partition(f, method)
                means = _methods.marginals(f, method)
            except (NotApplicable, TooLarge):
                continue
            except ValueError as error:
                counts[method, "refused"] += 1
                faults.append(f"{name}: {method} refused it: {error}")
                continue
            counts[method, "models"] += 1
            low, high = bound.interval
            holds = Fraction(low) <= log_z <= Fraction(high)
            ends = zip(means.lower.tolist(), marginals, means.upper.tolist(), strict=True)
            if not (holds and all(Fraction(a) <= p <= Fraction(b) for a, p, b in ends)):
                counts[method, "missed"] += 1
                faults.append(f"{name}: {method} has {bound!r}, truth {float(log_z):.17g}")
            counts[method, "narrow"] += high - low <= NARROW * max(1.0, abs(float(log_z)))
        bracket = LogSupermodular(f).bracket()
        counts["bracket", "models"] += 1
        if not Fraction(bracket.lower) <= log_z <= Fraction(bracket.upper):
            counts["bracket", "missed"] += 1
            faults.append(f"{name}: {bracket!r}, truth {float(log_z):.17g}")
        counts["bracket", "narrow"] += bracket.width <= NARROW * max(1.0, abs(float(log_z)))
    return counts, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts, faults = attack(given.models, given.seed)
    print(f"{'method':<12} {'models':>7} {'missed':>7} {'refused':>8} {'narrow':>8}")
    for method in (*METHODS, "bracket"):
        models = counts[method, "models"]
        share = f"{100 * counts[method, 'narrow'] / models:.1f} %" if models else "-"
        missed, refused = counts[method, "missed"], counts[method, "refused"]
        print(f"{method:<12} {models:>7} {missed:>7} {refused:>8} {share:>8}")
    for fault in faults[:20]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
