"""The table that `benchmarks.same` compares: functions, solvers, inference, samplers and files.

A case is a name and a call. Cases use today's argument names; `call` translates them to those of
the installed version, so that one table runs before and after arguments are renamed.
"""

from __future__ import annotations

import inspect
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls

# Called without arguments; loops bind theirs as defaults.
Case = tuple[str, Callable[..., object]]

# Former names of arguments, in the order in which they are tried.
ALIASES = {
    "n_samples": ("samples", "count"),
    "seed": ("key",),
    "max_iter": ("max_steps", "max_sweeps", "max_iterations", "max_rounds", "max_tries"),
}

METHODS = (
    "exact", "enumeration", "elimination", "transfer", "cardinality", "lfield", "logistic", "power",
    "trw", "superdifferential", "mean_field", "bethe", "strips",
)  # fmt: skip
SAMPLERS = ("cftp", "ancestral", "rejection", "gibbs", "swendsen_wang", "perturb")
TARGETS = ("lower", "upper", "exact", "estimate")
SHORT: dict[str, dict[str, Any]] = {
    "logistic": {"n_samples": 20, "seed": 1},
    "power": {"n_samples": 20, "seed": 2},
    "ti": {"n_samples": 5, "steps": 4, "seed": 3, "budget": 1e8},
    "ais": {"n_samples": 4, "steps": 20, "seed": 4, "budget": 1e8},
    "sampling": {"n_samples": 20, "seed": 5},
    "rejection": {"max_iter": 1000},
    "gibbs": {"burn_in": 20},
    "swendsen_wang": {"burn_in": 10},
}


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function with options under the names that it has for them.

    The signature decides. If it accepts any option and passes it on, the names are tried in turn:
    an unknown one raises a TypeError before any work.
    """
    parameters = inspect.signature(function).parameters
    hands_on = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    spellings = []
    for name in options:
        names = (name, *ALIASES.get(name, ()))
        known = [word for word in names if word in parameters]
        spellings.append(known[:1] or (names if hands_on else names[:1]))
    refusals = []
    for words in itertools.product(*spellings):
        try:
            return function(*arguments, **dict(zip(words, options.values(), strict=True)))
        except TypeError as error:
            refusals.append(error)
    raise refusals[0]


# -------------------------------------------------------------------------------------- functions


class Machine:
    """The set function -sum_j softplus(b_j + W_j'x), W >= 0: a restricted Boltzmann machine."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self.W = rng.exponential(size=(3, n))
        self.b = rng.normal(size=3) - self.W.sum(axis=1) / 2

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the values of rows of x."""
        return np.asarray(-np.logaddexp(0.0, self.b + x @ self.W.T).sum(axis=-1))


def random_cut(rng: np.random.Generator, n: int, edges: int) -> ls.Cut:
    """Return a cut of some of the pairs, with exponential weights."""
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    chosen = rng.permutation(len(pairs))[:edges]
    return ls.Cut(n, pairs[np.sort(chosen)], rng.exponential(size=len(chosen)))


def concave(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a concave sequence of size + 1 values that starts at 0."""
    return np.append(0.0, np.cumsum(np.sort(rng.normal(size=size))[::-1]))


def kernel(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a positive definite matrix."""
    root = rng.normal(size=(n, n + 1))
    return np.asarray(root @ root.T / n + 0.1 * np.eye(n))


def grid(rng: np.random.Generator, shape: tuple[int, ...], neighbors: int | None = None) -> Any:
    """Return a grid with a random weight per direction and a random field."""
    cuts = ls.grid_cuts(shape, neighbors=neighbors)
    total = sum(weight * cut for weight, cut in zip(rng.uniform(0.3, 1, 13), cuts, strict=False))
    return total - ls.Modular(rng.normal(size=cuts[0].n))


def families(n: int = 8) -> dict[str, Any]:
    """Return one small function per family."""
    rng = np.random.default_rng(0)
    groups = [rng.permutation(n)[:size] for size in (3, 5, n)]
    weights = [rng.exponential(size=len(group)) for group in groups]
    points = np.array([0.0, 1.0, 2.5, 40.0])
    found = {
        "modular": ls.Modular(rng.normal(size=n)),
        "cut": random_cut(rng, n, 14),
        "directed cut": ls.Cut.directed(n, [(0, 1), (1, 2), (2, 0), (5, 3)], [1.0, 2.0, 0.5, 3.0]),
        "grid": grid(rng, (2, 4), 8),
        "cardinality": ls.ConcaveCardinality(concave(rng, n)),
        "subset": ls.ConcaveCardinality(concave(rng, 3), n=n, subset=groups[0]),
        "root of modular": 3.0 * ls.ConcaveOfModular(np.sqrt, rng.exponential(size=n)),
        "piecewise": ls.ConcaveOfModular((points, [0.0, 2.0, 3.0, 3.5]), rng.exponential(size=n)),
        "coverage": ls.Coverage(rng.random((n, 10)) < 0.35, rng.exponential(size=10)),
        "facility": ls.FacilityLocation(rng.exponential(size=(4, n))),
        "potts": ls.PnPotts(n, groups, rng.exponential(size=3)),
        "robust 1": ls.RobustPn(n, groups, rng.exponential(size=3), weights, side=1),
        "robust 0": ls.RobustPn(n, groups, rng.exponential(size=3), weights, side=0),
        "log-det": ls.LogDet(kernel(rng, n)),
        "information": ls.GaussianInformation(kernel(rng, n)),
        "callable": ls.SetFunction(Machine(rng, n), n, vectorized=True),
    }
    found["graph sum"] = (
        1.5 * found["cut"] + 0.5 * found["potts"] + found["subset"] + 0.7 * found["coverage"]
    ) - found["modular"]
    found["mixed sum"] = found["cut"] + 0.5 * found["log-det"] + found["root of modular"]
    return found


def functions() -> Iterator[Case]:
    """Yield values, gains, greedy, Lovasz and multilinear extensions, and conditioning."""
    rng = np.random.default_rng(1)
    for name, f in families().items():
        X = (rng.random((6, f.n)) < 0.5).astype(np.uint8)
        w, q = rng.normal(size=(4, f.n)), rng.random((3, f.n))
        fixed = {1: 1, 4: 0, 6: 1}

        def condition(f: Any = f, X: Any = X, fixed: Any = fixed) -> object:
            g, constant = f.condition(fixed)
            rows = X[:, : g.n]
            return constant, g(rows), g.gains(rows)

        yield f"{name}/values", lambda f=f, X=X: f(X)
        yield f"{name}/gains", lambda f=f, X=X: f.gains(X)
        yield f"{name}/greedy", lambda f=f, w=w: f.greedy(w)
        yield f"{name}/lovasz", lambda f=f, w=w: f.lovasz(w)
        yield f"{name}/multilinear", lambda f=f, q=q: f.multilinear(q)
        yield f"{name}/condition", condition
        yield f"{name}/check", lambda f=f: call(ls.check_submodular, f, n_samples=50).pairs_checked


# ---------------------------------------------------------------------------------------- solvers


def structures() -> dict[str, list[Any]]:
    """Return lists of functions, one per kind of structure that a solver distinguishes."""
    rng = np.random.default_rng(2)
    small = families()
    return {
        "2-D 4": list(ls.grid_cuts((9, 11))),
        "2-D 8": list(ls.grid_cuts((9, 11), neighbors=8)),
        "2-D wide": list(ls.grid_cuts((40, 70))),
        "3-D 6": list(ls.grid_cuts((4, 5, 6))),
        "3-D 18": list(ls.grid_cuts((3, 4, 5), neighbors=18)),
        "3-D 26": list(ls.grid_cuts((3, 4, 5), neighbors=26)),
        "1-D": list(ls.grid_cuts((60,))),
        "weighted grid": [f.with_weights(rng.random(len(f.edges))) for f in ls.grid_cuts((9, 11))],
        "grid and field": [*ls.grid_cuts((9, 11)), ls.Modular(rng.normal(size=99))],
        "sparse": [random_cut(rng, 60, 90), random_cut(rng, 60, 60)],
        "dense": [random_cut(rng, 20, 190)],
        "auxiliary": [small[name] for name in ("cut", "potts", "coverage", "robust 0", "facility")],
        "counts": [small["cardinality"]],
        "opaque": [small["log-det"], small["cut"]],
    }


def solvers() -> Iterator[Case]:
    """Yield maximisers, moments under noise, and min-norm points."""
    rng = np.random.default_rng(3)
    for name, f in families().items():
        theta = rng.normal(size=(4, f.n))
        yield f"{name}/maximize", lambda f=f, theta=theta: ls.maximize(f, theta)
        for tie in ("min", "max"):
            yield (
                f"{name}/maximize 0, tie {tie}",
                lambda f=f, tie=tie: ls.maximize(f, np.zeros(f.n), tie=tie),
            )
        yield f"{name}/min-norm", lambda f=f: ls.min_norm_point(f).s
        yield f"{name}/min-norm, batch", lambda f=f, theta=theta: ls.min_norm_point(f, theta).s
    for name, listed in structures().items():
        s = ls.prepare(listed)
        theta = rng.normal(size=(3, s.n))
        alpha = rng.uniform(0.2, 1.0, size=(3, len(listed)))
        tied = np.rint(2 * theta)
        ones = np.ones(len(listed))
        fixed = np.where(rng.random(theta.shape) < 0.1, np.copysign(np.inf, theta), theta)
        per_problem = rng.uniform(0.5, 1.5, size=(3, len(s.edges)))
        per_function = rng.uniform(0.5, 1.5, size=(3, len(listed), len(s.edges)))
        calls: dict[str, tuple[Any, ...]] = {
            "": (theta, alpha),
            ", one": (theta[0], alpha[0]),
            ", alpha 0": (theta, 0.0 * ones),
            ", infinite": (fixed, alpha),
        }
        if len(s.edges):
            calls[", edge weights"] = (theta, alpha, per_problem)
            calls[", edge weights per function"] = (theta, alpha, per_function)
        for what, given in calls.items():
            yield f"{name}/maximize{what}", lambda s=s, given=given: s.maximize(*given)
            if what != ", alpha 0":
                yield f"{name}/perturb{what}", lambda s=s, given=given: perturbed(s, *given)
                yield (
                    f"{name}/conditional means{what}",
                    lambda s=s, given=given: with_noise(s.conditional_means, *given),
                )
        for tie in ("min", "max"):
            yield (
                f"{name}/maximize, tie {tie}",
                lambda s=s, tied=tied, ones=ones, tie=tie: s.maximize(tied, ones, tie=tie),
            )


def with_noise(method: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call a method of a prepared solver that draws noise; given are fields, weights, factors."""
    theta, alpha, *factors = given
    if factors:
        options["edge_weights"] = factors[0]
    return call(method, theta, alpha, n_samples=5, seed=7, **options)


def perturbed(s: Any, *given: Any) -> object:
    """Return all that a perturbed solve returns."""
    out = with_noise(s.perturb, *given, return_samples=True)
    return out.mean, out.stats, out.values, out.samples


# -------------------------------------------------------------------------------------- inference


def models() -> dict[str, Any]:
    """Return the models that inference is compared on."""
    rng = np.random.default_rng(4)
    small = families(10)
    fh, fv = ls.grid_cuts((30, 30))
    noisy = ls.Flips(0.1).sample(ls.make_silhouettes(1, (30, 30), seed=1)[0], seed=2)
    edges = np.concatenate([f.edges for f in ls.grid_cuts((8, 9))])
    contrast = ls.Cut(72, edges, rng.uniform(0.2, 1.0, len(edges)))
    model = ls.LogSupermodular
    certain = ls.AsymmetricFlips(0.2, 0.0).sample(np.arange(64) % 5 < 2, seed=3)
    chain = ls.grid_cuts((50,))[0].with_weights(rng.exponential(size=49))
    return {
        "grid 6x7": model(grid(rng, (6, 7)), constant=1.25),
        "posterior 30x30": model(1.2 * fh + 0.8 * fv).observe(ls.Flips(0.1), noisy),
        "grid 12x40": model(grid(rng, (12, 40))),
        "grid 10x10, 8 neighbours": model(grid(rng, (10, 10), 8)),
        "volume 3x4x4": model(grid(rng, (3, 4, 4))),
        "grid 10x10, fixed": model(grid(rng, (10, 10))).condition({0: 1, 33: 0, 47: 1, 99: 0}),
        "grid 8x8, certain": model(grid(rng, (8, 8))).observe(
            ls.AsymmetricFlips(0.2, 0.0), certain
        ),
        "grid 8x9 as Cut": model(contrast - ls.Modular(rng.normal(size=72))),
        "grid 5x6, 1e12": model(1e12 * grid(rng, (5, 6))),
        "grid 5x6, 1e200": model(1e200 * ls.grid_cuts((5, 6))[0] + grid(rng, (5, 6))),
        "chain": model(chain - ls.Modular(rng.normal(size=50))),
        "sparse graph": model(random_cut(rng, 30, 45) - ls.Modular(rng.normal(size=30))),
        "cardinality": model(
            ls.ConcaveCardinality(concave(rng, 40)) + ls.Modular(rng.normal(size=40))
        ),
        "modular": model(small["modular"]),
        "directed cut": model(small["directed cut"]),
        "coverage": model(small["coverage"]),
        "facility location": model(small["facility"]),
        "log-det": model(small["log-det"]),
        "graph sum": model(0.3 * small["graph sum"]),
    }


def bound(found: Any) -> object:
    """Return the numbers of a bound on log Z."""
    ends = found.interval or (None, None)
    return found.value, *ends, found.stderr, TARGETS.index(found.target), found.certified


def means(found: Any) -> object:
    """Return the numbers of marginals."""
    return found.values, found.lower, found.upper, found.stderr


def inference() -> Iterator[Case]:
    """Yield log Z and marginals by every method, brackets, modes and probabilities."""
    for name, m in models().items():
        for method in (*METHODS, "ti", "ais"):
            yield (
                f"{name}/log Z, {method}",
                lambda m=m, w=method: bound(call(m.log_partition, w, **SHORT.get(w, {}))),
            )
        for method in ("auto", *METHODS, "sampling"):
            yield (
                f"{name}/marginals, {method}",
                lambda m=m, w=method: means(call(m.marginals, w, **SHORT.get(w, {}))),
            )
        yield f"{name}/bracket", lambda m=m: ends(m.bracket())
        yield f"{name}/bracket, cheap", lambda m=m: ends(m.bracket(budget=1e5))
        yield f"{name}/bracket, 95 %", lambda m=m: ends(m.bracket(1e6, confidence=0.95, seed=6))
        yield f"{name}/mode", lambda m=m: m.mode()
        for side in ("exact", "lower", "upper"):
            yield (
                f"{name}/log p of the mode, {side}",
                lambda m=m, side=side: m.log_prob(np.asarray(m.mode()), side=side),
            )


def ends(found: Any) -> object:
    """Return the ends of a bracket."""
    return found.lower, found.upper


def samplers() -> Iterator[Case]:
    """Yield samples of every sampler."""
    for name, m in models().items():
        for method in SAMPLERS:
            yield (
                f"{name}/{method}",
                lambda m=m, w=method: call(
                    m.sample, n_samples=3, method=w, seed=8, budget=1e8, **SHORT.get(w, {})
                ),
            )
    rng = np.random.default_rng(5)
    f, theta = grid(rng, (6, 7)), rng.normal(size=(3, 42))
    yield "fields", lambda: ls.sampling.sample_fields(f, theta, seed=9)
    yield (
        "coupled",
        lambda: means(call(ls.sampling.coupled_marginals, f, sweeps=20, n_samples=10, seed=9)),
    )


def files() -> Iterator[Case]:
    """Yield results of models that were written in the UAI format and read again."""
    chosen = models()
    for name in ("grid 6x7", "chain", "sparse graph", "grid 8x9 as Cut", "grid 10x10, fixed"):
        with tempfile.TemporaryDirectory() as folder:
            path, evidence = Path(folder) / "model.uai", Path(folder) / "model.uai.evid"
            ls.write_uai(chosen[name], path, evidence)
            m = ls.read_uai(path, evidence)
            text = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        X = np.random.default_rng(6).integers(0, 2, size=(5, m.f.n))
        yield f"{name}/bytes", lambda text=text: text
        yield f"{name}/values", lambda m=m, X=X: (m.constant, m.f(X))
        yield f"{name}/bracket", lambda m=m: ends(m.bracket())
        yield f"{name}/marginals", lambda m=m: means(m.marginals())
        yield f"{name}/mode", lambda m=m: m.mode()


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "functions": functions,
    "solvers": solvers,
    "inference": inference,
    "samplers": samplers,
    "files": files,
}
