"""Valid calls of every entry of the compiled kernels, and what their results must satisfy.

An entry is a function of the module (``grid``) or a method of a class in it (``Kernel.perturb``).
A maker returns the object (None for a function), the arguments by name, and a check of the
results, which are the value returned and the arrays among the arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Arguments = dict[str, Any]
Random = np.random.Generator


class Call(NamedTuple):
    """One call that must succeed."""

    owner: Any
    arguments: Arguments
    right: Callable[[Any], bool] = lambda result: True


Maker = Callable[[ModuleType, Random], Call]

MAKERS: dict[str, Maker] = {}
"""For each entry, how to make a valid call."""


def entry(name: str) -> Callable[[Maker], Maker]:
    """Register the maker of an entry."""

    def register(maker: Maker) -> Maker:
        MAKERS[name] = maker
        return maker

    return register


def entries(module: ModuleType) -> set[str]:
    """Return the names of all that can be called in a module of kernels."""
    found = set()
    for name, value in vars(module).items():
        if inspect.isclass(value):
            methods = {
                m for m in dir(value) if not m.startswith("_") and callable(getattr(value, m))
            }
            found |= {f"{name}.{method}" for method in methods}
        elif callable(value) and not name.startswith("_"):
            found.add(name)
    return found


# ---- max-flow ----------------------------------------------------------------------------------

_STENCILS = {
    2: [[0, 0, 1], [0, 1, 0]],
    3: [[0, 0, 1], [0, 1, 0], [1, 0, 0]],
    4: [[0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, -1]],
    13: [list(s) for s in product((0, 1), (-1, 0, 1), (-1, 0, 1)) if s > (0, 0, 0)],
}


def _rows_first(steps: list[list[int]]) -> list[list[int]]:
    return [[0, 0, 1]] + [step for step in steps if step != [0, 0, 1]]


@entry("grid")
def _grid(module: ModuleType, rng: Random) -> Call:
    steps = _rows_first(_STENCILS[int(rng.choice(list(_STENCILS)))])
    deep = len(steps) in (3, 13)
    low = 3 if len(steps) == 13 else 1
    wide = 80 if rng.random() < 0.2 else 9  # more than a word of 64
    shape = [int(rng.integers(2, 4)) if deep else 1, int(rng.integers(low, 9))]
    shape.append(int(rng.integers(low, wide)))
    functions = int(rng.integers(1, 3))
    planes = [
        (int(rng.integers(functions)), k, _weight(rng, int(np.prod(shape))))
        for k in range(len(steps))
    ]
    names = ("depth", "height", "width", "steps", "functions", "planes")
    arguments = dict(zip(names, [*shape, np.array(steps), functions, planes], strict=True))
    return Call(None, arguments, lambda kernel: kernel.nodes == np.prod(shape))


def _weight(rng: Random, size: int) -> Any:
    scale = 10.0 ** rng.integers(-9, 9) if rng.random() < 0.2 else 1.0
    return scale * float(rng.random()) if rng.integers(2) else scale * rng.random(size)


def _graph_arguments(rng: Random, least: int = 0) -> tuple[int, Any]:
    n = int(rng.integers(max(2, least), 12 if rng.random() < 0.8 else 100))
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    return n, np.ascontiguousarray(rng.permutation(pairs)[: 2 * n].astype(np.int64))


@entry("graph")
def _graph(module: ModuleType, rng: Random) -> Call:
    n, edges = _graph_arguments(rng)
    functions = int(rng.integers(1, 3))
    start = np.sort(rng.integers(0, len(edges) + 1, functions + 1))
    start[0], start[-1] = 0, len(edges)
    arguments = {
        "nodes": n,
        "edges": edges,
        "dense": bool(rng.integers(2)),
        "start": start,
        "edge": rng.permutation(len(edges)),
        "weight": rng.random(len(edges)),
    }
    return Call(None, arguments, lambda kernel: (kernel.nodes, kernel.edges) == (n, len(edges)))


def _kernel(module: ModuleType, rng: Random) -> Any:
    name = "grid" if rng.integers(2) else "graph"
    return getattr(module, name)(**MAKERS[name](module, rng).arguments)


def _problems(kernel: Any, rng: Random) -> tuple[int, Arguments]:
    m = int(rng.integers(1, 4))
    rows = m if rng.integers(2) else 1
    theta = rng.normal(size=(m, kernel.nodes)) * 10.0 ** rng.integers(-3, 4)
    factors = None
    if rng.integers(2):
        functions = kernel.functions if rng.integers(2) else 1
        factors = rng.random((rows, functions, kernel.edges))
    arguments = {"theta": theta, "alpha": rng.random((rows, kernel.functions)), "factors": factors}
    return m, {**arguments, "threads": int(rng.integers(1, 4))}


@entry("Kernel.maximize")
def _maximize(module: ModuleType, rng: Random) -> Call:
    kernel = _kernel(module, rng)
    m, given = _problems(kernel, rng)
    if rng.random() < 0.2:
        given["theta"][rng.random(given["theta"].shape) < 0.1] = np.inf
    y, values = np.zeros((m, kernel.nodes), np.uint8), np.zeros(m)
    stats = np.zeros((m, kernel.functions))

    def right(_: Any) -> bool:
        field = np.where(np.isfinite(given["theta"]), given["theta"], 0.0)
        value = (field * y).sum(axis=1) - (given["alpha"] * stats).sum(axis=1)
        size = 1e-9 * (1 + np.abs(field).sum(axis=1))
        fixed = given["theta"] == np.inf
        best = values >= np.where(fixed.any(axis=1), -np.inf, -size)  # y = 0 is worth 0
        close = np.abs(value - values) <= size
        return bool(y.max() <= 1 and (stats >= 0).all() and y[fixed].all() and (close & best).all())

    flags = {"maximal": bool(rng.integers(2)), "wide": bool(rng.integers(2))}
    memory = {"memory": 1 << 40} if rng.integers(2) else {}
    return Call(
        kernel, {**given, **flags, "y": y, "values": values, "stats": stats, **memory}, right
    )


@entry("Kernel.perturb")
def _perturb(module: ModuleType, rng: Random) -> Call:
    kernel = _kernel(module, rng)
    m, given = _problems(kernel, rng)
    n, k, s = kernel.nodes, kernel.functions, int(rng.integers(1, 12))
    counts = np.zeros((m, n), np.uint32)
    samples = np.zeros((m, s, n), np.uint8) if rng.integers(2) else None

    def right(_: Any) -> bool:
        if samples is not None and not np.array_equal(samples.sum(axis=1, dtype=np.uint32), counts):
            return False
        return bool(counts.max(initial=0) <= s and np.isfinite(given["theta"]).all())

    more = {
        "noisy": int(rng.integers(n + 1)),
        "key": int(rng.integers(2**63)),
        "numbers": rng.integers(2**63, size=m, dtype=np.uint64),
        "first_sample": int(rng.integers(2**31)),
        "counts": counts,
        "values": np.zeros((m, s)),
        "stats": np.zeros((m, s, k)),
        "samples": samples,
    }
    return Call(kernel, {**given, **more}, right)


@entry("Kernel.min_norm")
def _min_norm(module: ModuleType, rng: Random) -> Call:
    kernel = _kernel(module, rng)
    m, given = _problems(kernel, rng)
    s = np.zeros((m, kernel.nodes))

    def right(_: Any) -> bool:  # a point of the base polytope: s(V) = f(V) - theta(V)
        total = np.abs(given["theta"]).sum(axis=1) + s.shape[1]
        return bool((np.abs(s.sum(axis=1) + given["theta"].sum(axis=1)) <= 1e-6 * total).all())

    out = {"s": s, "gaps": np.zeros(m), "levels": np.zeros(m, np.int64)}
    return Call(kernel, {**given, **out}, right)


@entry("Kernel.workspace")
def _workspace(module: ModuleType, rng: Random) -> Call:
    flags = {"wide": bool(rng.integers(2)), "min_norm": bool(rng.integers(2))}
    arguments = {"threads": int(rng.integers(1, 9)), **flags}
    return Call(_kernel(module, rng), arguments, lambda found: 0 < found[0] <= found[1])


@entry("draw_noise")
def _draw_noise(module: ModuleType, rng: Random) -> Call:
    out = np.full(int(rng.integers(200)), np.nan)
    key, problem = (int(rng.integers(2**63)) for _ in range(2))
    arguments = {"key": key, "problem": problem, "sample": int(rng.integers(2**32)), "out": out}
    return Call(None, arguments, lambda _: bool((np.abs(out) < 23).all()))


@entry("has_avx2")
def _has_avx2(module: ModuleType, rng: Random) -> Call:
    return Call(None, {}, lambda found: isinstance(found, bool))


# ---- transfer matrices ---------------------------------------------------------------------------


def _image(
    rng: Random, most: int = 7, count: int | None = None
) -> tuple[tuple[int, int, int], Arguments]:
    h, w = (int(size) for size in rng.integers(1, most, 2))
    images = int(rng.integers(4)) if count is None else count
    scale = 10.0 ** rng.integers(-2, 4)  # beyond 300 or so logarithms take over
    common = [1 if rng.integers(2) else images for _ in range(2)]
    return (images, h, w), {
        "t": scale * rng.normal(size=(images, h, w)),
        "across": scale * rng.random((common[0], h, w - 1)),
        "down": scale * rng.random((common[1], h - 1, w)),
    }


def _pair(shape: tuple[int, ...], *names: str) -> Arguments:
    return {name: np.zeros(shape) for name in names}


def _ordered(low: Any, high: Any) -> bool:
    return bool(np.isfinite(low).all() and (low <= high).all())


@entry("strip_fields")
def _strip_fields(module: ModuleType, rng: Random) -> Call:
    shape, image = _image(rng)
    out = _pair(shape, "low", "high")
    more = {"window": int(rng.integers(1, 7)), "threads": int(rng.integers(1, 4))}
    return Call(None, {**image, **more, **out}, lambda _: _ordered(out["low"], out["high"]))


@entry("strip_chain")
def _strip_chain(module: ModuleType, rng: Random) -> Call:
    shape, image = _image(rng)
    out = _pair(shape, "odds_low", "odds_high")
    window = int(rng.integers(1, 7))
    fields = _pair(shape, "low", "high")
    module.strip_fields(**image, window=window, threads=1, **fields)
    reference = rng.integers(0, 2, shape).astype(np.uint8)
    more = {"window": window, "reference": reference, "threads": int(rng.integers(1, 4))}
    return Call(
        None,
        {**image, **more, **fields, **out},
        lambda _: _ordered(out["odds_low"], out["odds_high"]),
    )


@entry("strip_marginals")
def _strip_marginals(module: ModuleType, rng: Random) -> Call:
    shape, image = _image(rng)
    out = _pair(shape, "odds_low", "odds_high")
    more = {name: int(rng.integers(1, 7)) for name in ("window", "reach", "threads")}
    more["step"] = int(rng.integers(1, more["window"] + 1))
    return Call(
        None,
        {**image, **more, **out},
        lambda _: _ordered(out["odds_low"], out["odds_high"]),
    )


@entry("strip_gradient")
def _strip_gradient(module: ModuleType, rng: Random) -> Call:
    shape, image = _image(rng)
    out = {f"grad_{name}": np.zeros((shape[0], *value.shape[1:])) for name, value in image.items()}
    more = {
        "window": int(rng.integers(1, 7)),
        "reference": rng.integers(0, 2, shape).astype(np.uint8),
        "threads": int(rng.integers(1, 4)),
        "upper": bool(rng.integers(2)),
    }
    return Call(
        None,
        {**image, **more, **out},
        lambda _: all(bool(np.isfinite(gradient).all()) for gradient in out.values()),
    )


@entry("strip_transfer")
def _strip_transfer(module: ModuleType, rng: Random) -> Call:
    (_, h, w), image = _image(rng, 4, count=1)
    odds = np.zeros((1, h, w)) if rng.integers(2) else None
    x = np.array(list(product((0.0, 1.0), repeat=h * w))).reshape(-1, h, w)
    value = (image["t"] * x).sum(axis=(1, 2))
    value -= (image["across"] * np.abs(np.diff(x, axis=2))).sum(axis=(1, 2))
    value -= (image["down"] * np.abs(np.diff(x, axis=1))).sum(axis=(1, 2))
    exact = value.max() + np.log(np.exp(value - value.max()).sum())
    size = 1e-9 * (1 + sum(float(np.abs(part).sum()) for part in image.values()))
    return Call(None, {**image, "odds": odds}, lambda found: abs(found - exact) <= size)


# ---- Markov chains -------------------------------------------------------------------------------


@entry("grid_scan")
def _grid_scan(module: ModuleType, rng: Random) -> Call:
    _, image = _image(rng, 10, count=1)
    return Call(None, {"across": image["across"][0], "down": image["down"][0]})


@entry("graph_scan")
def _graph_scan(module: ModuleType, rng: Random) -> Call:
    n, edges = _graph_arguments(rng)
    order = rng.permutation(n)
    position = np.argsort(order)
    ends = position[np.concatenate([edges, edges[:, ::-1]])]
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    start = np.concatenate([[0], np.cumsum(np.bincount(ends[:, 0], minlength=n))])
    neighbour = np.ascontiguousarray(ends[:, 1])
    arguments = {"order": order, "start": start, "neighbour": neighbour}
    return Call(None, {**arguments, "weight": rng.random(len(ends))})


@entry("clusters")
def _clusters(module: ModuleType, rng: Random) -> Call:
    n, edges = _graph_arguments(rng)
    return Call(None, {"n": n, "edges": edges, "threshold": rng.normal(size=len(edges))})


@entry("term_scan")
def _term_scan(module: ModuleType, rng: Random) -> Call:
    return Call(None, {"n": int(rng.integers(1, 12))})


@entry("TermScan.add_facilities")
def _add_facilities(module: ModuleType, rng: Random) -> Call:
    n, users = (int(size) for size in rng.integers(1, 12, 2))
    arguments = {"weight": float(rng.random()), "benefits": rng.random((users, n))}
    return Call(module.term_scan(n), arguments)


@entry("TermScan.add_groups")
def _add_groups(module: ModuleType, rng: Random) -> Call:
    n, groups = (int(size) for size in rng.integers(1, 8, 2))
    member, group = np.nonzero(rng.random((n, groups)) < 0.5)
    points = [np.append(0.0, np.cumsum(rng.random(int(rng.integers(1, 9))))) for _ in range(groups)]
    arguments = {
        "weight": float(rng.random()),
        "start": np.searchsorted(member, np.arange(n + 1)),
        "group": group,
        "weights": rng.random(len(group)),
        "piece": np.append(0, np.cumsum([len(row) for row in points])),
        "point": np.concatenate(points),
        "value": np.concatenate([np.sqrt(row) for row in points]),
    }
    return Call(module.term_scan(n), arguments)


@entry("TermScan.add_determinant")
def _add_determinant(module: ModuleType, rng: Random) -> Call:
    n = int(rng.integers(1, 12))
    A = rng.normal(size=(n, n))
    arguments = {"weight": float(rng.random()), "kernel": A @ A.T + np.eye(n)}
    return Call(module.term_scan(n), {**arguments, "on": bool(rng.integers(2))})


# Of each kind of term, the argument whose last axis is that of the elements.
_LAST = {"add_facilities": "benefits", "add_groups": "", "add_determinant": "kernel"}


def _chains(n: int, rng: Random, shape: tuple[int, ...]) -> Arguments:
    return {
        "states": rng.integers(0, 2, shape).astype(np.uint8),
        "theta": rng.normal(size=(shape[0] if rng.integers(2) else 1, n)),
        "key": int(rng.integers(2**63)),
        "problems": rng.integers(2**63, size=shape[0], dtype=np.uint64),
        "threads": int(rng.integers(1, 4)),
    }


@entry("Scan.run")
def _scan_run(module: ModuleType, rng: Random) -> Call:
    return _run_of(*_some_scan(module, rng), rng)


@entry("TermScan.run")
def _term_scan_run(module: ModuleType, rng: Random) -> Call:
    name = str(rng.choice(list(_LAST)))
    call = MAKERS[f"TermScan.{name}"](module, rng)
    getattr(call.owner, name)(**call.arguments)
    made = call.arguments
    n = len(made["start"]) - 1 if "start" in made else made[_LAST[name]].shape[1]
    return _run_of(call.owner, n, rng)


def _some_scan(module: ModuleType, rng: Random) -> tuple[Any, int]:
    """Return a grid or a graph, and its size."""
    name = "grid_scan" if rng.integers(2) else "graph_scan"
    made = MAKERS[name](module, rng).arguments
    n = len(made["order"]) if "order" in made else len(made["across"]) * made["down"].shape[1]
    return getattr(module, name)(**made), n


def _run_of(scan: Any, n: int, rng: Random) -> Call:
    """Return some sweeps."""
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 3)), n)
    given = _chains(n, rng, shape)
    if shape[1] == 2:
        given["states"][:, 1] |= given["states"][:, 0]
    times = {"scale": float(rng.random()), "first": int(rng.integers(50, 2**31))}
    times |= {"count": int(rng.integers(20)), "step": int(rng.choice([-1, 1]))}
    states = given["states"]
    return Call(
        scan,
        {**given, **times},
        lambda _: bool(states.max() <= 1 and (states[:, 0] <= states[:, -1]).all()),
    )


@entry("Clusters.move")
def _clusters_move(module: ModuleType, rng: Random) -> Call:
    made = MAKERS["clusters"](module, rng).arguments
    given = _chains(made["n"], rng, (int(rng.integers(1, 4)), made["n"]))
    return Call(
        module.clusters(**made),
        {**given, "time": int(rng.integers(2**31))},
        lambda _: bool(given["states"].max() <= 1),
    )


# ---- messages and filters ------------------------------------------------------------------------


def _pairwise(rng: Random, name: str) -> tuple[int, int, Arguments]:
    n, edges = _graph_arguments(rng)
    given = {"t": rng.normal(size=n), "edges": edges, name: 2 * rng.random(len(edges))}
    return n, len(edges), {**given, "sweeps": int(rng.integers(1, 30)), "tol": 1e-9}


@entry("propagate_logs")
def _propagate_logs(module: ModuleType, rng: Random) -> Call:
    _, m, given = _pairwise(rng, "coupling")
    u = np.zeros(2 * m)
    more = {"rho": rng.random(m), "damping": float(rng.uniform(0.1, 1)), "u": u}
    return Call(None, {**given, **more}, lambda off: bool(off >= 0 and np.isfinite(u).all()))


@entry("propagate_extremes")
def _propagate_extremes(module: ModuleType, rng: Random) -> Call:
    _, m, given = _pairwise(rng, "coupling")
    u = np.zeros((2, 2 * m))
    return Call(
        None,
        {**given, "u": u},
        lambda off: bool(off >= 0 and (u[0] <= u[1] + 1e-9).all()),
    )


@entry("mean_field")
def _mean_field(module: ModuleType, rng: Random) -> Call:
    n, _, given = _pairwise(rng, "weights")
    rows = int(rng.integers(1, 4))
    values = np.full(rows, np.nan)
    out = {"logits": rng.normal(size=(rows, n)), "values": values}
    return Call(
        None,
        {**given, **out},
        lambda sweeps: bool(1 <= sweeps <= given["sweeps"] and np.isfinite(values).all()),
    )


def _filtered(rng: Random) -> tuple[Any, Any, Any]:
    images, *size = (int(s) for s in rng.integers(1, 12, 4))
    radius = rng.integers(0, 3, 3)
    window = tuple(int(s) for s in 2 * radius + 1)
    padded = rng.normal(size=(images, *(s + w - 1 for s, w in zip(size, window, strict=True))))
    return padded, window, (images, *size)


@entry("filter_field")
def _filter_field(module: ModuleType, rng: Random) -> Call:
    padded, window, shape = _filtered(rng)
    weights, field = rng.normal(size=window), np.zeros(shape)
    patches = np.lib.stride_tricks.sliding_window_view(padded, window, axis=(1, 2, 3))
    expected = np.einsum("izyxabc,abc->izyx", patches, weights)
    arguments = {"padded": padded, "weights": weights, "field": field}
    return Call(None, arguments, lambda _: bool(np.allclose(field, expected, atol=1e-9)))


@entry("filter_sums")
def _filter_sums(module: ModuleType, rng: Random) -> Call:
    padded, window, shape = _filtered(rng)
    x, sums = rng.normal(size=shape), np.zeros((shape[0], *window))
    patches = np.lib.stride_tricks.sliding_window_view(padded, window, axis=(1, 2, 3))
    expected = np.einsum("izyxabc,izyx->iabc", patches, x)
    arguments = {"padded": padded, "x": x, "sums": sums}
    return Call(None, arguments, lambda _: bool(np.allclose(sums, expected, atol=1e-9)))


# ---- conditional probabilities -----------------------------------------------------------------


def _perturbed(rng: Random, n: int) -> tuple[int, Arguments]:
    problems, samples = (int(s) for s in rng.integers(1, 5, 2))
    arguments = {
        "theta": rng.normal(size=(problems, n)),
        "labels": rng.integers(0, 2, (problems, samples, n)).astype(np.uint8),
        "numbers": rng.integers(0, 2**63, problems).astype(np.uint64),
        "key": int(rng.integers(0, 2**63)),
        "first_sample": int(rng.integers(0, 2**31)),
        "rounds": int(rng.integers(0, 4)),
        "threads": int(rng.integers(1, 3)),
        "sums": np.zeros((problems, n)),
    }
    return samples, arguments


def _are_sums(sums: Any, samples: int) -> bool:
    return bool(np.all((sums >= 0.0) & (sums <= samples * (1.0 + 1e-6))))


@entry("conditional_grid")
def _conditional_grid(module: ModuleType, rng: Random) -> Call:
    height, width = (int(s) for s in rng.integers(2, 8, 2))
    n = height * width
    samples, arguments = _perturbed(rng, n)
    weights = rng.exponential(size=(1, 2, n))
    weights[0, 0].reshape(height, width)[:, -1] = 0.0
    weights[0, 1, n - width :] = 0.0
    arguments |= {"offsets": np.array([1, width], dtype=np.int64), "weights": weights}
    return Call(None, arguments, lambda _: _are_sums(arguments["sums"], samples))


@entry("conditional_graph")
def _conditional_graph(module: ModuleType, rng: Random) -> Call:
    n = int(rng.integers(2, 12))
    samples, arguments = _perturbed(rng, n)
    edges = np.array([(i, i + 1) for i in range(n - 1)], dtype=np.int64)
    arguments |= {"edges": edges, "weights": rng.exponential(size=(1, n - 1))}
    return Call(None, arguments, lambda _: _are_sums(arguments["sums"], samples))


@entry("flip_labels")
def _flip_labels(module: ModuleType, rng: Random) -> Call:
    n = int(rng.integers(2, 12))
    samples, arguments = _perturbed(rng, n)
    problems = len(arguments["theta"])
    del arguments["rounds"], arguments["sums"]
    arguments |= {
        "edges": np.array([(i, i + 1) for i in range(n - 1)], dtype=np.int64),
        "weights": rng.exponential(size=(1, n - 1)),
        "labels": rng.integers(0, 3, (problems, n)).astype(np.uint8),
        "costs": rng.exponential(size=(problems, n, 2)),
        "samples": samples,
        "values": np.zeros(problems),
        "fields": np.zeros((problems, n)),
        "cuts": np.zeros((problems, n - 1)),
    }
    return Call(None, arguments, lambda _: bool((arguments["values"] >= -1e-9).all()))
