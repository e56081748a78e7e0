"""Sweeps: the kernels, NumPy and different ways to see one function give the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from oracles import FAMILIES
from sampling_oracles import load, p_value, use

import logsuper as ls
from logsuper.functions import SubmodularFunction
from logsuper.functions._sum import split_modular
from logsuper.sampling import sample
from logsuper.sampling._scan import (
    GenericScan,
    PairwiseScan,
    Scan,
    Sweeps,
    checkerboard,
    from_image,
    make_scan,
)
from logsuper.structures import image_of, pairwise_of


def swept(
    scan: Scan, chains: int, sweeps: int = 7, step: int = 1, scale: float = 1.0, threads: int = 1
) -> np.ndarray:
    """Return where five problems are after some sweeps from fixed random states."""
    rng = np.random.default_rng(0)
    states = np.sort(rng.integers(0, 2, (5, chains, scan.n), dtype=np.uint8), axis=1)
    theta = scan.modular + rng.normal(size=(5, scan.n))
    times = range(40, 40 + sweeps * step, step)
    problems = np.arange(7, 12, dtype=np.uint64)
    scan.run(states, theta, Sweeps(99, problems, times, scale, threads))
    return states


def random_weights(rng: np.random.Generator, shape: tuple[int, int]) -> SubmodularFunction:
    """Return a grid whose weights span 18 orders: another order of a sum would be noticed."""
    cuts = [c.with_weights(10.0 ** rng.uniform(-1, 17, len(c.weights)).round()) for c in
            ls.grid_cuts(shape)]  # fmt: skip
    return cuts[0] + cuts[1] - ls.Modular(rng.normal(size=shape[0] * shape[1]))


SHAPES = [(1, 1), (1, 2), (2, 1), (1, 9), (9, 1), (2, 2), (3, 5), (8, 8), (7, 16), (6, 17), (5, 24)]


@each("shape", SHAPES)
@pytest.mark.parametrize("chains", [1, 2])
def test_grid_kernel_is_the_graph_kernel(
    shape: tuple[int, int], chains: int, seed: int, engine: str
) -> None:
    rng = np.random.default_rng(seed)
    for f in (
        random_weights(rng, shape),
        sum(ls.grid_cuts(shape)) - ls.Modular(np.ones(shape).ravel()),
    ):
        grid = image_of(f)
        assert grid is not None
        as_edges = PairwiseScan(from_image(grid), split_modular(f)[1], checkerboard(shape))
        for scale in (1.0, 0.3):
            first = swept(make_scan(f), chains, scale=scale)
            assert np.array_equal(first, swept(as_edges, chains, scale=scale))


@pytest.mark.parametrize("build", ["baseline", "avx2"])
@pytest.mark.parametrize("family", ["modular", "cut", "cut, wide weights", "directed cut", "grid"])
def test_kernels_and_numpy_give_the_same_bits(
    build: str, family: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = FAMILIES[family](np.random.default_rng(seed), 13)
    load(build)
    found = {}
    for engine in (build, "numpy"):
        use(monkeypatch, engine)
        found[engine] = [swept(make_scan(f), c, step=s) for c in (1, 2) for s in (1, -1)]
    for one, other in zip(found[build], found["numpy"], strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("family", ["cut", "grid", "directed cut"])
def test_pairwise_sweeps_are_generic_sweeps(family: str, seed: int) -> None:
    f = FAMILIES[family](np.random.default_rng(seed), 10)
    pairwise = pairwise_of(f)
    assert pairwise is not None
    g, t = split_modular(f)
    quick = PairwiseScan(pairwise, t, np.arange(10))
    for chains in (1, 2):
        assert np.array_equal(swept(quick, chains), swept(GenericScan(g, t), chains))


def test_pairwise_functions_that_are_no_cuts(seed: int) -> None:
    # an item that covers at most two elements is an edge, and a field that scales with it
    covers = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    f = ls.Coverage(covers, [1.0, 2.0, 0.5]) - ls.Modular([0.3, -0.2, 1.0])
    scan = make_scan(f)
    assert isinstance(scan, PairwiseScan)
    g, t = split_modular(f)
    generic = GenericScan(g, t)
    X = np.random.default_rng(seed).integers(0, 2, (20, 3), dtype=np.uint8)
    assert np.allclose(scan.energy(X), g(X))
    assert np.array_equal(swept(scan, 2, scale=0.7), swept(generic, 2, scale=0.7))


@pytest.mark.parametrize("family", ["grid", "cut", "log-det"])
def test_chains_move_alone_as_they_move_together(family: str) -> None:
    scan = make_scan(FAMILIES[family](np.random.default_rng(0), 9))
    both = swept(scan, 2)
    rng = np.random.default_rng(0)
    starts = np.sort(rng.integers(0, 2, (5, 2, 9), dtype=np.uint8), axis=1)
    theta = scan.modular + rng.normal(size=(5, 9))
    problems = np.arange(7, 12, dtype=np.uint64)
    for chain in (0, 1):
        alone = np.ascontiguousarray(starts[:, chain : chain + 1])
        scan.run(alone, theta, Sweeps(99, problems, range(40, 47)))
        assert np.array_equal(alone[:, 0], both[:, chain])


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_sweeps_can_be_cut_anywhere(n: int, seed: int, at: int) -> None:
    rng = np.random.default_rng(seed)
    f = FAMILIES["cut"](rng, n) if n > 1 else ls.Modular(rng.normal(size=1))
    scan = make_scan(f)
    whole = np.zeros((3, 2, n), dtype=np.uint8)
    whole[:, 1] = 1
    parts = whole.copy()
    problems = np.arange(3, dtype=np.uint64)
    theta = scan.modular[None]
    scan.run(whole, theta, Sweeps(seed, problems, range(6, -1, -1)))
    scan.run(parts, theta, Sweeps(seed, problems, range(6, at - 1, -1)))
    scan.run(parts, theta, Sweeps(seed, problems, range(at - 1, -1, -1), threads=2))
    assert np.array_equal(whole, parts)


def test_large_batches_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = make_scan(FAMILIES["grid"](np.random.default_rng(0), 12))
    whole = swept(scan, 2, sweeps=9)
    monkeypatch.setattr("logsuper.sampling._scan._BLOCK", 25)
    assert np.array_equal(whole, swept(scan, 2, sweeps=9, threads=2))


def test_scale_is_that_of_all_but_the_modular_terms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for family in ("grid", "log-det"):
        f = FAMILIES[family](rng, 4)
        g, t = split_modular(f)
        scan = make_scan(f)
        states = np.ascontiguousarray(sample(0.4 * g - ls.Modular(t), 3000, seed=seed)[:, None])
        problems = np.arange(3000, dtype=np.uint64)
        scan.run(states, scan.modular[None], Sweeps(1, problems, range(2), 0.4))
        assert p_value(states[:, 0], 0.4 * g - ls.Modular(t)) > 1e-4


def test_kernels_check_what_they_are_given() -> None:
    native = load("baseline")
    assert native is not None
    one, i64 = np.ones(2), np.int64
    states = np.zeros((1, 2, 2), np.uint8)
    theta, problems = np.zeros((1, 2)), np.zeros(1, np.uint64)
    order, start, ends = np.arange(2), np.array([0, 1, 2]), np.array([1, 0])
    scan = native.graph_scan(order, start, ends, one)
    scan.run(states, theta, 1.0, 0, problems, 0, 1, 1, 1)
    for bad in [
        lambda: native.graph_scan(np.zeros(2, i64), start, ends, one),
        lambda: native.graph_scan(order, start, np.array([1, 2]), one),
        lambda: native.graph_scan(order, np.array([0, 2, 1]), ends, one),
        lambda: native.graph_scan(order, np.array([0, 1, 3]), ends, one),
        lambda: native.graph_scan(order, start, ends, -one),
        lambda: native.grid_scan(np.ones((2, 2)), np.ones((1, 2))),
        lambda: native.grid_scan(np.ones((2, 1)), np.full((1, 2), np.nan)),
        lambda: native.clusters(2, np.array([[0, 2]]), np.ones(1)),
        lambda: scan.run(states[:, :, :1].copy(), theta, 1.0, 0, problems, 0, 1, 1, 1),
        lambda: scan.run(np.zeros((1, 3, 2), np.uint8), theta, 1.0, 0, problems, 0, 1, 1, 1),
        lambda: scan.run(states, np.zeros((3, 2)), 1.0, 0, problems, 0, 1, 1, 1),
        lambda: scan.run(states, theta, 1.0, 0, problems[:0], 0, 1, 1, 1),
        lambda: scan.run(states, theta, 1.0, 0, problems, 0, 2, -1, 1),
        lambda: scan.run(states, theta, 1.0, 0, problems, 2**32 - 1, 2, 1, 1),
        lambda: scan.run(states, theta, 1.0, 0, problems, 0, 1, 1, 0),
    ]:
        with pytest.raises(ValueError):
            bad()
