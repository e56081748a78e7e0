"""`perturb`: the same as solving under the documented noise, whatever the solver and the threads.

The stream itself is tested too: its law, and the independence of what it is keyed by.
"""

import importlib

import numpy as np
import pytest
import scipy.stats
from flow_oracles import random_edges
from oracles import FAMILIES, brute_log_partition, brute_maximize, random_kernel

import logsuper as ls
from logsuper.functions import (
    ConcaveCardinality,
    ConcaveOfModular,
    Coverage,
    Cut,
    LogDet,
    Modular,
    PairwiseGraph,
    PnPotts,
    RobustPn,
    SubmodularFunction,
    Sum,
    grid_cuts,
)
from logsuper.solvers import Perturbed, prepare
from logsuper.solvers import _flow as flow_module
from logsuper.solvers._noise import logistic_noise


def some_cut(rng, n, count):
    return Cut(n, random_edges(rng, n, count), rng.exponential(size=count) * 0.5)


class OwnFunction(SubmodularFunction):
    """A user's function, whose graph has a constant and an auxiliary node without edges."""

    def __init__(self, f):
        self.f, self.n = f, f.n

    def _evaluate(self, X):
        return self.f(X)

    def graph(self):
        g = self.f.graph()
        unary = np.append(g.unary, -1.5)
        return PairwiseGraph(g.n, g.n_aux + 1, g.edges, g.weights, unary, g.constant + 1.5)


STRUCTURES = {
    "image": lambda rng: grid_cuts((7, 9)),
    "image, 8 neighbours": lambda rng: grid_cuts((5, 13), 8),
    "volume": lambda rng: grid_cuts((3, 4, 5)),
    "volume, 26 neighbours": lambda rng: grid_cuts((3, 3, 4), 26),
    "modular parts": lambda rng: [
        grid_cuts((5, 7))[0] - Modular(rng.normal(size=35)),
        Modular(rng.normal(size=35)),
        grid_cuts((5, 7))[1],
    ],
    "sparse": lambda rng: [some_cut(rng, 33, 50), some_cut(rng, 33, 40)],
    "dense": lambda rng: [some_cut(rng, 20, 120)],
    "auxiliary nodes": lambda rng: [
        *grid_cuts((3, 6)),
        PnPotts(18, [[0, 1, 2, 6, 7, 8], [9, 10, 11]]) - Modular(rng.normal(size=18)),
        RobustPn(18, [rng.permutation(18)[:8]], 1.5, side=0),
        Coverage(rng.random((18, 5)) < 0.3),
    ],
    "only auxiliary nodes": lambda rng: [
        PnPotts(9, [[0, 1, 2, 3], [3, 4, 5, 6, 7]]),
        ConcaveCardinality(np.sqrt(np.arange(10.0))),
    ],
    "a constant": lambda rng: [OwnFunction(PnPotts(9, [[0, 1, 2, 3]])), some_cut(rng, 9, 12)],
    "modular": lambda rng: [Modular(rng.normal(size=9)), Modular(np.ones(9))],
    "cardinality": lambda rng: [ConcaveCardinality(np.sqrt(np.arange(10.0)) * 3)],
    "concave of modular": lambda rng: [ConcaveOfModular(np.sqrt, rng.exponential(size=9))],
    "log-determinant": lambda rng: [LogDet(random_kernel(rng, 6)), some_cut(rng, 6, 8)],
}


def build(name, seed=0, problems=3):
    rng = np.random.default_rng([seed, list(STRUCTURES).index(name)])
    functions = list(STRUCTURES[name](rng))
    prepared = prepare(functions)
    theta = rng.normal(size=(problems, prepared.n))
    return rng, functions, prepared, theta, rng.exponential(size=(problems, len(functions)))


def assert_same(a, b, tol=0.0):
    """Compare labels exactly, numbers to the last bit or (a batch of another size) nearly so."""
    np.testing.assert_array_equal(a.samples, b.samples)
    for name in ("mean", "stats", "values"):
        one, other = getattr(a, name), getattr(b, name)
        np.testing.assert_allclose(one, other, rtol=tol, atol=tol, err_msg=name)


# ------------------------------------------------------------ maximize under the reference noise


@pytest.mark.parametrize("name", STRUCTURES)
def test_equals_maximize_on_perturbed_fields(engine, name, seeds):
    for seed in seeds:
        rng, functions, prepared, theta, alpha = build(name, seed)
        n, k, samples, key = prepared.n, len(functions), 11, 2**64 - 1 - seed
        theta[1][rng.random(n) < 0.2] = np.inf
        theta[2][rng.random(n) < 0.2] = -np.inf
        alpha[0, 0] = 0.0
        out = prepared.perturb(theta, alpha, samples, key, return_samples=True)
        assert isinstance(out, Perturbed)
        assert out.samples.shape == (3, samples, n)
        assert out.samples.dtype == np.uint8
        assert (out.mean.shape, out.stats.shape, out.values.shape) == ((3, n), (3, k), (3, samples))
        noise = logistic_noise(key, range(3), range(samples), n)
        for m in range(3):
            y, values, stats = prepared.maximize(theta[m] + noise[m], alpha[m])
            np.testing.assert_array_equal(out.samples[m], y)
            np.testing.assert_allclose(out.values[m], values, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(out.stats[m], stats.mean(axis=0), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(out.mean[m], y.mean(axis=0), rtol=1e-15)


@pytest.mark.parametrize("name", STRUCTURES)
def test_moments_are_those_of_the_samples(engine, name):
    _, functions, prepared, theta, alpha = build(name)
    out = prepared.perturb(theta, alpha, 9, seed=5, return_samples=True)
    noise = logistic_noise(5, range(3), range(9), prepared.n)
    np.testing.assert_allclose(out.mean, out.samples.mean(axis=1), rtol=1e-15)
    for m in range(3):
        each = np.stack([f(out.samples[m]) for f in functions], axis=1)
        np.testing.assert_allclose(out.stats[m], each.mean(axis=0), rtol=1e-12, atol=1e-12)
        reached = ((theta[m] + noise[m]) * out.samples[m]).sum(axis=1) - each @ alpha[m]
        np.testing.assert_allclose(out.values[m], reached, rtol=1e-11, atol=1e-11)
    without = prepared.perturb(theta, alpha, 9, seed=5)
    assert without.samples is None
    for name in ("mean", "stats", "values"):
        np.testing.assert_array_equal(getattr(without, name), getattr(out, name))


@pytest.mark.parametrize("name", ["sum with a graph", "directed cut", "cardinality", "log-det"])
def test_against_enumeration(engine, name, seeds):
    for seed in seeds:
        rng = np.random.default_rng([seed, 40])
        f = FAMILIES[name](rng, 5)
        theta = rng.normal(size=5)
        out = prepare([f]).perturb(theta, [1.0], 20, seed=seed)
        _, best = brute_maximize(f, theta + logistic_noise(seed, 0, range(20), 5)[0])
        np.testing.assert_allclose(out.values[0], best, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "name", ["image", "image, 8 neighbours", "sparse", "dense", "auxiliary nodes"]
)
def test_edge_weights(engine, name):
    rng, functions, prepared, theta, alpha = build(name)
    count, k = len(prepared.edges), len(functions)
    noise = logistic_noise(3, range(3), range(6), prepared.n)
    for shape in ((count,), (3, count), (3, k, count)):
        factors = rng.exponential(size=shape)
        out = prepared.perturb(theta, alpha, 6, 3, return_samples=True, edge_weights=factors)
        for m in range(3):
            row = factors if factors.ndim == 1 else factors[m : m + 1]
            y, values, stats = prepared.maximize(theta[m] + noise[m], alpha[m], row)
            np.testing.assert_array_equal(out.samples[m], y)
            np.testing.assert_allclose(out.values[m], values, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(out.stats[m], stats.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("with_aux", [False, True], ids=["cuts", "auxiliary nodes"])
def test_an_infinite_field_still_pays_for_its_element(engine, with_aux):
    f = Cut(3, [(0, 1), (1, 2)]) + Modular([10.0, 0.0, 0.0])
    if with_aux:
        f = f + PnPotts(3, [[0, 1, 2]], 0.5)
    theta = np.array([np.inf, 50.0, 50.0])
    out = prepare([f]).perturb(theta, [1.0], 4, seed=1)
    noise = logistic_noise(1, 0, range(4), 3)[0]
    np.testing.assert_allclose(out.values[0], (theta + noise)[:, 1:].sum(axis=1) - 10.0)


# ------------------------------------------------------------------------- what must not matter


@pytest.mark.parametrize("name", STRUCTURES)
def test_threads_do_not_matter(engine, name):
    _, _, prepared, theta, alpha = build(name)
    alone = prepared.perturb(theta, alpha, 19, seed=7, return_samples=True, n_jobs=1)
    for n_jobs in (None, 2, 5, -1):
        assert_same(
            alone, prepared.perturb(theta, alpha, 19, seed=7, return_samples=True, n_jobs=n_jobs)
        )


def test_engines_give_the_same_samples(monkeypatch):
    """The same program draws the same samples on any machine: with AVX2, without, or with scipy."""
    modules = [None]
    for name in ("logsuper._kernels", "logsuper._kernels_avx2"):
        try:
            modules.append(importlib.import_module(name))
        except ImportError:
            continue
    if len(modules) == 1:
        pytest.skip("there is only one max-flow without the compiled kernels")
    if not modules[1].has_avx2():
        modules = modules[:2]
    for name in STRUCTURES:
        results = []
        for module in modules:
            monkeypatch.setattr(flow_module, "kernels", lambda module=module: module)
            _, _, prepared, theta, alpha = build(name)
            results.append(prepared.perturb(theta, alpha, 8, seed=11, return_samples=True))
        for other in results[1:]:
            np.testing.assert_array_equal(results[0].samples, other.samples, err_msg=name)
            np.testing.assert_allclose(results[0].values, other.values, rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(results[0].stats, other.stats, rtol=1e-11, atol=1e-11)
        for name in ("mean", "stats", "values", "samples"):  # both builds: to the last bit
            if len(results) == 3:
                a, b = getattr(results[1], name), getattr(results[2], name)
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_stream_goes_on_where_it_stopped(engine, name):
    _, _, prepared, theta, alpha = build(name)
    whole = prepared.perturb(theta, alpha, 13, seed=9, return_samples=True)
    parts = [
        prepared.perturb(theta, alpha, count, seed=9, return_samples=True, first_sample=first)
        for first, count in ((0, 5), (5, 1), (6, 7))
    ]
    joined = np.concatenate([part.samples for part in parts], axis=1)
    np.testing.assert_array_equal(joined, whole.samples)
    values = np.concatenate([part.values for part in parts], axis=1)
    np.testing.assert_allclose(values, whole.values, rtol=1e-13, atol=1e-13)


def test_the_last_samples_of_a_stream(engine):
    prepared = prepare(grid_cuts((3, 5)))
    first = 2**32 - 3
    out = prepared.perturb(np.zeros(15), [1.0, 1.0], 3, 1, return_samples=True, first_sample=first)
    noise = logistic_noise(1, 0, range(first, 2**32), 15)[0]
    np.testing.assert_array_equal(out.samples[0], prepared.maximize(noise, [1.0, 1.0])[0])


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_batch_does_not_matter(engine, name):
    """Problem m draws stream m, however many problems there are; one row goes with many."""
    _, _, prepared, theta, alpha = build(name)
    whole = prepared.perturb(theta, alpha, 5, seed=2, return_samples=True)
    for count in (1, 2):
        part = prepared.perturb(theta[:count], alpha[:count], 5, seed=2, return_samples=True)
        np.testing.assert_array_equal(part.samples, whole.samples[:count])
    for one, many in (
        (theta[0], alpha),
        (theta[:1], alpha),
        (theta, alpha[0]),
        (theta, alpha[:1]),
    ):
        tiled = np.broadcast_to(one, theta.shape), np.broadcast_to(many, alpha.shape)
        assert_same(
            prepared.perturb(one, many, 5, seed=2, return_samples=True),
            prepared.perturb(*tiled, 5, seed=2, return_samples=True),
            tol=1e-13,
        )
    single = prepared.perturb(theta[0], alpha[0], 5, seed=2)
    assert single.mean.shape == (1, prepared.n)  # always a batch


def test_blocks_of_samples_do_not_show(engine, monkeypatch):
    """Functions with auxiliary nodes are evaluated block by block; the noise must not notice."""
    _, _, prepared, theta, alpha = build("auxiliary nodes", problems=5)
    whole = prepared.perturb(theta, alpha, 6, seed=4)
    monkeypatch.setattr(flow_module, "_SAMPLE_BYTES", 1)
    blocks = prepared.perturb(theta, alpha, 6, seed=4)
    for name in ("mean", "stats", "values"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(blocks, name))


def test_keys_differ(engine):
    prepared = prepare(grid_cuts((6, 6)))
    found = [
        prepared.perturb(np.zeros(36), [0.3, 0.3], 4, key, return_samples=True).samples.tobytes()
        for key in (0, 1, 2**32, 2**63, 2**64 - 1)
    ]
    assert len(set(found)) == 5


def test_key_may_be_a_numpy_integer(engine):
    prepared = prepare([Cut(3, [(0, 1)])])
    for key in (5, np.int64(5), np.uint64(5)):
        out = prepared.perturb(np.zeros(3), 1.0, np.int32(3), key, return_samples=True)
        assert_same(out, prepared.perturb(np.zeros(3), 1.0, 3, 5, return_samples=True))


@pytest.mark.parametrize("name", STRUCTURES)
def test_empty_batches(engine, name):
    _, functions, prepared, theta, alpha = build(name)
    out = prepared.perturb(theta[:0], alpha[0], 4, seed=1, return_samples=True)
    n, k = prepared.n, len(functions)
    assert (out.mean.shape, out.stats.shape) == ((0, n), (0, k))
    assert (out.values.shape, out.samples.shape) == ((0, 4), (0, 4, n))


def test_no_elements(engine):
    for f in (Modular(np.zeros(0)), Cut(0, [])):
        out = prepare([f]).perturb(np.zeros((2, 0)), [1.0], 3, seed=1, return_samples=True)
        assert (out.mean.shape, out.samples.shape) == ((2, 0), (2, 3, 0))
        np.testing.assert_array_equal(out.values, np.zeros((2, 3)))
        np.testing.assert_array_equal(out.stats, np.zeros((2, 1)))


# ------------------------------------------------------------------------------ known answers


def draws(engine, fast, slow):
    """Number of samples: the fallback gets by with fewer."""
    return slow if engine == "scipy" else fast


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("key", [1, 2])
def test_two_nodes_are_cut_with_known_probability(engine, alpha, key):
    """P(cut) = 2 sigma(-alpha)^2 for two elements without a field."""
    samples = draws(engine, 200_000, 10_000)
    out = prepare([Cut(2, [(0, 1)])]).perturb(np.zeros(2), [alpha], samples, key)
    p = 2 / (1 + np.exp(alpha)) ** 2
    assert abs(out.stats[0, 0] - p) < 4.5 * np.sqrt(p * (1 - p) / samples)
    assert np.all(np.abs(out.mean - 0.5) < 4.5 * 0.5 / np.sqrt(samples))


@pytest.mark.parametrize("key", [3, 4])
def test_independent_elements_follow_their_fields(engine, key):
    """Without weights y_d = 1[theta_d + z_d > 0]: marginals are sigma(theta), A = sum softplus."""
    theta = np.linspace(-3, 3, 12)
    samples = draws(engine, 100_000, 10_000)
    for functions, alpha in ((grid_cuts((3, 4)), [0.0, 0.0]), ([Modular(np.zeros(12))], [1.0])):
        out = prepare(functions).perturb(theta, alpha, samples, key)
        p = 1 / (1 + np.exp(-theta))
        assert np.all(np.abs(out.mean[0] - p) < 4.5 * np.sqrt(p * (1 - p) / samples))
        expected = np.logaddexp(0, theta).sum()
        error = out.values[0].std() / np.sqrt(samples)
        assert abs(out.values[0].mean() - expected) < 4.5 * error


@pytest.mark.parametrize("name", ["cut", "grid", "sum with a graph", "cardinality"])
def test_the_mean_value_bounds_the_log_partition_function(engine, name, seeds):
    for seed in seeds:
        rng = np.random.default_rng([seed, 41])
        f = 0.3 * FAMILIES[name](rng, 6)
        samples = draws(engine, 4000, 800)
        values = prepare([f]).perturb(np.zeros(6), [1.0], samples, seed=seed).values[0]
        assert values.mean() > brute_log_partition(f) - 4 * values.std() / np.sqrt(samples)


@pytest.mark.parametrize("strength", [1e4, 1e8, 1e12])
def test_strong_weights_leave_the_sum_of_the_noise(engine, strength):
    """As alpha grows, V becomes max(0, sum of theta + z), and y one label for all."""
    prepared = prepare(grid_cuts((6, 6)))
    out = prepared.perturb(np.full(36, 0.1), [strength] * 2, 400, seed=8, return_samples=True)
    total = (0.1 + logistic_noise(8, 0, range(400), 36)[0]).sum(axis=1)
    np.testing.assert_allclose(out.values[0], np.maximum(total, 0), atol=1e-10)
    np.testing.assert_array_equal(out.samples[0], np.tile(total[:, None] > 0, 36))


def test_mean_of_the_stats_is_the_slope_of_the_value(engine):
    """With the noise held fixed, dV/dalpha = -stats and dV/dtheta = mean, almost everywhere."""
    prepared = prepare(grid_cuts((6, 7)))
    rng = np.random.default_rng(42)
    theta, alpha, step = rng.normal(size=42), np.array([0.6, 0.9]), 1e-6
    out = prepared.perturb(theta, alpha, 50, seed=6)

    def value(theta, alpha):
        return prepared.perturb(theta, alpha, 50, seed=6).values.mean()

    for k in range(2):
        move = step * np.eye(2)[k]
        slope = (value(theta, alpha + move) - value(theta, alpha - move)) / (2 * step)
        assert slope == pytest.approx(-out.stats[0, k], abs=2e-6)
    for d in (0, 17, 41):
        move = step * np.eye(42)[d]
        slope = (value(theta + move, alpha) - value(theta - move, alpha)) / (2 * step)
        assert slope == pytest.approx(out.mean[0, d], abs=2e-6)


# ---------------------------------------------------------------------------------- the stream

N = 1 << 17


def stream(native, key=0, problem=0, sample=0, n=N):
    out = np.empty(n)
    native.draw_noise(key, problem, sample, out)
    return out


@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 8, 31, 32, 33, 63, 64, 65, 1000])
def test_the_kernel_draws_the_reference_stream(native, n):
    for key, problem, sample in (
        (0, 0, 0),
        (1, 0, 0),
        (2**32, 0, 0),
        (2**64 - 1, 2**64 - 1, 2**32 - 1),
        (0x0123456789ABCDEF, 2**32, 7),
        (5, 2**32 - 1, 2**31),
    ):
        mine = stream(native, key, problem, sample, n)
        other = logistic_noise(key, [problem], [sample], n)[0, 0]
        np.testing.assert_array_equal(mine, other)  # the same bits on any machine


def test_a_long_stream_to_the_last_element(native):
    mine = stream(native, key=77, problem=3, sample=9, n=N + 5)
    np.testing.assert_array_equal(mine, logistic_noise(77, [3], [9], N + 5)[0, 0])


def test_the_stream_has_the_same_bits_in_both_builds(native):
    baseline = importlib.import_module("logsuper._kernels")
    np.testing.assert_array_equal(stream(native, 123), stream(baseline, 123))


@pytest.mark.parametrize("key", [0, 1, 2**40 + 3, 2**64 - 1])
def test_the_law_is_standard_logistic(native, key):
    z = stream(native, key)
    assert scipy.stats.kstest(z, "logistic").pvalue > 1e-3
    assert abs(z.mean()) < 4 * np.pi / np.sqrt(3 * N)
    # variance pi^2 / 3, and a fourth moment of 7 pi^4 / 15
    spread = np.sqrt((7 / 15 - 1 / 9) * np.pi**4 / N)
    assert abs((z**2).mean() - np.pi**2 / 3) < 4 * spread
    # the tails: P(|z| > t) = 2 sigma(-t)
    for t in (3.0, 6.0, 9.0):
        p = 2 / (1 + np.exp(t))
        assert abs((np.abs(z) > t).mean() - p) < 4.5 * np.sqrt(p / N)
    assert np.abs(z).max() <= np.log(2**33 - 1) + 1e-6


def uncorrelated(a, b):
    """Whether two streams of logistic numbers have no correlation: of values, sizes or signs."""
    limit = 4.5 / np.sqrt(len(a))
    for change in (lambda z: z, np.abs, np.sign, lambda z: scipy.stats.rankdata(np.abs(z) % 1)):
        if abs(np.corrcoef(change(a), change(b))[0, 1]) > limit:
            return False
    return not np.any(a == b) or (a == b).mean() < 1e-4


@pytest.mark.parametrize("bit", [0, 1, 7, 31, 32, 33, 63])
def test_streams_of_different_keys_are_independent(native, bit):
    for key in (0, 987654321):
        assert uncorrelated(stream(native, key), stream(native, key ^ (1 << bit)))


@pytest.mark.parametrize("bit", [0, 1, 5, 31, 32, 63])
def test_streams_of_different_problems_are_independent(native, bit):
    for problem in (0, 12345):
        other = stream(native, 8, problem ^ (1 << bit))
        assert uncorrelated(stream(native, 8, problem), other)


@pytest.mark.parametrize("bit", [0, 1, 5, 16, 31])
def test_streams_of_different_samples_are_independent(native, bit):
    for sample in (0, 99):
        other = stream(native, 8, 1, sample ^ (1 << bit))
        assert uncorrelated(stream(native, 8, 1, sample), other)


def test_key_problem_and_sample_are_not_interchangeable(native):
    streams = [stream(native, *which) for which in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 2**32, 0))]
    for i, a in enumerate(streams):
        for b in streams[:i]:
            assert uncorrelated(a, b)


@pytest.mark.parametrize("lag", [1, 2, 4, 7, 8, 16, 31, 32, 33, 64, 128, 1000])
def test_elements_are_independent_of_their_neighbours(native, lag):
    for key in (0, 31415):
        z = stream(native, key)
        assert uncorrelated(z[:-lag], z[lag:])


def test_an_element_is_independent_from_sample_to_sample(native):
    """One element over many samples and problems: its series is what a learner averages."""
    for d in (0, 13):
        series = np.array([stream(native, 4, 0, s, 16)[d] for s in range(20_000)])
        assert scipy.stats.kstest(series, "logistic").pvalue > 1e-3
        assert uncorrelated(series[:-1], series[1:])
        series = np.array([stream(native, 4, p, 0, 16)[d] for p in range(20_000)])
        assert scipy.stats.kstest(series, "logistic").pvalue > 1e-3
        assert uncorrelated(series[:-1], series[1:])


def test_pairs_fill_the_square(native):
    """A chi-square test of neighbouring pairs on a 16 x 16 table of equal cells."""
    for key in (0, 271828):
        u = scipy.stats.logistic.cdf(stream(native, key))
        cells = np.histogram2d(u[::2], u[1::2], bins=16, range=[[0, 1], [0, 1]])[0]
        assert scipy.stats.chisquare(cells.ravel()).pvalue > 1e-3


def test_sum_of_functions_is_not_needed(engine):
    """perturb on [f, g] has the samples of perturb on [a f + b g]: the noise is the problem's."""
    rng = np.random.default_rng(43)
    f, g = some_cut(rng, 12, 20), Modular(rng.normal(size=12))
    apart = prepare([f, g]).perturb(np.zeros(12), [0.7, 1.3], 9, 1, return_samples=True)
    whole = Sum([(0.7, f), (1.3, g)])
    together = prepare([whole]).perturb(np.zeros(12), [1.0], 9, 1, return_samples=True)
    np.testing.assert_array_equal(apart.samples, together.samples)
    np.testing.assert_allclose(apart.stats @ [0.7, 1.3], together.stats[:, 0], atol=1e-12)


@pytest.mark.parametrize("solver", ["grid", "graph", "min_norm"])
def test_a_problem_keeps_its_noise_with_its_number(solver, seed):
    f = {
        "grid": ls.grid_cuts((3, 4)),
        "graph": [ls.PnPotts(12, [[0, 1, 2], [3, 4, 5]])],
        "min_norm": [ls.LogDet(np.eye(12) + 0.1)],
    }[solver]
    prepared = prepare(f)
    assert prepared.solver in (solver, "graph")  # grids are graphs without kernels
    rng = np.random.default_rng(seed)
    theta, alpha = rng.standard_normal((4, 12)), np.full(len(f), 0.5)
    numbers = np.array([7, 2**63 + 1, 0, 5], dtype=np.uint64)
    whole = prepared.perturb(theta, alpha, 6, seed=3, numbers=numbers, return_samples=True)
    order = rng.permutation(4)
    mixed = prepared.perturb(
        theta[order], alpha, 6, seed=3, numbers=numbers[order], return_samples=True
    )
    assert (mixed.samples == whole.samples[order]).all()
    assert (mixed.values == whole.values[order]).all()
    plain = prepared.perturb(theta, alpha, 6, seed=3)
    for named in (numbers.tolist(), [*map(int, numbers)], list(numbers)):
        same = prepared.perturb(theta, alpha, 6, seed=3, numbers=named, return_samples=True)
        np.testing.assert_array_equal(same.samples, whole.samples)
    given = prepared.perturb(theta, alpha, 6, seed=3, numbers=range(4))
    assert (plain.values == given.values).all() and (plain.values != whole.values).any()


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ([0], ValueError, r"numbers must have shape \(2,\)"),
        ([0.0, 1.0], TypeError, "numbers must hold integers"),
        ([3, -1], ValueError, r"numbers\[1\] = -1 must be at least 0"),
        ([0, 2**64], ValueError, r"numbers\[1\] = 18446744073709551616 must .* below 2\*\*64"),
        ([-1, 2**64 - 1], ValueError, r"numbers\[0\] = -1 must"),
        ([True, False], TypeError, "numbers must hold integers, got dtype bool"),
        ([0.5, 2**64 - 1], TypeError, "numbers must hold integers"),
        (["a", "b"], TypeError, "numbers must hold integers"),
    ],
)
def test_refuses_numbers(numbers, error, message):
    with pytest.raises(error, match=message):
        prepare(ls.grid_cuts((2, 2))).perturb(np.zeros((2, 4)), [1, 1], 2, 0, numbers=numbers)
