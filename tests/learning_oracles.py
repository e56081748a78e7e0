"""Small learning problems whose every labelling can be listed."""

from __future__ import annotations

import numpy as np
import oracles
from scipy.optimize import minimize

import logsuper as ls
from logsuper.learning import Examples, Penalty, make_examples
from logsuper.learning._examples import Group

# Families without wide weights, whose statistics span ten orders of magnitude.
LEARNABLE = ("cut", "grid", "coverage", "cardinality of a subset", "log-det", "robust P^n, side 1")


def small_examples(
    family: str,
    seed: int,
    *,
    n: int = 4,
    count: int = 3,
    observed: bool = True,
    scale: bool = True,
    modular: str = "pixel",
    features: int = 0,
    factors: str = "none",
) -> Examples:
    """Return labelled examples of two functions of a family.

    Each image has factors on the edges of its own for "image", and one for each function, too, for
    "function".
    """
    rng = np.random.default_rng([seed, n])
    functions = [oracles.FAMILIES[family](rng, n) for _ in range(2)]
    x = rng.integers(0, 2, (count, n))
    edges = len(ls.prepare(functions).edges)
    sizes = {"none": None, "image": (count, edges), "function": (count, 2, edges)}
    size = sizes[factors]
    return make_examples(
        functions,
        labels=x,
        observed=ls.Flips(0.2).sample(x, seed=seed) if observed else None,
        channel=ls.Flips(0.2) if observed else None,
        modular=modular,
        scale=scale and observed,
        features=rng.normal(size=(count, n, features)) if features else None,
        edge_weights=None if size is None else rng.exponential(size=size),
    )


def all_statistics(data: Examples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return phi_i(y) - phi_i(x_i) for all y, (N, 2^n, P); the part of w = 1, (N, 2^n); and all y.

    Written from the definition, without the code that learners use.
    """
    (group,) = data.groups
    layout = data.layout
    y = oracles.enumerate_x(group.prepared.n).astype(float)
    differences, constants = [], []
    for i in range(group.count):
        x = group.labels[i].astype(float)
        functions = _functions_of(group, i)
        values = np.stack([f(y) for f in functions], axis=1)
        own = np.stack([f(x) for f in functions])
        columns = [own - values]
        if layout.modular == 1:
            columns.append((y - x).sum(axis=1, keepdims=True))
        elif layout.modular:
            columns.append(y - x)
        if group.features is not None:
            columns.append((y - x) @ group.features.values[i])
        constant = np.zeros(len(y))
        if group.observed is not None:
            odds = data.channel.log_odds(group.read_observed(np.array([i])))[0]
            if layout.scale:
                columns.append(((y - x) @ odds)[:, None])
            else:
                constant = (y - x) @ odds
        differences.append(np.concatenate(columns, axis=1))
        constants.append(constant)
    return np.array(differences), np.array(constants), y


def _functions_of(group: Group, i: int) -> list[ls.SubmodularFunction]:
    """Return the functions of an example, with its factors on their edges."""
    functions = list(group.prepared.functions)
    if group.edge_weights is None:
        return functions
    place = {tuple(edge): e for e, edge in enumerate(np.sort(group.prepared.edges).tolist())}
    result = []
    for k, cut in enumerate(functions):
        where = [place[tuple(edge)] for edge in np.sort(cut.edges).tolist()]
        factors = group.edge_weights[i]
        own = factors[k] if factors.ndim == 2 else factors
        result.append(ls.Cut(cut.n, cut.edges, cut.weights * own[where]))
    return result


class Enumerated:
    """The objective penalty + mean_j max_y (a_jy + d_jy' theta), with every plane listed."""

    def __init__(self, data: Examples, penalty: Penalty, slopes, offsets) -> None:
        self.penalty, self.lower = penalty, data.layout.lower
        self.slopes, self.offsets = np.asarray(slopes), np.asarray(offsets)

    def loss(self, theta: np.ndarray) -> float:
        return float((self.slopes @ theta + self.offsets).max(axis=1).mean())

    def value(self, theta: np.ndarray) -> float:
        return self.penalty.value(theta) + self.loss(theta)

    def solve(self) -> tuple[np.ndarray, float]:
        """Return the optimum by sequential quadratic programming on the epigraph."""
        blocks, _, size = self.slopes.shape
        start = np.maximum(self.penalty.center, self.lower)
        heights = (self.slopes @ start + self.offsets).max(axis=1)

        def objective(v: np.ndarray) -> tuple[float, np.ndarray]:
            gradient = np.append(self.penalty.gradient(v[:size]), np.full(blocks, 1.0 / blocks))
            return self.penalty.value(v[:size]) + v[size:].mean(), gradient

        rows = np.concatenate([-self.slopes, np.zeros((*self.slopes.shape[:2], blocks))], axis=2)
        for j in range(blocks):
            rows[j, :, size + j] = 1.0
        rows, offsets = rows.reshape(-1, size + blocks), self.offsets.ravel()
        found = minimize(
            objective,
            np.append(start, heights),
            jac=True,
            method="SLSQP",
            bounds=[(low, None) for low in self.lower] + [(None, None)] * blocks,
            constraints={
                "type": "ineq",
                "fun": lambda v: rows @ v - offsets,
                "jac": lambda v: rows,
            },
            options={"ftol": 1e-13, "maxiter": 500},
        )
        theta = np.maximum(found.x[:size], self.lower)
        return theta, self.value(theta)
