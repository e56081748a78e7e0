"""Exact samples of trees, and how a forest is directed."""

from __future__ import annotations

import numpy as np
import pytest
from sampling_oracles import p_value

import logsuper as ls
from logsuper._base import root_forest
from logsuper.sampling import sample


def random_forest(rng: np.random.Generator, n: int, share: float = 0.8) -> np.ndarray:
    """Return the edges of a forest: most elements hang below a random one before it."""
    label = rng.permutation(n)
    edges = [
        (label[i], label[rng.integers(i)])[:: rng.choice([1, -1])]
        for i in range(1, n)
        if rng.random() < share
    ]
    return rng.permutation(np.array(edges, dtype=np.int64).reshape(-1, 2))


def random_model(rng: np.random.Generator, n: int) -> ls.SubmodularFunction:
    edges = random_forest(rng, n)
    return ls.Cut(n, edges, rng.exponential(size=len(edges))) - ls.Modular(rng.normal(size=n))


def test_samples_have_the_law_of_the_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for n in (1, 2, 5):
        f = random_model(rng, n)
        assert p_value(sample(f, 4000, "ancestral", seed=seed), f) > 1e-4


def test_strong_couplings_cost_nothing() -> None:
    edges = [(i, i + 1) for i in range(199)]
    f = ls.Cut(200, edges, 40.0) - ls.Modular(np.linspace(-1.0, 1.0, 200) / 200)
    X = sample(f, 4000, "ancestral", seed=0)
    assert (X == X[:, :1]).all()  # all agree, in one of two states of equal weight
    assert abs(X[:, 0].mean() - 0.5) < 0.04
    with pytest.raises(ls.NotCoalesced):
        sample(f, 10, "cftp", seed=0, max_iter=64)


def test_samples_depend_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    f = random_model(np.random.default_rng(0), 9)
    X = sample(f, 50, "ancestral", seed=3)
    assert np.array_equal(X[:7], sample(f, 7, "ancestral", seed=3))
    assert not np.array_equal(X, sample(f, 50, "ancestral", seed=4))
    monkeypatch.setattr("logsuper.sampling._ancestral._BLOCK", 30)
    assert np.array_equal(X, sample(f, 50, "ancestral", seed=3, n_jobs=2))


def test_fields_of_all_magnitudes() -> None:
    f = ls.Cut(3, [(0, 1), (1, 2)], [1e300, 1e-300]) - ls.Modular([1e299, -1e10, 0.0])
    X = sample(f, 2000, "ancestral", seed=0)
    assert (X[:, :2] == 1).all() and abs(X[:, 2].mean() - 0.5) < 0.06
    with pytest.raises(ValueError, match="overflow; rescale f"):
        sample(ls.Cut(2, [(0, 1)], 1.7e308), 1, "ancestral", seed=0)


def test_what_is_no_forest_is_refused() -> None:
    cycle = ls.Cut(3, [(0, 1), (1, 2), (0, 2)])
    with pytest.raises(ls.NotApplicable, match=r"ancestral needs a forest.* have a cycle"):
        sample(cycle, 1, "ancestral")
    with pytest.raises(ls.NotApplicable, match="ancestral needs a pairwise function"):
        sample(ls.LogDet([[1.0, 0.2], [0.2, 1.0]]), 1, "ancestral")


def test_parents_come_before_children(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for n in (1, 2, 7, 60):
        edges = random_forest(rng, n)
        pairs, index = root_forest(n, edges)
        assert np.array_equal(np.sort(pairs, axis=1), np.sort(edges[index], axis=1))
        assert sorted(index.tolist()) == list(range(len(edges)))
        children = pairs[:, 1].tolist()
        assert len(set(children)) == len(children)
        for k, parent in enumerate(pairs[:, 0].tolist()):
            assert parent not in children[k:]
        if len(edges) > 1:  # the ends of two edges that have none in common, or close a path
            assert root_forest(n, np.concatenate([edges, [_closing(n, edges)]])) is None


def _closing(n: int, edges: np.ndarray) -> tuple[int, int]:
    """Return a pair that would close a cycle, or an edge once more where there is no path."""
    for a, b in edges.tolist():
        for c, d in edges.tolist():
            ends = {a, b} ^ {c, d}
            if len(ends) == 2:
                return tuple(ends)
    return tuple(edges[0].tolist())
