"""The score without labels: hidden pixels are not seen, and no model beats the truth."""

import itertools

import numpy as np
import pytest
from objective_oracles import long
from oracles import enumerate_x

import logsuper as ls
from logsuper.learning import make_examples, score
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
    """In expectation, by enumeration of all clean and noisy images of nine pixels."""
    rate, alpha = 0.15, (0.7, 0.4)
    x = enumerate_x(9)
    weight = -sum(a * f(x) for a, f in zip(alpha, CUTS, strict=True))
    prior = np.exp(weight - weight.max())
    prior /= prior.sum()
    examples = data(np.zeros((1, *SHAPE)), ls.Flips(rate))
    layout = examples.layout
    hidden = np.zeros(9, dtype=bool)
    hidden[[1, 6]] = True

    def expected(theta, assumed=rate):
        total = 0.0
        for z in x:
            apart = (x != z).sum(axis=1)
            mass = float(prior @ (rate**apart * (1 - rate) ** (9 - apart)))
            logs = np.log(exact_predictions(theta, layout, z, hidden, assumed))
            total += mass * logs[hidden].sum()
        return total

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


def test_against_enumeration(seed):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, (20, *SHAPE)).astype(float)
    examples = data(z, ls.Flips(0.2))
    theta = some_theta(examples.layout, rng)
    # perturbations have the law of the model where nothing is coupled
    for coupling, slack in ((0.0, 1e-6), (0.1, 0.02)):
        theta[:2] = coupling
        found = score(examples, theta, patterns=1, n_samples=2000, seed=seed).pixels[0]
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
    with pytest.raises(ValueError, match="patterns"):
        score(examples, examples.layout.fill(), patterns=17)
