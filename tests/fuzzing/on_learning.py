"""Calls of learners, decoders and estimators, on images so small that each takes milliseconds."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

import logsuper as ls
from logsuper import learning
from tests.fuzzing import checks
from tests.fuzzing.calls import Call, Maker
from tests.fuzzing.hostile import Rng, pick, some_function

SHAPE = (3, 4)

# What each learner takes besides data, penalty and the options of all; few steps, for speed.
_LEARNERS: dict[str, dict[str, Any]] = {
    "logistic": {"max_iter": 3, "n_samples": 2, "batch": 2, "rate": 1.0, "average": True},
    "saa": {"max_iter": 3, "n_samples": 2, "blocks": 2},
    "exact": {"max_iter": 3, "method": "auto", "window": 3},
    "pseudo": {"max_iter": 3},
    "lfield": {"max_iter": 3},
    "max_margin": {"max_iter": 3, "blocks": 2, "loss": "hamming"},
    "marginal": {"max_iter": 3, "n_samples": 2, "batch": 2, "loss": "hamming"},
    "moments": {
        "max_iter": 3,
        "n_samples": 2,
        "batch": 2,
        "method": "logistic",
        "relax": 1.0,
        "rate_stderr": 0.01,
    },
    "resample": {"max_iter": 9, "n_samples": 2, "batch": 2, "rounds": 2},
    "latent": {"max_iter": 2, "n_samples": 2, "steps": 2, "engine": "logistic", "method": "em"},
}


def _images(rng: Rng, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return clean images and noisy ones."""
    clean = np.zeros((count, *SHAPE))
    clean[:, : int(rng.integers(1, 3)), 1:] = 1.0
    return clean, np.where(rng.random(clean.shape) < 0.15, 1 - clean, clean)


def _data(rng: Rng, learner: str = "logistic") -> dict[str, Any]:
    """Return arguments of `make_examples`."""
    clean, noisy = _images(rng)
    wide = learner not in ("moments", "latent", "resample") and rng.integers(4) == 0
    return {
        "functions": list(ls.grid_cuts(SHAPE)),
        "labels": None if learner == "latent" else clean,
        "observed": noisy,
        "channel": ls.Flips(0.15),
        "modular": pick(rng, ("pixel", "shared", "none")),
        "features": rng.normal(size=(4, *SHAPE, 2)) if wide else None,
        "scale": learner != "latent" and bool(rng.integers(2)),
    }


def _make_examples(rng: Rng) -> Call:
    arguments = _data(rng)
    if rng.integers(2):
        edges = len(ls.prepare(arguments["functions"]).edges)
        arguments["edge_weights"] = rng.exponential(size=(4, edges))
    if arguments["features"] is None:
        arguments["context"] = int(rng.integers(0, 2))
    return Call(learning.make_examples, arguments)


def _contrast_weights(rng: Rng) -> Call:
    edges = np.concatenate([cut.edges for cut in ls.grid_cuts(SHAPE, neighbors=8)])
    image = rng.normal(size=(12, int(rng.integers(1, 4))))
    return Call(learning.contrast_weights, {"image": image, "edges": edges, "scales": (0.5, 1.0)})


def _apart(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of `make_examples`, and the others."""
    names = ("functions", "labels", "observed", "channel", "modular", "features", "scale")
    return (
        {name: given[name] for name in names if name in given},
        {name: value for name, value in given.items() if name not in names},
    )


def _examples(given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return examples, or what stands in their place, and the other arguments."""
    data, others = _apart(given)
    instead = others.pop("examples")
    return learning.make_examples(**data) if instead is None else instead, others


def _learner(name: str, rng: Rng) -> Call:
    arguments = {
        **_data(rng, name),
        "examples": None,
        "penalty": {"alpha": 0.1, "modular": 0.1, "beta": 0.1, "scale": 0.1},
        "seed": int(rng.integers(100)),
        "n_jobs": pick(rng, (None, 2)),
        "start": None,
        "tol": 1e-3,
        "callback": None,
        **_LEARNERS[name],
    }

    def call(**given: Any) -> Any:
        examples, options = _examples(given)
        penalty = options.pop("penalty")
        if isinstance(penalty, dict) and isinstance(examples, learning.Examples):
            penalty = learning.Penalty.of(examples.layout, **penalty)
        return getattr(learning, name)(examples, penalty, **options)

    return Call(call, arguments, checks.is_learned, nan=True)


def _penalty(rng: Rng) -> Call:
    layout = learning.Layout(2, 12, 3, True)
    arguments = {"layout": layout, "alpha": 0.1, "modular": 0.1, "beta": 0.2, "scale": 1.0}
    return Call(learning.Penalty.of, arguments)


def _decoder(name: str, rng: Rng) -> Call:
    # a likelihood of observations has no factor on the log-odds
    data = _data(rng, "latent" if "evidence" in name else "logistic")
    layout = learning.make_examples(**data).layout
    options: dict[str, Any] = {
        "modes": {"factor": 1.0},
        "means": {"method": pick(rng, ("auto", "logistic", "exact")), "n_samples": 3, "seed": 0},
        "samples": {"n_samples": 2, "seed": 0, "max_iter": 2**10},
        "best_factor": {"factors": (0.5, 1.0)},
        "score": {"patterns": 4, "n_samples": 2, "seed": 0},
        "log_evidence": {"engine": learning.Exact(), "budget": 1e8},
        "bracket_log_evidence": {"budget": 1e8},
    }[name]
    if name != "log_evidence":
        options["n_jobs"] = pick(rng, (None, 2))
    arguments = {
        **data,
        "examples": None,
        "theta": layout.fill(alpha=0.5) + rng.exponential(size=layout.size) * 0.1,
        **options,
    }
    check = {"modes": checks.is_bits, "means": checks.is_probabilities, "samples": checks.is_bits}

    def call(**given: Any) -> Any:
        examples, options = _examples(given)
        found = getattr(learning, name)(examples, **options)
        return np.nan_to_num(found.pixels[0]) if name == "score" else found

    return Call(call, arguments, check.get(name, checks.is_finite))


def _estimate_noise(rng: Rng) -> Call:
    _, noisy = _images(rng, 6)
    kind = pick(rng, ("flips", "asymmetric", "gaussian"))
    if kind == "gaussian":
        noisy = noisy + 0.1 * rng.normal(size=noisy.shape)
    groups = pick(rng, (None, "pixel", (np.arange(12) % 2).reshape(SHAPE)))
    arguments = {"observed": noisy, "kind": kind, "groups": groups if kind == "flips" else None}

    def call(**given: Any) -> Any:
        return vars(learning.estimate_noise(**given))

    return Call(call, arguments)


def _residuals(name: str, rng: Rng) -> Call:
    clean, noisy = _images(rng, 6)
    noisy = noisy + pick(rng, (0.0, 0.1)) * rng.normal(size=noisy.shape)
    return Call(getattr(learning, name), {"observed": noisy, "cleaned": clean})


def _flatten_light(rng: Rng) -> Call:
    _, noisy = _images(rng, 2)
    arguments = {"noisy": 9.0 * noisy, "width": pick(rng, (None, 2.0))}
    return Call(ls.flatten_light, arguments, nan=True)


def _moment_targets(rng: Rng) -> Call:
    arguments = {**_data(rng, "moments"), "examples": None}

    def call(**given: Any) -> Any:
        examples, _ = _examples(given)
        targets = learning.moment_targets(examples)
        return [tuple(targets(group, np.arange(group.count))) for group in examples.groups]

    return Call(call, arguments)


def _path(rng: Rng) -> Call:
    arguments = {
        **_data(rng),
        "examples": None,
        "learner": learning.max_margin,
        "weights": [1.0, 0.1],
        "max_iter": 2,
    }

    def call(**given: Any) -> Any:
        examples, options = _examples(given)
        penalties = _penalties(examples, options.pop("weights"))
        return learning.path(options.pop("learner"), examples, penalties, **options)

    return Call(call, arguments, nan=True)


def _cross_validate(rng: Rng) -> Call:
    arguments = {
        **_data(rng),
        "examples": None,
        "learner": learning.max_margin,
        "weights": [1.0, 0.1],
        "folds": 2,
        "score": pick(rng, ("map", "mean")),
        "rule": pick(rng, ("best", "one_standard_error")),
        "seed": 0,
        "n_jobs": None,
        "max_iter": 2,
    }

    def call(**given: Any) -> Any:
        examples, options = _examples(given)
        penalties = _penalties(examples, options.pop("weights"))
        return learning.cross_validate(options.pop("learner"), examples, penalties, **options)

    return Call(call, arguments, nan=True)


def _penalties(examples: Any, weights: Any) -> Any:
    """Return one penalty a weight, unless either was spoilt."""
    if not isinstance(weights, list) or not isinstance(examples, learning.Examples):
        return weights
    return [
        learning.Penalty.of(examples.layout, alpha=w, modular=w, beta=w, scale=w)
        if isinstance(w, float)
        else w
        for w in weights
    ]


# -------------------------------------------------------------------------------------- estimators


def _fit_denoiser(rng: Rng) -> Call:
    clean, noisy = _images(rng, 6)
    learner = pick(rng, ("auto", *_LEARNERS))
    arguments = {
        "noise": pick(rng, (0.15, "auto", "flips", ls.Flips(0.15))),
        "learner": learner,
        "modular": pick(rng, ("auto", "pixel", "shared", "none")),
        "neighbors": pick(rng, (None, 4, 8)),
        "context": pick(rng, ("auto", 0)) if learner == "latent" else pick(rng, ("auto", 0, 1)),
        "scale": bool(rng.integers(2)),
        "penalty": pick(rng, (None, 0.1, {"alpha": 0.1, "modular": 0.2})),
        "decode": pick(rng, ("auto", "mean", "map")),
        "marginals": pick(rng, ("auto", "logistic", "exact")),
        "temperature": 1.5 if learner == "max_margin" else pick(rng, (1.0, 1.5, "select")),
        "n_samples": 4,
        "tol": 1e-2,
        "max_iter": 2,
        "options": None,
        "callback": None,
        "random_state": pick(rng, (0, None)),
        "n_jobs": pick(rng, (None, 2)),
        "noisy": noisy.astype(np.uint8),
        "clean": clean,
    }

    def call(noisy: Any, clean: Any, **options: Any) -> Any:
        denoiser = ls.MaskDenoiser(**options).fit(noisy, clean)
        return denoiser.predict(noisy)

    return Call(call, arguments, checks.is_bits)


@functools.cache
def _fitted_denoiser(context: int) -> ls.MaskDenoiser:
    clean, noisy = _images(np.random.default_rng(0), 6)
    return ls.MaskDenoiser(0.15, context=context, max_iter=3, n_samples=8).fit(noisy, clean)


def _use_denoiser(name: str, rng: Rng) -> Call:
    clean, noisy = _images(rng, 2)
    denoiser = _fitted_denoiser(int(rng.integers(2)))
    arguments: dict[str, Any] = {"noisy": noisy}
    if name == "sample_posterior":
        arguments |= {"n_samples": 2, "random_state": 0}
    if name == "score":
        arguments["clean"] = clean
    check = {
        "predict": checks.is_bits,
        "predict_proba": checks.is_probabilities,
        "sample_posterior": checks.is_bits,
        "score": checks.is_probabilities,
    }
    return Call(getattr(denoiser, name), arguments, check[name])


def _scene(rng: Rng) -> dict[str, Any]:
    marks = np.zeros((6, 8), dtype=np.uint8)
    marks[2:4, 3], marks[:, 0] = 1, 2
    image = rng.normal(size=(6, 8, 3)) + 3.0 * (marks == 1)[..., None]
    return {"image": image[..., 0] if rng.integers(2) else image, "scribbles": marks}


def _segment(rng: Rng) -> Call:
    arguments = {
        **_scene(rng),
        "probability": True,
        "learn": pick(rng, ("none", "strokes")),
        "neighbors": pick(rng, (None, 4, 8)),
        "trust": pick(rng, (1.0, 0.9)),
        "channel_axis": "auto",
        "n_samples": 4,
        "random_state": 0,
        "n_jobs": pick(rng, (None, 2)),
    }

    def call(**given: Any) -> Any:
        return ls.segment(**given).probability

    return Call(call, arguments, checks.is_probabilities)


def _fit_segmenter(rng: Rng) -> Call:
    scene = _scene(rng)
    arguments = {
        "images": [scene["image"]],
        "masks": [np.indices((6, 8))[1] // 3 == 1],
        "scribbles": pick(rng, (None, [scene["scribbles"]])),
    }

    def call(**given: Any) -> Any:
        return (
            ls.ScribbleSegmenter(n_samples=2)
            .fit(**given)
            .predict([scene["image"]], [scene["scribbles"]])
        )

    return Call(call, arguments)


def _pixel_scorer(rng: Rng) -> Call:
    clean, noisy = _images(rng, 2)

    def call(scoring: Any, noisy: Any, clean: Any) -> Any:
        return ls.pixel_scorer(scoring)(_fitted_denoiser(0), noisy, clean)

    scoring = pick(rng, ("accuracy", "neg_log_loss", "f1"))
    return Call(call, {"scoring": scoring, "noisy": noisy, "clean": clean}, checks.is_finite)


def _fit_density(rng: Rng) -> Call:
    n = int(rng.integers(2, 5))
    functions = pick(rng, (None, "forest", [some_function(rng, n)]))
    arguments = {
        "functions": functions,
        "learner": pick(rng, ("auto", "logistic", "exact", "pseudo", "lfield", "saa")),
        "n_components": "auto",
        "n_init": 1,
        "modular": pick(rng, ("pixel", "shared", "none")),
        "penalty": pick(rng, (None, 0.1)),
        "binarize": pick(rng, (None, 0.5)),
        "tol": 1e-2,
        "max_iter": 2,
        "options": None,
        "callback": None,
        "random_state": 0,
        "n_jobs": None,
        "X": rng.integers(0, 2, (pick(rng, (6, 60)), n)),
    }

    if rng.integers(3) == 0:  # what a mixture needs
        mixture = {"functions": None, "learner": "auto", "modular": "pixel", "penalty": None}
        arguments |= {**mixture, "n_components": int(rng.integers(2, 5))}

    def call(X: Any, **options: Any) -> Any:
        return ls.LogSupermodularDensity(**options).fit(X).score_samples(X)

    return Call(call, arguments, checks.is_finite)


@functools.cache
def _fitted_density(components: int) -> ls.LogSupermodularDensity:
    X = np.random.default_rng(0).integers(0, 2, (8, 4))
    return ls.LogSupermodularDensity(n_components=components, max_iter=3).fit(X)


def _use_density(name: str, rng: Rng) -> Call:
    X = rng.integers(0, 2, (3, 4))
    arguments: dict[str, Any] = {
        "score_samples": {"X": X, "return_bracket": bool(rng.integers(2))},
        "score": {"X": X},
        "sample": {"n_samples": 2, "random_state": 0},
        "bracket": {"budget": 1e7, "confidence": pick(rng, (None, 0.9)), "seed": 0},
    }[name]
    check = {"sample": checks.is_bits, "score": checks.is_finite}
    density = _fitted_density(1 if name == "bracket" else pick(rng, (1, 2)))
    return Call(getattr(density, name), arguments, check.get(name))


MAKERS: dict[str, Maker] = {
    "learning.make_examples": _make_examples,
    "learning.contrast_weights": _contrast_weights,
    "learning.Penalty.of": _penalty,
    **{f"learning.{name}": functools.partial(_learner, name) for name in _LEARNERS},
    **{
        f"learning.{name}": functools.partial(_decoder, name)
        for name in (
            *("modes", "means", "samples", "best_factor", "score"),
            *("log_evidence", "bracket_log_evidence"),
        )
    },
    "learning.estimate_noise": _estimate_noise,
    **{
        f"learning.{name}": functools.partial(_residuals, name)
        for name in ("examine_residuals", "neighbour_correlation")
    },
    "learning.moment_targets": _moment_targets,
    "learning.path": _path,
    "learning.cross_validate": _cross_validate,
    "MaskDenoiser.fit": _fit_denoiser,
    **{
        f"MaskDenoiser.{name}": functools.partial(_use_denoiser, name)
        for name in ("predict", "predict_proba", "sample_posterior", "score")
    },
    "segment": _segment,
    "ScribbleSegmenter.fit": _fit_segmenter,
    "flatten_light": _flatten_light,
    "pixel_scorer": _pixel_scorer,
    "LogSupermodularDensity.fit": _fit_density,
    **{
        f"LogSupermodularDensity.{name}": functools.partial(_use_density, name)
        for name in ("score_samples", "score", "sample", "bracket")
    },
}
