"""Calls of the families of functions, and of what every function can do."""

from __future__ import annotations

from typing import Any

import numpy as np

import logsuper as ls
from tests.fuzzing import checks
from tests.fuzzing.calls import Call, Maker
from tests.fuzzing.hostile import Rng, pick, some_function
from tests.oracles import (
    BoltzmannMachine,
    enumerate_x,
    random_concave,
    random_kernel,
    random_subset,
)


def _size(rng: Rng) -> int:
    return int(rng.integers(1, 7))


def _edges(rng: Rng, n: int) -> np.ndarray:
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    return rng.permutation(pairs)[: n + 1]


# ------------------------------------------------------------------------------------ constructors


def _modular(rng: Rng) -> Call:
    return Call(ls.Modular, {"t": rng.normal(size=_size(rng))}, checks.is_function)


def _cut(rng: Rng) -> Call:
    n = _size(rng)
    edges = _edges(rng, n)
    weights = rng.exponential(size=len(edges))
    return Call(ls.Cut, {"n": n, "edges": edges, "weights": weights}, checks.is_function)


def _directed(rng: Rng) -> Call:
    n = _size(rng)
    arcs = _edges(rng, n)[:, ::-1]
    weights = rng.exponential(size=len(arcs))
    return Call(ls.Cut.directed, {"n": n, "arcs": arcs, "weights": weights}, checks.is_function)


def _with_weights(rng: Rng) -> Call:
    cut = pick(rng, (*ls.grid_cuts((2, 3)), ls.Cut(4, [(0, 1), (1, 2), (2, 3)])))
    weights = rng.exponential(size=len(cut.edges))
    return Call(cut.with_weights, {"weights": weights}, checks.is_function)


def _cardinality(rng: Rng) -> Call:
    n = _size(rng)
    subset = random_subset(rng, n)
    g = random_concave(rng, len(subset))
    return Call(ls.ConcaveCardinality, {"g": g, "n": n, "subset": subset}, checks.is_function)


def _cardinality_callable(rng: Rng) -> Call:
    arguments = {"g": pick(rng, (np.sqrt, np.log1p)), "n": _size(rng)}
    return Call(ls.ConcaveCardinality, arguments, checks.is_function)


def _of_modular(rng: Rng) -> Call:
    arguments = {"g": pick(rng, (np.sqrt, np.log1p)), "w": rng.exponential(size=_size(rng))}
    return Call(ls.ConcaveOfModular, arguments, checks.is_function)


def _piecewise(rng: Rng) -> Call:
    w = rng.exponential(size=_size(rng))
    points = np.array([0.0, w.sum() / 2, w.sum() + 1.0])
    arguments = {"g": (points, np.array([0.0, 2.0, 3.0])), "w": w}
    return Call(ls.ConcaveOfModular, arguments, checks.is_function)


def _coverage(rng: Rng) -> Call:
    n = _size(rng)
    sets: Any = rng.random((n, n + 1)) < 0.4
    if rng.integers(2):
        sets = [np.flatnonzero(row).tolist() for row in sets]
        weights: Any = pick(rng, (1.0, rng.exponential(size=n + 1)))
    else:
        weights = rng.exponential(size=n + 1)
    return Call(ls.Coverage, {"sets": sets, "weights": weights}, checks.is_function)


def _facility(rng: Rng) -> Call:
    benefits = rng.exponential(size=(3, _size(rng)))
    return Call(ls.FacilityLocation, {"benefits": benefits}, checks.is_function)


def _potts(rng: Rng) -> Call:
    n = _size(rng)
    members = [random_subset(rng, n).tolist() for _ in range(2)]
    arguments = {"n": n, "members": members, "weight": rng.exponential(size=2)}
    return Call(ls.PnPotts, arguments, checks.is_function)


def _robust(rng: Rng) -> Call:
    n = _size(rng)
    members = [random_subset(rng, n).tolist() for _ in range(2)]
    arguments = {
        "n": n,
        "members": members,
        "threshold": rng.exponential(size=2),
        "weights": [rng.exponential(size=len(group)) for group in members],
        "side": int(rng.integers(2)),
    }
    return Call(ls.RobustPn, arguments, checks.is_function)


def _log_det(rng: Rng) -> Call:
    return Call(ls.LogDet, {"K": random_kernel(rng, _size(rng))}, checks.is_function)


def _information(rng: Rng) -> Call:
    return Call(ls.GaussianInformation, {"K": random_kernel(rng, _size(rng))}, checks.is_function)


def _callable(rng: Rng) -> Call:
    n = _size(rng)
    machine = BoltzmannMachine(rng, n)
    arguments = {"function": machine, "n": n, "check": True, "vectorized": bool(rng.integers(2))}

    def check(given: Any, f: Any) -> str | None:
        # without `check` a function may be anything, and that is the user's word
        return checks.is_function(given, f) if given["check"] is True else None

    return Call(ls.SetFunction, arguments, check)


def _sum(rng: Rng) -> Call:
    n = _size(rng)
    terms = [(float(rng.exponential()), some_function(rng, n)) for _ in range(2)]
    return Call(ls.Sum, {"terms": terms}, checks.is_function)


def _grid(rng: Rng) -> Call:
    shape = tuple(int(d) for d in rng.integers(1, 4, int(rng.integers(1, 4))))
    most = {1: (2,), 2: (4, 8), 3: (6, 26)}[len(shape)]
    arguments = {
        "shape": shape,
        "neighbors": pick(rng, (None, *most)),
        "spacing": pick(rng, (None, rng.uniform(0.5, 2.0, len(shape)))),
    }
    return Call(ls.grid_cuts, arguments, checks.is_function)


# -------------------------------------------------------------------------------------- operations


def _add(rng: Rng) -> Call:
    n = _size(rng)
    arguments = {"f": some_function(rng, n), "g": some_function(rng, n)}
    return Call(lambda f, g: f + g, arguments, checks.is_function, owner="f")


def _subtract(rng: Rng) -> Call:
    n = _size(rng)
    arguments = {"f": some_function(rng, n), "g": ls.Modular(rng.normal(size=n))}
    return Call(lambda f, g: f - g, arguments, checks.is_function, owner="f")


def _times(rng: Rng) -> Call:
    arguments = {"f": some_function(rng), "a": float(rng.exponential())}
    return Call(lambda f, a: a * f, arguments, checks.is_function, owner="f")


def _value(rng: Rng) -> Call:
    f = some_function(rng)
    X = rng.integers(0, 2, (3, f.n))
    return Call(lambda f, X: f(X), {"f": f, "X": X}, checks.is_finite, owner="f")


def _gains(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {"f": f, "X": rng.integers(0, 2, (3, f.n))}
    return Call(lambda f, X: f.gains(X), arguments, checks.is_finite, owner="f")


def _greedy(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {"f": f, "w": rng.normal(size=(2, f.n))}
    return Call(lambda f, w: f.greedy(w), arguments, checks.is_finite, owner="f")


def _lovasz(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {"f": f, "w": rng.normal(size=(2, f.n))}
    return Call(lambda f, w: f.lovasz(w), arguments, checks.is_finite, owner="f")


def _multilinear(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {"f": f, "q": rng.random((2, f.n))}
    return Call(lambda f, q: f.multilinear(q), arguments, checks.is_finite, owner="f")


def _condition(rng: Rng) -> Call:
    f = some_function(rng)
    chosen = random_subset(rng, f.n).tolist()
    arguments = {"f": f, "fixed": {i: int(rng.integers(2)) for i in chosen}}

    def check(given: Any, result: Any) -> str | None:
        g, constant = result
        f, fixed = given["f"], given["fixed"]
        if not checks.can_list(f):
            return None
        X = enumerate_x(f.n)
        agree = X[[all(x[i] == v for i, v in fixed.items()) for x in X]]
        free = [i for i in range(f.n) if i not in fixed]
        expected, found = f(agree), constant + g(agree[:, free])
        slack = checks.ROUNDING * max(float(np.abs(checks.listed(f)).max()), 1e-300)
        off = float(np.abs(expected - found).max())
        return None if off <= slack else f"f(a, y) differs by {off:g} from c + g(y)"

    return Call(lambda f, fixed: f.condition(fixed), arguments, check, owner="f")


def _check_submodular(rng: Rng) -> Call:
    arguments = {"f": some_function(rng), "n_samples": 20, "seed": 0, "tol": 1e-9}
    return Call(ls.check_submodular, arguments)


def _graph(rng: Rng) -> Call:
    n, aux = _size(rng) + 1, 2
    arcs = _edges(rng, n + aux)
    arguments = {
        "n": n,
        "n_aux": aux,
        "tails": arcs[:, 0],
        "heads": arcs[:, 1],
        "costs": rng.exponential(size=len(arcs)),
        "unary": rng.normal(size=n + aux),
        "constant": float(rng.normal()),
    }

    def check(given: Any, graph: Any) -> str | None:
        if graph.n > checks.LISTED:
            return None
        return checks.is_finite(given, graph.value(enumerate_x(graph.n)))

    return Call(ls.PairwiseGraph.from_arcs, arguments, check)


def _graph_value(rng: Rng) -> Call:
    graph = ls.PnPotts(4, [[0, 1, 2], [1, 2, 3]], 2.0).graph()
    return Call(graph.value, {"Y": rng.integers(0, 2, (3, 4))}, checks.is_finite)


MAKERS: dict[str, Maker] = {
    "Modular": _modular,
    "Cut": _cut,
    "Cut.directed": _directed,
    "Cut.with_weights": _with_weights,
    "ConcaveCardinality": _cardinality,
    "ConcaveCardinality of a callable": _cardinality_callable,
    "ConcaveOfModular": _of_modular,
    "ConcaveOfModular, piecewise": _piecewise,
    "Coverage": _coverage,
    "FacilityLocation": _facility,
    "PnPotts": _potts,
    "RobustPn": _robust,
    "LogDet": _log_det,
    "GaussianInformation": _information,
    "SetFunction": _callable,
    "Sum": _sum,
    "grid_cuts": _grid,
    "SubmodularFunction +": _add,
    "SubmodularFunction -": _subtract,
    "SubmodularFunction *": _times,
    "SubmodularFunction()": _value,
    "SubmodularFunction.gains": _gains,
    "SubmodularFunction.greedy": _greedy,
    "SubmodularFunction.lovasz": _lovasz,
    "SubmodularFunction.multilinear": _multilinear,
    "SubmodularFunction.condition": _condition,
    "check_submodular": _check_submodular,
    "PairwiseGraph.from_arcs": _graph,
    "PairwiseGraph.value": _graph_value,
}
