"""Decoding against enumeration, whatever the shapes, pieces, factors and channels."""

import numpy as np
import oracles
import pytest

import logsuper as ls
from logsuper.bounds import TooLarge
from logsuper.learning import Examples, make_examples
from logsuper.learning import _decoding as decoding


def probabilities(f: ls.SubmodularFunction, field: np.ndarray) -> np.ndarray:
    """Return the marginals of exp(field'x - f(x)); infinite fields fix elements."""
    x = oracles.enumerate_x(f.n)
    infinite = np.isinf(field)
    score = x @ np.where(infinite, 0.0, field) - f(x)
    score[np.any(x[:, infinite] != (field[infinite] > 0), axis=1)] = -np.inf
    weight = np.exp(score - score.max())
    return weight @ x / weight.sum()


def noisy_grids(seed: int, scale: bool = True) -> tuple[Examples, np.ndarray, list]:
    """Return small grids with everything: t, features, a scale, missing pixels and labels."""
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts((2, 4))
    z = rng.integers(0, 2, (5, 2, 4)).astype(float)
    z[rng.random(z.shape) < 0.2] = np.nan
    data = make_examples(
        cuts,
        labels=rng.integers(0, 2, (5, 2, 4)),
        observed=z,
        channel=ls.Flips(0.2),
        features=rng.normal(size=(5, 2, 4, 2)),
        scale=scale,
    )
    theta = np.concatenate([rng.exponential(size=2), rng.normal(size=10), [0.7] * scale])
    return data, theta, cuts


def test_modes_maximise(seed: int) -> None:
    data, theta, cuts = noisy_grids(seed)
    group = data.groups[0]
    for factor in (1.0, 0.5, 0.0):
        found = decoding.modes(data, theta, factor=factor)
        assert found.shape == (5, 2, 4) and found.dtype == np.uint8
        scaled = np.append(factor * theta[:-1], theta[-1])
        fields = data.fields(scaled, group, np.arange(5))
        f = scaled[0] * cuts[0] + scaled[1] * cuts[1]
        _, best = oracles.brute_maximize(f, fields)
        y = found.reshape(5, -1)
        np.testing.assert_allclose(np.einsum("bd,bd->b", fields, y) - f(y), best, atol=1e-9)


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_means_are_marginals(seed: int, method: str) -> None:
    data, theta, cuts = noisy_grids(seed)
    fields = data.fields(theta, data.groups[0], np.arange(5))
    f = theta[0] * cuts[0] + theta[1] * cuts[1]
    found = decoding.means(data, theta, method=method).reshape(5, -1)
    for row, field in zip(found, fields, strict=True):
        np.testing.assert_allclose(row, probabilities(f, field), atol=1e-9)


def test_logistic_means_are_those_of_perturbations(seed: int) -> None:
    data, theta, cuts = noisy_grids(seed)
    fields = data.fields(theta, data.groups[0], np.arange(5))
    found = decoding.means(data, theta, method="logistic", n_samples=4000, seed=seed)
    f = theta[0] * cuts[0] + theta[1] * cuts[1]
    noise = np.random.default_rng(seed).logistic(size=(4000, 8))
    for row, field in zip(found.reshape(5, -1), fields, strict=True):
        y, _ = ls.maximize(f, field + noise)
        assert np.abs(row - y.mean(axis=0)).max() < 5 * np.sqrt(0.5 / 4000)


@pytest.mark.parametrize("family", list(oracles.FAMILIES))
def test_every_family_is_decoded(family: str, seed: int) -> None:
    n = 6
    rng = np.random.default_rng(seed)
    f = oracles.FAMILIES[family](rng, n)
    z = rng.integers(0, 2, (3, n))
    data = make_examples([f], observed=z, channel=ls.Flips(0.2), modular="none")
    fields = data.fields(np.ones(1), data.groups[0], np.arange(3))
    y = decoding.modes(data, [1.0])
    _, best = oracles.brute_maximize(f, fields)
    score = np.einsum("bd,bd->b", fields, y) - f(y)
    np.testing.assert_allclose(score, best, atol=1e-7 * max(1.0, np.abs(best).max()))
    exact = decoding.means(data, [1.0], method="exact")
    for i in range(3):
        np.testing.assert_allclose(exact[i], probabilities(f, fields[i]), atol=1e-7)


@pytest.mark.parametrize("family", ["cut", "grid", "coverage", "cardinality of a subset"])
def test_samples_have_the_marginals(family: str, seed: int) -> None:
    n = 6
    rng = np.random.default_rng(seed)
    f = oracles.FAMILIES[family](rng, n)
    z = rng.integers(0, 2, (3, n))
    data = make_examples([f], observed=z, channel=ls.Flips(0.2), modular="none")
    fields = data.fields(np.ones(1), data.groups[0], np.arange(3))
    drawn = decoding.samples(data, [1.0], 400, seed=seed)
    assert drawn.shape == (3, 400, n)
    for i in range(3):
        truth = probabilities(f, fields[i])
        assert np.abs(drawn[i].mean(axis=0) - truth).max() < 5 * np.sqrt(0.25 / 400)


@pytest.mark.parametrize("per_function", [False, True])
def test_factors_on_edges_count(seed: int, per_function: bool) -> None:
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts((2, 3))
    joint = [cuts[0] + 0.5 * cuts[1], cuts[1]]  # both have the vertical edges
    edges = ls.prepare(joint).edges
    factors = rng.exponential(size=(4, 2, len(edges)) if per_function else (4, len(edges)))
    alpha = np.array([0.6, 0.2])
    data = make_examples(
        joint,
        observed=rng.integers(0, 2, (4, 2, 3)),
        channel=ls.Flips(0.2),
        modular="none",
        edge_weights=factors,
    )
    found = decoding.means(data, alpha, method="exact").reshape(4, -1)
    drawn = decoding.samples(data, alpha, 500, seed=seed).reshape(4, 500, -1)
    y = decoding.modes(data, alpha).reshape(4, -1)
    fields = data.fields(alpha, data.groups[0], np.arange(4))
    unit = [np.r_[np.ones(4), 0.5 * np.ones(3)], np.r_[np.zeros(4), np.ones(3)]]
    for i in range(4):
        mine = factors[i] if per_function else [factors[i], factors[i]]
        weights = sum(a * u * m for a, u, m in zip(alpha, unit, mine, strict=True))
        f = ls.Cut(6, edges, weights)
        truth = probabilities(f, fields[i])
        np.testing.assert_allclose(found[i], truth, atol=1e-9)
        assert np.abs(drawn[i].mean(axis=0) - truth).max() < 5 * np.sqrt(0.25 / 500)
        best = oracles.brute_maximize(f, fields[i])[1]
        assert fields[i] @ y[i] - f(y[i]) == pytest.approx(best, abs=1e-9)


def test_pixels_beyond_doubt_stay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts((2, 4))
    rate = np.where(rng.random((2, 4)) < 0.5, 0.0, 0.3)
    z = rng.integers(0, 2, (3, 2, 4))
    data = make_examples(cuts, observed=z, channel=ls.Flips(rate), modular="none")
    theta = np.array([3.0, 2.0])
    sure = rate == 0
    for found in (
        decoding.modes(data, theta),
        decoding.means(data, theta, method="exact"),
        decoding.means(data, theta, method="logistic", n_samples=20),
        decoding.samples(data, theta, seed=seed)[:, 0],
    ):
        np.testing.assert_array_equal(found[:, sure], z[:, sure])
    fields = data.fields(theta, data.groups[0], np.arange(3))
    f = theta[0] * cuts[0] + theta[1] * cuts[1]
    exact = decoding.means(data, theta, method="exact").reshape(3, -1)
    drawn = decoding.samples(data, theta, 500, seed=seed).reshape(3, 500, -1)
    for i in range(3):
        truth = probabilities(f, fields[i])
        np.testing.assert_allclose(exact[i], truth, atol=1e-9)
        assert np.abs(drawn[i].mean(axis=0) - truth).max() < 5 * np.sqrt(0.25 / 500)


def test_shapes_that_differ_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (2, 2), (3, 4), (5, 1), (2, 2), (3, 4)]
    images = [rng.integers(0, 2, shape) for shape in shapes]
    data = make_examples(ls.grid_cuts, observed=images, channel=ls.Flips(1e-6), modular="shared")
    theta = np.array([0.5, 0.5, 0.0])
    for found in (decoding.modes(data, theta), decoding.means(data, theta)):
        assert isinstance(found, list)
        for mine, image in zip(found, images, strict=True):
            np.testing.assert_allclose(mine, image, atol=1e-3)
    assert [s.shape for s in decoding.samples(data, theta, 2, seed=0)] == [(2, *s) for s in shapes]
    whole = decoding.modes(data, theta)
    monkeypatch.setattr("logsuper.learning._examples._PIECE", 12)  # one image a piece
    for mine, other in zip(whole, decoding.modes(data, theta), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_threads_do_not_matter() -> None:
    data, theta, _ = noisy_grids(0)
    for decode in (
        lambda jobs: decoding.modes(data, theta, n_jobs=jobs),
        lambda jobs: decoding.means(data, theta, method="logistic", seed=3, n_jobs=jobs),
        lambda jobs: decoding.means(data, theta, method="exact", n_jobs=jobs),
        lambda jobs: decoding.samples(data, theta, 3, seed=3, n_jobs=jobs),
    ):
        np.testing.assert_array_equal(decode(1), decode(2))


def test_strips_are_taken_on_images() -> None:
    x = ls.make_silhouettes(2, shape=(30, 30), seed=0)
    z = ls.Flips(0.1).sample(x, seed=1)
    cuts = ls.grid_cuts((30, 30))
    data = make_examples(cuts, observed=z, channel=ls.Flips(0.1), modular="none")
    found = decoding.means(data, [1.0, 1.0])
    for image, mine in zip(z, found, strict=True):
        f = cuts[0] + cuts[1] - ls.Modular(ls.Flips(0.1).log_odds(image).ravel())
        np.testing.assert_array_equal(ls.LogSupermodular(f).marginals("strips"), mine)


def test_auto_falls_back_on_perturbations_and_exact_refuses() -> None:
    cuts = ls.grid_cuts((30, 30), neighbors=8)
    z = ls.make_silhouettes(1, shape=(30, 30), seed=0)
    data = make_examples(cuts, observed=z, channel=ls.Flips(0.1), modular="none")
    alpha = np.full(4, 0.3)
    np.testing.assert_array_equal(
        decoding.means(data, alpha, seed=1), decoding.means(data, alpha, method="logistic", seed=1)
    )
    with pytest.raises(TooLarge):
        decoding.means(data, alpha, method="exact")


@pytest.mark.parametrize("why", ["known pixels", "edges without weight"])
def test_auto_decides_for_each_example(why: str) -> None:
    # a complete graph is beyond exact inference, what is left of it between two pixels is not
    n = 40
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    f = ls.Cut(n, pairs, 0.2 * rng.random(len(pairs)))
    z = rng.integers(0, 2, (4, n)).astype(float)
    weights = np.ones((4, len(pairs)))
    channel, dear = ls.Flips(0.2), [0, 2]
    if why == "known pixels":
        z[[1, 3], :2] = z[dear] = np.nan
        channel = ls.Missing(0.0)
    else:
        weights[[1, 3], 1:] = 0.0

    def find(rows: list[int], method: str = "auto") -> np.ndarray:
        factors = None if why == "known pixels" else weights[rows]
        data = make_examples(
            [f], observed=z[rows], channel=channel, modular="none", edge_weights=factors
        )
        return decoding.means(data, [1.0], method=method, n_samples=20, seed=5)

    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3], [2]):
        found = find(order)
        for place, row in enumerate(order):
            alone = find([row], "logistic" if row in dear else "exact")
            np.testing.assert_array_equal(found[place], alone[0])
    with pytest.raises(TooLarge):
        find([1, 0], "exact")


def test_the_best_factor_is_the_best(seed: int) -> None:
    x = ls.make_silhouettes(4, shape=(20, 20), seed=seed)
    z = ls.Flips(0.1).sample(x, seed=seed)
    labels = x.astype(float)
    labels[:, :3] = np.nan
    data = make_examples(
        ls.grid_cuts((20, 20)), labels=labels, observed=z, channel=ls.Flips(0.1), modular="shared"
    )
    theta = np.array([2.0, 2.0, 0.2])
    factors = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2]
    chosen = decoding.best_factor(data, theta, factors)
    wrong = [np.sum(decoding.modes(data, theta, factor=c)[:, 3:] != x[:, 3:]) for c in factors]
    assert wrong[factors.index(chosen)] == min(wrong)


def test_a_tie_of_factors_goes_to_the_nearest_to_one() -> None:
    data = make_examples(
        [ls.Cut(2, [(0, 1)])],
        labels=[[1, 1]],
        observed=[[1, 1]],
        channel=ls.Flips(0.1),
        modular="none",
    )
    assert decoding.best_factor(data, [1.0], [0.1, 0.9, 1.3, 2.0]) == 0.9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, t: decoding.modes(d, t[:-1]), "theta has 12 entries"),
        (lambda d, t: decoding.modes(d, -t), "must be at least 0"),
        (lambda d, t: decoding.modes(d, t * np.nan), "not finite"),
        (lambda d, t: decoding.modes(d, t, factor=-1.0), "factor"),
        (lambda d, t: decoding.means(d, t, method="bethe"), "auto, logistic, exact"),
        (lambda d, t: decoding.means(d, t, n_samples=0), "n_samples"),
        (lambda d, t: decoding.samples(d, t, 0), "n_samples"),
        (lambda d, t: decoding.best_factor(d, t, []), "factors is empty"),
        (lambda d, t: decoding.best_factor(d, t, [0.5, np.nan]), r"factors\[1\]"),
    ],
)
def test_bad_arguments_are_named(call, message: str) -> None:
    data, theta, _ = noisy_grids(0)
    with pytest.raises(ValueError, match=message):
        call(data, theta)


def test_a_factor_needs_labels() -> None:
    data = make_examples([ls.Cut(2, [(0, 1)])], observed=[[1, 1]], channel=ls.Flips(0.1))
    with pytest.raises(ValueError, match="labels are missing"):
        decoding.best_factor(data, np.zeros(3))


def test_features_are_enough_for_decoding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(3, 2, 4, 1))
    cuts = ls.grid_cuts((2, 4))
    data = make_examples(cuts, features=phi, modular="none")
    theta = np.array([0.4, 0.7, 1.3])
    f = 0.4 * cuts[0] + 0.7 * cuts[1]
    expected = np.array([probabilities(f, 1.3 * row.ravel()) for row in phi])
    np.testing.assert_allclose(decoding.means(data, theta).reshape(3, -1), expected, atol=1e-9)
    # each example has noise of its own, and the same in any company
    whole = decoding.means(data, theta, method="logistic")
    twice = make_examples(cuts, features=phi[[2, 2]], modular="none")
    np.testing.assert_array_equal(decoding.means(twice, theta, method="logistic"), whole[[2, 2]])
    flat = make_examples(cuts, features=0.0 * phi + np.arange(3)[:, None, None, None] * 1e-9)
    even = decoding.means(flat, np.append(theta[:2], np.zeros(9)), method="logistic")
    assert (even[0] != even[1]).any()
