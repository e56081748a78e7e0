"""Truth by enumeration, and the one table of functions that every room is tested on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Coverage,
    Cut,
    FacilityLocation,
    GaussianInformation,
    LogDet,
    Modular,
    PnPotts,
    RobustPn,
    SetFunction,
    SubmodularFunction,
    grid_cuts,
)

# ------------------------------------------------------------------------------------ enumeration


def enumerate_x(n: int) -> np.ndarray:
    """Return all 0/1 vectors, shape (2^n, n), uint8; x[0] is the least significant bit."""
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.uint8)


def brute_maximize(f: SubmodularFunction, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a maximiser (M, n) of theta'y - f(y) and the value (M,), for each row of theta.

    An infinite entry fixes its element; the value sums the finite terms.
    """
    theta = np.asarray(theta, dtype=float)
    rows = np.atleast_2d(theta)
    X = enumerate_x(f.n)
    values = f(X)
    Y = np.empty(rows.shape, dtype=np.uint8)
    best = np.empty(len(rows))
    for m, row in enumerate(rows):
        infinite = np.isinf(row)
        allowed = np.all(X[:, infinite] == (row[infinite] > 0), axis=1)
        score = X @ np.where(infinite, 0.0, row) - values
        score[~allowed] = -np.inf
        k = int(score.argmax())
        Y[m], best[m] = X[k], score[k]
    return (Y, best) if theta.ndim == 2 else (Y[0], best[0])


def brute_log_partition(f: SubmodularFunction) -> float:
    """Return log sum_x exp(-f(x))."""
    return float(np.logaddexp.reduce(-f(enumerate_x(f.n))))


def check_bracket(marginals, truth: np.ndarray, width: float, known: float = 1e-10) -> None:
    """Assert that lower and upper ends hold the values, and the truth as far as it is known."""
    assert np.all((marginals.lower <= marginals.values) & (marginals.values <= marginals.upper))
    assert np.all((marginals.lower >= 0.0) & (marginals.upper <= 1.0))
    assert np.all((marginals.lower <= truth + known) & (truth - known <= marginals.upper))
    assert np.max(marginals.upper - marginals.lower, initial=0.0) <= width


def brute_base_polytope_gap(f: SubmodularFunction, s: np.ndarray) -> tuple[float, float]:
    """Return how much s exceeds f on its worst set, and |s(V) - f(V)|: both 0 inside B(f)."""
    X = enumerate_x(f.n)
    return float((X @ s - f(X)).max()), float(abs(s.sum() - f(np.ones(f.n))))


# ------------------------------------------------------------------------- the table of functions

Factory = Callable[[np.random.Generator, int], SubmodularFunction]


def random_cut(rng: np.random.Generator, n: int) -> Cut:
    """Return a cut with about half of all pairs; some weights are 0, some elements isolated."""
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)]).reshape(-1, 2)
    pairs = rng.permutation(pairs)[: (len(pairs) + 1) // 2]
    weights = rng.exponential(size=len(pairs)) * (rng.random(len(pairs)) < 0.8)
    return Cut(n, pairs, weights)


def random_wide_cut(rng: np.random.Generator, n: int) -> SubmodularFunction:
    """Return a cut whose weights span ten orders of magnitude, with fields that match."""
    cut = random_cut(rng, n)
    wide = cut.with_weights(10.0 ** rng.uniform(-5, 5, len(cut.weights)))
    return wide + Modular(rng.normal(size=n) * 10.0 ** rng.uniform(-5, 5, n))


def random_directed_cut(rng: np.random.Generator, n: int) -> SubmodularFunction:
    arcs = np.array([(i, j) for i in range(n) for j in range(n) if i != j]).reshape(-1, 2)
    return Cut.directed(n, arcs, rng.exponential(size=len(arcs)))


def random_grid(rng: np.random.Generator, n: int) -> SubmodularFunction:
    """Return a grid with n elements, as square as n allows, with diagonals and a field."""
    height = max(h for h in range(1, int(n**0.5) + 1) if n % h == 0)
    cuts = grid_cuts((height, n // height), neighbors=8)
    total = sum(weight * cut for weight, cut in zip(rng.exponential(size=4), cuts, strict=True))
    return total - Modular(rng.normal(size=n))


def random_concave(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a concave sequence of size + 1 values, neither monotone nor 0 at 0."""
    slopes = np.sort(rng.normal(size=size))[::-1] * 2.0
    return rng.normal() + np.concatenate([[0.0], np.cumsum(slopes)])


def random_subset(rng: np.random.Generator, n: int, least: int = 1) -> np.ndarray:
    size = int(rng.integers(min(least, n), n + 1))
    return rng.permutation(n)[:size]


def random_subset_cardinality(rng: np.random.Generator, n: int) -> ConcaveCardinality:
    subset = random_subset(rng, n)
    return ConcaveCardinality(random_concave(rng, len(subset)), n=n, subset=subset)


def random_piecewise(rng: np.random.Generator, n: int) -> ConcaveOfModular:
    w = rng.exponential(size=n) * (rng.random(n) < 0.9)
    inner = np.sort(rng.uniform(0.0, w.sum() + 1e-3, 3))
    points = np.concatenate([[0.0], inner, [w.sum() + 1.0]])
    slopes = np.sort(rng.normal(size=4))[::-1]
    return ConcaveOfModular((points, np.cumsum([1.0, *(slopes * np.diff(points))])), w)


def random_coverage(rng: np.random.Generator, n: int) -> Coverage:
    return Coverage(rng.random((n, n + 2)) < 0.35, rng.exponential(size=n + 2))


def random_facility(rng: np.random.Generator, n: int) -> FacilityLocation:
    """Return benefits with zeros and with ties."""
    benefits = rng.exponential(size=(4, n)) * (rng.random((4, n)) < 0.8)
    benefits[0] = np.rint(benefits[0])
    return FacilityLocation(benefits)


def random_potts(rng: np.random.Generator, n: int) -> PnPotts:
    members = [random_subset(rng, n) for _ in range(3)] + [np.arange(n)]
    return PnPotts(n, members, rng.exponential(size=4))


def random_robust(rng: np.random.Generator, n: int, side: int) -> RobustPn:
    members = [random_subset(rng, n) for _ in range(3)] + [np.arange(n)]
    weights = [rng.exponential(size=len(group)) for group in members]
    return RobustPn(n, members, rng.exponential(size=4) * 2, weights, side=side)


def random_kernel(rng: np.random.Generator, n: int) -> np.ndarray:
    A = rng.normal(size=(n, n + 1))
    return A @ A.T / n + 0.1 * np.eye(n)


class BoltzmannMachine:
    """The set function -sum_j softplus(b_j + W_j'x) with W >= 0, a callable that pickles."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self.W = rng.exponential(size=(3, n))
        self.b = rng.normal(size=3) - self.W.sum(axis=1) / 2

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0.0, self.b + x @ self.W.T).sum(axis=-1)


def random_graph_sum(rng: np.random.Generator, n: int) -> SubmodularFunction:
    return (
        1.5 * random_cut(rng, n)
        + 0.5 * random_potts(rng, n)
        + random_subset_cardinality(rng, n)
        + 0.7 * random_coverage(rng, n)
        + random_facility(rng, n)
        + random_robust(rng, n, side=0)
        - Modular(rng.normal(size=n))
    )


def random_mixed_sum(rng: np.random.Generator, n: int) -> SubmodularFunction:
    return (
        random_cut(rng, n)
        + 0.5 * LogDet(random_kernel(rng, n))
        + 2.0 * ConcaveOfModular(np.sqrt, rng.exponential(size=n))
        - Modular(rng.normal(size=n))
    )


FAMILIES: dict[str, Factory] = {
    "modular": lambda rng, n: Modular(rng.normal(size=n)),
    "cut": random_cut,
    "cut, wide weights": random_wide_cut,
    "directed cut": random_directed_cut,
    "grid": random_grid,
    "cardinality": lambda rng, n: ConcaveCardinality(random_concave(rng, n)),
    "cardinality of a subset": random_subset_cardinality,
    "cardinality + modular": lambda rng, n: (
        0.5 * ConcaveCardinality(random_concave(rng, n)) + Modular(rng.normal(size=n))
    ),
    "concave of modular": lambda rng, n: ConcaveOfModular(np.log1p, rng.exponential(size=n)),
    "piecewise of modular": random_piecewise,
    "concave of modular + modular": lambda rng, n: (
        3.0 * ConcaveOfModular(np.sqrt, rng.exponential(size=n)) - Modular(rng.normal(size=n))
    ),
    "coverage": random_coverage,
    "facility location": random_facility,
    "P^n Potts": random_potts,
    "robust P^n, side 1": lambda rng, n: random_robust(rng, n, side=1),
    "robust P^n, side 0": lambda rng, n: random_robust(rng, n, side=0),
    "log-det": lambda rng, n: LogDet(random_kernel(rng, n)),
    "Gaussian information": lambda rng, n: GaussianInformation(random_kernel(rng, n)),
    "callable": lambda rng, n: SetFunction(BoltzmannMachine(rng, n), n, vectorized=True),
    "sum with a graph": random_graph_sum,
    "sum without a graph": random_mixed_sum,
}

# The families that a max-flow can solve: graph() is not None.
GRAPH_FAMILIES = {
    name: make
    for name, make in FAMILIES.items()
    if make(np.random.default_rng(0), 6).graph() is not None
}
