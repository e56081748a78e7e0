"""Calls of solvers, models, samplers, channels and data sets."""

from __future__ import annotations

import functools
import importlib
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls
from logsuper import sampling
from logsuper.bounds._methods import METHODS
from tests.fuzzing import checks
from tests.fuzzing.calls import Call, Maker
from tests.fuzzing.hostile import Rng, pick, some_function
from tests.oracles import enumerate_x, random_subset

# ----------------------------------------------------------------------------------------- solvers


def _maximize(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {
        "f": f,
        "theta": rng.normal(size=pick(rng, (f.n, (2, f.n)))),
        "n_jobs": pick(rng, (None, 1, 2)),
        "tie": pick(rng, (None, "min", "max")),
    }
    return Call(ls.maximize, arguments, checks.is_maximum)


def _maximize_tiles(rng: Rng) -> Call:
    shape = pick(rng, ((7,), (4, 5), (3, 2, 4)))
    f = ls.Sum([(float(rng.random()), cut) for cut in ls.grid_cuts(shape)])
    arguments = {
        "f": f,
        "theta": rng.normal(size=shape),
        "tie": pick(rng, (None, "min", "max")),
        "block": pick(rng, (None, 2, 3)),
        "halo": pick(rng, (None, 0, 1)),
        "n_jobs": pick(rng, (None, 2)),
    }

    def check(given: Any, found: Any) -> str | None:
        y = found.y.ravel()
        theta = np.asarray(given["theta"], dtype=np.float64).ravel()
        return checks.maximum(
            f, theta, y, float(np.where(np.isfinite(theta), theta, 0.0) @ y - f(y))
        )

    return Call(ls.maximize_tiles, arguments, check)


def _perturb_tiles(rng: Rng) -> Call:
    shape = pick(rng, ((7,), (4, 5), (3, 2, 4)))
    f = ls.Sum([(float(rng.random()), cut) for cut in ls.grid_cuts(shape)])
    arguments = {
        "f": f,
        "theta": rng.normal(size=shape),
        "n_samples": 2,
        "seed": pick(rng, (0, None)),
        "block": pick(rng, (None, 2, 3)),
        "number": 0,
    }

    def check(given: Any, found: Any) -> str | None:
        return None if found.max(initial=0) <= given["n_samples"] else f"counts {found!r}"

    return Call(ls.perturb_tiles, arguments, check)


def _marginals_tiles(rng: Rng) -> Call:
    shape, neighbors = pick(rng, (((4, 5), 4), ((7,), None), ((3, 4), 8), ((2, 3, 2), 26)))
    f = ls.Sum([(float(rng.random()), cut) for cut in ls.grid_cuts(shape, neighbors)])
    arguments = {
        "f": f,
        "theta": rng.normal(size=shape),
        "width": 0.1,
        "window": pick(rng, (2, 5)),
        "block": 2,
        "halo": pick(rng, (0, 1)),
    }
    return Call(ls.marginals_tiles, arguments, checks.is_probabilities)


def _prepare(rng: Rng) -> Call:
    n = int(rng.integers(1, 6))
    return Call(ls.prepare, {"functions": [some_function(rng, n) for _ in range(2)]})


def _prepared(rng: Rng) -> tuple[dict[str, Any], int]:
    n = int(rng.integers(1, 6))
    functions = [some_function(rng, n) for _ in range(2)]
    edges = len(ls.prepare(functions).edges)
    factors = rng.exponential(size=(2, edges)) if edges and rng.integers(2) else None
    arguments = {
        "functions": functions,
        "theta": rng.normal(size=(2, n)),
        "alpha": rng.exponential(size=pick(rng, ((2,), (2, 2)))),
        "edge_weights": factors,
        "n_jobs": pick(rng, (None, 1, 2)),
    }
    return arguments, n


def _prepared_maximize(rng: Rng) -> Call:
    arguments, _ = _prepared(rng)
    arguments["tie"] = pick(rng, (None, "min", "max"))

    def call(functions: Any, theta: Any, alpha: Any, **options: Any) -> Any:
        return ls.prepare(functions).maximize(theta, alpha, **options)

    def check(given: Any, result: Any) -> str | None:
        alpha, theta = np.asarray(given["alpha"], float), np.asarray(given["theta"], float)
        if given["edge_weights"] is not None or alpha.ndim > 1 or theta.ndim < 1:
            return checks.is_bits(given, result[0])
        total = ls.Sum(
            [(a, f) for a, f in zip(np.atleast_1d(alpha), given["functions"], strict=True)]
        )
        return checks.maximum(total, theta, *result[:2])

    return Call(call, arguments, check)


def _prepared_perturb(rng: Rng) -> Call:
    arguments, _ = _prepared(rng)
    arguments |= {
        "n_samples": int(rng.integers(1, 5)),
        "seed": int(rng.integers(2**63)),
        "return_samples": bool(rng.integers(2)),
        "first_sample": 0,
        "numbers": np.arange(2),
    }

    def call(
        functions: Any, theta: Any, alpha: Any, n_samples: Any, seed: Any, **options: Any
    ) -> Any:
        return ls.prepare(functions).perturb(theta, alpha, n_samples, seed, **options)

    def check(given: Any, found: Any) -> str | None:
        complaint = checks.is_probabilities(given, found.mean)
        return complaint or (
            None if found.samples is None else checks.is_bits(given, found.samples)
        )

    return Call(call, arguments, check)


def _min_norm(rng: Rng) -> Call:
    f = some_function(rng)
    theta = pick(rng, (None, rng.normal(size=f.n), rng.normal(size=(2, f.n))))
    arguments = {"f": f, "theta": theta, "n_jobs": pick(rng, (None, 2))}

    def check(given: Any, found: Any) -> str | None:
        return checks.is_finite(given, found.s)  # a gap is a square, and may overflow

    return Call(ls.min_norm_point, arguments, check)


def _maximizer(rng: Rng) -> Call:
    f = some_function(rng)
    point = ls.min_norm_point(f)
    arguments = {"shift": float(rng.normal()), "tie": pick(rng, (None, "min", "max"))}
    return Call(point.maximizer, arguments, checks.is_bits)


# ------------------------------------------------------------------------------------------ models


def _model(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {"f": f, "constant": float(rng.normal()), "shape": pick(rng, (None, (1, f.n)))}
    return Call(ls.LogSupermodular, arguments)


def _mode(rng: Rng) -> Call:
    def check(given: Any, y: Any) -> str | None:
        y = y.ravel()
        return checks.maximum(given["f"], np.zeros(given["f"].n), y, -given["f"](y))

    return Call(lambda f: ls.LogSupermodular(f).mode(), {"f": some_function(rng)}, check)


# A legal value of each option of a method, other than its default.
_OPTIONS: dict[str, Callable[[Rng, int], Any]] = {
    "budget": lambda rng, n: 1e8,
    "memory_limit": lambda rng, n: 1e8,
    "limit": lambda rng, n: 12,
    "n_jobs": lambda rng, n: 2,
    "n_samples": lambda rng, n: int(rng.integers(20, 40)),
    "steps": lambda rng, n: int(rng.integers(4, 9)),
    "variance_reduction": lambda rng, n: pick(
        rng, ("auto", "none", "latin_hypercube", "regression")
    ),
    "confidence": lambda rng, n: 0.9,
    "rigorous": lambda rng, n: bool(rng.integers(2)),
    "seed": lambda rng, n: int(rng.integers(2**31)),
    "form": lambda rng, n: pick(rng, ("plain", "smoothed", "ratio")),
    "a": lambda rng, n: 0.5,
    "starts": lambda rng, n: rng.random((2, n)),
    "tol": lambda rng, n: 1e-8,
    "window": lambda rng, n: int(rng.integers(1, 4)),
    "side": lambda rng, n: pick(rng, ("both", "lower", "upper")),
    "sampler": lambda rng, n: "cftp",
    "max_iter": lambda rng, n: 1000,
    "burn_in": lambda rng, n: 3,
    "thin": lambda rng, n: 2,
    "chains": lambda rng, n: 2,
    "start": lambda rng, n: rng.integers(0, 2, n),
    "sweeps": lambda rng, n: int(rng.integers(1, 4)),
}


# Coupling from the past may take very long, and says so in the end.
_PATIENCE = {method: {"max_iter": 2**7} for method in ("cftp", "sampling", "ti", "ais")}


def _some_options(rng: Rng, function: Callable[..., Any], n: int) -> dict[str, Any]:
    """Return legal values of some options of a function; the expensive counts are always given."""
    names = [
        p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    return {
        name: _OPTIONS[name](rng, n)
        for name in names
        if name in _OPTIONS and (name in ("n_samples", "steps", "seed") or rng.integers(2))
    }


def _suited(rng: Rng, method: str) -> ls.SubmodularFunction:
    """Return a function that a method can work on."""
    if method in ("transfer", "strips"):
        fh, fv = ls.grid_cuts(pick(rng, ((2, 3), (2, 2), (1, 4), (3, 2))))
        return rng.exponential() * fh + rng.exponential() * fv - ls.Modular(rng.normal(size=fh.n))
    if method in ("elimination", "trw", "bethe", "mean_field", "swendsen_wang"):
        n = int(rng.integers(2, 8))
        pairs = np.stack(np.triu_indices(n, 1), axis=1)
        return ls.Cut(n, pairs, rng.exponential(size=len(pairs))) - ls.Modular(rng.normal(size=n))
    if method == "ancestral":
        n = int(rng.integers(2, 8))
        pairs = [(int(rng.integers(i)), i) for i in range(1, n)]
        return ls.Cut(n, pairs, rng.exponential(size=n - 1)) - ls.Modular(rng.normal(size=n))
    if method == "cardinality":
        return ls.ConcaveCardinality(np.sqrt, int(rng.integers(1, 7)))
    return some_function(rng)


def _in_sampling(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(
        importlib.import_module(f"logsuper.sampling.{module}"), name
    )
    return function


def _log_partition(method: str, rng: Rng) -> Call:
    if method in METHODS:
        function = METHODS[method].find("log_partition")
    else:
        function = _in_sampling(sampling.ESTIMATORS[method], "log_partition")
    assert function is not None
    f = _suited(rng, method)
    arguments = {"f": f, "method": method, **_some_options(rng, function, f.n)}
    arguments |= _PATIENCE.get(method, {})
    if method in sampling.ESTIMATORS:
        arguments |= {"budget": 1e10, "callback": None}

    def call(f: Any, method: Any, **options: Any) -> Any:
        return ls.LogSupermodular(f).log_partition(method, **options)

    return Call(call, arguments, checks.is_bound)


def _marginals(method: str, rng: Rng) -> Call:
    f = _suited(rng, method)
    options: dict[str, Any] = {}
    if method != "auto":
        found = sampling.marginals if method == "sampling" else METHODS[method].find("marginals")
        assert found is not None
        options = _some_options(rng, found, f.n)
    arguments = {"f": f, "method": method, **options, **_PATIENCE.get(method, {})}

    def call(f: Any, method: Any, **options: Any) -> Any:
        return ls.LogSupermodular(f).marginals(method, **options)

    return Call(call, arguments, checks.is_marginals)


def _sample(method: str, rng: Rng) -> Call:
    f = _suited(rng, method)
    function = _in_sampling(sampling.SAMPLERS[method].module, "sample")
    arguments = {
        "f": f,
        "n_samples": int(rng.integers(0, 4)),
        "method": method,
        **_some_options(rng, function, f.n),
        **_PATIENCE.get(method, {}),
        "seed": int(rng.integers(1000)),
        "budget": 1e10,
        "callback": None,
    }
    if arguments.get("start") is not None:
        arguments["n_samples"], arguments["chains"] = 2, 2

    def call(f: Any, n_samples: Any, method: Any, seed: Any, **options: Any) -> Any:
        return ls.LogSupermodular(f).sample(n_samples, method, seed, **options)

    def check(given: Any, found: Any) -> str | None:
        wanted = (given["n_samples"], *ls.LogSupermodular(given["f"]).shape)
        shape = None if found.shape == wanted else f"shape {found.shape}, wanted {wanted}"
        return shape or checks.is_bits(given, found)

    return Call(call, arguments, check)


def _bracket(rng: Rng) -> Call:
    arguments = {
        "f": some_function(rng),
        "budget": 1e7,
        "confidence": pick(rng, (None, 0.9)),
        "seed": int(rng.integers(1000)),
        "n_jobs": pick(rng, (None, 2)),
    }

    def call(f: Any, **options: Any) -> Any:
        return ls.LogSupermodular(f).bracket(**options)

    return Call(call, arguments, checks.is_bracket)


def _log_prob(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {
        "f": f,
        "X": rng.integers(0, 2, (3, f.n)),
        "side": pick(rng, ("exact", "lower", "upper")),
        "budget": 1e7,
    }

    def call(f: Any, X: Any, **options: Any) -> Any:
        return ls.LogSupermodular(f).log_prob(X, **options)

    def check(given: Any, found: Any) -> str | None:
        f = given["f"]
        if not checks.can_list(f):
            return None
        truth, slack = checks.log_partition(f)
        expected = -np.asarray(f(np.asarray(given["X"]))) - truth
        above = given["side"] != "upper" and (found > expected + 2 * slack).any()
        below = given["side"] != "lower" and (found < expected - 2 * slack).any()
        return f"{found}, but log p = {expected}" if above or below else None

    return Call(call, arguments, check)


def _condition(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {
        "f": f,
        "fixed": {i: int(rng.integers(2)) for i in random_subset(rng, f.n).tolist()},
    }

    def call(f: Any, fixed: Any) -> Any:
        m = ls.LogSupermodular(f).condition(fixed)
        return m.mode(), m.sample(2, "gibbs", seed=0, burn_in=2, thin=1)

    def check(given: Any, found: Any) -> str | None:
        for i, v in given["fixed"].items():
            if (found[0][i], *found[1][:, i]) != (v, v, v):
                return f"element {i} is not {v}"
        return checks.is_bits(given, found)

    return Call(call, arguments, check)


def _observe(rng: Rng) -> Call:
    f = some_function(rng)
    x = rng.integers(0, 2, f.n).astype(float)
    if rng.integers(2):
        x[0] = np.nan
    arguments = {"f": f, "channel": _channel(rng), "observed": x}

    def call(f: Any, channel: Any, observed: Any) -> Any:
        return ls.LogSupermodular(f).observe(channel, observed).mode()

    return Call(call, arguments, checks.is_bits)


def _sample_fields(rng: Rng) -> Call:
    f = some_function(rng)
    arguments = {
        "f": f,
        "theta": rng.normal(size=(2, f.n)),
        "seed": 1,
        "n_jobs": None,
        "max_iter": 2**7,
    }
    return Call(sampling.sample_fields, arguments, checks.is_bits)


def _coupled(rng: Rng) -> Call:
    arguments = {
        "f": some_function(rng),
        "sweeps": 5,
        "n_samples": 10,
        "seed": 1,
        "n_jobs": None,
        "confidence": 0.9,
    }
    return Call(sampling.coupled_marginals, arguments, checks.is_marginals)


def _write_uai(rng: Rng) -> Call:
    f = _suited(rng, "bethe")
    arguments = {"f": f, "constant": float(rng.normal())}

    def call(f: Any, constant: Any) -> Any:
        m = ls.LogSupermodular(f, constant)
        with tempfile.TemporaryDirectory() as folder:
            ls.write_uai(m, Path(folder) / "model.uai")
            return ls.read_uai(Path(folder) / "model.uai").f(enumerate_x(m.n))

    return Call(call, arguments)


# ---------------------------------------------------------------------------------------- channels


def _channel(rng: Rng) -> Any:
    return pick(
        rng,
        (
            ls.Flips(0.1),
            ls.AsymmetricFlips(0.1, 0.2),
            ls.Gaussian((0.0, 1.0), 0.5),
            ls.Gaussian((0.0, 1.0), (0.5, 0.4)),
            ls.Missing(0.3, ls.Flips(0.1)),
            ls.Missing(0.3),
        ),
    )


def _flips(rng: Rng) -> Call:
    rate = rng.uniform(0.05, 0.4, 2)
    arguments = pick(
        rng,
        (
            {"rate": 0.1, "groups": None},
            {"rate": rate, "groups": rng.integers(0, 2, 4)},
            {"rate": rng.uniform(0.05, 0.4, (2, 2)), "groups": None},
        ),
    )
    return Call(_log_odds_of(ls.Flips), arguments)


def _asymmetric(rng: Rng) -> Call:
    return Call(_log_odds_of(ls.AsymmetricFlips), {"on": 0.1, "off": rng.uniform(0.05, 0.4, 4)})


def _gaussian(rng: Rng) -> Call:
    scale = pick(rng, (0.5, np.array([0.5, 0.4])))
    return Call(_log_odds_of(ls.Gaussian), {"mean": np.array([0.0, 1.0]), "scale": scale})


def _missing(rng: Rng) -> Call:
    return Call(_log_odds_of(ls.Missing), {"rate": 0.1, "channel": ls.Flips(0.1)})


def _log_odds_of(kind: type) -> Callable[..., Any]:
    @functools.wraps(kind, updated=())
    def call(**arguments: Any) -> Any:
        channel = kind(**arguments)
        repr(channel)
        return channel

    return call


def _channel_method(name: str, rng: Rng) -> Call:
    channel = _channel(rng)
    x = rng.integers(0, 2, (2, 3)).astype(float)
    given: dict[str, Any] = {
        "log_likelihoods": {"observed": x},
        "log_odds": {"observed": x},
        "unbiased": {"observed": x},
        "agreement": {"observed": x},
        "divergence": {"shape": (2, 3)},
        "sample": {"x": x, "seed": 0},
        "count": {"observed": x, "mean": rng.random((2, 3))},
    }[name]
    if name in ("unbiased", "agreement") and isinstance(channel, ls.Missing):
        channel = ls.Flips(0.1)

    def call(channel: Any, **arguments: Any) -> Any:
        return getattr(channel, name)(**arguments)

    # what was not observed has no estimate, and a channel that loses entries says so by NaN
    nan = name in ("unbiased", "sample")
    return Call(call, {"channel": channel, **given}, nan=nan, kept=("channel",))


def _refit(rng: Rng) -> Call:
    channel = _channel(rng)
    x = rng.integers(0, 2, (2, 9)).astype(float)
    counts = channel.count(x, rng.random((2, 9)))
    call = functools.partial(lambda channel, counts: channel.refit(counts), channel)
    return Call(call, {"counts": counts})


# ---------------------------------------------------------------------------------------- data sets


def _corrupt(rng: Rng) -> Call:
    images = rng.integers(0, 2, (2, 4, 4)).astype(np.uint8)
    arguments = {"images": images, "channel": _channel(rng), "seed": 0}
    return Call(ls.datasets.corrupt, arguments, nan=True)


def _mixture(rng: Rng) -> Call:
    arguments = {"points": 4, "decay": 1.0, "separation": 6.0, "seed": 0}

    def check(given: Any, found: Any) -> str | None:
        return checks.is_function(given, found.cut)

    return Call(ls.gaussian_mixture_graph, arguments, check)


def _silhouettes(rng: Rng) -> Call:
    arguments = {"n_samples": 1, "shape": (16, 17), "seed": 0}
    return Call(ls.make_silhouettes, arguments, checks.is_bits)


def _scenes(rng: Rng) -> Call:
    arguments = {"n_samples": int(rng.integers(1, 3)), "shape": (16, 20), "seed": 0}

    def call(**given: Any) -> Any:
        return ls.make_scenes(**given).masks

    return Call(call, arguments, checks.is_bits)


def _split(rng: Rng) -> Call:
    masks = ls.datasets.Masks(np.zeros((4, 2, 2), np.uint8), ("a", "b", "c", "d"))
    return Call(masks.split, {"train": 2, "test": 2}, checks.is_bits)


_WITH_MARGINALS = [
    name for name, method in METHODS.items() if name != "auto" and method.find("marginals")
]
_CHANNEL_METHODS = (
    *("log_likelihoods", "log_odds", "unbiased", "agreement", "divergence", "sample", "count"),
)

MAKERS: dict[str, Maker] = {
    "maximize": _maximize,
    "maximize_tiles": _maximize_tiles,
    "perturb_tiles": _perturb_tiles,
    "marginals_tiles": _marginals_tiles,
    "prepare": _prepare,
    "Prepared.maximize": _prepared_maximize,
    "Prepared.perturb": _prepared_perturb,
    "min_norm_point": _min_norm,
    "MinNormPoint.maximizer": _maximizer,
    "LogSupermodular": _model,
    "LogSupermodular.mode": _mode,
    **{
        f"LogSupermodular.log_partition, {name}": functools.partial(_log_partition, name)
        for name in (*METHODS, *sampling.ESTIMATORS)
    },
    **{
        f"LogSupermodular.marginals, {name}": functools.partial(_marginals, name)
        for name in ("auto", "sampling", *_WITH_MARGINALS)
    },
    **{
        f"LogSupermodular.sample, {name}": functools.partial(_sample, name)
        for name in sampling.SAMPLERS
    },
    "LogSupermodular.bracket": _bracket,
    "LogSupermodular.log_prob": _log_prob,
    "LogSupermodular.condition": _condition,
    "LogSupermodular.observe": _observe,
    "sampling.sample_fields": _sample_fields,
    "sampling.coupled_marginals": _coupled,
    "write_uai, read_uai": _write_uai,
    "Flips": _flips,
    "AsymmetricFlips": _asymmetric,
    "Gaussian": _gaussian,
    "Missing": _missing,
    **{f"Channel.{name}": functools.partial(_channel_method, name) for name in _CHANNEL_METHODS},
    "Channel.refit": _refit,
    "datasets.corrupt": _corrupt,
    "gaussian_mixture_graph": _mixture,
    "make_silhouettes": _silhouettes,
    "make_scenes": _scenes,
    "datasets.Masks.split": _split,
}
