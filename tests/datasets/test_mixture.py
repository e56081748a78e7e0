import numpy as np
import pytest

import logsuper as ls
from logsuper.datasets import gaussian_mixture_graph

# L-field bounds on log Z of the conditional model, mean over the data sets 0 to 4, by k.
PUBLISHED_SETTING = {
    1.0: {1: 56.81, 5: 21.15, 10: 3.81, 25: -2.63, 50: -2.84},
    3.0: {1: 65.82, 5: 51.55, 10: 37.37, 25: 14.05, 50: 0.00},
}


def test_points_labels_and_weights(seed):
    points, labels, cut = gaussian_mixture_graph(points=7, decay=0.7, seed=seed)
    assert points.shape == (14, 2) and points.dtype == np.float64
    assert labels.tolist() == [1] * 7 + [0] * 7
    assert cut.n == 14 and len(cut.edges) == 14 * 13 // 2
    for (i, j), weight in zip(cut.edges, cut.weights, strict=True):
        assert weight == pytest.approx(np.exp(-0.7 * np.hypot(*(points[i] - points[j]))), rel=1e-12)


def test_same_seed_same_points_at_any_decay(seed):
    one, two = (gaussian_mixture_graph(decay=c, seed=seed) for c in (1.0, 3.0))
    assert np.array_equal(one.points, two.points)
    assert np.allclose(one.cut.weights**3, two.cut.weights, rtol=1e-9)
    assert not np.array_equal(one.points, gaussian_mixture_graph(seed=seed + 1).points)


def test_clusters_have_the_stated_law():
    clouds = np.array([gaussian_mixture_graph(2, seed=s).points for s in range(2000)])
    first, second = clouds[:, :2], clouds[:, 2:]
    # a point is N(+-3, 2) along each axis, half of it shared with its neighbour
    for cloud, centre in ((first, 3.0), (second, -3.0)):
        assert np.allclose(cloud.mean(axis=(0, 1)), centre, atol=5 * np.sqrt(1.5 / 2000))
        assert np.allclose(cloud.var(axis=0), 2.0, atol=5 * 2.0 * np.sqrt(2 / 2000))
        shared = np.mean((cloud[:, 0] - centre) * (cloud[:, 1] - centre))
        assert shared == pytest.approx(1.0, abs=5 * np.sqrt(5 / 4000))


@pytest.mark.parametrize("decay", PUBLISHED_SETTING)
def test_reproduces_known_lfield_bounds(decay):
    for k, known in PUBLISHED_SETTING[decay].items():
        fixed = {**dict.fromkeys(range(k), 1), **dict.fromkeys(range(50, 50 + k), 0)}
        bounds = []
        for number in range(5):
            g, constant = gaussian_mixture_graph(decay=decay, seed=number).cut.condition(fixed)
            s = ls.min_norm_point(g).s if g.n else np.empty(0)
            bounds.append(np.logaddexp(0.0, -s).sum() - constant)
        assert np.mean(bounds) == pytest.approx(known, abs=0.006)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"points": 0}, ValueError, "points must be from 1 to 2000"),
        ({"points": 10**9}, ValueError, "points must be from 1 to 2000"),
        ({"points": 2.5}, TypeError, "points must be an integer"),
        ({"decay": -1.0}, ValueError, "decay must be at least 0"),
        ({"decay": float("nan")}, ValueError, "decay must be finite"),
        ({"separation": float("inf")}, ValueError, "separation must be finite"),
        ({"separation": -0.1}, ValueError, "separation must be at least 0"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"seed": "zero"}, TypeError, "seed must be an integer"),
    ],
)
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        gaussian_mixture_graph(**options)


def test_one_point_each_and_extreme_decay():
    assert gaussian_mixture_graph(1, decay=0.0).cut.weights.tolist() == [1.0]
    assert np.all(gaussian_mixture_graph(5, decay=1e6).cut.weights < 1e-300)
