"""Cuts and grids beyond what holds for every family."""

import numpy as np
import pytest
from oracles import enumerate_x, random_cut

from logsuper.functions import Cut, grid_cuts


def test_equal_pairs_are_merged_and_the_order_is_kept():
    f = Cut(5, [(4, 2), (0, 1), (2, 4), (3, 0)], [1.0, 2.0, 4.0, 8.0])
    assert f.edges.tolist() == [[2, 4], [0, 1], [0, 3]]
    assert f.weights.tolist() == [5.0, 2.0, 8.0]
    assert f.shape is None


def test_arrays_cannot_change_under_the_function():
    edges, weights = np.array([(0, 1)]), np.array([1.0])
    f = Cut(2, edges, weights)
    edges[:], weights[:] = 0, 5.0
    assert f([1, 0]) == 1.0
    with pytest.raises(ValueError, match="read-only"):
        f.weights[0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        f.edges[0] = 0


def test_other_weights_on_the_same_edges(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (20, 12))
    for f in (random_cut(rng, 12), grid_cuts((3, 4))[0]):
        f.gains(X)
        weights = rng.exponential(size=len(f.weights))
        g = f.with_weights(weights)
        same = Cut(12, f.edges, weights)
        np.testing.assert_allclose(g(X), same(X))
        np.testing.assert_allclose(g.gains(X), same.gains(X))
        assert g.shape == f.shape
        assert f.with_weights(2.0)(X) == pytest.approx(2.0 * f.with_weights(1.0)(X))
    with pytest.raises(ValueError, match=r"weights\[1\] = -1 is negative"):
        f.with_weights([0.0, -1.0] + [1.0] * (len(f.weights) - 2))


def test_an_uncut_heavy_edge_does_not_blur_a_light_one():
    f = Cut(4, [(0, 1), (2, 3)], [1e18, 1.0])
    assert f([1, 1, 1, 0]) == 1.0


@pytest.mark.parametrize(
    ("shape", "neighbors", "offsets"),
    [
        ((7,), None, [(1,)]),
        ((5, 4), None, [(0, 1), (1, 0)]),
        ((5, 4), 8, [(0, 1), (1, 0), (1, 1), (1, -1)]),
        ((1, 6), 8, [(0, 1), (1, 0), (1, 1), (1, -1)]),
        ((6, 1), 8, [(0, 1), (1, 0), (1, 1), (1, -1)]),
        ((1, 1), 4, [(0, 1), (1, 0)]),
        ((3, 4, 2), None, [(0, 0, 1), (0, 1, 0), (1, 0, 0)]),
    ],
)
def test_grid_edges_join_neighbours(shape, neighbors, offsets):
    cuts = grid_cuts(shape, neighbors)
    assert len(cuts) == len(offsets)
    pixels = list(np.ndindex(*shape))
    for cut, offset in zip(cuts, offsets, strict=True):
        expected = []
        for i, pixel in enumerate(pixels):
            other = tuple(np.add(pixel, offset).tolist())
            if other in pixels:
                expected.append([i, pixels.index(other)])
        assert sorted(cut.edges.tolist()) == expected
        assert cut.weights.tolist() == [1.0] * len(expected)
        assert (cut.n, cut.shape, cut.offset) == (len(pixels), shape, offset)


@pytest.mark.parametrize(("neighbors", "count"), [(6, 3), (18, 9), (26, 13)])
def test_volume_neighbourhoods_are_complete(neighbors, count):
    cuts = grid_cuts((3, 3, 3), neighbors)
    assert len(cuts) == count
    center = [pair for cut in cuts for pair in cut.edges.tolist() if 13 in pair]
    assert len({tuple(pair) for pair in center}) == neighbors
    assert [cut.offset for cut in cuts[:3]] == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    for cut in cuts:
        assert (cut.edges[:, 0] < cut.edges[:, 1]).all()


def test_spacing_divides_by_the_distance():
    weights = [cut.weights[0] for cut in grid_cuts((4, 4), 8, spacing=(3.0, 4.0))]
    assert weights == pytest.approx([1 / 4, 1 / 3, 1 / 5, 1 / 5])
    weights = [cut.weights[0] for cut in grid_cuts((2, 2, 2), 26, spacing=(2.0, 1.0, 1.0))]
    assert weights[:3] == [1.0, 1.0, 0.5]
    assert weights[-1] == pytest.approx(1 / np.sqrt(6))


@pytest.mark.parametrize("shape", [(4, 3), (1, 5), (2, 3, 2), (8,)])
def test_slices_agree_with_index_lists(shape, seed):
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    X, W = rng.integers(0, 2, (30, n)), np.rint(rng.normal(size=(30, n)))
    for cut in grid_cuts(shape, {1: 2, 2: 8, 3: 26}[len(shape)]):
        plain = Cut(n, cut.edges, cut.weights)
        np.testing.assert_allclose(cut(X), plain(X))
        np.testing.assert_allclose(cut.gains(X), plain.gains(X))
        np.testing.assert_allclose(cut.greedy(W), plain.greedy(W))
        np.testing.assert_allclose(cut.lovasz(W), plain.lovasz(W))
        fixed = {0: 1, n - 1: 0}
        g, c = cut.condition(fixed)
        h, d = plain.condition(fixed)
        assert c == d
        np.testing.assert_allclose(g(X[:, 2:]), h(X[:, 2:]))


def test_a_large_grid_costs_nothing_until_its_edges_are_asked_for():
    f, _ = grid_cuts((100_000, 100_000))
    assert f.weights.nbytes > 10**10  # one number, seen ten billion times
    assert f.weights.strides == (0,)
    assert f.with_weights(2.0).weights.strides == (0,)
    with pytest.raises(ValueError, match="weights must be"):
        f.with_weights([1.0, 2.0])


def test_tiny_and_large_pixels():
    for size in (1e-300, 1e300):
        f = grid_cuts((2, 2), 8, [size, size])[2]
        assert f.weights[0] == pytest.approx(np.sqrt(0.5) / size, rel=1e-14)


def test_conditioning_by_the_formula():
    """t_i += w for a neighbour fixed to 1, -= w for one fixed to 0; the constant is kept."""
    f = Cut(4, [(0, 1), (1, 2), (2, 3), (0, 3)], [1.0, 2.0, 4.0, 8.0])
    g, constant = f.condition({0: 1, 2: 0})
    assert constant == 1.0 + 8.0
    np.testing.assert_array_equal(g(enumerate_x(2)), [0.0, -1.0 + 2.0, 4.0 - 8.0, -3.0])
