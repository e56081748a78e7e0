"""Moments of clean images from noisy ones with missing entries: no bias either."""

import itertools

import numpy as np
import pytest
from objective_oracles import long
from oracles import enumerate_x

import logsuper as ls
from logsuper.learning import FreshNoise, Objective, Penalty, logistic, make_examples
from logsuper.learning._moment_targets import moment_targets
from logsuper.learning._moments import moments

NAN = float("nan")


def test_missing_entries_by_hand():
    z = np.array([[1, 0, 0, NAN], [0, NAN, NAN, 1], [0, 0, NAN, NAN]])
    data = make_examples(
        [ls.Cut(4, [(0, 1), (1, 2), (2, 3)], [1.0, 2.0, 3.0]), ls.Cut(4, [(0, 3)])],
        observed=z,
        channel=ls.Flips(0.1),
        scale=True,
    )
    group, rows = next(data.parts())
    targets = moment_targets(data)(group, rows)
    on, off = 0.9 / 0.8, -0.1 / 0.8
    apart, alike = on + off - 2 * on * off, 2 * off - 2 * off**2
    # (0, 1) was seen in two images, (1, 2) in one, (2, 3) in none: it takes the mean of all seen
    never = (apart + alike + 2 * alike) / (2 * 1 + 1 * 2)
    first = np.array([apart, (apart + alike) / 2, alike])
    expected = np.stack([first + 2 * alike + 3 * never, np.full(3, apart)], axis=1)
    np.testing.assert_allclose(targets.stats, expected)
    np.testing.assert_allclose(
        targets.mean, [[on, off, off, on], [off, off, off, on], [off, off, off, on]]
    )
    np.testing.assert_allclose(moment_targets(data).pixels[0], [(on + 2 * off) / 3, off, off, on])
    divergence = 0.8 * np.log(9.0)
    np.testing.assert_allclose(
        targets.agreement, divergence * np.array([on + 2 * off, on + off, 2 * off]), rtol=1e-12
    )


@pytest.mark.parametrize("rank", [2, 3])
def test_missing_edges_with_factors_by_hand(rank):
    factors = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]])
    if rank == 3:
        factors = factors[:, None, :]
    data = make_examples(
        [ls.Cut(3, [(0, 1), (1, 2)])],
        observed=[[1, 0, NAN], [0, 0, 1], [1, NAN, 1]],
        channel=ls.Flips(0.1),
        edge_weights=factors,
    )
    on, off = 0.9 / 0.8, -0.1 / 0.8
    apart, alike = on + off - 2 * on * off, 2 * off - 2 * off**2
    # (0, 1) was seen with the weights 1 and 2, (1, 2) with the weight 6
    first = (1 * apart + 2 * alike) / 3
    expected = [[1 * apart + 5 * apart], [2 * alike + 6 * apart], [3 * first + 7 * apart]]
    np.testing.assert_allclose(moment_targets(data).stats[0], expected)


def gaps(count):
    """Return patterns of missing entries of 3 x 4 pixels, blocks and dots; no edge is in all."""
    lost = np.zeros((4, 3, 4), dtype=bool)
    lost[0, :2, :2] = lost[1, 1:, 1:3] = lost[2, :, 3] = lost[3, ::2, ::2] = True
    return lost[:count]


@pytest.mark.parametrize("factors", [False, True])
def test_gaps_that_fall_on_any_image_alike_leave_no_bias(factors, seed):
    # every way to hand out the gaps to the images, once
    rng = np.random.default_rng(seed)
    x, lost = rng.integers(0, 2, (4, 3, 4)).astype(float), gaps(4)
    f = [
        ls.Cut(12, cut.edges, rng.exponential(size=len(cut.edges))) for cut in ls.grid_cuts((3, 4))
    ]
    edges = len(ls.prepare(f).edges)
    weights = np.tile(rng.exponential(size=(1, 2, edges)), (4, 1, 1)) if factors else None
    settings = {"channel": ls.Flips(1e-12), "modular": "none", "edge_weights": weights}
    found = [
        moment_targets(make_examples(f, observed=np.where(lost[list(order)], NAN, x), **settings))
        .stats[0]
        .mean(axis=0)
        for order in itertools.permutations(range(4))
    ]
    exact = moment_targets(make_examples(f, observed=x, **settings)).stats[0].mean(axis=0)
    np.testing.assert_allclose(np.mean(found, axis=0), exact, rtol=1e-9)
    assert np.std(found, axis=0).min() > 1e-3  # one way alone is off


def test_factors_may_differ_where_images_do_not(seed):
    rng = np.random.default_rng(seed)
    x, lost = rng.integers(0, 2, (3, 4)).astype(float), gaps(4)
    f = ls.grid_cuts((3, 4))
    weights = rng.exponential(size=(4, len(ls.prepare(f).edges)))
    settings = {"channel": ls.Flips(1e-12), "modular": "none", "edge_weights": weights}
    found, exact = (
        moment_targets(make_examples(f, observed=z, **settings)).stats[0]
        for z in (np.where(lost, NAN, x), np.tile(x, (4, 1, 1)))
    )
    np.testing.assert_allclose(found, exact, atol=1e-9)


@pytest.mark.parametrize("kind", ["dots", "blocks"])
def test_entries_missing_at_random_leave_no_bias(kind, seed):
    shape, count, draws = (24, 24), 60, 40
    x = ls.make_silhouettes(count, shape=shape, seed=seed)
    f, channel = ls.grid_cuts(shape), ls.Flips(0.05)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        z = channel.sample(x, rng).astype(float)
        if kind == "dots":
            z[rng.random(z.shape) < 0.3] = NAN
        for image in z if kind == "blocks" else ():
            top, left = rng.integers(0, 15, 2)
            image[top : top + 10, left : left + 10] = NAN
        targets = moment_targets(make_examples(f, observed=z, channel=channel))
        found.append([*targets.stats[0].mean(axis=0), targets.pixels[0].sum()])
    exact = [*(cut(x.reshape(count, -1)).mean() for cut in f), x.sum() / count]
    error = np.std(found, axis=0) / np.sqrt(draws)
    assert (error < 0.01 * np.array(exact)).all()  # the bound below says something
    assert (np.abs(np.mean(found, axis=0) - exact) < 4 * error).all()


@pytest.mark.parametrize("modular", ["pixel", "shared", "none"])
def test_gaps_leave_no_bias_in_features(modular, seed):
    rng = np.random.default_rng(seed)
    x, lost = rng.integers(0, 2, (4, 3, 4)).astype(float), gaps(4)
    settings = {"channel": ls.Flips(1e-12), "modular": modular}
    settings["features"] = rng.normal(size=(4, 3, 4, 2))
    f = ls.grid_cuts((3, 4))

    def mean(z):
        data = make_examples(f, observed=z, **settings)
        group, rows = next(data.parts())
        return data.mean_statistics(group, rows, moment_targets(data)(group, rows))

    orders = itertools.permutations(range(4))
    found = [mean(np.where(lost[list(order)], NAN, x)) for order in orders]
    np.testing.assert_allclose(np.mean(found, axis=0), mean(x), atol=1e-9)


def held(data, targets):
    """Return the mean statistics that learning sets against the model's."""
    group, rows = next(data.parts())
    return Objective(data, FreshNoise(1, seed=0), targets)._target(group, rows)[0]


@pytest.mark.parametrize("modular", ["pixel", "shared", "none"])
def test_gaps_leave_no_bias_in_context(modular, seed):
    # a gap takes a pixel and those around it: what it shows of others is no sample of all
    rng = np.random.default_rng(seed)
    x, lost = rng.integers(0, 2, (4, 3, 4)).astype(float), gaps(4)
    f, channel = ls.grid_cuts((3, 4)), ls.Flips(1e-12)
    found, exact = [], []
    for order in itertools.permutations(range(4)):
        data = make_examples(
            f,
            labels=x,
            observed=np.where(lost[list(order)], NAN, x),
            channel=channel,
            modular=modular,
            context=1,
        )
        group, rows = next(data.parts())
        found.append(held(data, moment_targets(data)))
        exact.append(data.mean_statistics(group, rows, data.label_moments(group, rows)))
    np.testing.assert_allclose(np.mean(found, axis=0), np.mean(exact, axis=0), atol=1e-9)


@long
def test_blocks_teach_with_context_what_labels_teach(seed):
    x = ls.make_silhouettes(80, shape=(20, 20), seed=seed)
    z = ls.Flips(0.1).sample(x, seed + 100).astype(float)
    rng = np.random.default_rng(seed)
    for image in z:
        top, left = rng.integers(0, 13, 2)
        image[top : top + 8, left : left + 8] = NAN
    settings = {"observed": z, "channel": ls.Flips(0.1), "context": 1, "scale": True}
    data, labelled = (
        make_examples(ls.grid_cuts((20, 20)), modular="shared", **settings, **labels)
        for labels in ({}, {"labels": x})
    )
    penalty = Penalty.of(data.layout, alpha=1e-4, modular=0.5, scale=1e-4, beta=1e-4)
    found, exact = moments(data, penalty), logistic(labelled, penalty)
    np.testing.assert_allclose(found.parameters.alpha, exact.parameters.alpha, rtol=0.25)
    assert found.parameters.scale == pytest.approx(exact.parameters.scale, rel=0.1)


def test_pixels_that_were_never_seen_with_features():
    # a pixel that no image shows; the last lacks another one
    z = np.array([[1, 0, NAN], [1, 0, NAN], [1, NAN, NAN]])
    phi = np.array([1.0, 2.0, 4.0])
    on, off = 0.9 / 0.8, -0.1 / 0.8
    for modular, expected in (
        ("pixel", [on, off, (3 * on + 2 * off) / 5]),  # that one takes the mean of all
        ("shared", [1.5 * on, 1.5 * off, 0.0]),  # the others stand for it
    ):
        data = make_examples(
            [ls.Cut(3, [(0, 1)])],
            observed=z,
            channel=ls.Flips(0.1),
            modular=modular,
            features=np.tile(phi[:, None], (3, 1, 1)),
        )
        group, rows = next(data.parts())
        found = data.mean_statistics(group, rows, moment_targets(data)(group, rows))
        assert found[data.layout.blocks["beta"]] == pytest.approx(phi @ expected)
        modular = expected if modular == "pixel" else [sum(expected)]
        assert found[data.layout.blocks["modular"]] == pytest.approx(modular)


def test_missing_entries_with_features_leave_no_bias(seed):
    # every pattern of missing entries with two of four observed, once: each pixel in half of them
    patterns = enumerate_x(4)
    patterns = patterns[patterns.sum(axis=1) == 2]
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, 4).astype(float)
    z = np.where(patterns == 1, x, NAN)
    features = np.tile(rng.normal(size=(1, 4, 2)), (len(z), 1, 1))
    for modular in ("pixel", "shared"):
        data = make_examples(
            [ls.Cut(4, [(0, 1)])],
            observed=z,
            channel=ls.Flips(1e-12),
            features=features,
            modular=modular,
        )
        group, rows = next(data.parts())
        found = data.statistics(group, rows, moment_targets(data)(group, rows)).mean(axis=0)
        at = data.layout.blocks
        np.testing.assert_allclose(found[at["beta"]], features[0].T @ x, atol=1e-9)
        expected = x if modular == "pixel" else [x.sum()]
        np.testing.assert_allclose(found[at["modular"]], expected, atol=1e-9)


# -------------------------------------------------------------------------------- nothing to see


@pytest.mark.parametrize("features", [False, True])
def test_a_shape_of_which_nothing_was_seen_takes_the_means_of_others(features, seed):
    x = ls.make_silhouettes(3, shape=(16, 17), seed=seed).astype(float)
    channel = ls.Flips(0.1)
    z = [*channel.sample(x, seed), np.full((4, 5), NAN), np.full((16, 17), NAN)]
    data = make_examples(
        ls.grid_cuts,
        observed=z,
        channel=channel,
        modular="shared",
        features=[np.ones((*image.shape, 1)) for image in z] if features else None,
    )
    targets, alone = (
        moment_targets(d)
        for d in (
            data,
            make_examples(ls.grid_cuts, observed=z[:3], channel=channel, modular="shared"),
        )
    )
    cuts = alone.stats[0].mean(axis=0)
    np.testing.assert_allclose(targets.stats[0], [*alone.stats[0], cuts])
    mean = alone.pixels[0].mean()
    np.testing.assert_allclose(targets.pixels[1], mean)
    np.testing.assert_allclose(targets.stats[1], [cuts / [16 * 16, 15 * 17] * [4 * 4, 3 * 5]])
    # as many ones as if all pixels had been seen, and had that mean
    ones = sum(targets(group, rows).mean.sum() for group, rows in data.parts())
    assert ones == pytest.approx(mean * sum(image.size for image in z))


def test_an_image_without_an_edge_is_no_obstacle(seed):
    x = ls.make_silhouettes(3, shape=(16, 17), seed=seed).astype(float)
    data = make_examples(
        ls.grid_cuts,
        observed=[*ls.Flips(0.1).sample(x, seed), np.array([[1, NAN, 0, NAN]])],
        channel=ls.Flips(0.1),
        modular="shared",
    )
    targets = moment_targets(data)
    across = targets.stats[0][:, 0].mean() / (16 * 16)
    np.testing.assert_allclose(targets.stats[1], [[3 * across, 0.0]])
    fit = moments(data, Penalty.of(data.layout, alpha=1e-4, modular=0.5), tol=0.1)
    assert np.isfinite(fit.theta).all()


def test_neighbours_that_a_shape_never_shows_together(seed):
    x = ls.make_silhouettes(3, shape=(16, 17), seed=seed).astype(float)
    channel = ls.Flips(0.1)
    data = make_examples(
        ls.grid_cuts,
        observed=[*channel.sample(x, seed), np.array([[1, NAN, 0, NAN]])],
        channel=channel,
        modular="none",
        context=1,
    )
    loss, at = (
        Objective(data, FreshNoise(1, seed=0), moment_targets(data)),
        data.layout.blocks["beta"],
    )
    whole, row = (loss._target(group, np.arange(group.count))[0][at] for group in data.groups)
    found = row.reshape(-1)
    # one pixel has a neighbour on its right, two have one on their left
    pairs = 16 * 16
    right, left = whole[[4, 3]] / pairs
    expected = np.zeros(8)
    expected[4], expected[3] = right, 2 * left
    np.testing.assert_allclose(found, expected)


def test_no_shape_with_data_is_refused():
    settings = {"channel": ls.Flips(0.1), "modular": "shared"}
    blind = [np.full((2, 3), NAN), np.full((3, 2), NAN)]
    with pytest.raises(ValueError, match="nothing but missing entries"):
        moment_targets(make_examples(ls.grid_cuts, observed=blind, **settings))
    apart = [np.array([[1, NAN], [1, 1]]), np.array([[0], [1], [NAN]])]
    moment_targets(make_examples(ls.grid_cuts, observed=apart, **settings))
    apart[0][1, 1] = NAN  # the last edge across
    with pytest.raises(ValueError, match=r"functions\[0\] has no edge with both ends .* any image"):
        moment_targets(make_examples(ls.grid_cuts, observed=apart, **settings))
