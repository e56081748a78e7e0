"""The table that `benchmarks.same` compares, continued: channels, learners, estimators, data."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import logsuper as ls
from benchmarks.same_cases import Case, call, random_cut
from logsuper import learning

SHAPE = (16, 16)


def pairs(count: int = 8, shape: tuple[int, int] = SHAPE) -> tuple[np.ndarray, np.ndarray]:
    """Return clean silhouettes, and the same with a tenth of the pixels flipped."""
    clean = ls.make_silhouettes(count, shape, seed=0)
    return clean, ls.Flips(0.1).sample(clean, seed=1)


def with_holes(images: np.ndarray, share: float = 0.2) -> np.ndarray:
    """Return images with some pixels unknown."""
    holes = np.random.default_rng(2).random(images.shape) < share
    return np.where(holes, np.nan, images)


# --------------------------------------------------------------------------------------- channels


def channels() -> Iterator[Case]:
    """Yield likelihoods, samples and refits of channels."""
    x, _ = pairs(3)
    rates = np.linspace(0.05, 0.3, 256).reshape(SHAPE)
    made: dict[str, ls.Channel] = {
        "flips": ls.Flips(0.1),
        "flips per pixel": ls.Flips(rates),
        "asymmetric": ls.AsymmetricFlips(0.05, 0.2),
        "asymmetric, certain": ls.AsymmetricFlips(0.1, 0.0),
        "gaussian": ls.Gaussian(),
        "gaussian, scales": ls.Gaussian((-1.0, 2.0), (0.5, 1.5)),
        "missing": ls.Missing(0.3),
        "missing flips": ls.Missing(0.3, ls.Flips(0.1)),
        "missing gaussian": ls.Missing(0.3, ls.Gaussian()),
    }
    for name, c in made.items():
        seen = c.sample(x, seed=3)
        mean = np.random.default_rng(4).random(x.shape)
        yield f"{name}/sample", lambda seen=seen: seen
        yield f"{name}/log-likelihoods", lambda c=c, seen=seen: c.log_likelihoods(seen)
        yield f"{name}/log-odds", lambda c=c, seen=seen: c.log_odds(seen)
        yield f"{name}/unbiased", lambda c=c, seen=seen: c.unbiased(seen)
        yield f"{name}/agreement", lambda c=c, seen=seen: c.agreement(seen)
        yield f"{name}/divergence", lambda c=c: c.divergence(SHAPE)
        yield f"{name}/counts", lambda c=c, seen=seen, mean=mean: c.count(seen, mean)
        yield (
            f"{name}/refit",
            lambda c=c, seen=seen, mean=mean: c.refit(c.count(seen, mean)).log_odds(seen),
        )
    clean, noisy = pairs(10, (20, 20))
    grey = clean + 0.4 * np.random.default_rng(5).normal(size=clean.shape)
    lopsided = ls.AsymmetricFlips(0.03, 0.15).sample(clean, seed=6)
    for kind, observed in (("flips", noisy), ("asymmetric", lopsided), ("gaussian", grey)):
        for holes in (False, True):
            given = with_holes(observed) if holes else observed
            yield (
                f"estimate {kind}{', holes' if holes else ''}",
                lambda kind=kind, given=given: learning.estimate_noise(given, kind=kind).log_odds(
                    given[0]
                ),
            )


# --------------------------------------------------------------------------------------- learners


def learned(found: Any) -> object:
    """Return the numbers of a fit."""
    last = found.history[-1]
    return found.theta, last.objective, last.stderr, found.converged


def problems() -> dict[str, Any]:
    """Return examples to learn from, by the kind of labels and observations."""
    clean, noisy = pairs()
    cuts, flips = ls.grid_cuts(SHAPE), ls.Flips(0.1)
    make = learning.make_examples
    given: dict[str, Any] = {"observed": noisy, "channel": flips, "modular": "shared"}
    chosen = np.arange(8) % 2 == 0
    some = np.where(chosen[:, None, None], clean, np.nan)
    factors = np.random.default_rng(6).uniform(0.5, 1.5, (8, len(ls.prepare(cuts).edges)))
    shapes = ((16, 18), (18, 16), (16, 18))
    ragged = [ls.make_silhouettes(1, shape, seed=k)[0] for k, shape in enumerate(shapes)]
    seen = [flips.sample(image, seed=k) for k, image in enumerate(ragged)]
    graph = random_cut(np.random.default_rng(7), 12, 16)
    rows = np.random.default_rng(8).integers(0, 2, (20, 12))
    return {
        "labels": make(cuts, labels=clean, modular="pixel"),
        "pairs": make(cuts, labels=clean, scale=True, context=1, **given),
        "some labels": make(cuts, labels=some, **given),
        "edge weights": make(cuts, labels=clean, edge_weights=factors, **given),
        "holes": make(cuts, labels=clean, **{**given, "observed": with_holes(noisy)}),
        "noisy": make(cuts, **given),
        "noisy, holes": make(cuts, **{**given, "observed": with_holes(noisy)}),
        "8 neighbours": make(ls.grid_cuts(SHAPE, neighbors=8), labels=clean, **given),
        "ragged": make(ls.grid_cuts, labels=ragged, observed=seen, channel=flips, modular="shared"),
        "graph": make([graph], labels=rows, modular="pixel"),
    }


CAPS = {
    "logistic": 30, "saa": 8, "exact": 8, "pseudo": 30, "lfield": 10, "max_margin": 8,
    "resample": 20, "moments": 30, "latent": 4,
}  # fmt: skip
UNSUPERVISED = ("resample", "moments", "latent")
SUPERVISED = tuple(learner for learner in CAPS if learner not in UNSUPERVISED)


def learners() -> Iterator[Case]:
    """Yield the parameters of every learner after a few iterations, and decoded images."""
    made = problems()
    for name, examples in made.items():
        penalty = learning.Penalty.of(
            examples.layout, alpha=0.05, modular=0.2, beta=0.5, scale=0.05
        )
        for learner in UNSUPERVISED if name.startswith("noisy") else SUPERVISED:
            yield (
                f"{name}/{learner}",
                lambda e=examples, p=penalty, learner=learner: learned(
                    call(getattr(learning, learner), e, p, max_iter=CAPS[learner])
                ),
            )
    data, penalty = made["noisy"], learning.Penalty.of(made["noisy"].layout, 0.1, 0.1)
    options: dict[str, tuple[str, dict[str, Any]]] = {
        "latent, subgradient": ("latent", {"method": "subgradient", "max_iter": 3}),
        "latent, exact engine": ("latent", {"engine": "exact", "max_iter": 2}),
        "latent, noise": ("latent", {"noise": "learned", "max_iter": 3}),
        "moments, exact": ("moments", {"method": "exact", "max_iter": 5}),
    }
    for name, (learner, given) in options.items():
        yield (
            name,
            lambda learner=learner, given=given: learned(
                call(getattr(learning, learner), data, penalty, **given)
            ),
        )
    yield from decoders(made)


def decoders(made: dict[str, Any]) -> Iterator[Case]:
    """Yield modes, means, samples and scores of examples under given parameters."""
    for name in ("pairs", "noisy", "noisy, holes", "edge weights", "8 neighbours", "ragged"):
        e = made[name]
        theta = e.layout.fill(alpha=0.8, modular=-0.1, beta=0.05)
        yield f"{name}/modes", lambda e=e, t=theta: learning.modes(e, t, factor=0.9)
        for method in ("logistic", "exact", "auto"):
            yield (
                f"{name}/means, {method}",
                lambda e=e, t=theta, method=method: call(
                    learning.means, e, t, method=method, n_samples=8, seed=1
                ),
            )
        yield (
            f"{name}/samples",
            lambda e=e, t=theta: call(learning.samples, e, t, n_samples=2, seed=2),
        )
        yield (
            f"{name}/log evidence",
            lambda e=e, t=theta: learning.bracket_log_evidence(e, t, budget=1e7),
        )
        yield (
            f"{name}/score",
            lambda e=e, t=theta: call(learning.score, e, t, patterns=2, n_samples=4, seed=3).value,
        )
    pairs_ = made["pairs"]
    theta = pairs_.layout.fill(alpha=0.8, modular=-0.1, beta=0.05)
    yield "factor", lambda: learning.best_factor(pairs_, theta)
    yield "temperature", lambda: call(learning.best_temperature, pairs_, theta, n_samples=8)


# ------------------------------------------------------------------------------------- estimators


def denoiser(**options: Any) -> Any:
    """Return a denoiser that stops early."""
    return call(ls.MaskDenoiser, **{"max_iter": 15, "n_samples": 8, **options})


def fitted(model: Any) -> object:
    """Return the parameters of a fitted denoiser."""
    p = model.parameters_
    return p.alpha, p.modular, p.beta, p.scale, model.noise_, model.decode_factor_


def answers(name: str, model: Any, noisy: Any, clean: Any) -> Iterator[Case]:
    """Yield all predictions of a fitted denoiser for some images."""
    yield f"{name}/predict", lambda: model.predict(noisy)
    yield f"{name}/predict_proba", lambda: model.predict_proba(noisy)
    yield (
        f"{name}/sample_posterior",
        lambda: call(model.sample_posterior, noisy, n_samples=2, random_state=3),
    )
    yield f"{name}/score", lambda: model.score(noisy, clean)


def estimators() -> Iterator[Case]:
    """Yield denoisers of all kinds of images, and densities."""
    clean, noisy = pairs(10)
    train, test = slice(0, 7), slice(7, 10)
    grey = clean + 0.5 * np.random.default_rng(9).normal(size=clean.shape)
    partial = np.where(np.random.default_rng(10).random(clean.shape) < 0.5, clean, np.nan)
    holes = with_holes(noisy)
    few = [image[: 16 - k % 3, : 14 + k % 2] for k, image in enumerate(noisy)]
    masks = [image[: 16 - k % 3, : 14 + k % 2] for k, image in enumerate(clean)]
    kinds: dict[str, tuple[dict[str, Any], Any, Any]] = {
        "labels": ({}, noisy, clean),
        "no labels": ({}, noisy, None),
        "partial labels": ({}, noisy, partial),
        "grey": ({}, grey, clean),
        "grey, no labels": ({"learner": "latent", "max_iter": 3}, grey, None),
        "missing": ({}, holes, clean),
        "missing, no labels": ({}, holes, None),
        "ragged": ({}, few, masks),
        "8 neighbours": ({"neighbors": 8, "noise": 0.1}, noisy, clean),
        "map": ({"decode": "map", "context": 0}, noisy, clean),
        "exact marginals": ({"marginals": "exact", "noise": "asymmetric"}, noisy, clean),
        "no modular term": ({"modular": "none", "scale": False}, noisy, clean),
        "per pixel": ({"modular": "pixel", "context": 0}, noisy, clean),
        **{learner: ({"learner": learner, "max_iter": 4}, noisy, clean) for learner in CAPS},
    }
    for name, (options, seen, true) in kinds.items():
        model = denoiser(**options)
        labels = None if true is None else true[train]
        yield f"{name}/learned", lambda m=model, z=seen, x=labels: fitted(m.fit(z[train], x))
        known = masks if name == "ragged" else clean
        yield from answers(name, model, seen[test], known[test])
    volumes = np.stack([clean[k : k + 3] for k in range(0, 9, 3)])
    blurred = ls.Flips(0.1).sample(volumes, seed=11)
    model = denoiser(noise=0.1)
    yield "volumes/learned", lambda: fitted(model.fit(blurred, volumes))
    yield from answers("volumes", model, blurred, volumes)
    yield "saved", lambda: saved(denoiser().fit(noisy[train], clean[train]), noisy[test])
    shaded = grey + np.linspace(0.0, 1.0, 16)
    yield "flattened light", lambda: ls.flatten_light(shaded)
    yield from densities()


def saved(model: Any, noisy: np.ndarray) -> object:
    """Return the probabilities of a model that was written and read again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        model.save(path)
        return ls.load_model(path).predict_proba(noisy)


def densities() -> Iterator[Case]:
    """Yield densities of rows of zeros and ones."""
    rng = np.random.default_rng(12)
    X = (rng.random((80, 7)) < rng.choice([0.2, 0.8], (80, 1))).astype(float)
    kinds: dict[str, dict[str, Any]] = {
        "counts": {"functions": "counts"},
        "forest": {"functions": "forest"},
        "mixture": {"n_components": 2},
        "auto": {},
        "cut, logistic": {"functions": [random_cut(rng, 7, 9)], "learner": "logistic"},
        "cut, pseudo": {"functions": [random_cut(rng, 7, 9)], "learner": "pseudo"},
        "shared": {"functions": "counts", "modular": "shared", "penalty": 0.1},
    }
    for name, options in kinds.items():
        for given, rows in (("", X), (", holes", with_holes(X, 0.1))):
            model = ls.LogSupermodularDensity(max_iter=20, **options)
            what = f"density, {name}{given}"
            yield f"{what}/learned", lambda m=model, rows=rows: m.fit(rows).weights_
            yield f"{what}/scores", lambda m=model, rows=rows: m.score_samples(rows)
            yield f"{what}/samples", lambda m=model: m.sample(4, random_state=1)
            yield (
                f"{what}/brackets",
                lambda m=model: [(b.lower, b.upper) for b in m.brackets_],
            )


# ------------------------------------------------------------------------------------------- data


def data() -> Iterator[Case]:
    """Yield the data that ship with the package."""
    yield "silhouettes", lambda: ls.make_silhouettes(3, (24, 20), seed=5)
    yield "corrupted", lambda: ls.datasets.corrupt(pairs(2)[0], ls.Gaussian(), seed=4)
    graph = ls.gaussian_mixture_graph(20, seed=1)
    yield "mixture graph", lambda: (graph.points, graph.labels, graph.cut.edges, graph.cut.weights)


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "channels": channels,
    "learners": learners,
    "estimators": estimators,
    "datasets": data,
}
