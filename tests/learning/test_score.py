"""The score without labels: hidden pixels are not seen, and no model beats the truth."""

import itertools

import numpy as np
import pytest
from objective_oracles import long
from oracles import enumerate_x

import logsuper as ls
from logsuper.learning import best_temperature, make_examples, score
from logsuper.learning._layout import Parameters

SHAPE = (3, 3)
CUTS = ls.grid_cuts(SHAPE)


def data(z, channel, context=1, cuts=CUTS):
    return make_examples(
        cuts, observed=z, channel=channel, modular="shared", context=context, scale=True
    )


def some_theta(layout, rng):
    theta = layout.fill(alpha=0.8, modular=0.1, scale=1.1)
    theta[layout.blocks["beta"]] = 0.2 * rng.normal(size=layout.features)
    return theta


@pytest.mark.parametrize(
    "channel", [ls.Flips(0.1), ls.AsymmetricFlips(0.05, 0.2), ls.Gaussian((0.0, 1.0), 0.6)]
)
def test_a_pixel_says_nothing_of_itself(channel, seed):
    rng = np.random.default_rng(seed)
    x = ls.make_silhouettes(3, shape=(17, 20), seed=seed)
    z = channel.sample(x, seed=seed)
    cuts = ls.grid_cuts((17, 20))
    examples = data(z, channel, 2, cuts)
    theta = some_theta(examples.layout, rng)
    before = score(examples, theta, patterns=16, n_samples=8, seed=seed)
    assert not np.isnan(before.pixels[0]).any()
    for _ in range(5):
        i, r, c = (int(rng.integers(k)) for k in z.shape)
        other = z.copy()
        other[i, r, c] = 1 - z[i, r, c]
        after = score(data(other, channel, 2, cuts), theta, patterns=16, n_samples=8, seed=seed)
        at = i, r * 20 + c
        # what was observed is another, what was predicted is the same
        means = []
        for found, image in ((before, z), (after, other)):
            zero, one = (np.exp(part[i, r, c]) for part in channel.log_likelihoods(image))
            means.append((np.exp(found.pixels[0][at]) - zero) / (one - zero))
        assert means[1] == pytest.approx(means[0], abs=1e-9)


def exact_predictions(theta, layout, z, hidden, rate):
    """Return P(z_d | what is seen) of the hidden pixels by enumeration, as the model has it."""
    found: Parameters = layout.unpack(theta)
    x = enumerate_x(9)
    odds = np.where(hidden, 0.0, np.log((1 - rate) / rate) * (2.0 * z - 1.0))
    t = np.tanh(odds / 2.0).reshape(SHAPE)
    field = found.scale * odds + found.modular[0]
    window = np.insert(found.beta, len(found.beta) // 2, 0.0).reshape(3, 3)
    padded = np.pad(t, 1)
    context = sum(
        window[a, b] * padded[a : a + 3, b : b + 3]
        for a, b in itertools.product(range(3), repeat=2)
    )
    energy = x @ (field + context.ravel()) - sum(
        a * f(x) for a, f in zip(found.alpha, CUTS, strict=True)
    )
    p = np.exp(energy - energy.max())
    mean = p @ x / p.sum()
    return np.where(z == 1, mean * (1 - rate) + (1 - mean) * rate,
                    mean * rate + (1 - mean) * (1 - rate))  # fmt: skip


def test_no_other_weights_score_above_the_truth():
    """The expectation of `score`, by enumeration of all clean and noisy images of six pixels."""
    shape, rate, alpha = (2, 3), 0.15, (0.7, 0.4)
    cuts, x = ls.grid_cuts(shape), enumerate_x(6)
    weight = -sum(a * f(x) for a, f in zip(alpha, cuts, strict=True))
    prior = np.exp(weight) / np.exp(weight).sum()
    apart = (x[:, None] != x[None]).sum(axis=2)  # of each clean image from each noisy one
    mass = prior @ (rate**apart * (1 - rate) ** (6 - apart))
    # each noisy image on its own, so that the same pixels are hidden in all of them
    each = [data(z.reshape(1, *shape), ls.Flips(rate), cuts=cuts) for z in x]
    layout = each[0].layout

    def expected(theta, assumed=rate):
        logs = [
            score(
                one if assumed == rate else one.with_channel(ls.Flips(assumed)),
                theta, method="exact", patterns=2, seed=6,
            ).pixels[0][0]
            for one in each
        ]  # fmt: skip
        hidden = ~np.isnan(logs)
        assert (hidden == hidden[0]).all() and hidden[0].sum() == 2
        return mass @ np.nansum(logs, axis=1)

    truth = layout.fill(scale=1.0)
    truth[:2] = alpha
    best = expected(truth)
    rng = np.random.default_rng(0)
    for _ in range(6):
        change = 0.3 * rng.normal(size=layout.size)
        assert expected(layout.project(truth + change)) < best
    for scale in (0.7, 1.4):
        other = truth.copy()
        other[-1] = scale
        assert expected(other) < best
    for assumed in (0.1, 0.2):
        assert expected(truth, assumed) < best


@pytest.mark.parametrize(
    ("method", "coupling", "slack"),
    # perturbations have the law of the model where nothing is coupled
    [("logistic", 0.0, 1e-6), ("logistic", 0.1, 0.02), ("exact", 0.8, 1e-9), ("auto", 0.8, 1e-9)],
)
def test_against_enumeration(method, coupling, slack, seed):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, (20, *SHAPE)).astype(float)
    examples = data(z, ls.Flips(0.2))
    theta = some_theta(examples.layout, rng)
    theta[:2] = coupling
    found = score(examples, theta, method=method, patterns=1, n_samples=2000, seed=seed).pixels[0]
    hidden = ~np.isnan(found)
    assert hidden.any()
    for image, row, logs in zip(z.reshape(20, 9), hidden, found, strict=True):
        p = exact_predictions(theta, examples.layout, image, row, 0.2)
        np.testing.assert_allclose(logs[row], np.log(p)[row], atol=slack)


@long
def test_it_prefers_the_weights_that_clean_best():
    x = ls.make_silhouettes(30, shape=(40, 40), seed=3)
    z = ls.Flips(0.1).sample(x, seed=4)
    cuts = ls.grid_cuts((40, 40))
    examples = make_examples(cuts, observed=z, channel=ls.Flips(0.1), modular="none")
    scores, errors = [], []
    for a in (0.2, 0.6, 1.2, 2.4, 5.0):
        theta = examples.layout.fill(alpha=a)
        scores.append(score(examples, theta, n_samples=16, patterns=8))
        p = ls.learning.means(examples, theta, method="logistic")
        errors.append(np.mean([((q > 0.5) != y).mean() for q, y in zip(p, x, strict=True)]))
    best = int(np.argmax([found.value for found in scores]))
    assert errors[best] <= 1.1 * min(errors)
    better, error = scores[best].minus(scores[0])
    assert better > 3 * error > 0


def test_missing_pixels_do_not_count():
    z = ls.Flips(0.1).sample(ls.make_silhouettes(2, shape=(16, 16), seed=0), seed=1)
    z[0, :8] = np.nan
    examples = make_examples(
        ls.grid_cuts((16, 16)), observed=z, channel=ls.Flips(0.1), modular="none"
    )
    found = score(examples, examples.layout.fill(alpha=1.0), patterns=16, n_samples=2)
    assert np.isnan(found.pixels[0][0].reshape(16, 16)[:8]).all()
    assert (~np.isnan(found.pixels[0])).sum() == 3 * 16 * 8
    assert np.isfinite(found.value) and found.stderr > 0


def test_bad_calls_are_refused():
    x = ls.make_silhouettes(2, shape=(16, 16), seed=0)
    labelled = make_examples(ls.grid_cuts((16, 16)), labels=x)
    with pytest.raises(ValueError, match="needs observations"):
        score(labelled, labelled.layout.fill())
    examples = make_examples(ls.grid_cuts((16, 16)), observed=x, channel=ls.Flips(0.1))
    with pytest.raises(ValueError, match="method"):
        score(examples, examples.layout.fill(), method="bethe")
    with pytest.raises(ValueError, match="patterns"):
        score(examples, examples.layout.fill(), patterns=17)


def with_arrays(z, **given):
    return make_examples(
        ls.grid_cuts(z[0].shape) if isinstance(z, np.ndarray) else ls.grid_cuts,
        observed=z, channel=ls.Flips(0.1), modular="none", **given,
    )  # fmt: skip


def signs(z):
    """Return one feature, what was observed as -1 or 1, and 0 where nothing was."""
    return np.nan_to_num(2.0 * z - 1.0)[..., None]


def test_features_that_may_see_hidden_pixels_are_refused():
    """No honest score is above minus the entropy of a flip, -.325; a leak would be far above."""
    z = ls.Flips(0.1).sample(ls.make_silhouettes(4, shape=(24, 24), seed=0), seed=1)
    edges = len(ls.prepare(ls.grid_cuts((24, 24))).edges)
    leak = with_arrays(z, features=signs(z))
    theta = leak.layout.fill(alpha=1.0)
    theta[leak.layout.blocks["beta"]] = 5.0
    with pytest.raises(ValueError, match=r"features=callable.*NaN at hidden"):
        score(leak, theta)
    with pytest.raises(ValueError, match="features=callable"):
        best_temperature(leak, theta)
    factors = with_arrays(z, edge_weights=np.ones((4, edges)))
    with pytest.raises(ValueError, match="edge_weights=callable"):
        score(factors, factors.layout.fill(alpha=1.0))
    # made again for each pattern, the feature of a hidden pixel is 0: the score is honest
    honest = score(leak, theta, features=signs, patterns=2, n_samples=8)
    dishonest = score(leak, theta, features=lambda _: signs(z), patterns=2, n_samples=8)
    assert honest.value < -0.33 < -0.2 < dishonest.value


def test_callables_get_the_images_without_hidden_pixels():
    x = ls.make_silhouettes(3, shape=(16, 18), seed=0)
    z = [x[0], x[1].T, x[2]]  # two shapes: lists in the order of the images
    edges = [len(ls.prepare(ls.grid_cuts(image.shape)).edges) for image in z]
    ones = [np.ones(k) for k in edges]
    given = with_arrays(z, features=[signs(image) for image in z], edge_weights=ones)
    seen = []

    def features(images):
        seen.append(images)
        return [signs(image) for image in images]

    found = score(
        given, given.layout.fill(alpha=1.0), features=features, edge_weights=lambda _: ones,
        patterns=16, n_samples=2,
    )  # fmt: skip
    assert len(seen) == 16
    hidden = [sum(np.isnan(images[i]).astype(int) for images in seen) for i in range(3)]
    assert all((count == 1).all() for count in hidden)  # each pixel once
    for images in seen:
        for image, own in zip(images, z, strict=True):
            np.testing.assert_array_equal(image[~np.isnan(image)], own[~np.isnan(image)])
    plain = with_arrays(z)
    without = score(plain, plain.layout.fill(alpha=1.0), patterns=16, n_samples=2)
    for a, b in zip(found.pixels, without.pixels, strict=True):
        np.testing.assert_array_equal(a, b)  # a weight of 0, and factors of 1


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"features": np.zeros((2, 16, 16, 1))}, TypeError, "features must be a callable"),
        ({"features": lambda z: signs(z)[:1]}, ValueError, "features is for 1 images"),
        ({"features": lambda z: np.tile(signs(z), 2)}, ValueError, "features has 2 columns"),
        ({"features": lambda z: z[..., None]}, ValueError, r"features\[0\]"),  # NaN
        ({"features": signs, "edge_weights": signs}, ValueError, "edge_weights is given, but"),
    ],
)
def test_bad_callables_are_refused(arguments, error, match):
    z = ls.make_silhouettes(2, shape=(16, 16), seed=0)
    examples = with_arrays(z, features=signs(z))
    with pytest.raises(error, match=match):
        score(examples, examples.layout.fill(alpha=1.0), **arguments)
