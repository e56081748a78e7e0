"""Calls of MaskCRF and of the layers over cuts, so small that each takes milliseconds."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import logsuper as ls
from logsuper import learning
from tests.fuzzing import checks
from tests.fuzzing.calls import Call, Maker
from tests.fuzzing.hostile import Rng, pick

SHAPE = (3, 4)


def _scene(rng: Rng, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return images, log-odds before a picture, and masks."""
    masks = np.zeros((count, *SHAPE))
    masks[:, : int(rng.integers(1, 3)), 1:] = 1.0
    return masks[..., None] + rng.normal(size=(*masks.shape, 2)), masks


def _fit(rng: Rng) -> Call:
    images, masks = _scene(rng)
    arguments = {
        "unary": pick(rng, ("log_odds", "linear", LogisticRegression())),
        "edges": pick(rng, ("contrast", "uniform", None)),
        "learner": pick(rng, ("logistic", "pseudo", "max_margin")),
        "neighbors": pick(rng, (None, 4, 8)),
        "scales": pick(rng, ((1.0,), (0.5, 2.0))),
        "features": pick(rng, ("auto", "local", "context")),
        "folds": 2,
        "max_pixels": 20,
        "working_size": pick(rng, ("auto", 16, None)),
        "calibration": pick(rng, ("mix", "temperature", None)),
        "penalty": pick(rng, (None, 0.1, {"alpha": 0.1, "modular": 0.2, "filter": 0.1})),
        "decode": pick(rng, ("auto", "mean", "map")),
        "marginals": pick(rng, ("auto", "logistic", "exact")),
        "n_samples": 4,
        "tol": 1e-2,
        "max_iter": 2,
        "options": None,
        "callback": None,
        "random_state": pick(rng, (0, None)),
        "n_jobs": pick(rng, (None, 2)),
        "images": images,
        "masks": masks,
    }

    def call(images: Any, masks: Any, **options: Any) -> Any:
        return ls.MaskCRF(**options).fit(images, masks).predict(images)

    return Call(call, arguments, checks.is_bits)


@functools.cache
def _fitted(unary: str) -> ls.MaskCRF:
    images, masks = _scene(np.random.default_rng(0), 6)
    # a strong penalty: coupled without limit, exact samples of a field would take for ever
    return ls.MaskCRF(unary, learner="pseudo", n_samples=8, penalty=10.0).fit(images, masks)


def _use(name: str, rng: Rng) -> Call:
    images, masks = _scene(rng, 2)
    crf = _fitted(pick(rng, ("log_odds", "linear")))
    arguments: dict[str, Any] = {"images": images}
    if name == "sample_posterior":
        arguments |= {"n_samples": 2, "random_state": 0}
    if name == "score":
        arguments["masks"] = masks
    check = {
        "predict": checks.is_bits,
        "predict_proba": checks.is_probabilities,
        "predict_unary": checks.is_finite,
        "sample_posterior": checks.is_bits,
        "score": checks.is_probabilities,
    }
    return Call(getattr(crf, name), arguments, check[name])


def _layer(name: str, rng: Rng) -> Call:
    edges = len(ls.prepare(ls.grid_cuts(SHAPE)).edges)
    arguments: dict[str, Any] = {
        "theta": rng.normal(size=pick(rng, ((12,), (2, 12), (2, *SHAPE)))),
        "edge_weights": rng.exponential(size=edges),
        "shape": SHAPE,
        "neighbors": pick(rng, (None, 4)),
        "n_jobs": pick(rng, (None, 2)),
    }
    if name != "total_variation":
        arguments |= {"n_samples": 3, "sigma": 0.5, "seed": 0}
    if name == "perturbed_loss":
        arguments["y"] = rng.integers(0, 2, arguments["theta"].shape).astype(float)
        arguments["y"].flat[0] = np.nan

    def call(**options: Any) -> Any:
        found = getattr(learning, name)(**options)
        if name == "perturbed_loss":
            return found.d_theta
        values = found.values if name == "total_variation" else found.mean
        return found.pull_back(values)[0]

    return Call(call, arguments, checks.is_finite)


MAKERS: dict[str, Maker] = {
    "MaskCRF.fit": _fit,
    **{
        f"MaskCRF.{name}": functools.partial(_use, name)
        for name in ("predict", "predict_proba", "predict_unary", "sample_posterior", "score")
    },
    **{
        f"learning.{name}": functools.partial(_layer, name)
        for name in ("perturbed_loss", "perturbed_means", "total_variation")
    },
}
