"""Wide gaps: where nothing was observed around a pixel, only couplings decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logsuper as ls
from logsuper.learning import make_examples, moment_targets
from logsuper.learning._examples import Moments

SHAPE = (11, 12)


def seen(
    seed: int, shape: tuple[int, ...] = SHAPE, count: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Return masks, and noisy ones with a gap of 7 pixels a side and single missing pixels."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (count, *shape))
    z = ls.Flips(0.2).sample(x, rng).astype(np.float64)
    z[rng.random(z.shape) < 0.3] = np.nan
    z[(slice(None), *(slice(2, 9) for _ in shape))] = np.nan
    return x, z


def gather(x, z, **options):
    shape = x.shape[1:]
    return make_examples(
        ls.grid_cuts(shape), labels=x, observed=z, channel=ls.Flips(0.2), **options
    )


def nearby(z: np.ndarray, radius: int) -> np.ndarray:
    """Return whether any other pixel in the window was observed, pixel by pixel."""
    found = np.zeros(z.shape)
    for i, image in enumerate(z):
        for at in np.ndindex(image.shape):
            window = tuple(slice(max(0, a - radius), a + radius + 1) for a in at)
            count = np.sum(~np.isnan(image[window])) - (not np.isnan(image[at]))
            found[(i, *at)] = count > 0
    return found.reshape(len(z), -1)


def field(data, theta) -> np.ndarray:
    """Return the field without what the pixels themselves say."""
    [group] = data.groups
    rows = np.arange(group.count)
    return data.fields(theta, group, rows) - data.log_odds(group, rows)


@pytest.mark.parametrize(("shape", "radius"), [(SHAPE, 1), (SHAPE, 2), ((9, 9, 9), 1)])
def test_the_shared_term_counts_where_something_was_observed_around(shape, radius):
    x, z = seen(0, shape)
    data = gather(x, z, modular="shared", context=radius)
    [group] = data.groups
    rows, theta = np.arange(len(x)), np.zeros(data.layout.size)
    theta[data.layout.blocks["modular"]] = 0.7
    there = nearby(z, radius)
    assert 0 < there.mean() < 1
    assert np.allclose(field(data, theta), 0.7 * there)
    mean = x.reshape(len(x), -1).astype(float)
    moments = Moments(np.zeros((len(x), data.layout.functions)), mean, np.zeros(len(x)))
    found = data.statistics(group, rows, moments)[:, data.layout.blocks["modular"]]
    assert np.allclose(found[:, 0], (there * mean).sum(axis=1))


@given(st.integers(0, 10**6), st.sampled_from([0, 1, 2]), st.booleans())
@settings(max_examples=25)
def test_fields_and_statistics_belong_together(seed, radius, judged):
    x, z = seen(seed)
    options = {}
    if judged:
        options["judge"] = lambda numbers, odds: (
            np.sin(np.arange(odds[0].size)) * np.ones((len(odds), 1))
        )
    data = gather(x, z, modular="shared", context=radius, **options)
    [group] = data.groups
    rng = np.random.default_rng(seed)
    theta, rows = rng.normal(size=data.layout.size), np.arange(len(x))
    theta[data.layout.blocks["alpha"]] = 0.0
    mean = rng.random((len(x), group.prepared.n))
    agreement = data.agreement(group, rows, mean)
    moments = Moments(np.zeros((len(x), data.layout.functions)), mean, agreement)
    left = (data.fields(theta, group, rows) * mean).sum(axis=1)
    if not data.layout.scale:
        left -= agreement
    assert np.allclose(left, data.statistics(group, rows, moments) @ theta)


def test_without_gaps_nothing_changes():
    x, z = seen(1)
    whole = np.where(np.isnan(z), 0.0, z)
    data = gather(x, whole, modular="shared", context=2)
    [group] = data.groups
    assert not group.has_gaps
    theta = np.zeros(data.layout.size)
    theta[data.layout.blocks["modular"]] = 0.7
    assert np.allclose(field(data, theta), 0.7)


def test_a_term_per_pixel_and_given_features_count_everywhere():
    x, z = seen(2)
    for options in ({"modular": "pixel", "context": 2}, {"modular": "shared"}):
        data = gather(x, z, **options)
        theta = np.zeros(data.layout.size)
        theta[data.layout.blocks["modular"]] = 0.7
        assert np.allclose(field(data, theta), 0.7)


def test_the_gradient_is_that_of_the_loss():
    x, z = seen(3)
    data = gather(x, z, modular="shared", context=2)
    from logsuper.learning._pseudo import PseudoLikelihood

    loss, rng = PseudoLikelihood(data), np.random.default_rng(0)
    theta = 0.3 * rng.random(data.layout.size)
    gradient, step = loss.loss(theta).gradient, 1e-5
    for k in range(data.layout.size):
        ahead, behind = (theta + s * step * np.eye(len(theta))[k] for s in (1, -1))
        slope = (loss.loss(ahead).value - loss.loss(behind).value) / (2 * step)
        assert abs(slope - gradient[k]) < 1e-6 * max(1.0, abs(slope))


def test_moments_have_no_bias_with_gaps():
    rng = np.random.default_rng(4)
    x = ls.make_silhouettes(30, shape=(16, 18), seed=0)
    truth, estimates = [], []
    for _ in range(60):
        z = ls.Flips(0.2).sample(x, rng).astype(np.float64)
        for image in z:  # gaps anywhere, whatever lies there
            top, left = rng.integers(0, 10), rng.integers(0, 12)
            image[top : top + 7, left : left + 7] = np.nan
        data = gather(x, z, modular="shared", context=2)
        [group] = data.groups
        rows, targets = np.arange(len(x)), moment_targets(data)
        label = data.statistics(group, rows, data.label_moments(group, rows)).mean(axis=0)
        truth.append(label[data.layout.blocks["modular"]][0])
        estimates.append(
            targets.statistics(group, rows).mean(axis=0)[data.layout.blocks["modular"]][0]
        )
    gap = np.subtract(estimates, truth)
    assert abs(gap.mean()) < 3.5 * gap.std(ddof=1) / np.sqrt(len(gap))


def test_files_with_and_without_gaps(tmp_path):
    x, z = seen(5)
    whole = np.where(np.isnan(z), 1.0, z)
    for name, images, gaps in (("gaps", z, True), ("whole", whole, False)):
        np.save(tmp_path / f"{name}.npy", images)
        lazy = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        data, stored = (gather(x, part, modular="shared", context=2) for part in (images, lazy))
        [group], [other] = data.groups, stored.groups
        assert group.has_gaps == gaps and other.has_gaps == gaps
        theta = np.linspace(0.1, 1.0, data.layout.size)
        rows = np.arange(3)
        assert np.array_equal(data.fields(theta, group, rows), stored.fields(theta, other, rows))


@pytest.mark.filterwarnings("ignore::logsuper.ConvergenceWarning")
@pytest.mark.parametrize("inside", [0, 1])
def test_a_gap_takes_after_its_border(inside):
    """A disc that covers a fifth of the image, and gaps of 40 pixels in it and beside it."""
    y, x = np.mgrid[:300, :300]
    disc = ((y - 150) ** 2 + (x - 150) ** 2 < 80**2).astype(float)
    if not inside:
        disc = 1.0 - disc
    noisy = ls.Flips(0.1).sample(disc, 0).astype(float)
    gaps = [(slice(130, 170), slice(130, 170)), (slice(10, 50), slice(10, 50))]
    for gap in gaps:
        noisy[gap] = np.nan
    model = ls.MaskDenoiser().fit([noisy])
    [found] = model.predict([noisy])
    for gap in gaps:
        assert (found[gap] == disc[gap]).all()
