"""Probabilities with a finite log loss, whatever was learned, from whatever images."""

from __future__ import annotations

import numpy as np
import pytest
from denoisers import make_pairs, quick

import logsuper as ls
from logsuper.estimators._images import read_images
from logsuper.estimators._mask_examples import gather
from logsuper.learning import LEARNERS

pytestmark = pytest.mark.usefixtures("stopped_early")


def log_loss(p: np.ndarray, x: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(-np.log(np.where(x == 1, p, 1.0 - p)).mean())


def counted(denoiser: ls.MaskDenoiser, noisy: np.ndarray, samples: int) -> np.ndarray:
    """Return how many maximisers under noise have a 1, under the learned model."""
    examples = gather(denoiser._design, read_images(noisy, "noisy"), denoiser.channel_)
    theta = examples.layout.pack(denoiser.parameters_)
    (group,) = examples.groups
    fields = examples.fields(theta, group, np.arange(group.count))
    alpha = theta[examples.layout.blocks["alpha"]]
    found = group.prepared.perturb(fields, alpha, samples, 0).mean
    return np.round(samples * found).reshape(noisy.shape)


def check(denoiser: ls.MaskDenoiser, noisy, clean) -> None:
    """Look at the probabilities, and at what `predict` makes of them."""
    found = denoiser.predict_proba(noisy)
    assert len(found) == len(clean)
    for p, x, y in zip(
        found, clean, denoiser.set_params(decode="mean").predict(noisy), strict=True
    ):
        assert p.dtype == np.float64 and p.shape == x.shape
        assert (p >= 1e-4).all() and (p <= 1.0 - 1e-4).all()
        assert np.isfinite(log_loss(p, x)) and np.isfinite(log_loss(1.0 - p, x))
        np.testing.assert_array_equal(y, p > 0.5)


@pytest.fixture(scope="module", params=[0.05, 0.1])
def case(request: pytest.FixtureRequest) -> tuple[ls.MaskDenoiser, np.ndarray, np.ndarray]:
    """A model learned from twenty silhouettes, and sixty others with the same noise."""
    clean = ls.make_silhouettes(80, shape=(50, 50), seed=1)
    noisy = ls.datasets.corrupt(clean, ls.Flips(request.param), seed=2)
    return ls.MaskDenoiser().fit(noisy[:20], clean[:20]), noisy[20:], clean[20:]


def test_what_is_wrong_costs_a_finite_log_loss(case) -> None:
    denoiser, noisy, clean = case
    ones = counted(denoiser, noisy, 100)
    assert log_loss(ones / 100, clean) == np.inf  # frequencies are certain, and wrong
    found = denoiser.predict_proba(noisy)
    assert log_loss(found, clean) < 0.95 * log_loss((ones + 0.5) / 101, clean)
    assert ((found - clean) ** 2).mean() < ((ones / 100 - clean) ** 2).mean()
    # no more wrong pixels than by frequencies, up to what a draw of the noise decides
    wrong = ((found > 0.5) != clean).mean(axis=(1, 2)), ((ones > 50) != clean).mean(axis=(1, 2))
    apart = wrong[0] - wrong[1]
    assert apart.mean() < 2.0 * apart.std() / np.sqrt(len(apart))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("marginals", ["auto", "logistic", "exact"])
def test_every_learner_and_inference(learner: str, marginals: str) -> None:
    noisy, clean = make_pairs(6, rate=0.15)
    denoiser = quick(noise=0.15, learner=learner, marginals=marginals, max_iter=5)
    check(denoiser.fit(noisy, clean), noisy, clean)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("8 neighbours", {"neighbors": 8}),
        ("asymmetric", {"noise": "asymmetric"}),
        ("missing", {}),
        ("grey", {"noise": "gaussian"}),
        ("almost certain", {"noise": 1e-12}),
        ("one sample", {"n_samples": 1}),
        ("groups", {"neighbors": "groups"}),
    ],
)
def test_every_kind_of_image_and_function(kind: str, settings: dict, seed: int) -> None:
    noisy, clean = make_pairs(4, shape=(16, 18), seed=seed)
    if kind == "missing":
        noisy = np.where(np.random.default_rng(seed).random(noisy.shape) < 0.3, np.nan, noisy)
    if kind == "grey":
        noisy = ls.Gaussian(0.05).sample(clean, seed=seed)  # log-odds of some hundreds
    if settings.get("neighbors") == "groups":
        blocks = np.arange(16 * 18).reshape(4, 4, 6, 3).swapaxes(1, 2).reshape(24, 12)
        groups = ls.RobustPn(16 * 18, blocks, threshold=4.0)
        settings = {"neighbors": [*ls.grid_cuts((16, 18)), groups], "learner": "logistic"}
    check(quick(**{"max_iter": 10, **settings}).fit(noisy, clean), noisy, clean)


def test_volumes(seed: int) -> None:
    z, y, x = np.mgrid[:6, :9, :8]
    clean = ((z - 3) ** 2 + (y - 4) ** 2 + (x - 4) ** 2 < 9).astype(np.uint8)[None].repeat(3, 0)
    noisy = ls.Flips(0.1).sample(clean, seed=seed)
    for neighbors in (6, 26):
        check(quick(noise=0.1, neighbors=neighbors).fit(noisy, clean), noisy, clean)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_mixed_folders_and_dtypes(dtype: type) -> None:
    shapes = [(16, 16), (1, 40), (33, 7), (40, 60)]
    observed, truth = make_pairs(len(shapes), shape=(60, 60))
    noisy = [z[20 : 20 + h, :w].astype(dtype) for z, (h, w) in zip(observed, shapes, strict=True)]
    clean = [x[20 : 20 + h, :w] for x, (h, w) in zip(truth, shapes, strict=True)]
    denoiser = quick(noise=0.1).fit(noisy, clean)
    check(denoiser, noisy, clean)
    alone = denoiser.predict_proba([noisy[3]])[0]
    np.testing.assert_array_equal(denoiser.predict_proba(noisy)[3], alone)


def test_overconfident_weights_cost_no_more_than_the_least_probability() -> None:
    # weights far beyond what the pixels can feel, as a fit that failed would leave them
    noisy, clean = make_pairs(4, rate=0.2)
    denoiser = quick(noise=0.2).fit(noisy, clean)
    denoiser.parameters_.alpha[:] = 50.0
    check(denoiser, noisy, clean)
    assert log_loss(denoiser.predict_proba(noisy), clean) < -np.log(1e-4)
