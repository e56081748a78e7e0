"""Blocks of noise: their law, and the mean over them."""

import numpy as np
import pytest
import scipy.stats

from logsuper.bounds._draws import (
    Draws,
    block_means,
    block_sizes,
    frequency_error,
    hardly_any,
    independent,
    is_modular,
    latin_hypercube,
    logit,
    mean_of_blocks,
    seldom,
    t_interval,
)
from logsuper.functions import Cut, Modular


@pytest.mark.parametrize("rows", [1, 2, 9, 100])
def test_every_column_is_stratified(rows, seed):
    u = latin_hypercube(np.random.default_rng(seed), rows, 40)
    np.testing.assert_array_equal(np.sort(np.floor(u * rows), axis=0).T, [np.arange(rows)] * 40)


def test_rows_are_uniform_and_columns_unrelated(seed):
    rng = np.random.default_rng(seed)
    u = np.stack([latin_hypercube(rng, 4, 2)[0] for _ in range(4000)])
    assert scipy.stats.kstest(u[:, 0], "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(u.T)[0, 1]) < 0.08


def test_logit_is_finite():
    z = logit(np.array([0.0, 2.0**-53, 0.5, 1.0 - 2.0**-53, 1.0]))
    assert np.isfinite(z).all()
    assert z[2] == 0.0
    assert (np.diff(z)[1:3] > 0).all()


@pytest.mark.parametrize("samples", [2, 3, 5, 19, 20, 90, 101, 999, 1001, 54321])
def test_block_sizes(samples):
    sizes = block_sizes(samples)
    assert sizes.sum() == samples
    assert np.ptp(sizes) <= 1
    assert sizes.max() <= 100
    assert len(sizes) >= 10 or (len(sizes) >= 2 and sizes.max() <= 3)


def test_block_mean_of_single_draws_is_the_usual_one(seed):
    x = np.random.default_rng(seed).normal(size=(50, 3))
    mean, stderr = mean_of_blocks(block_means(x, np.ones(50, int)), np.ones(50, int))
    np.testing.assert_allclose(mean, x.mean(axis=0))
    np.testing.assert_allclose(stderr, scipy.stats.sem(x))
    low, high = t_interval(mean[0], stderr[0], 50, 0.9)
    expected = scipy.stats.t.interval(0.9, 49, mean[0], stderr[0])
    np.testing.assert_allclose((low, high), expected)


def test_standard_error_of_unequal_blocks(seed):
    rng = np.random.default_rng(seed)
    sizes = np.array([3, 3, 2, 2, 2])
    runs = [mean_of_blocks(block_means(rng.normal(size=12), sizes), sizes) for _ in range(4000)]
    means, errors = np.array(runs).T
    assert (errors**2).mean() == pytest.approx(means.var(), rel=0.1)


def test_batches_do_not_change_the_draws(monkeypatch, seed):
    def collect():
        draws = Draws(Cut(5, [(0, 1), (1, 2)]), seed, None)
        parts = list(draws.solve(np.array([4, 3, 3]), independent))
        return len(parts), [np.concatenate(part) for part in zip(*parts, strict=True)]

    one, together = collect()
    monkeypatch.setattr("logsuper.bounds._draws._HELD", 1)
    three, apart = collect()
    assert (one, three) == (1, 3)
    for x, y in zip(together, apart, strict=True):
        np.testing.assert_array_equal(x, y)


def test_two_draws_have_a_standard_error():
    assert len(block_sizes(2)) == len(block_sizes(3)) == 2


@pytest.mark.parametrize("p", [1e-4, 0.01, 0.03, 0.3])
def test_errors_of_frequencies_cover_what_was_not_seen(p):
    """The usual error is 0 where nothing differed, and covers 63 % at p = .01."""
    mean = np.random.default_rng(0).binomial(100, p, 20_000) / 100
    error = frequency_error(mean, 100)
    assert error.min() > 0
    assert (np.abs(mean - p) <= 1.96 * error).mean() > 0.93


def test_hardly_any_and_modular():
    values = np.zeros(100)
    assert hardly_any(values)
    values[:20] = 1.0
    assert not hardly_any(values)
    assert is_modular(Modular([1.0, 2.0]))
    assert not is_modular(Cut(2, [(0, 1)]))
    assert seldom(np.array([0.0, 0.05, 0.5, 0.99]), 100).tolist() == [True, True, False, True]
