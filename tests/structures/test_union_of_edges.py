"""The distinct edges of cuts, found without sorting on grids."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

import logsuper as ls
from logsuper._base import first_appearances
from logsuper.structures._structure import _union_of_steps, union_of_edges

SHAPES = [(1, 6), (6, 1), (2, 2), (3, 4), (5, 2), (2, 3, 4)]


def sorted_union(n, cuts):
    stacked = np.concatenate([np.empty((0, 2), dtype=np.int64), *(cut.edges for cut in cuts)])
    first, place = first_appearances(stacked[:, 0] * n + stacked[:, 1])
    return stacked[first], place


@given(st.data())
def test_as_by_sorting(data):
    shape = data.draw(st.sampled_from(SHAPES))
    n = int(np.prod(shape))
    most = 26 if len(shape) == 3 else 8
    grid = ls.grid_cuts(shape, neighbors=most)
    cuts = [data.draw(st.sampled_from(grid)) for _ in range(data.draw(st.integers(0, 6)))]
    if data.draw(st.booleans()):  # some that are not steps of a grid
        pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(
            lambda p: p[0] < p[1]
        )
        edges = data.draw(st.lists(pairs, max_size=5))
        other = ls.Cut(n, np.array(edges, dtype=np.int64).reshape(-1, 2), np.ones(len(edges)))
        cuts.insert(data.draw(st.integers(0, len(cuts))), other)
    found = union_of_edges(n, [(0, 1.0, cut) for cut in cuts])
    for one, other in zip(found, sorted_union(n, cuts), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)


def test_grids_are_not_sorted():
    for shape in SHAPES[2:]:
        cuts = ls.grid_cuts(shape, neighbors=26 if len(shape) == 3 else 8)
        every = [cut.edges for cut in cuts if len(cut.edges)]
        # in images that are two pixels wide two steps have one difference
        known = _union_of_steps([*every, *every])
        assert (known is None) == (shape[-1] == 2)
